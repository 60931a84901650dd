"""Decide which cells a run executes, and say why each other one is left out.

Pure: builds, cases, host facts and what is already known go in, a plan comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tracker.matrix import Case
from tracker.model import NO_ADAPTER, Build, Cell, State
from tracker.standing import Next

RIGHT = frozenset({State.PASS, State.SLOW, State.FALLBACK})
"""States of a case after which those that come after it may run."""


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
    """What the plan needs to know of the machine.

    ``directx``: whether a device may be asked for. ``adapter``: the label of the device under test, empty where
    there is none, and then ``no_adapter`` says why. ``device``: the kind of device that the track computes on.
    """

    machine: str
    directx: str
    adapter: str = ""
    no_adapter: str = "it is not known which adapters this machine has"
    device: str = "directml"


def cell_of(build: Build, case: Case, host: Host, digests: Mapping[str, str]) -> Cell:
    """Return the cell of a build and case on this host."""
    adapter, digest = host.adapter if case.needs == "device" else NO_ADAPTER, digests[case.part]
    return Cell(build.track, build.version, case.suite, case.id, adapter, host.machine, digest)


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
    step: Callable[[Cell, Case], Next],
    state: Callable[[Cell], State | None] = lambda cell: None,
) -> Plan:
    """Return the plan for builds (in the order given) and cases (in the order of their suites).

    ``step`` says of each cell what is to be done about it, ``state`` what is known of it.
    """
    runnable = [case for case in cases if obstacle(case, host) is None]
    obstacles = Counter((case.suite, case.id, why) for case in cases if (why := obstacle(case, host)))
    plans, closed, done = [], Counter[tuple[str, str, str]](), 0
    for build in builds:
        steps = _Steps(lambda case, build=build: cell_of(build, case, host, digests), step, state)  # type: ignore[misc]
        plan = steps.plan(build, runnable)
        closed.update(steps.closed)
        done += len(runnable) - plan.cells - sum(steps.closed.values())
        plans.append(plan)
    return Plan(tuple(plan for plan in plans if plan.cells), tuple(_left_out(obstacles + closed)), done)


class _Steps:
    """What is to be done about the cells of one build; ``closed`` counts what may not run, by suite, case and why."""

    def __init__(
        self,
        cell: Callable[[Case], Cell],
        step: Callable[[Cell, Case], Next],
        state: Callable[[Cell], State | None],
    ) -> None:
        self._cell = cell
        self._step = step
        self._state = state
        self.closed: Counter[tuple[str, str, str]] = Counter()

    def plan(self, build: Build, cases: Sequence[Case]) -> BuildPlan:
        by_id = {case.id: case for case in cases}
        todo = {case.id: self._step(self._cell(case), case) for case in cases}
        lists: dict[Next, list[Case]] = {Next.RUN: [], Next.RUN_ALONE: []}
        for case in cases:
            why = self._shut(case, by_id, todo)
            if why:
                self.closed[case.suite, case.id, why] += 1
            elif todo[case.id] in lists:
                lists[todo[case.id]].append(case)
        return BuildPlan(build, tuple(lists[Next.RUN]), tuple(lists[Next.RUN_ALONE]))

    def _shut(self, case: Case, by_id: Mapping[str, Case], todo: Mapping[str, Next]) -> str:
        """Say why a case that is to be run may not; empty when it may, or need not."""
        if todo[case.id] is Next.QUARANTINED:
            return "quarantined: this machine went down while it ran (--retry runs it all the same)"
        if todo[case.id] is Next.NOTHING:
            return ""
        if case.after is not None and case.after not in by_id:
            return f"it comes after {case.after}, which can not run here"
        gate = by_id.get(case.after) if case.after else None
        while gate is not None:
            state = self._state(self._cell(gate))
            if todo[gate.id] is not Next.RUN and state not in RIGHT:
                return f"it comes after {gate.id}, which did not come out right"
            gate = by_id.get(gate.after) if gate.after else None
        return ""


def _left_out(counted: Counter[tuple[str, str, str]]) -> Iterator[LeftOut]:
    """Yield what is left out, one line per reason."""
    groups: dict[str, dict[str, set[str]]] = {}
    for suite, case, why in counted:
        groups.setdefault(why, {}).setdefault(suite, set()).add(case)
    for why, suites in groups.items():
        names = (
            min(cases) if len(cases) == 1 else f"{len(cases)} cases of {suite}"
            for suite, cases in suites.items()
        )
        yield LeftOut(", ".join(names), why)


def with_gates(chosen: Iterable[Case], cases: Iterable[Case]) -> list[Case]:
    """Return the chosen cases and all that they come after, in the order of ``cases``."""
    by_id = {case.id: case for case in cases}
    wanted: set[str] = set()
    for case in chosen:
        name: str | None = case.id
        while name is not None and name not in wanted:
            wanted.add(name)
            name = by_id[name].after
    return [case for case in by_id.values() if case.id in wanted]


def waves(cases: Sequence[Case]) -> list[list[Case]]:
    """Return the cases in groups to run one after the other, each case in a later group than the one it comes after.

    Cases that share a process and cases with one of their own are never in the same group.
    """
    present = {case.id: case for case in cases}
    found: dict[tuple[int, bool], list[Case]] = {}
    for case in cases:
        depth, gate = 0, case.after
        while gate in present:
            depth, gate = depth + 1, present[gate].after
        found.setdefault((depth, case.isolate), []).append(case)
    return [found[key] for key in sorted(found)]


def obstacle(case: Case, host: Host) -> str | None:
    """Return why a case cannot run on this host, or None."""
    if case.needs != "import" and host.device in ("directml", "dml") and host.directx != "real":
        return "no DirectX 12 on this host (a wheel's stand-in libraries allow an import, not a device)"
    if case.needs == "device" and not host.adapter:
        return host.no_adapter
    return None


def withdrawn(builds: Sequence[Build], chosen: Collection[Build]) -> list[LeftOut]:
    """Say of each withdrawn build that is not run that it is left out because of that."""
    gone = [build for build in builds if build.yanked and build not in chosen]
    why = "withdrawn from the index ({}); name it to run it"
    return [LeftOut(build.version, why.format(build.yank_reason or "no reason given")) for build in gone]
