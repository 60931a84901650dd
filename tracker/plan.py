"""Decide which cells a run executes, and say why each other one is left out.

Pure: builds, cases, host facts and what is already known go in, a plan comes out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tracker.matrix import Case
from tracker.model import NO_ADAPTER, Build, Cell


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The work on one build: the cases to execute, in order."""

    build: Build
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that will not run, and why, for a person to read."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do. ``done`` counts cells that were executed before and stand."""

    work: tuple[BuildPlan, ...]
    left_out: tuple[LeftOut, ...]
    done: int

    @property
    def cells(self) -> int:
        """Number of cells to execute."""
        return sum(len(item.cases) for item in self.work)


@dataclass(frozen=True, slots=True)
class Host:
    """What the plan needs to know of the machine: its fingerprint and whether a device can be asked for."""

    machine: str
    directx: str


def cell_of(build: Build, case: Case, host: Host, digests: dict[str, str], adapter: str = NO_ADAPTER) -> Cell:
    """Return the cell of a build and case on this host."""
    return Cell(build.track, build.version, case.suite, case.id, adapter, host.machine, digests[case.suite])


def make_plan(
    builds: Sequence[Build],
    cases: Sequence[Case],
    host: Host,
    digests: dict[str, str],
    done: Collection[Cell],
) -> Plan:
    """Return the plan for builds (in the order given) and cases (in the order of their suites)."""
    runnable = [case for case in cases if _obstacle(case, host) is None]
    work: list[BuildPlan] = []
    for build in builds:
        open_cases = tuple(c for c in runnable if cell_of(build, c, host, digests) not in done)
        if open_cases:
            work.append(BuildPlan(build, open_cases))
    planned = sum(len(item.cases) for item in work)
    return Plan(tuple(work), tuple(_left_out(cases, host)), len(builds) * len(runnable) - planned)


def _left_out(cases: Iterable[Case], host: Host) -> list[LeftOut]:
    return [LeftOut(case.id, why) for case in cases if (why := _obstacle(case, host))]


def _obstacle(case: Case, host: Host) -> str | None:
    """Return why a case cannot run on this host, or None."""
    if case.needs != "import" and host.directx != "real":
        return "no DirectX 12 on this host (a wheel's stand-in libraries allow an import, not a device)"
    return None
