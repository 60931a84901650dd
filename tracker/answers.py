"""Answers to people's questions from what was measured: since when is an operator native, and was it ever lost.

Pure: rows go in, records and sentences come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Presence(StrEnum):
    """What a census says of an operator at one build."""

    NATIVE = "native"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring builds at which an operator's presence is the same."""

    presence: Presence
    first: str
    last: str
    builds: int


@dataclass(frozen=True, slots=True)
class OperatorHistory:
    """One operator under one dispatch key over all builds of a track, oldest first."""

    operator: str
    dispatch_key: str
    spans: tuple[Span, ...]
    machine: str = ""
    """Where it was measured."""

    @property
    def now(self) -> Presence:
        """Presence at the newest build that was measured."""
        known = [span.presence for span in self.spans if span.presence is not Presence.UNKNOWN]
        return known[-1] if known else Presence.UNKNOWN

    @property
    def since(self) -> str | None:
        """The build since which it has been native without a break; None when it is not native now.

        A gap of builds that were not measured does not count as a break, but ends the proof: see ``sentence``.
        """
        first: str | None = None
        for span in self.spans:
            if span.presence is Presence.NATIVE:
                first = first or span.first
            elif span.presence is Presence.ABSENT:
                first = None
        return first


def spans(history: Sequence[tuple[str, Presence]]) -> tuple[Span, ...]:
    """Join neighbouring builds of equal presence; builds come oldest first."""
    joined: list[Span] = []
    for version, presence in history:
        if joined and joined[-1].presence is presence:
            last = joined.pop()
            joined.append(Span(presence, last.first, version, last.builds + 1))
        else:
            joined.append(Span(presence, version, version, 1))
    return tuple(joined)


def operator_history(
    operator: str, dispatch_key: str, builds: Sequence[str], measured: set[str], native: set[str]
) -> OperatorHistory:
    """Return the history of an operator: ``measured`` builds have a census, in ``native`` ones it is registered."""

    def presence(version: str) -> Presence:
        if version not in measured:
            return Presence.UNKNOWN
        return Presence.NATIVE if version in native else Presence.ABSENT

    return OperatorHistory(
        operator, dispatch_key, spans([(version, presence(version)) for version in builds])
    )


def sentence(history: OperatorHistory) -> str:
    """Say a history in one line: ``native since X``, or how it came and went."""
    known = [span for span in history.spans if span.presence is not Presence.UNKNOWN]
    if not known:
        return "unknown: no build was measured yet"
    if all(span.presence is Presence.ABSENT for span in known):
        return "not native in any measured build"
    if len(known) == 1 and len(history.spans) == 1:
        return f"native in all {known[0].builds} builds"
    return ", ".join(_phrase(history.spans, place) for place in range(len(history.spans)))


def _phrase(row: Sequence[Span], place: int) -> str:
    span, final = row[place], place == len(row) - 1
    if span.presence is Presence.UNKNOWN:
        return f"not measured {_range(span)}"
    word = "native" if span.presence is Presence.NATIVE else "absent"
    before = row[place - 1] if place else None
    if before and before.presence is Presence.UNKNOWN:
        earlier = next((s for s in reversed(row[: place - 1]) if s.presence is not Presence.UNKNOWN), None)
        if earlier is None or earlier.presence is not span.presence:
            word += f" (changed after {earlier.last})" if earlier else ""
    return f"{word} since {span.first}" if final and place else f"{word} {_range(span)}"


def _range(span: Span) -> str:
    return f"in {span.first}" if span.builds == 1 else f"from {span.first} to {span.last}"


def matching(name: str, operators: Sequence[str]) -> list[str]:
    """Return the operators a person may mean by a name, the best kind of match only.

    Tried in turn: the very name; its overloads (``add`` is ``aten::add`` and ``aten::add.out``); any operator
    that contains the text.
    """
    text = name.strip().lower()
    full = text if "::" in text else f"aten::{text}"
    exact = [op for op in operators if op.lower() == full]
    family = [op for op in operators if op.lower().split(".")[0] == full.split(".")[0] and "." not in full]
    return sorted(set(exact + family)) or sorted(op for op in operators if text and text in op.lower())
