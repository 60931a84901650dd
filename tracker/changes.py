"""The pair table: what it means that a case had one verdict at one build and another at the next.

Pure and total over every pair. It must not know how verdicts are made, nor which builds stand side by side;
it says only what can be said of two verdicts of the same case, and whether two cells may be compared at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from tracker.model import Cell, Confidence, State, Verdict


class ChangeKind(StrEnum):
    """What became of a case from one build to another."""

    REGRESSED = "regressed"
    FIXED = "fixed"
    WORSE_KIND = "worse-kind"
    BETTER_KIND = "better-kind"
    FALLBACK_GAINED = "fallback-gained"
    FALLBACK_LOST = "fallback-lost"
    NEWLY_SUPPORTED = "newly-supported"
    NEWLY_UNSUPPORTED = "newly-unsupported"
    SLOWER = "slower"
    FASTER = "faster"
    STILL_FAILING = "still-failing"
    STILL_PASSING = "still-passing"
    NEW = "new"
    GONE = "gone"
    NOT_COMPARABLE = "not-comparable"
    INCONCLUSIVE = "inconclusive"
    FLAKY = "flaky"


_OPPOSITES = (
    (ChangeKind.REGRESSED, ChangeKind.FIXED),
    (ChangeKind.WORSE_KIND, ChangeKind.BETTER_KIND),
    (ChangeKind.FALLBACK_GAINED, ChangeKind.FALLBACK_LOST),
    (ChangeKind.NEWLY_UNSUPPORTED, ChangeKind.NEWLY_SUPPORTED),
    (ChangeKind.SLOWER, ChangeKind.FASTER),
    (ChangeKind.GONE, ChangeKind.NEW),
)

OPPOSITE: Mapping[ChangeKind, ChangeKind] = {
    **{kind: kind for kind in ChangeKind},
    **dict(_OPPOSITES),
    **{better: worse for worse, better in _OPPOSITES},
}
"""What each kind becomes when the two builds trade places."""

_RIGHT = frozenset({State.PASS, State.SLOW, State.FALLBACK})
"""The result is right, however it was come by."""


def compare(old: Verdict | None, new: Verdict | None) -> ChangeKind:
    """Return what changed from ``old`` to ``new``; None means that the cell does not exist on that side."""
    if old is None or new is None:
        return _one_sided(old, new)
    if Confidence.FLAKY in (old.confidence, new.confidence):
        return ChangeKind.FLAKY
    if not (old.state.conclusive and new.state.conclusive):
        return ChangeKind.INCONCLUSIVE
    if old.state is new.state:
        return ChangeKind.STILL_PASSING if old.state in _RIGHT else ChangeKind.STILL_FAILING
    # Every kind but the still- ones has an opposite, so the table is written for the way down only.
    if old.state.rank > new.state.rank:
        return _downward(old.state, new.state)
    return OPPOSITE[_downward(new.state, old.state)]


def _one_sided(old: Verdict | None, new: Verdict | None) -> ChangeKind:
    if old is None and new is None:
        return ChangeKind.INCONCLUSIVE
    return ChangeKind.NEW if old is None else ChangeKind.GONE


def _downward(better: State, worse: State) -> ChangeKind:
    """Return the change from a state to one that stands before it in the roll-up order."""
    if worse is State.FALLBACK:
        return ChangeKind.FALLBACK_GAINED
    if worse is State.SLOW:
        return ChangeKind.SLOWER
    if better in _RIGHT:
        return ChangeKind.NEWLY_UNSUPPORTED if worse is State.UNSUPPORTED else ChangeKind.REGRESSED
    return ChangeKind.WORSE_KIND


def _place(cell: Cell) -> tuple[str, ...]:
    return (cell.suite, cell.case, cell.adapter, cell.machine, cell.suite_digest)


def obstacle(old: Cell, new: Cell) -> str | None:
    """Return why the verdicts of two cells are ``not-comparable``, or None when they may be compared."""
    if _place(old) == _place(new):
        return None
    names = {
        "suite": "suite",
        "case": "case",
        "adapter": "adapter",
        "machine": "machine",
        "suite_digest": "suite files",
    }
    for name, words in names.items():
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            return f"the {words} differ: {before} and {after}"
    return None
