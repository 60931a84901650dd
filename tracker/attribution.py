"""Say what a change between two builds comes from: the backend, torch, the environment, the suite, or nothing at all.

Pure. A build brings its own torch along, so a case that changes may have changed on the CPU just as well; and two
builds may hold the very same binary. What is not known is said with the word, not left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tracker.changes import ChangeKind, compare
from tracker.model import Cell, Confidence, State, Verdict


class Cause(StrEnum):
    """Where a change comes from."""

    BACKEND = "backend"
    TORCH = "torch"
    ENVIRONMENT = "environment"
    SUITE = "suite"
    NOISE = "noise"


@dataclass(frozen=True, slots=True)
class Attribution:
    """The cause of a change, and why it is taken for that; the reason is empty where the cause is the usual one."""

    cause: Cause
    why: str = ""


@dataclass(frozen=True, slots=True)
class Sides:
    """What is known of two builds beside a case's verdicts.

    ``torch``: the torch of each. ``native``: the sha256 of each native module on the system that was measured, empty
    where it has none or was not read. ``packages``: what else is installed, by name and version, that differs.
    """

    torch: tuple[str | None, str | None] = (None, None)
    native: tuple[str, str] = ("", "")
    packages: tuple[str, ...] = ()

    @property
    def one_torch(self) -> bool:
        """Whether both builds use the same torch."""
        return self.torch[0] is not None and self.torch[0] == self.torch[1]

    @property
    def one_binary(self) -> bool:
        """Whether both builds have the same native module, byte for byte."""
        return self.native[0] != "" and self.native[0] == self.native[1]


_STILL = (ChangeKind.STILL_PASSING, ChangeKind.STILL_FAILING)


def attribute(
    kind: ChangeKind,
    cells: tuple[Cell, Cell] | None,
    verdicts: tuple[Verdict | None, Verdict | None],
    sides: Sides,
    baseline: tuple[Verdict | None, Verdict | None] = (None, None),
) -> Attribution:
    """Return the cause of one change.

    ``cells`` are both sides' cells, None where one is missing; ``baseline`` the verdicts of the same case on the CPU
    of each build's torch, None where they are not on record.
    """
    if cells is not None and (found := _other_conditions(*cells)):
        return found
    if kind is ChangeKind.FLAKY or any(v and v.confidence is Confidence.FLAKY for v in verdicts):
        return Attribution(Cause.NOISE, "the same build gave both outcomes")
    if sides.one_binary and sides.one_torch:
        if sides.packages:
            return Attribution(Cause.ENVIRONMENT, f"one binary, other packages: {', '.join(sides.packages)}")
        return Attribution(Cause.NOISE, "both builds have the same binary and the same torch")
    if sides.one_binary:
        return Attribution(Cause.TORCH, "both builds have the same binary")
    if sides.one_torch:
        return Attribution(Cause.BACKEND)
    return _with_torch(sides, baseline)


def _other_conditions(old: Cell, new: Cell) -> Attribution | None:
    if old.suite_digest != new.suite_digest:
        return Attribution(Cause.SUITE, "the suite's files differ")
    if (old.adapter, old.machine) != (new.adapter, new.machine):
        return Attribution(Cause.ENVIRONMENT, "the adapter, its driver or the machine differs")
    return None


def _with_torch(sides: Sides, baseline: tuple[Verdict | None, Verdict | None]) -> Attribution:
    """Return the cause where torch changed as well: what the same case did on the CPU of either torch decides."""
    before, after = baseline
    step = f"torch went from {sides.torch[0] or 'unknown'} to {sides.torch[1] or 'unknown'}"
    if before is None or after is None or not (before.state.conclusive and after.state.conclusive):
        return Attribution(Cause.BACKEND, f"{step} as well, and what that does on the CPU is not on record")
    if compare(before, after) in _STILL:
        return Attribution(Cause.BACKEND, f"{step}, which changed nothing on the CPU")
    return Attribution(
        Cause.TORCH, f"on the CPU it went from {_word(before.state)} to {_word(after.state)} too"
    )


def _word(state: State) -> str:
    return str(state.value)
