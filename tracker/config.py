"""Settings: every value, its default, and where the value in force came from.

The home folder holds ``config.toml``; environment variables and command-line options go before it. An unknown
key is an error that names the nearest known one. This module reads one file and decides nothing else. It is
imported by every command, so what only the reading needs is imported there.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tracker.errors import UsageError

CONFIG_FILE = "config.toml"
DEFAULT = "default"
"""Where a value came from that nobody gave."""

_LOGIN = re.compile(r"(?<=://)[^/?#\s]*@")


def without_login(text: str) -> str:
    """Return an address, or a text that holds addresses, without the user names and passwords in them.

    What is shown, kept or given to another program goes through here; only who speaks to an index or a proxy
    uses the address as it was given.
    """
    return _LOGIN.sub("", text)


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
    timeout_factor: float = 1.0
    """Multiplies the limit of every case: more than 1 for a machine slower than most."""
    start_timeout: float = 300.0
    """Limit from the start of the process to its first word."""
    memory_gb: float = 0.0
    """Limit of a worker's whole process tree; 0 means 80 % of the machine's memory."""
    adapter: str = ""
    """Which adapter to use: a regular expression for its name; empty means the build's first."""
    reorder_share: float = 0.05
    """Share of the passing cases that is run once more in another order, to find results that depend on it."""
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


@dataclass(frozen=True)
class SuiteSettings:
    """What the suites are told: how much to try, and where weights and data lie."""

    size: str = "full"
    """"full", or "small" for a slow device: smaller pictures, nets and data; its cases have names of their own."""
    samples: int = 8
    """Most inputs that are tried of one operator."""
    operator_seconds: float = 10.0
    """Seconds after which no further input of an operator is begun."""
    threads: int = 0
    """Threads of torch on the CPU; 0 leaves it to torch."""
    data: str = ""
    """Folder with data sets (CIFAR-10 as torchvision keeps it, photos/, speech/); else generated data serves."""
    bugs: str = ""
    """Folder with reproducers of your own, beside those that 'dmltrack bugs add' put into the home folder."""
    weights: str = ""
    """Folder with trained weights; without it the nets get weights from a seed."""
    download: bool = False
    """Whether a suite may fetch what it lacks (CIFAR-10, Whisper's weights) from its usual place."""
    whisper_url: str = ""
    """Where Whisper's weights can be had, with whisper_sha256."""
    whisper_sha256: str = ""
    """The digest that they must have."""


@dataclass(frozen=True)
class ServiceSettings:
    """What 'dmltrack serve' does by itself, and how often."""

    tracks: tuple[str, ...] = ("torch-directml",)
    """The packages to follow."""
    suites: tuple[str, ...] = ("all",)
    """The suites that every build is put through."""
    poll_hours: float = 6.0
    """Time from one look at the index to the next; each is moved by up to a tenth of it, by chance."""
    backfill: bool = True
    """Whether old builds that were never run here are run when there is nothing else to do."""
    stale_builds: int = 2
    """How many builds are run again when a driver, the system or a suite has changed; 0 for none."""
    retry_minutes: float = 15.0
    """Pause after a job that this host kept from its end (disk full, network down)."""
    silence_hours: float = 72.0
    """Without a finished job or an answer of the index for so long, 'dmltrack status' calls the service sick."""


@dataclass(frozen=True)
class Settings:
    """Every setting of the program, by section."""

    index: IndexSettings = field(default_factory=IndexSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    environments: EnvironmentSettings = field(default_factory=EnvironmentSettings)
    suites: SuiteSettings = field(default_factory=SuiteSettings)
    service: ServiceSettings = field(default_factory=ServiceSettings)


@dataclass(frozen=True)
class Loaded:
    """The settings in force and where each value came from, by its dotted name."""

    home: Path
    settings: Settings
    sources: dict[str, str]

    def rows(self) -> list[tuple[str, object, str]]:
        """Return every value as (name, value, where it came from), in the order of definition, without logins."""
        return [
            (name, _shown(getattr(getattr(self.settings, section), key)), self.sources.get(name, DEFAULT))
            for section, key in _names()
            for name in [f"{section}.{key}"]
        ]


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return without_login(value)
    if isinstance(value, tuple):
        return tuple(map(_shown, value))
    if isinstance(value, dict):
        return {name: _shown(item) for name, item in value.items()}
    return value


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the home folder: DMLTRACK_HOME, or the system's place for data.

    On Windows that is the machine's data folder and not the user's profile: short, and free of the letters
    that tools have been seen to stumble over (a path is there limited to 260 characters). Raises UsageError
    where there is no such place, or a relative one: a service started elsewhere would have another home.
    """
    named = environ.get("DMLTRACK_HOME", "").strip()
    if named:
        folder = Path(os.path.expanduser(named))  # noqa: PTH111 - it leaves alone what it can not expand
        if not folder.is_absolute():
            raise UsageError(f"DMLTRACK_HOME is not an absolute path: '{named}'")
        return folder
    import platformdirs

    if sys.platform == "win32":
        return platformdirs.site_data_path("dmltrack", appauthor=False)
    try:
        folder = platformdirs.user_data_path("dmltrack")
    except RuntimeError:
        folder = Path()
    if not folder.is_absolute():
        raise UsageError(
            "this user has no home directory to keep anything in", hint="set DMLTRACK_HOME to a folder"
        )
    return folder


def load(home: Path, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Read ``config.toml`` of the home folder and the DMLTRACK_* variables; raises UsageError."""
    import msgspec

    path = home / CONFIG_FILE
    values = _read(path)
    sources = {f"{section}.{key}": str(path) for section, table in values.items() for key in table}
    for section, key in _names():
        variable = f"DMLTRACK_{section}_{key}".upper()
        if variable in environ:
            values.setdefault(section, {})[key] = _from_text(section, key, environ[variable])
            sources[f"{section}.{key}"] = f"environment variable {variable}"
    try:
        settings = msgspec.convert(values, Settings, strict=True)
    except msgspec.ValidationError as error:
        raise UsageError(f"configuration: {error}", hint=f"see {path} and 'dmltrack config'") from None
    _check(settings)
    return Loaded(home, settings, sources)


def _names() -> list[tuple[str, str]]:
    sections = {section.name: section.default_factory for section in fields(Settings)}
    return [(name, key.name) for name, cls in sections.items() for key in fields(cls)]  # type: ignore[arg-type]


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the file's tables; every key is checked against the known ones."""
    import tomllib

    try:
        data = tomllib.loads(path.read_text("utf-8-sig"))  # editors on Windows begin a file with a mark
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: cannot be read: {error}", hint="save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None
    known = _names()
    for section, table in data.items():
        if not isinstance(table, dict):
            raise UsageError(
                f"{path}: '{section}' stands outside of a section", hint="write [index] or the like first"
            )
        _known(section, {name for name, _ in known}, f"{path}: section")
        for key in table:
            _known(key, {k for name, k in known if name == section}, f"{path}: [{section}]")
    return data


def _known(word: str, words: Collection[str], where: str) -> None:
    if word not in words:
        import difflib

        near = difflib.get_close_matches(word, words, 1, 0.5)
        hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(words))}"
        raise UsageError(f"{where} has no '{word}'", hint=hint)


def _from_text(section: str, key: str, text: str) -> Any:
    """Give an environment variable's text the type of its setting; lists are split at the path separator."""
    default = getattr(getattr(Settings(), section), key)
    if isinstance(default, bool):
        return _BOOLEANS.get(text.lower(), text)
    if isinstance(default, int | float):
        try:
            return type(default)(text)
        except ValueError:
            return text
    if isinstance(default, tuple):
        return [part for part in text.split(os.pathsep if key == "pythons" else " ") if part]
    if isinstance(default, dict):
        return dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    return text


_BOOLEANS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


_HINT_ADDRESS = "in a user name or password, write / as %2F, ? as %3F, # as %23 and @ as %40"


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port  # reading it checks it
    except ValueError:
        return False
    plain = url.isprintable() and " " not in url and parts.netloc.count("@") <= 1
    return plain and parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0


_RANGES = (
    ("worker", "timeout_factor", 0.001, 1000.0),
    ("worker", "case_timeout", 0.1, 1e7),
    ("worker", "start_timeout", 0.1, 1e7),
    ("worker", "memory_gb", 0.0, 1e6),
    ("worker", "reorder_share", 0.0, 1.0),
    ("environments", "install_timeout", 1.0, 1e7),
    ("suites", "samples", 1, 10_000),
    ("suites", "operator_seconds", 0.01, 1e6),
    ("suites", "threads", 0, 4096),
    ("service", "poll_hours", 0.0001, 8760.0),
    ("service", "stale_builds", 0, 1000),
    ("service", "retry_minutes", 0.001, 1440.0),
    ("service", "silence_hours", 0.001, 8760.0),
)
"""Settings that make every case fail, or overflow, outside of these limits."""


def _check_pattern(name: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{name} is not a regular expression: {error}: '{pattern}'") from None


def _check(settings: Settings) -> None:
    """Refuse values that have the right type and make no sense."""
    for name, url in [("url", settings.index.url), *(("mirrors", url) for url in settings.index.mirrors)]:
        if not _is_address(url):
            shown = "" if "@" in url else f": '{url}'"
            raise UsageError(f"index.{name} is not an http address{shown}", hint=_HINT_ADDRESS)
    if settings.suites.size not in ("full", "small"):
        raise UsageError(f"suites.size is 'full' or 'small', not '{settings.suites.size}'")
    _check_pattern("worker.adapter", settings.worker.adapter)
    for section, key in _names():
        value = getattr(getattr(settings, section), key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and not 0 <= value < float("inf"):
            raise UsageError(f"{section}.{key} must be a number from 0 up, not {value}")
    for section, key, least, most in _RANGES:
        value = getattr(getattr(settings, section), key)
        if not least <= value <= most:
            raise UsageError(f"{section}.{key} must lie between {least:g} and {most:g}, not {value:g}")
