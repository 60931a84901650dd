"""Run one case of one build alone in a fresh process, as an observation like any other.

It is run in the environment that its build's last run of it had, where that is still there, because only runs of
one environment make a verdict together; else the environment is made as for any run.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from tracker.environments import Environment, read_marker
from tracker.errors import EnvironmentProblem, OutsideError, Stopped
from tracker.execute import Executor
from tracker.home import Home
from tracker.installs import Installed, Installer
from tracker.job import Job, Reporter
from tracker.matrix import Case
from tracker.model import Build
from tracker.plan import BuildPlan, Plan
from tracker.records import Run


class _Kept(Installer):
    """Makes environments, but for one that is to be used where it is there."""

    def __init__(self, home: Home, job: Job, reporter: Reporter, recipe: str) -> None:
        super().__init__(home, job, reporter)
        self._recipe_wanted = recipe
        self.problem: EnvironmentProblem | None = None
        """Why there is none, where there is none."""

    def install(self, build: Build) -> Installed:
        """Return the wanted environment, or the one that is usual for the build; raises EnvironmentProblem."""
        folder = self.environments.folder / self._recipe_wanted
        facts = read_marker(folder) if self._recipe_wanted else None
        try:
            if facts is None or not facts.ready or facts.version != build.version:
                return super().install(build)
            self.attempted = facts
            environment = Environment(folder, facts)
            return Installed(environment, self.worker_environment(environment))
        except EnvironmentProblem as problem:
            self.problem = problem
            raise


def run_alone(home: Home, job: Job, reporter: Reporter, build: Build, case: Case, recipe: str) -> str:
    """Run the case once and put what came of it into the journal and the database.

    Returns why the build could not be installed, if so. Each run has a number of its own: one that is taken over
    after a power cut must not be taken for the one before it. Raises Stopped when it was broken off, and
    OutsideError when the host is to blame that it can not go on.
    """
    own = replace(job, run=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}")
    executor, installer = Executor(home, own, reporter), _Kept(home, own, reporter, recipe)
    executor.installer = installer
    observed = executor.execute(Plan((BuildPlan(build, (), (case,)),), (), 0))
    if home.stop():
        raise Stopped("interrupted")
    go_on = f"then go on with: {job.command}"
    if executor.halted:
        raise OutsideError(
            f"a process of {build.version} would not die, so nothing more was started beside it",
            hint=f"end it, or start the machine anew; {go_on}",
        )
    problem = installer.problem
    if problem is not None and problem.ours:
        raise OutsideError(
            problem.message, hint=f"{problem.hint or 'dmltrack doctor may tell more'}; {go_on}"
        )
    if not observed:
        raise OutsideError(f"{case.id} could not be run on {build.version}", hint=f"dmltrack doctor; {go_on}")
    return problem.message if problem is not None else ""


def environment_of(runs: Sequence[Run], outdated: frozenset[str]) -> str:
    """Return the environment of the last run that had one; empty where it is not to be used any more."""
    last = next((run.environment for run in reversed(runs) if run.environment), "")
    return "" if last in outdated else last
