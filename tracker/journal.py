"""The journal: append-only JSON lines that hold every event. It is the truth; the rest is built from it.

A process writes only to a segment of its own, whose name is unique in the world, so a line is known by
(segment, seq) everywhere and merging two journals is copying files. This module owns the format of lines and
of segment names; it must not know what an event means, nor that a database exists.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, NamedTuple

import msgspec

from tracker.errors import OutsideError
from tracker.files import rename
from tracker.model import EVENT_NAMES, Event, Observation

SEGMENT_LIMIT = 64 * 1024 * 1024
"""A segment of at least this many bytes is full: its writer has gone on to a new one."""

MAX_LINE = 16 * 1024 * 1024 - 1024
"""Bytes of the longest line. The database's reader takes no longer ones."""

_NAME = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}\.jsonl")
_KINDS = {name: kind for kind, name in EVENT_NAMES.items()}


class Entry(NamedTuple):
    """One event as it stands in the journal. ``at`` is UTC; (segment, seq) identifies it."""

    segment: str
    seq: int
    at: datetime
    record: Event


@dataclass
class Tally:
    """What a reading met: whole lines, and those it could not use."""

    lines: int = 0
    damaged: int = 0
    """Lines that are no event: cut, overwritten, or with a wrong field."""
    unknown: int = 0
    """Lines of a kind that a newer program wrote."""


@dataclass
class Merged:
    """What copying another journal did, in segments."""

    added: int = 0
    grown: int = 0
    kept: int = 0
    conflicts: list[str] = field(default_factory=list)
    """Segments of which neither copy begins with the other: one of them is damaged; the longer was taken."""


class Journal:
    """The journal in one folder. Threads may share one; a process must not share it with a forked child."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._fd: int | None = None
        self._seq = 0
        self._size = 0
        self._last = datetime.min.replace(tzinfo=UTC)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def append(self, record: Event) -> None:
        """Write one event so that it outlives this process, an observation so that it outlives the power."""
        body = encode(record)
        with self._lock:
            try:
                self._write(EVENT_NAMES[type(record)], body, sync=isinstance(record, Observation))
            except OSError as error:
                # A half line may stand at the end now. It has no newline, so a reader drops it as torn;
                # whatever comes next goes to a fresh segment and is not swallowed by it.
                self._abandon()
                message = f"the journal in {self.folder} can not be written: {error}"
                raise OutsideError(message, hint="Free some space on that disk and run again.") from error
            except KeyboardInterrupt:
                # Nobody knows how much of the line was written.
                self._abandon()
                raise

    def close(self) -> None:
        """Bring everything to the disk; a later append begins a new segment."""
        with self._lock:
            if self._fd is not None:
                os.fsync(self._fd)
            self._abandon()

    def read(self, kinds: Collection[type[Any]] | None = None, tally: Tally | None = None) -> Iterator[Entry]:
        """Yield the events of the given kinds, segment by segment in the order of their names.

        A torn last line is left out. Damaged lines and unknown kinds are skipped and counted in ``tally``.
        """
        wanted = frozenset(_KINDS.values() if kinds is None else kinds)
        for path in segments(self.folder):
            yield from _read_segment(path, wanted, tally if tally is not None else Tally())

    def merge(self, other: Path) -> Merged:
        """Copy the segments of another journal folder into this one; of two copies the longer wins."""
        self.folder.mkdir(parents=True, exist_ok=True)
        merged = Merged()
        for path in segments(other):
            _merge_segment(path, self.folder / path.name, merged)
        return merged

    def _write(self, name: str, body: bytes, *, sync: bool) -> None:
        now = self._last = max(self._last, datetime.now(UTC))
        line = line_of(self._seq + 1, now, name, body)
        if len(line) > MAX_LINE:
            raise ValueError(f"an event of {len(line)} bytes is longer than a line of the journal may be")
        fd = self._open(now)
        # Counted before it is written: a number may be missing, and must never come twice.
        self._seq += 1
        _write_all(fd, line)
        self._size += len(line)
        if sync:
            os.fsync(fd)
        if self._size >= SEGMENT_LIMIT:
            os.fsync(fd)
            self._abandon()

    def _open(self, now: datetime) -> int:
        if self._fd is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{now:%Y%m%dT%H%M%SZ}-{os.urandom(4).hex()}.jsonl"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
            self._fd = os.open(path, flags, 0o644)
            _sync_folder(self.folder)
        return self._fd

    def _abandon(self) -> None:
        fd, self._fd, self._seq, self._size = self._fd, None, 0, 0
        if fd is not None:
            os.close(fd)


def sizes(folder: Path) -> dict[str, int]:
    """Return the size in bytes of each segment of a journal folder, by its name without the ending."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.path) for entry in entries if _NAME.fullmatch(entry.name)]
    # The listing could give sizes too, but on Windows those lag behind while a file is being written. Every
    # question asks this, and a Path for each of thousands of files takes longer than the rest of it.
    return {name.removesuffix(".jsonl"): os.stat(path).st_size for name, path in found}  # noqa: PTH116


def segments(folder: Path) -> list[Path]:
    """Return the segment files of a journal folder in the order of their names.

    A file with any other name is none, such as the "copy of" that a file manager makes: it would count twice.
    """
    if not folder.is_dir():
        return []
    found = (path for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_file())
    return sorted(found, key=lambda path: path.name)


# --- lines -----------------------------------------------------------------------------------------------


def line_of(seq: int, at: datetime, name: str, body: bytes) -> bytes:
    """Return a line. The kind comes first, so that a reader can count lines of a kind by how they begin."""
    return b'{"%b":%b,"seq":%d,"at":"%b"}\n' % (
        name.encode(),
        body,
        seq,
        f"{at:%Y-%m-%dT%H:%M:%S.%f}Z".encode(),
    )


def encode(record: Event) -> bytes:
    """Return a record as JSON; what UTF-8 can not hold (lone surrogates) is written out with backslashes.

    Observations are by far the most, so these leave out what has its default.
    """
    value = _sparse(record) if isinstance(record, Observation) else record
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_cleaned(msgspec.to_builtins(value)))


def _sparse(record: Any) -> dict[str, Any]:
    return {
        item.name: _sparse(value) if is_dataclass(value) else value
        for item in fields(record)
        if (value := getattr(record, item.name)) != item.default
    }


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value


def _read_segment(path: Path, wanted: Collection[type[Any]], tally: Tally) -> Iterator[Entry]:
    with path.open("rb") as file:
        for line in file:
            # A last line without its newline is torn, or still on its way: it is no line yet.
            if not line.endswith(b"\n"):
                return
            tally.lines += 1
            try:
                entry = _decode(path.stem, line, wanted)
            except (msgspec.DecodeError, RecursionError):
                tally.damaged += 1
            except KeyError:
                tally.unknown += 1
            else:
                if entry is not None:
                    yield entry


_ABSENT = msgspec.Raw()
_Seq = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Line = msgspec.defstruct(
    "Line",
    [("seq", _Seq), ("at", datetime), *((name, msgspec.Raw, _ABSENT) for name in _KINDS)],
)
"""One line, with the records in it still as bytes under the names of their kinds."""


def kind_of(line: Any) -> str:
    """Return the kind of a decoded line by its name, or "" where a newer program wrote one we do not know."""
    return next((name for name in _KINDS if getattr(line, name) is not _ABSENT), "")


def _decode(segment: str, line: bytes, wanted: Collection[type[Any]]) -> Entry | None:
    """Return the event of one line, or None when its kind is not wanted; KeyError means an unknown kind."""
    found: Any = msgspec.json.decode(line, type=Line)
    name = kind_of(found)
    kind = _KINDS[name]
    if kind not in wanted:
        return None
    return Entry(segment, found.seq, found.at, msgspec.json.decode(getattr(found, name), type=kind))


# --- files -----------------------------------------------------------------------------------------------


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync_folder(folder: Path) -> None:
    """Make a new file's name last; Windows neither needs nor allows it."""
    if os.name == "posix":
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _merge_segment(source: Path, target: Path, merged: Merged) -> None:
    if not target.exists():
        _copy(source, target)
        merged.added += 1
        return
    if not _same_beginning(source, target):
        merged.conflicts.append(target.name)
    if source.stat().st_size > target.stat().st_size:
        _copy(source, target)
        merged.grown += 1
    else:
        merged.kept += 1


def _same_beginning(one: Path, other: Path) -> bool:
    """Return whether the shorter of two files is how the longer begins."""
    with one.open("rb") as left, other.open("rb") as right:
        while True:
            a, b = left.read(1 << 20), right.read(1 << 20)
            shared = min(len(a), len(b))
            if a[:shared] != b[:shared]:
                return False
            if shared == 0 or len(a) != len(b):
                return True


def _copy(source: Path, target: Path) -> None:
    aside = target.with_name(target.name + ".part")
    shutil.copyfile(source, aside)
    rename(aside, target)
