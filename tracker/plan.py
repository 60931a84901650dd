"""Decide which cells a run executes, and say why each other one is left out.

Pure: builds, cases, host facts and what is already known go in, a plan comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tracker.matrix import Case
from tracker.model import NO_ADAPTER, Build, Cell
from tracker.standing import Next


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """The work on one build: cases to run in order, and cases that did not pass and are to run once more, alone."""

    build: Build
    cases: tuple[Case, ...]
    alone: tuple[Case, ...] = ()

    @property
    def cells(self) -> int:
        """Number of cells to execute."""
        return len(self.cases) + len(self.alone)


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
        return sum(item.cells for item in self.work)


@dataclass(frozen=True, slots=True)
class Host:
    """What the plan needs to know of the machine: its fingerprint and whether a device can be asked for."""

    machine: str
    directx: str


def cell_of(
    build: Build, case: Case, host: Host, digests: Mapping[str, str], adapter: str = NO_ADAPTER
) -> Cell:
    """Return the cell of a build and case on this host."""
    return Cell(build.track, build.version, case.suite, case.id, adapter, host.machine, digests[case.suite])


def runnable_cells(
    builds: Sequence[Build], cases: Sequence[Case], host: Host, digests: Mapping[str, str]
) -> list[Cell]:
    """Return every cell that can run on this host, whether it was executed before or not."""
    return [
        cell_of(build, case, host, digests) for build in builds for case in cases if not obstacle(case, host)
    ]


def make_plan(
    builds: Sequence[Build],
    cases: Sequence[Case],
    host: Host,
    digests: Mapping[str, str],
    step: Callable[[Cell], Next],
) -> Plan:
    """Return the plan for builds (in the order given) and cases (in the order of their suites).

    ``step`` says of each cell what is to be done about it.
    """
    runnable = [case for case in cases if obstacle(case, host) is None]
    plans = [
        _build_plan(build, [(case, step(cell_of(build, case, host, digests))) for case in runnable])
        for build in builds
    ]
    work = tuple(plan for plan in plans if plan.cells)
    left_out = tuple(LeftOut(case.id, why) for case in cases if (why := obstacle(case, host)))
    return Plan(work, left_out, len(builds) * len(runnable) - sum(plan.cells for plan in work))


def _build_plan(build: Build, steps: Sequence[tuple[Case, Next]]) -> BuildPlan:
    return BuildPlan(
        build,
        tuple(case for case, todo in steps if todo is Next.RUN),
        tuple(case for case, todo in steps if todo is Next.RUN_ALONE),
    )


def obstacle(case: Case, host: Host) -> str | None:
    """Return why a case cannot run on this host, or None."""
    if case.needs != "import" and host.directx != "real":
        return "no DirectX 12 on this host (a wheel's stand-in libraries allow an import, not a device)"
    return None


def withdrawn(builds: Sequence[Build], chosen: Collection[Build]) -> list[LeftOut]:
    """Say of each withdrawn build that is not run that it is left out because of that."""
    gone = [build for build in builds if build.yanked and build not in chosen]
    why = "withdrawn from the index ({}); name it to run it"
    return [LeftOut(build.version, why.format(build.yank_reason or "no reason given")) for build in gone]
