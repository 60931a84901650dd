"""What the messages of one worker mean, from bytes to results. Pure, and trusts nothing it is told.

A worker runs other people's native code, which can write anything anywhere. So every message is checked
against what can come next; the first that cannot ends the conversation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from suites import protocol
from tracker.model import Ending, Outcome

MAX_RESULTS = 64 * 1024 * 1024
"""Bytes that one worker may write into its results file."""


class Garbled(Exception):
    """A worker wrote what it could not have meant; the text says what."""


@dataclass(frozen=True, slots=True)
class Started:
    """A case began, at ``at`` seconds since 1970 by the worker's clock."""

    case: str
    at: float


@dataclass(frozen=True, slots=True)
class Reported:
    """A case ended with a result."""

    case: str
    at: float
    seconds: float
    outcome: Outcome
    measures: dict[str, Any] = field(default_factory=dict)


class Lines:
    """Cuts a growing file into whole lines, within limits."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._total = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that are complete now; raise Garbled past a limit."""
        self._total += len(data)
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        self._rest = bytearray(rest)
        for line in lines:
            self._check(line)
            yield bytes(line)
        self._check(self._rest)
        if self._total > MAX_RESULTS:
            raise Garbled(f"the results file grew past {MAX_RESULTS} bytes")

    def _check(self, line: bytes | bytearray) -> None:
        if len(line) >= protocol.MAX_MESSAGE:
            raise Garbled(f"a line of {len(line)} bytes or more, the limit is {protocol.MAX_MESSAGE}")


class Conversation:
    """Follows one worker through its cases. ``ours`` tells whether it runs where it should, by its prefix."""

    def __init__(
        self, nonce: str, cases: Iterable[str], ours: Callable[[str], bool] = lambda prefix: True
    ) -> None:
        self._nonce = nonce
        self._ours = ours
        self._open = set(cases)
        self._at = 0.0
        self._kinds: Mapping[Any, Callable[[dict[str, Any]], Started | Reported | None]] = {
            protocol.START: self._start,
            protocol.IMPORTING: self._importing,
            protocol.IMPORTED: self._imported,
            protocol.RESULT: self._result,
            protocol.DONE: self._done,
        }
        self.greeted = False
        self.in_flight: str | None = None
        self.last: str | None = None
        """The case that was begun last."""
        self.imports: bool | None = None
        """Whether the build is being imported; None before that."""
        self.done = False

    @property
    def complete(self) -> bool:
        """Whether every case has its result."""
        return not self._open and self.in_flight is None

    def hear(self, line: bytes) -> Started | Reported | None:
        """Take one line; return what it says about a case. Raise Garbled when it makes no sense."""
        message = parse(line)
        if self.done:
            raise Garbled("a message after the last")
        if not self.greeted:
            self._hello(message)
            return None
        handler = self._kinds.get(_text(message, "m"))
        if handler is None:
            raise Garbled(f"a message of unknown kind: {_text(message, 'm')[:100]!r}")
        return handler(message)

    def _hello(self, message: dict[str, Any]) -> None:
        if message.get("m") != protocol.HELLO or message.get("nonce") != self._nonce:
            raise Garbled("the first message is not our worker's greeting")
        if message.get("protocol") != protocol.PROTOCOL:
            raise Garbled(f"the worker speaks protocol {message.get('protocol')!r}, not {protocol.PROTOCOL}")
        prefix = _text(message, "prefix")
        if not self._ours(prefix):
            raise Garbled(f"the worker runs in {prefix[:300]!r}, not in the environment that was asked for")
        self.greeted = True

    def _start(self, message: dict[str, Any]) -> Started:
        case = _text(message, "case")
        if self.in_flight is not None:
            raise Garbled(f"{case[:200]!r} began while {self.in_flight!r} was in flight")
        if case not in self._open:
            raise Garbled(f"{case[:200]!r} began, which was not asked for or is done")
        self._open.discard(case)
        self.in_flight = self.last = case
        self._at = _number(message, "at")
        return Started(case, self._at)

    def _importing(self, message: dict[str, Any]) -> None:
        if self.in_flight is None or self.imports is not None:
            raise Garbled("an import of the build that nothing asked for")
        self.imports = True

    def _imported(self, message: dict[str, Any]) -> None:
        if not self.imports:
            raise Garbled("the end of an import that had not begun")
        self.imports = False

    def _result(self, message: dict[str, Any]) -> Reported:
        case = _text(message, "case")
        if case != self.in_flight:
            raise Garbled(f"a result for {case[:200]!r}, which is not in flight")
        measures = message.get("measures")
        if not isinstance(measures, dict):
            raise Garbled("measures are not a table")
        reported = Reported(case, self._at, _number(message, "seconds"), _outcome(message), measures)
        self.in_flight = None
        return reported

    def _done(self, message: dict[str, Any]) -> None:
        if not self.complete:
            raise Garbled("the worker says that it is done, and it is not")
        self.done = True


def parse(line: bytes) -> dict[str, Any]:
    """Return one message, its texts free of what UTF-8 cannot say; raise Garbled when it is not one."""
    try:
        text = line.decode("utf-8")
        message = json.loads(text, parse_constant=_refuse, parse_float=_finite, parse_int=_storable)
        if "\\ud" in text.lower():  # lone surrogates can be escaped in JSON, and stored nowhere
            message = _printable(message)
    except (ValueError, RecursionError) as error:
        raise Garbled(f"not a message: {protocol.bounded(str(error), 200)}") from None
    if not isinstance(message, dict):
        raise Garbled("a message that is not a table")
    return message


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is out of range")
    return number


def _storable(text: str) -> int:
    number = int(text)
    if not -(2**63) <= number < 2**63:
        raise ValueError("a whole number is out of range")
    return number


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return value


def _outcome(message: dict[str, Any]) -> Outcome:
    warnings = message.get("warnings", [])
    if not isinstance(warnings, list) or not all(isinstance(text, str) for text in warnings):
        raise Garbled("warnings are not a list of texts")
    kept = tuple(protocol.bounded(text) for text in warnings[: protocol.MAX_WARNINGS])
    error = message.get("error")
    if error is None:
        return Outcome(Ending.COMPLETED, warnings=kept)
    if not isinstance(error, dict):
        raise Garbled("an error that is not a table")
    return Outcome(
        Ending.EXCEPTION,
        error_type=protocol.bounded(_text(error, "type"), 500),
        error_message=protocol.bounded(_text(error, "message")),
        traceback=protocol.bounded(_text(error, "traceback")),
        warnings=kept,
    )


def _text(message: dict[str, Any], key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str):
        raise Garbled(f"{key!r} is not a text")
    return value


def _number(message: dict[str, Any], key: str) -> float:
    value = message.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Garbled(f"{key!r} is not a number")
    if value < 0:
        raise Garbled(f"{key!r} is below 0")
    return float(value)
