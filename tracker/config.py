"""Settings: every value, its default, and where the value in force came from.

The home folder holds ``config.toml``; environment variables and command-line options go before it. An unknown
key is an error that names the nearest known one. This module reads one file and decides nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class IndexSettings:
    """How the package index is reached. Times in seconds."""

    url: str = "https://pypi.org/simple/"
    """The index's simple API (PEP 503/691); builds are read from here, and environments installed from here."""
    mirrors: tuple[str, ...] = ()
    """Further indexes, asked in turn when the first gives no usable answer."""
    timeout: float = 30.0
    """Limit for connecting and for each silent moment of a transfer."""
    deadline: float = 900.0
    """Limit for one whole request, however steadily it trickles."""
    retries: int = 4
    """Further tries after a connection error, a 429 or a 5xx."""
    backoff: float = 0.5
    """First pause between tries; it doubles each time, with jitter, and a Retry-After header goes before it."""


@dataclass(frozen=True)
class WorkerSettings:
    """Limits of one worker process. Times in seconds."""

    case_timeout: float = 600.0
    """Limit of a case that names none of its own."""
    start_timeout: float = 300.0
    """Limit from the start of the process to its first word."""
    memory_gb: float = 0.0
    """Limit of a worker's whole process tree; 0 means 80 % of the machine's memory."""
    environment: dict[str, str] = field(default_factory=dict)
    """Extra environment variables for workers, such as LD_LIBRARY_PATH where DirectX is not in its usual place."""


@dataclass(frozen=True)
class EnvironmentSettings:
    """How environments are made and how much room they may take."""

    disk_budget_gb: float = 60.0
    """Environments are pruned, oldest use first, when they take more than this. Hard links are counted once."""
    min_free_gb: float = 8.0
    """No environment is made when the disk has less than this free."""
    install_timeout: float = 3600.0
    """Limit in seconds for making one environment."""
    pythons: tuple[str, ...] = ()
    """Interpreters to use before those that are found (paths); the first that fits a version wins."""
    managed_pythons: bool = True
    """Whether uv may download a Python that this host lacks."""
