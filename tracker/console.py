"""What a person sees in a terminal: tables, steps, errors. Decides nothing.

Data goes to standard output, everything else to standard error, so that a pipe gets data only. Text from
wheels, logs and the index is printed without control characters and never as markup.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from tracker.errors import OutsideError, TrackerError

# Unicode's categories Cc (but tab and newline), Cf, Cs, Zl and Zp: what steers a terminal, hides text, turns
# its direction or breaks its lines, and halves of characters, which no encoding can say.
_CONTROL = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u180e"
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ud800-\\udfff\\ufeff\\ufff9-\\ufffb\\U000110bd\\U000110cd"
    "\\U00013430-\\U0001345f\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0001-\\U000e007f]"
)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")


def clean(text: str) -> str:
    """Return a text without control and format characters, separators and lone surrogates."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def prepare_streams() -> None:
    """Make printing safe: on consoles that cannot show every letter (a Chinese Windows), and on closed ones."""
    for number in (0, 1, 2):
        _occupy(number)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _occupy(number: int) -> None:
    """Open nothing where a standard stream is closed, lest a file of ours be opened there and printed into."""
    try:
        os.fstat(number)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)


def say(text: str) -> None:
    """Print a line of data; raise OutsideError when it can not be written."""
    _print(clean(text), sys.stdout)


def note(text: str) -> None:
    """Print a line for a person, beside the data; a note that can not be written is not worth a failure."""
    with contextlib.suppress(OutsideError):
        _print(clean(text), sys.stderr)
        flush(sys.stderr)


def flush(stream: TextIO | None = None) -> None:
    """Write out what is still held back; raise OutsideError when that does not work."""
    stream = stream or sys.stdout
    try:
        stream.flush()
    except OSError as error:
        _lost(stream, error)


def _print(text: str, stream: TextIO) -> None:
    try:
        print(text, file=stream)
    except OSError as error:
        _lost(stream, error)


def _lost(stream: TextIO, error: OSError) -> None:
    """Let what is still to be printed go nowhere, else Python complains at exit.

    A reader that is gone has seen enough, such as 'head': the command goes on and its exit code stands. On
    Windows a pipe without a reader is an invalid argument.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1 if stream is sys.stdout else 2)
    os.close(null)
    if not isinstance(error, BrokenPipeError) and not (os.name == "nt" and error.errno == errno.EINVAL):
        raise OutsideError(f"the output can not be written: {error.strerror or error}") from error


def show_error(error: TrackerError) -> None:
    """Print one ``error:`` line, and one ``hint:`` line where something helps."""
    note(f"error: {_one_line(error.message)}")
    if error.hint:
        note(f"hint: {_one_line(error.hint)}")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def as_json(data: Any) -> str:
    """Return data as indented JSON; dataclasses, times and enums included.

    It is printed without loss: what must not or can not go to the terminal is escaped as JSON does it.
    """
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
    unicode = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").startswith("utf")
    return (_CONTROL if unicode else _BEYOND_ASCII).sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], out: TextIO | None = None) -> None:
    """Print a plain table, as wide as its content; empty cells are shown as ``-``."""
    texts = [[clean("-" if cell in (None, "") else _one_line(str(cell))) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(heads), *texts]) for i in range(len(heads))]
    for line in [list(heads), *texts]:
        padded = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        _print("  ".join(padded).rstrip(), out or sys.stdout)


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
