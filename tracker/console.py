"""What a person sees in a terminal: tables, steps, errors. Decides nothing.

Data goes to standard output, everything else to standard error, so that a pipe gets data only. Text from
wheels, logs and the index is printed without control characters and never as markup.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from tracker.errors import TrackerError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """Return a text without control characters, direction marks and lone surrogates."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def prepare_streams() -> None:
    """Make printing safe on consoles that cannot show every letter (such as a Chinese Windows)."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def say(text: str) -> None:
    """Print a line of data."""
    print(clean(text))


def note(text: str) -> None:
    """Print a line for a person, beside the data."""
    print(clean(text), file=sys.stderr, flush=True)


def show_error(error: TrackerError) -> None:
    """Print one ``error:`` line, and one ``hint:`` line where something helps."""
    note(f"error: {_one_line(error.message)}")
    if error.hint:
        note(f"hint: {_one_line(error.hint)}")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def as_json(data: Any) -> str:
    """Return data as indented JSON; dataclasses, times and enums included."""
    import msgspec

    return msgspec.json.format(msgspec.json.encode(data), indent=2).decode()


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], out: TextIO | None = None) -> None:
    """Print a plain table, as wide as its content; empty cells are shown as ``-``."""
    texts = [[clean("-" if cell in (None, "") else str(cell)) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(heads), *texts]) for i in range(len(heads))]
    for line in [list(heads), *texts]:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(padded).rstrip(), file=out or sys.stdout)


def size(count: int | None) -> str:
    """Return bytes for a person, such as ``14.0 MB``; ``-`` when unknown."""
    if count is None:
        return "-"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def duration(seconds: float) -> str:
    """Return a time span for a person, such as ``3 min 20 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
