"""Look through journal lines before a database reads them: count them, and take out the few that are facts.

Owns what can be told from the bytes of a line. The bulk, the observations, is only counted here: the database
reads them by itself, many times faster, from a file that this module vouches not to change meanwhile.
"""

from __future__ import annotations

import io
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tracker.errors import StoreError
from tracker.journal import MAX_LINE, SEGMENT_LIMIT, Line, kind_of
from tracker.model import EVENT_NAMES, Observation, RunFinished, RunStarted

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MARKS = frozenset(EVENT_NAMES[kind] for kind in (RunStarted, RunFinished))
"""Events that no table holds: they steer a run, they are not results."""
_BULK = EVENT_NAMES[Observation]
_OBSERVATION = f'{{"{_BULK}":{{'.encode()
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """Whole lines of one segment: bytes ``start`` to ``end``."""

    path: Path
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.end - self.start


@dataclass(slots=True)
class Sifted:
    """What a part holds: counts of its lines, and the facts among them as rows of the table ``event``."""

    part: Part
    lines: int = 0
    observations: int = 0
    damaged: int = 0
    unknown: int = 0
    facts: list[dict[str, Any]] = field(default_factory=list)


def whole_lines(path: Path, start: int = 0) -> int:
    """Return the offset behind the last newline at or after ``start``, or ``start`` when there is none."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > start:
            begin = max(start, end - 65536)
            file.seek(begin)
            if (found := file.read(end - begin).rfind(b"\n")) >= 0:
                return begin + found + 1
            end = begin
    return start


def sift(part: Part) -> Sifted:
    """Look through every line of a part."""
    sifted = Sifted(part)
    with _open(part) as file:
        # A chunk of nothing but observations, as nearly all are, is counted without cutting it into lines.
        while chunk := file.read(_CHUNK) + file.readline():
            lines = chunk.count(b"\n")
            observations = chunk.count(b"\n" + _OBSERVATION) + chunk.startswith(_OBSERVATION)
            sifted.lines += lines
            if observations == lines:
                sifted.observations += observations
            else:
                _sift_chunk(sifted, chunk)
    return sifted


def _sift_chunk(sifted: Sifted, chunk: bytes) -> None:
    for line in io.BytesIO(chunk):
        if line.startswith(_OBSERVATION):
            sifted.observations += 1
        else:
            _sift_line(sifted, line)


def _sift_line(sifted: Sifted, line: bytes) -> None:
    try:
        found: Any = msgspec.json.decode(line, type=Line)
        kind = kind_of(found)
        if not kind:
            sifted.unknown += 1
        elif kind == _BULK:
            sifted.observations += 1
        elif kind not in _MARKS:
            sifted.facts.append(_fact(sifted.part, found, kind))
    except (msgspec.DecodeError, RecursionError):
        sifted.damaged += 1


def _fact(part: Part, found: Any, kind: str) -> dict[str, Any]:
    # Decoded and written anew, it is JSON in the database's eyes too.
    body = msgspec.Raw(msgspec.json.encode(msgspec.json.decode(getattr(found, kind))))
    row = {"segment": part.path.stem, "seq": found.seq, "logged_at": found.at}
    return {**row, "kind": kind, "body": body}


# --- files -----------------------------------------------------------------------------------------------


def at_rest(part: Part, scratch: Path) -> Path:
    """Return a file that holds exactly the part and does not grow while it is read.

    A full segment is such a file by itself; of any other the part is copied to the folder ``scratch``.
    """
    if part.start == 0 and part.end >= SEGMENT_LIMIT and part.end == part.path.stat().st_size:
        return part.path
    with _open(part) as source, (scratch / part.path.name).open("wb") as copy:
        shutil.copyfileobj(source, copy)
    return Path(copy.name)


def repaired(part: Part, scratch: Path) -> Path:
    """Return a copy of the part without the lines that are no JSON object, or longer than a line may be."""
    with _open(part) as source, (scratch / part.path.name).open("wb") as copy:
        copy.writelines(line for line in source if _is_object(line))
    return Path(copy.name)


def _is_object(line: bytes) -> bool:
    try:
        return len(line) <= MAX_LINE and isinstance(msgspec.json.decode(line), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


class _Window(io.RawIOBase):
    """A part of a file as a file: it ends where the part ends, however the file has grown since."""

    def __init__(self, part: Part) -> None:
        self._file = part.path.open("rb", buffering=0)
        self._file.seek(part.start)
        self._part, self._left = part, part.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        wanted = memoryview(buffer)[: self._left]
        count = self._file.readinto(wanted)
        if wanted and not count:
            raise StoreError(f"{self._part.path} became shorter while it was read", hint="Run it again.")
        self._left -= count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _open(part: Part) -> io.BufferedReader:
    return io.BufferedReader(_Window(part), 1 << 18)
