"""Execute a plan: read each build's wheels, make its environment, run its cases, put it all into the journal.

What goes wrong with one build is recorded for that build, and the others go on. Everything a run needs to be
resumed is on disk at any moment: what was observed is in the journal, what a worker had finished when the
tracker died is in the run's folder and is taken over by the next run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from tracker import judge
from tracker.environments import Environment, Environments, Recipe
from tracker.errors import EnvironmentProblem, IndexProblem, Stopped, WheelError
from tracker.files import remove_tree
from tracker.home import FRESH_WAIT, Home
from tracker.inspection import facts_of, stand_ins
from tracker.machine import library_folders, this_platform
from tracker.matrix import Case
from tracker.model import (
    Attempt,
    Build,
    BuildFile,
    Cell,
    Ending,
    EnvironmentFacts,
    Observation,
    Outcome,
    Platform,
    RunFinished,
    RunStarted,
    State,
    WheelFacts,
)
from tracker.plan import BuildPlan, Host, Plan, cell_of
from tracker.process import clean_environment
from tracker.pythons import Python, find_pythons, newest
from tracker.tools import tool_runner
from tracker.trackfile import Track
from tracker.wheels import choose_wheel
from tracker.workers import (
    CaseResult,
    WorkerSpec,
    library_path,
    limits_from,
    run_cases,
    salvage,
)

RUN_FILE = "run.json"


class Reporter(Protocol):
    """Who is told how a run goes on; a terminal, as a rule."""

    def build(self, version: str, cases: int) -> None:
        """The work on a build begins."""

    def step(self, text: str) -> None:
        """Something that takes a moment begins, such as the download of a wheel."""

    def environment(self, facts: EnvironmentFacts, made: bool) -> None:
        """The environment is there, was made, or (``facts.ready`` is False) can not be made."""

    def observation(self, observation: Observation) -> None:
        """A case was observed."""

    def note(self, text: str) -> None:
        """Something is worth a line, such as a wheel that could not be read."""


@dataclass(frozen=True)
class Job:
    """What a run is made of, beside the plan."""

    run: str
    command: str
    track: Track
    host: Host
    suites: Path
    digests: dict[str, str]
    requirements: tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """What the folder of a run says of its work on one build, so that another run can take it over."""

    run: str
    environment: str
    cells: tuple[Cell, ...]
    attempt: int = 1


class Executor:
    """Executes plans in one home folder. The home's ``stop`` is asked often; True ends the run early."""

    def __init__(self, home: Home, job: Job, reporter: Reporter) -> None:
        self.home = home
        self.job = job
        self.reporter = reporter
        self.halted = False
        """Whether a process would not die, so that nothing more may be started on its device."""
        self.counts: Counter[str] = Counter()
        self.settings = home.loaded.settings
        self.environments = Environments(
            home.folder,
            self.settings.environments,
            self.settings.index,
            tool_runner(home.folder, home.stop),
            library_folders(self.settings.worker.environment),
        )

    def execute(self, plan: Plan) -> Counter[str]:
        """Run the plan to its end and return how many observations came to each state."""
        journal = self.home.journal
        journal.append(self.home.machine)
        journal.append(RunStarted(self.job.run, self.job.command, plan.cells))
        self.environments.sweep()
        for work in plan.work:
            if self._stop():
                break
            self.reporter.build(work.build.version, work.cells)
            self._build(work)
        journal.append(RunFinished(self.job.run, dict(self.counts), interrupted=self.home.stop()))
        # Only now: after an error or a second interrupt the next run takes over what lies there.
        remove_tree(self.home.folder / "runs")
        # What a run comes to must not be told from what was known before it.
        self.home.store.refresh(FRESH_WAIT)
        return self.counts

    def _build(self, work: BuildPlan) -> None:
        facts = EnvironmentFacts(
            self.job.track.name, work.build.version, recipe="", python="", requirements=()
        )
        try:
            python, file = self._python(work.build)
            wheel = self._wheels(work.build, file)
            recipe = self._recipe(work.build, python, file, wheel.requires if wheel else ())
            facts = recipe.facts()
            environment = self._environment(recipe, python)
            variables = self._worker_environment(environment)
        except EnvironmentProblem as problem:
            self._no_environment(work, facts, problem)
        except Stopped:
            return  # the run ends, and nothing of what was under way is kept
        else:
            self._run_cases(work, environment, variables)

    # -- wheels and environment -------------------------------------------------------------------------------

    def _environment(self, recipe: Recipe, python: Python) -> Environment:
        """Return the recipe's environment; raises EnvironmentProblem."""
        self.reporter.step("preparing the environment")
        environment, made = self.environments.ensure(recipe, python.path)
        if made:
            self.home.journal.append(environment.facts)
        self.reporter.environment(environment.facts, made)
        return environment

    def _python(self, build: Build) -> tuple[Python, BuildFile]:
        """Return the newest interpreter that the build has a wheel for, and that wheel."""
        track, platform = self.job.track, this_platform()
        found = find_pythons(self.settings.environments.pythons)
        here = [minor for minor in track.pythons if newest(found, [minor])]
        file = choose_wheel(build, platform, here)
        if file:
            fitting = [
                minor for minor in here if choose_wheel(replace(build, files=(file,)), platform, [minor])
            ]
            python = newest(found, fitting)
            if python:
                return python, file
        return self._managed_python(build, here)

    def _managed_python(self, build: Build, here: Sequence[str]) -> tuple[Python, BuildFile]:
        """Let uv provide the newest Python that the build has a wheel for, where that is allowed."""
        track, platform = self.job.track, this_platform()
        usable = [minor for minor in reversed(track.pythons) if choose_wheel(build, platform, [minor])]
        if not usable:
            raise EnvironmentProblem(
                f"{build.version} has no wheel for {platform} and a Python among {', '.join(track.pythons)}",
                slug="no-wheel",
            )
        if self.settings.environments.managed_pythons:
            self.reporter.step(f"asking uv for Python {usable[0]}")
            python = self.environments.provide_python(usable[0])
            file = choose_wheel(build, platform, [usable[0]])
            if python and file:
                return Python(python[0], python[1]), file
        raise EnvironmentProblem(
            f"{build.version} needs Python {' or '.join(usable)}; this host has {', '.join(here) or 'none of use'}",
            slug="no-python",
            hint=f"uv python install {usable[0]}",
        )

    def _wheels(self, build: Build, file: BuildFile) -> WheelFacts | None:
        """Read the wheel to install, and the newest one for Windows, whose library says its version.

        Raises EnvironmentProblem when the first can not be had.
        """
        if not self.job.track.inspect_wheels:
            return None
        windows = choose_wheel(build, Platform.WINDOWS)
        if windows and windows.filename != file.filename:
            try:
                self._wheel(build, windows)
            except WheelError as error:
                self.reporter.note(f"{build.version}: the wheel for Windows was not read: {error.message}")
        try:
            return self._wheel(build, file)
        except WheelError as error:
            raise EnvironmentProblem(
                error.message, slug=error.slug, ours=error.ours, hint=error.hint
            ) from error

    def _wheel(self, build: Build, file: BuildFile) -> WheelFacts:
        return facts_of(self.home, build, file, self.reporter.step)

    def _recipe(self, build: Build, python: Python, file: BuildFile, declared: tuple[str, ...]) -> Recipe:
        track = self.job.track
        return Recipe(
            track=track.name,
            version=build.version,
            package=track.package,
            module=track.module,
            python=python.version,
            requirements=(*track.requires(build.version, declared), *self.job.requirements),
            wheel=file.sha256,
            platform=this_platform(),
            libraries=track.libraries,
        )

    def _no_environment(self, work: BuildPlan, facts: EnvironmentFacts, problem: EnvironmentProblem) -> None:
        """Record that a build has no environment, and for every case of it that it could not run."""
        told = replace(facts, reason=problem.slug, message=problem.message)
        self.home.journal.append(told)
        self.reporter.environment(told, made=False)
        slug = f"infra:{problem.slug}" if problem.ours else problem.slug
        outcome = Outcome(Ending.NO_ENVIRONMENT, error_type=slug, error_message=problem.message)
        for case in (*work.cases, *work.alone):
            cell = cell_of(work.build, case, self.job.host, self.job.digests)
            self._observe(cell, facts.recipe, CaseResult(case.id, outcome, 0.0, datetime.now(UTC), ""), 1)

    # -- cases ------------------------------------------------------------------------------------------------

    def _run_cases(self, work: BuildPlan, environment: Environment, variables: dict[str, str]) -> None:
        """Run the cases of a build; what did not pass runs once more, alone in a fresh process."""
        folder = self.home.folder / "runs" / self.job.run / work.build.version
        cases = (*work.cases, *work.alone)
        cells = {case.id: cell_of(work.build, case, self.job.host, self.job.digests) for case in cases}
        recipe = environment.facts.recipe
        spec = self._spec(work.build, environment, variables, folder / "1")
        keep(spec.folder, Kept(self.job.run, recipe, tuple(cells.values()), 1))
        suspects = [
            case
            for case, state in self._attempts(spec, work.cases, cells, recipe, 1)
            if state.conclusive and state is not State.PASS
        ]
        spec = replace(spec, folder=folder / "2")
        keep(spec.folder, Kept(self.job.run, recipe, tuple(cells.values()), 2))
        for _ in self._attempts(spec, (*work.alone, *suspects), cells, recipe, 2):
            pass

    def _attempts(
        self, spec: WorkerSpec, cases: Sequence[Case], cells: dict[str, Cell], recipe: str, attempt: int
    ) -> Iterator[tuple[Case, State]]:
        by_id = {case.id: case for case in cases}
        limits = limits_from(self.settings.worker)
        for result in run_cases(spec, cases, limits, stop=self._stop, isolate=attempt > 1):
            if result.outcome.ending is Ending.CANCELLED:
                return  # it will be run again; an attempt that we broke off says nothing
            self.halted |= bool(result.undead)
            yield by_id[result.case], self._observe(cells[result.case], recipe, result, attempt)

    def _stop(self) -> bool:
        return self.home.stop() or self.halted

    def _spec(
        self, build: Build, environment: Environment, variables: dict[str, str], folder: Path
    ) -> WorkerSpec:
        track = self.job.track
        request = {
            "name": track.name,
            "package": track.package,
            "module": track.module,
            "device": track.device,
            "dispatch_keys": list(track.dispatch_keys),
            "version": build.version,
            "torch_own": track.own_kernels,
        }
        return WorkerSpec(
            python=environment.python,
            suites=self.job.suites,
            folder=folder,
            track=request,
            directx=self.job.host.directx,
            env=variables,
        )

    def _worker_environment(self, environment: Environment) -> dict[str, str]:
        """Return all that a worker sees of the host's environment; raises EnvironmentProblem.

        Its HOME is a folder of ours, so that what libraries keep there is neither lost nor the user's.
        """
        extra, scratch = self.settings.worker.environment, self.home.folder / "cache" / "worker"
        scratch.mkdir(parents=True, exist_ok=True)
        result = clean_environment(extra, home=scratch)
        if os.name == "nt":
            return result
        directx, given = self.job.host.directx, extra.get("LD_LIBRARY_PATH", "")
        try:
            where = stand_ins(self.home, self.job.track, this_platform()) if directx != "real" else ""
        except (WheelError, IndexProblem) as error:
            raise EnvironmentProblem(error.message, slug="no-stand-ins", ours=True) from error
        path = library_path(environment.site_packages, directx, given, where)
        return {**result, "LD_LIBRARY_PATH": path} if path else result

    def _observe(self, cell: Cell, recipe: str, result: CaseResult, attempt: int) -> State:
        observation = observe(self.job.run, cell, recipe, result, attempt)
        self.home.journal.append(observation)
        self.counts[observation.finding.state] += 1
        self.reporter.observation(observation)
        return observation.finding.state


def observe(run: str, cell: Cell, recipe: str, result: CaseResult, attempt: int) -> Observation:
    """Return the record of one attempt, with the judge's present word on it."""
    return Observation(
        run=run,
        worker=result.worker,
        cell=cell,
        environment=recipe,
        started=result.started,
        seconds=round(result.seconds, 6),
        outcome=result.outcome,
        finding=judge.find(result.outcome, result.measures),
        measures=result.measures,
        log=result.log,
        attempt=attempt,
        peak_memory=result.peak_memory,
    )


def keep(folder: Path, kept: Kept) -> None:
    """Write down what a run is about to do in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RUN_FILE).write_bytes(msgspec.json.encode(kept))


def take_over(home: Home, known: Callable[[str], Collection[tuple[Cell, int]]]) -> int:
    """Record what workers of a tracker that was killed had finished; clear its folders away.

    ``known`` gives the cells that a run has in the journal already, with the attempt. A case that was in flight
    is recorded as such: one that takes the host down again and again can be told by that. Returns how many
    results were saved. Must be called only by who holds the home's run lock: the folders of a run that goes on
    are not dead.
    """
    saved = 0
    for folder in sorted((home.folder / "runs").glob("*/*/*")):
        for record, attempt in _left_over(folder):
            if (record.cell, attempt) in known(record.run):
                continue
            home.journal.append(record)
            saved += isinstance(record, Observation)
    remove_tree(home.folder / "runs")
    return saved


def _left_over(folder: Path) -> Iterator[tuple[Observation | Attempt, int]]:
    try:
        kept = msgspec.json.decode((folder / RUN_FILE).read_bytes(), type=Kept)
    except (OSError, msgspec.MsgspecError):
        return
    cells = {cell.case: cell for cell in kept.cells}
    for result in salvage(folder):
        cell = cells.get(result.case)
        if cell is None:
            continue
        if result.outcome.ending is Ending.CANCELLED:
            yield Attempt(kept.run, result.worker, cell), kept.attempt
        else:
            yield observe(kept.run, cell, kept.environment, result, kept.attempt), kept.attempt


def requirements_of(suites: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the requirements of several suites, each once, in order."""
    return tuple(dict.fromkeys(requirement for suite in suites for requirement in suite))
