"""The words of the project as types: states, outcomes, builds, observations.

Everything here is a frozen record or a closed set. Nothing here reads, writes, judges or prints. Records are
stored in the journal as JSON by ``msgspec``, with exactly these field names, so a field is never renamed:
it is added with a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """What the observations of a cell mean, worst first; the order of definition is the roll-up order."""

    WRONG = "wrong"
    CRASH = "crash"
    DEVICE_LOST = "device-lost"
    HANG = "hang"
    OOM = "oom"
    ERROR = "error"
    UNSUPPORTED = "unsupported"
    IMPORT_FAILED = "import-failed"
    FALLBACK = "fallback"
    SLOW = "slow"
    PASS = "pass"
    UNINSTALLABLE = "uninstallable"
    NO_DEVICE = "no-device"
    NO_REFERENCE = "no-reference"
    INFRA = "infra"
    SKIPPED = "skipped"
    NOT_RUN = "not-run"

    @property
    def rank(self) -> int:
        """Place in the roll-up order, 0 is worst."""
        return _RANK[self]

    @property
    def conclusive(self) -> bool:
        """Whether the state says something about the build."""
        return self.rank <= _RANK[State.PASS]


_RANK: Mapping[State, int] = {state: rank for rank, state in enumerate(State)}


class Confidence(StrEnum):
    """How far a verdict can be trusted."""

    OBSERVED = "observed"
    CONFIRMED = "confirmed"
    FLAKY = "flaky"


class Ending(StrEnum):
    """How one attempt at a case ended, before anybody judged it."""

    COMPLETED = "completed"
    """The case reported its measures."""
    EXCEPTION = "exception"
    """The case raised a Python exception, which the worker reported."""
    EXITED = "exited"
    """The process ended by itself while the case was in flight; ``exit_code`` says how."""
    TIMEOUT = "timeout"
    """The case ran past its time limit and its process tree was killed by us."""
    MEMORY_LIMIT = "memory-limit"
    """The process tree grew past its memory limit and was killed by us."""
    GARBLED = "garbled"
    """The process wrote a result that can not be read."""
    NOT_STARTED = "not-started"
    """The worker never came to the point of running the case (it could not be started, or said nothing)."""
    CANCELLED = "cancelled"
    """We were asked to stop."""
    NO_ENVIRONMENT = "no-environment"
    """The environment of the build could not be made; ``error_type`` is its slug."""


class Platform(StrEnum):
    """Operating systems that a wheel is made for, as the command line says them."""

    LINUX = "linux"
    WINDOWS = "win"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class BuildFile:
    """One wheel of a build, as the index lists it. ``size`` is in bytes; ``yanked`` is the reason or None."""

    filename: str
    url: str
    sha256: str
    size: int
    uploaded: datetime
    requires_python: str | None = None
    yanked: str | None = None


@dataclass(frozen=True, slots=True)
class Build:
    """One release of a track's package on the index.

    A build is yanked when every file of it is. ``uploaded`` is the time of its first file, in UTC.
    """

    track: str
    version: str
    uploaded: datetime
    files: tuple[BuildFile, ...]

    @property
    def yanked(self) -> bool:
        """Whether every file of the build is withdrawn."""
        return bool(self.files) and all(file.yanked is not None for file in self.files)

    @property
    def yank_reason(self) -> str | None:
        """The first reason given, or None when the build is not yanked."""
        return next((file.yanked for file in self.files if file.yanked), "") if self.yanked else None


class IndexChangeKind(StrEnum):
    """What a poll of the index can find."""

    NEW_BUILD = "new-build"
    NEW_FILE = "new-file"
    FILE_GONE = "file-gone"
    BUILD_GONE = "build-gone"
    YANKED = "yanked"
    UNYANKED = "unyanked"
    HASH_CHANGED = "hash-changed"


@dataclass(frozen=True, slots=True)
class IndexChange:
    """One thing that a poll found to differ from what was known. ``subject`` is a file name or a reason."""

    track: str
    version: str
    kind: IndexChangeKind
    subject: str = ""


@dataclass(frozen=True, slots=True)
class PollResult:
    """The end of one poll of one track. ``error`` is None when the index gave a usable answer."""

    track: str
    index: str
    builds: int
    changes: int
    not_modified: bool = False
    error: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApiEntry:
    """One public name of the build's Python API with its signature as text (empty for plain values)."""

    name: str
    signature: str


@dataclass(frozen=True, slots=True)
class WheelFacts:
    """What one wheel says of itself without being installed. Sizes are in bytes.

    ``directml_version`` is None where the library names none (the Linux library does not); ``directml_build``
    is the whole text of it, with the library's own build. ``operators`` are the operator names that the code
    of the native module refers to: what the binary names, which is close to but not the same as what it
    registers (the census measures that).
    """

    track: str
    version: str
    filename: str
    sha256: str
    platform: Platform
    python: str
    abi: str
    platform_tags: tuple[str, ...]
    size: int
    unpacked_size: int
    requires: tuple[str, ...]
    requires_python: str | None
    directml_name: str | None
    directml_version: str | None
    directml_size: int | None
    directml_sha256: str | None
    native_name: str | None
    native_size: int | None
    native_sha256: str | None
    operators: tuple[str, ...]
    api: tuple[ApiEntry, ...]
    top_level: tuple[str, ...] = ()
    directml_build: str = ""


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """One environment as it was made, or why it was not.

    ``size`` is in bytes on disk, ``seconds`` what it took, ``wheel`` the sha256 of the build's own wheel.
    """

    track: str
    version: str
    recipe: str
    python: str
    requirements: tuple[str, ...]
    freeze: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    ready: bool = False
    reason: str = ""
    message: str = ""
    size: int = 0
    seconds: float = 0.0
    wheel: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Host facts. ``fingerprint`` is a digest over the facts that can change a result."""

    fingerprint: str
    system: str
    release: str
    arch: str
    cpu: str
    cores: int
    memory: int
    directx: str
    tracker: str = ""


REFERENCE = "reference"
"""The fingerprint of the machine whose measurements come with the program."""

NO_ADAPTER = "none"
"""The adapter of a cell that needs no device, such as the census of a build's kernels."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Build x case x adapter, on one machine with one state of the suite: the unit of work and of verdicts."""

    track: str
    version: str
    suite: str
    case: str
    adapter: str
    machine: str
    suite_digest: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The raw end of one attempt. Texts are bounded by the writer; times are in seconds.

    ``exit_code`` is the process's code as the host gives it: negative is a signal (POSIX), above 2**31 is an
    NTSTATUS (Windows). It is also set after a complete result when the process died while shutting down.
    """

    ending: Ending
    exit_code: int | None = None
    error_type: str = ""
    error_message: str = ""
    traceback: str = ""
    oom_killed: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What one observation means: a state, a stable reason slug, a normalised message, and who judged."""

    state: State
    reason: str
    message: str = ""
    judge: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """One attempt at a cell: the outcome, the measures a case sent, and the tail of its output.

    ``finding`` is the judge's word at the time, kept so that the store can be rebuilt fast; it is redone when
    ``finding.judge`` is not the digest of the present judge.
    """

    run: str
    worker: str
    cell: Cell
    environment: str
    started: datetime
    seconds: float
    outcome: Outcome
    finding: Finding
    measures: dict[str, Any] = field(default_factory=dict)
    log: str = ""
    attempt: int = 1
    peak_memory: int = 0
    """Most bytes that the worker's process tree had taken by then."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A case was in flight when the host or the tracker died; written by whoever took over afterwards.

    ``host_died``: the machine was started anew since, so that it may be the case that took it down.
    """

    run: str
    worker: str
    cell: Cell
    host_died: bool = False


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins: what it was asked for, and how many cells it means to execute."""

    run: str
    command: str
    cells: int


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run ended by itself, with counts per state."""

    run: str
    counts: dict[str, int]
    interrupted: bool = False


class JobKind(StrEnum):
    """What a job of the queue does."""

    RUN = "run"
    CONFIRM = "confirm"


class Cause(StrEnum):
    """Why a job is in the queue; the order of definition is the order in which jobs are done."""

    ASKED = "asked"
    """A person asked for it."""
    NEW_BUILD = "new-build"
    CONFIRMATION = "confirmation"
    """A change was seen once."""
    STALE = "stale"
    """The driver, the system or a suite is another one than when it was run."""
    BACKFILL = "back-fill"
    """An old build that was never run here."""

    @property
    def rank(self) -> int:
        """Place in the order, 0 is first."""
        return list(Cause).index(self)


class JobEnding(StrEnum):
    """How one try at a job ended. After the last two it waits on."""

    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"
    POSTPONED = "postponed"
    """The host, the network or the index failed us."""


@dataclass(frozen=True, slots=True)
class JobQueued:
    """A job is put into the queue of a machine. ``job`` is a digest of what is to be done: equal jobs are one."""

    job: str
    machine: str
    kind: JobKind
    cause: Cause
    track: str
    builds: tuple[str, ...]
    suites: tuple[str, ...] = ("all",)
    cases: tuple[str, ...] = ()
    adapter: str = ""
    device: str = ""
    size: str = ""
    again_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A job begins."""

    job: str
    machine: str


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job, or one try at it, ends."""

    job: str
    machine: str
    ending: JobEnding
    message: str = ""


@dataclass(frozen=True, slots=True)
class HostSeen:
    """What a machine's results rest on beside its fingerprint, such as drivers; written when it changed."""

    machine: str
    facts: dict[str, str]
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueuePaused:
    """The queue of a machine stands still from here on, or goes on."""

    machine: str
    paused: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all observations of a cell mean together; ``observations`` is how many were counted."""

    state: State
    reason: str
    message: str
    confidence: Confidence
    observations: int


Event = (
    Build
    | IndexChange
    | PollResult
    | WheelFacts
    | EnvironmentFacts
    | Machine
    | Attempt
    | Observation
    | RunStarted
    | RunFinished
    | JobQueued
    | JobStarted
    | JobEnded
    | QueuePaused
    | HostSeen
)

EVENT_NAMES: Mapping[type[Any], str] = {
    Build: "build",
    IndexChange: "index_change",
    PollResult: "poll",
    WheelFacts: "wheel",
    EnvironmentFacts: "environment",
    Machine: "machine",
    Attempt: "attempt",
    Observation: "observation",
    RunStarted: "run_started",
    RunFinished: "run_finished",
    JobQueued: "job_queued",
    JobStarted: "job_started",
    JobEnded: "job_ended",
    QueuePaused: "queue_paused",
    HostSeen: "host_seen",
}
"""The key under which each record stands in a journal line, ``{"<name>": {...}, "seq": 7, "at": "..."}``."""
