"""Execute a plan: make each build's environment, run its cases, put it all into the journal.

What goes wrong with one build is recorded for that build, and the others go on. Everything a run needs to be
resumed is on disk at any moment: what was observed is in the journal, what a worker had finished when the
tracker died is in the run's folder and is taken over by the next run.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tracker.errors import EnvironmentProblem, Stopped
from tracker.files import remove_tree
from tracker.home import FRESH_WAIT, Home
from tracker.installs import Installed, Installer
from tracker.job import Job, Reporter, observe
from tracker.judge import ALONE, REORDERED, SHARED
from tracker.machine import boot_id
from tracker.matrix import Case
from tracker.model import (
    Build,
    Cell,
    Ending,
    EnvironmentFacts,
    Finding,
    Observation,
    Outcome,
    RunFinished,
    RunStarted,
    State,
)
from tracker.plan import RIGHT, BuildPlan, Plan, cell_of, waves
from tracker.takeover import Kept, keep
from tracker.workers import CaseResult, ImportDeaths, WorkerSpec, limits_from, run_cases

SAMPLE_SECONDS = 10.0
"""A case that takes longer is not run once more only to see whether the order matters."""


class Executor:
    """Executes plans in one home folder. The home's ``stop`` is asked often; True ends the run early."""

    def __init__(self, home: Home, job: Job, reporter: Reporter) -> None:
        self.home = home
        self.job = job
        self.reporter = reporter
        self.halted = False
        """Whether a process would not die, so that nothing more may be started on its device."""
        self.counts: Counter[str] = Counter()
        self.installer = Installer(home, job, reporter)

    def execute(self, plan: Plan) -> Counter[str]:
        """Run the plan to its end and return how many observations came to each state."""
        journal = self.home.journal
        journal.append(self.home.machine)
        journal.append(RunStarted(self.job.run, self.job.command, plan.cells))
        self.installer.environments.sweep()
        for work in plan.work:
            if self.stop():
                break
            self.reporter.build(work.build.version, work.cells)
            self._build(work)
            self.reporter.build_done()
        journal.append(RunFinished(self.job.run, dict(self.counts), interrupted=self.stop()))
        # Only now: after an error or a second interrupt the next run takes over what lies there.
        remove_tree(self.home.folder / "runs")
        # What a run comes to must not be told from what was known before it.
        self.home.store.refresh(FRESH_WAIT)
        return self.counts

    def ask(self, build: Build, case: Case) -> str:
        """Run one case of a build before there is a plan, and say in a few words what came of it."""
        self.home.journal.append(self.home.machine)
        self._build(BuildPlan(build, (case,)))
        said = ", ".join(self.counts) or "stopped"
        self.counts.clear()
        return said

    def _build(self, work: BuildPlan) -> None:
        try:
            installed = self.installer.install(work.build)
        except EnvironmentProblem as problem:
            assert self.installer.attempted is not None
            self._no_environment(work, self.installer.attempted, problem)
        except Stopped:
            return  # the run ends, and nothing of what was under way is kept
        else:
            _Work(self, work, installed).run()

    def _no_environment(self, work: BuildPlan, facts: EnvironmentFacts, problem: EnvironmentProblem) -> None:
        """Record that a build has no environment, and for every case of it that it could not run."""
        told = replace(facts, reason=problem.slug, message=problem.message)
        self.home.journal.append(told)
        self.reporter.environment(told, made=False)
        slug = f"infra:{problem.slug}" if problem.ours else problem.slug
        outcome = Outcome(Ending.NO_ENVIRONMENT, error_type=slug, error_message=problem.message)
        for case in (*work.cases, *work.alone):
            cell = cell_of(work.build, case, self.job.host, self.job.digests)
            result = CaseResult(case.id, outcome, 0.0, datetime.now(UTC), "")
            self.record(cell, facts.recipe, result, SHARED)

    def record(self, cell: Cell, recipe: str, result: CaseResult, attempt: int) -> Observation:
        """Put an observation into the journal and tell of it."""
        observation = observe(self.job.run, cell, recipe, result, attempt)
        self.home.journal.append(observation)
        self.counts[observation.finding.state] += 1
        self.reporter.observation(observation)
        return observation

    def stop(self) -> bool:
        """Whether nothing more may be started."""
        return self.home.stop() or self.halted


@dataclass(frozen=True, slots=True)
class _Seen:
    """What came of one attempt at a case."""

    case: Case
    finding: Finding
    seconds: float


class _Work:
    """The work on one build that is installed."""

    def __init__(self, executor: Executor, work: BuildPlan, installed: Installed) -> None:
        self._executor = executor
        self._job = executor.job
        self._work = work
        self._settings = executor.home.loaded.settings
        self._recipe = installed.environment.facts.recipe
        self._spec = spec_of(self._job, work.build, installed, asdict(self._settings.suites))
        self._folder = executor.home.folder / "runs" / self._job.run / work.build.version
        self._deaths = ImportDeaths()
        cases = (*work.cases, *work.alone)
        self._cells = {
            case.id: cell_of(work.build, case, self._job.host, self._job.digests) for case in cases
        }

    def run(self) -> None:
        """Run the cases; what did not pass runs once more alone, and some that passed in another order."""
        seen = list(self._in_waves())
        suspects = [item.case for item in seen if item.finding.state.conclusive and not _passed(item)]
        self._alone((*self._work.alone, *suspects))
        passed = [item.case for item in seen if _passed(item) and item.seconds < SAMPLE_SECONDS]
        again = sample(passed, self._settings.worker.reorder_share, self._recipe)
        reordered = list(self._attempt(again[::-1], REORDERED, isolate=False))
        self._alone([item.case for item in reordered if item.finding.state.conclusive and not _passed(item)])

    def _alone(self, cases: Sequence[Case]) -> None:
        for _ in self._attempt(cases, ALONE, isolate=True):
            pass

    def _in_waves(self) -> Iterator[_Seen]:
        """Run every case after the one it comes after, and not at all where that did not come out right."""
        right, here, shut = set[str](), {case.id for case in self._work.cases}, Counter[str]()
        for wave in waves(self._work.cases):
            # A gate that is not run now came out right before: the plan has seen to that.
            ready = [case for case in wave if case.after not in here or case.after in right]
            shut.update(str(case.after) for case in wave if case.after in here and case.after not in right)
            alone = wave[0].isolate
            for item in self._attempt(ready, ALONE if alone else SHARED, isolate=alone):
                right |= {item.case.id} if item.finding.state in RIGHT else set()
                yield item
        if not self._executor.stop():
            for gate, times in shut.items():
                self._executor.reporter.note(f"{times} cases were not run, as {gate} did not come out right")

    def _attempt(self, cases: Sequence[Case], attempt: int, *, isolate: bool) -> Iterator[_Seen]:
        if not cases:
            return
        folder = self._folder / str(attempt)
        keep(folder, Kept(self._job.run, self._recipe, tuple(self._cells.values()), attempt, boot_id()))
        by_id = {case.id: case for case in cases}
        runs = run_cases(
            replace(self._spec, folder=folder),
            cases,
            limits_from(self._settings.worker),
            stop=self._executor.stop,
            isolate=isolate,
            deaths=self._deaths,
        )
        for result in runs:
            if result.outcome.ending is Ending.CANCELLED:
                return  # it will be run again; an attempt that we broke off says nothing
            self._executor.halted |= bool(result.undead)
            recorded = self._executor.record(self._cells[result.case], self._recipe, result, attempt)
            yield _Seen(by_id[result.case], recorded.finding, result.seconds)


def _passed(item: _Seen) -> bool:
    return item.finding.state is State.PASS


def sample(cases: Sequence[Case], share: float, seed: str) -> list[Case]:
    """Return about that share of the cases that share a process and use a device, the same ones for the same seed."""

    def place(case: Case) -> float:
        return int.from_bytes(hashlib.sha256(f"{seed} {case.id}".encode()).digest()[:4], "big") / 2**32

    return [case for case in cases if case.needs == "device" and not case.isolate and place(case) < share]


def spec_of(job: Job, build: Build, installed: Installed, options: dict[str, object]) -> WorkerSpec:
    """Return what the workers of a build are started with; the folder is still to be named."""
    track = job.track
    request = {
        "name": track.name,
        "package": track.package,
        "module": track.module,
        "device": track.device,
        "dispatch_keys": list(track.dispatch_keys),
        "version": build.version,
        "torch_own": track.own_kernels,
        "tiled_resources": track.tiled_resources,
    }
    return WorkerSpec(
        python=installed.environment.python,
        suites=job.suites,
        folder=Path(),
        track=request,
        directx=job.host.directx,
        env=installed.variables,
        adapter=job.adapter,
        options=options,
    )
