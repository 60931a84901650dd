"""What came of an operator's cases at each build: right, on the CPU, refused or wrong, per dtype and direction.

Pure. Beside the census, which says what a build registers, this says what it computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tracker.model import State


class Works(StrEnum):
    """What an operator does at one build."""

    RIGHT = "right"
    FALLBACK = "falls back to the CPU"
    REFUSED = "refused"
    WRONG = "wrong"
    FAILS = "fails"
    """It raises, hangs, or takes the process or the device with it."""
    UNKNOWN = "not run"


_WORKS: Mapping[State, Works] = {
    State.PASS: Works.RIGHT,
    State.SLOW: Works.RIGHT,
    State.FALLBACK: Works.FALLBACK,
    State.UNSUPPORTED: Works.REFUSED,
    State.WRONG: Works.WRONG,
    **dict.fromkeys(
        (State.CRASH, State.DEVICE_LOST, State.HANG, State.OOM, State.ERROR, State.IMPORT_FAILED), Works.FAILS
    ),
}


@dataclass(frozen=True, slots=True)
class Period:
    """Neighbouring builds at which an operator does the same."""

    works: Works
    first: str
    last: str
    builds: int


@dataclass(frozen=True, slots=True)
class OperatorRun:
    """One case of an operator on one adapter over all builds of a track, oldest first."""

    operator: str
    dtype: str
    direction: str
    adapter: str
    machine: str
    periods: tuple[Period, ...]

    @property
    def says(self) -> str:
        """The periods as a sentence; builds that were not run are told only between others."""
        known = [period for period in self.periods if period.works is not Works.UNKNOWN]
        return ", ".join(f"{period.works} {_span(period)}" for period in known)


def works(state: State) -> Works:
    """Return what a verdict says of the operator."""
    return _WORKS.get(state, Works.UNKNOWN)


def operator_run(
    case: str, adapter: str, machine: str, builds: Sequence[str], states: Mapping[str, State]
) -> OperatorRun | None:
    """Return the history of a case ``operators/<operator>/<dtype>/<direction>``; None for any other."""
    parts = case.partition("@")[0].split("/")
    if len(parts) != 4:
        return None
    periods: list[Period] = []
    for version in builds:
        here = works(states[version]) if version in states else Works.UNKNOWN
        if periods and periods[-1].works is here:
            last = periods.pop()
            periods.append(Period(here, last.first, version, last.builds + 1))
        else:
            periods.append(Period(here, version, version, 1))
    return OperatorRun(parts[1], parts[2], parts[3], adapter, machine, tuple(periods))


def _span(period: Period) -> str:
    return f"in {period.first}" if period.builds == 1 else f"from {period.first} to {period.last}"


def search_text(name: str) -> str:
    """Return what an operator's name and its OpInfo share: ``aten::native_layer_norm.out`` -> ``layer_norm``."""
    bare = (
        name.strip().lower().rpartition("::")[2].partition(".")[0] if "::" in name else name.strip().lower()
    )
    bare = bare.removeprefix("native_").removesuffix("_backward").strip("_")
    return bare or name.strip().lower()


def nearest(text: str, operators: Iterable[str]) -> set[str]:
    """Return the operators that a person may mean by a text: the very name, else its last part, else any with it."""
    names = set(operators)
    kinds = (
        {name for name in names if name.lower() == text},
        {name for name in names if name.lower().rpartition(".")[2] == text},
        names,
    )
    return next((kind for kind in kinds if kind), set())
