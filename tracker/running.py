"""One whole run: lock the home, take over what was left, poll, plan, execute, compare.

The order of steps can be read here; each step's work is done elsewhere. Nothing is printed here.
"""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tracker import matrix
from tracker.changelog import Changelog, pairs
from tracker.changes import ChangeKind
from tracker.errors import Exit, HomeBusy, IndexProblem, UsageError
from tracker.execute import Executor, Job, Reporter, requirements_of, take_over
from tracker.home import Home
from tracker.locate import predecessor, select
from tracker.matrix import Case, Suite
from tracker.model import Build, Cell, State
from tracker.plan import Host, Plan, cell_of, make_plan
from tracker.poll import poll
from tracker.suite_files import hand_out
from tracker.trackfile import Track
from tracker.views import Views, cells_of_run, done_cells, states_of


@dataclass(frozen=True, slots=True)
class Wish:
    """What a command line asks of a run."""

    builds: tuple[str, ...] = ()
    suites: tuple[str, ...] = ("all",)
    track: str = "torch-directml"
    retry: bool = False
    again: bool = False
    offline: bool = False
    plan_only: bool = False
    json: bool = False

    def command(self) -> str:
        """Return the command line that asks for the same; it resumes an interrupted run."""
        words = ["dmltrack run", *self.builds]
        words += [f"--suites {','.join(self.suites)}"] if self.suites != ("all",) else []
        words += [f"--track {self.track}"] if self.track != "torch-directml" else []
        words += ["--retry"] if self.retry else []
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan with all that is needed to execute it."""

    plan: Plan
    job: Job
    builds: tuple[Build, ...]
    known: tuple[Build, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a run. ``changelogs`` are of the builds asked for, each against the one before it."""

    run: str
    counts: dict[str, int]
    interrupted: bool
    changelogs: tuple[Changelog, ...]
    exit_code: Exit


@contextmanager
def locked(home: Home) -> Iterator[None]:
    """Hold the home's run lock; raises HomeBusy that says which process holds it."""
    import filelock

    home.folder.mkdir(parents=True, exist_ok=True)
    holder = home.folder / "run.holder.json"
    try:
        with filelock.FileLock(home.folder / "run.lock", timeout=1):
            holder.write_text(
                json.dumps({"pid": os.getpid(), "since": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"})
            )
            try:
                yield
            finally:
                holder.unlink(missing_ok=True)
    except filelock.Timeout:
        raise HomeBusy(f"another run is going on in {home.folder}{_who(holder)}") from None


def _who(holder: Path) -> str:
    try:
        said = json.loads(holder.read_text("utf-8"))
        return f" (process {said['pid']}, since {said['since']})"
    except (OSError, ValueError, KeyError):
        return ""


def prepare(home: Home, wish: Wish) -> Prepared:
    """Return what a run would do; the caller holds the lock."""
    track = home.track(wish.track)
    suites_folder = hand_out(home.folder)
    suites = chosen_suites(matrix.load_suites(suites_folder / "suites"), wish.suites)
    notes = [f"took over {saved} results of an interrupted run"] if (saved := _salvage(home)) else []
    notes += _ask_index(home, track, wish)
    known = home.builds(track.name)
    builds = select(wish.builds, [build for build in known if build.files], withdrawn=track.yanked)
    if not builds:
        raise UsageError(
            f"no build of {track.name} to run", hint="every build is withdrawn; name one to run it"
        )
    digests = {suite.name: matrix.digest(suites_folder / "suites", suite.name) for suite in suites}
    host = Host(home.machine.fingerprint, home.machine.directx)
    cases = [case for suite in suites for case in suite.cases]
    done = set() if wish.again else set(done_cells(home, track, host.machine, retry=wish.retry))
    plan = make_plan(builds, cases, host, digests, done)
    requirements = requirements_of(suite.requirements for suite in suites)
    job = Job(_run_id(), wish.command(), track, host, suites_folder, digests, requirements)
    cells = _all_cells(builds, cases, host, digests)
    return Prepared(plan, job, tuple(builds), tuple(known), cells, tuple(notes))


def _all_cells(
    builds: Sequence[Build], cases: Sequence[Case], host: Host, digests: dict[str, str]
) -> tuple[Cell, ...]:
    """Return every cell that is asked for and can run here, whether it was executed before or not."""
    plan = make_plan(builds, cases, host, digests, ())
    return tuple(cell_of(work.build, case, host, digests) for work in plan.work for case in work.cases)


def _salvage(home: Home) -> int:
    if not (home.folder / "runs").exists():
        return 0
    saved = take_over(home, cache(lambda run: cells_of_run(home, run)))
    home.store.refresh()
    return saved


def _ask_index(home: Home, track: Track, wish: Wish) -> list[str]:
    """Poll; an index that does not answer is no obstacle when builds are known already."""
    if wish.offline:
        return []
    try:
        polled = poll(home, track)
    except IndexProblem as problem:
        if not home.builds(track.name):
            raise
        return [f"the index did not answer, going on with the builds known: {problem.message}"]
    return [f"warning: {text}" for text in polled.result.warnings]


def chosen_suites(suites: Sequence[Suite], names: Sequence[str]) -> list[Suite]:
    """Return the suites of these names; raises UsageError for one that does not exist."""
    known = {suite.name: suite for suite in suites}
    if list(names) == ["all"]:
        return list(suites)
    for name in names:
        if name not in known:
            raise UsageError(f"there is no suite '{name}'", hint=f"known suites: {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def _run_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def carry_out(home: Home, prepared: Prepared, reporter: Reporter, stop: Callable[[], bool]) -> Result:
    """Execute a plan and return what came of it."""
    counts: Counter[str] = Counter()
    if prepared.plan.cells:
        counts = Executor(home, prepared.job, reporter, stop).execute(prepared.plan)
    logs = tuple(compare_neighbours(home, prepared))
    interrupted = stop()
    return Result(
        prepared.job.run, dict(counts), interrupted, logs, exit_code(home, prepared, logs, interrupted)
    )


def compare_neighbours(home: Home, prepared: Prepared) -> Iterator[Changelog]:
    """Yield the changelog of each build that was asked for against the one before it among them.

    A build that was asked for alone is compared with the one before it on the index.
    """
    versions = [build.version for build in prepared.builds]
    views = Views(home, prepared.job.track)
    before = predecessor(prepared.builds[0], prepared.known) if len(versions) == 1 else None
    for old, new in pairs([before.version, *versions] if before else versions):
        yield views.changelog(old, new)


def exit_code(home: Home, prepared: Prepared, logs: Sequence[Changelog], interrupted: bool) -> Exit:
    """Return 130 when interrupted, 5 when nothing conclusive is known, 1 on a regression, else 0."""
    if interrupted:
        return Exit.INTERRUPTED
    states = states_of(home, prepared.cells)
    if not any(State(state).conclusive for state in states):
        return Exit.INCONCLUSIVE
    regressed = any(change.kind is ChangeKind.REGRESSED for log in logs for change in log.verdicts)
    return Exit.REGRESSION if regressed else Exit.OK
