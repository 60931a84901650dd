"""One whole run: lock the home, take over what was left, poll, plan, execute, compare.

The order of steps can be read here; each step's work is done elsewhere. Nothing is printed here.
"""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tracker import matrix
from tracker.changelog import Changelog, pairs
from tracker.changes import ChangeKind
from tracker.errors import Exit, HomeBusy, IndexProblem, OutsideError, UsageError
from tracker.execute import Executor, Job, Reporter, requirements_of, take_over
from tracker.home import FRESH_WAIT, Home
from tracker.locate import predecessor, select
from tracker.matrix import Suite
from tracker.model import Build, Cell, State
from tracker.plan import Host, Plan, make_plan, runnable_cells, withdrawn
from tracker.poll import poll
from tracker.standing import Demand, Next, next_step
from tracker.suite_files import hand_out
from tracker.trackfile import Track
from tracker.views import Views, build_changes, cells_of_run, known_cells, outdated_environments, states_of

DEFAULT_TRACK = "torch-directml"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a command line asks of a run. ``again_before``: run again what was observed before this moment."""

    builds: tuple[str, ...] = ()
    suites: tuple[str, ...] = ("all",)
    track: str = DEFAULT_TRACK
    retry: bool = False
    again_before: datetime | None = None
    offline: bool = False
    plan_only: bool = False
    json: bool = False

    def command(self) -> str:
        """Return the command line that goes on with this run when it was interrupted."""
        words = ["dmltrack run", *self.builds]
        words += [f"--suites {','.join(self.suites)}"] if self.suites != ("all",) else []
        words += [f"--track {self.track}"] if self.track != DEFAULT_TRACK else []
        words += ["--retry"] if self.retry else []
        words += [f"--again-before {self.again_before:%Y-%m-%dT%H:%M:%SZ}"] if self.again_before else []
        words += ["--offline"] if self.offline else []
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
    home.store.refresh(FRESH_WAIT)
    suites_folder = hand_out(home.folder)
    suites = chosen_suites(matrix.load_suites(suites_folder / "suites"), wish.suites)
    notes = [f"took over {saved} results of an interrupted run"] if (saved := _salvage(home)) else []
    notes += _ask_index(home, track, wish)
    known = home.builds(track.name)
    listed = [build for build in known if build.files]
    if not listed:
        raise OutsideError(
            f"the index lists no build of {track.package}", hint="check index.url with 'dmltrack config'"
        )
    builds = select(wish.builds, listed, withdrawn=track.yanked)
    if not builds:
        raise UsageError(
            f"no build of {track.name} to run", hint="every build is withdrawn; name one to run it"
        )
    digests = {suite.name: matrix.digest(suites_folder / "suites", suite.name) for suite in suites}
    host = Host(home.fingerprint, home.machine.directx)
    cases = [case for suite in suites for case in suite.cases]
    plan = make_plan(builds, cases, host, digests, _steps(home, track, builds, wish))
    if not wish.builds or "all" in wish.builds:
        plan = replace(plan, left_out=(*withdrawn(listed, builds), *plan.left_out))
    requirements = requirements_of(suite.requirements for suite in suites)
    job = Job(_run_id(), wish.command(), track, host, suites_folder, digests, requirements)
    cells = tuple(runnable_cells(builds, cases, host, digests))
    return Prepared(plan, job, tuple(builds), tuple(known), cells, tuple(notes))


def _steps(home: Home, track: Track, builds: Sequence[Build], wish: Wish) -> Callable[[Cell], Next]:
    """Return the function that says what is to be done about a cell."""
    known = known_cells(home, track, home.fingerprint)
    outdated, changed = outdated_environments(home, track, builds), build_changes(home, track)
    demand = Demand(wish.retry, wish.again_before)
    return lambda cell: next_step(known.get(cell), outdated, changed.get(cell.version), demand)


def _salvage(home: Home) -> int:
    if not (home.folder / "runs").exists():
        return 0
    saved = take_over(home, cache(lambda run: cells_of_run(home, run)))
    home.store.refresh(FRESH_WAIT)
    return saved


def _ask_index(home: Home, track: Track, wish: Wish) -> list[str]:
    """Poll; an index that does not answer soon is no obstacle when builds are known already."""
    if wish.offline:
        return []
    known = bool(home.builds(track.name))
    try:
        polled = poll(home, track, patient=not known)
    except IndexProblem as problem:
        if not known:
            raise
        return [f"the index did not answer, going on with the builds known: {problem.message}"]
    return [f"warning: {text}" for text in polled.result.warnings]


def chosen_suites(suites: Sequence[Suite], names: Sequence[str]) -> list[Suite]:
    """Return the suites of these names; raises UsageError for one that does not exist."""
    known = {suite.name: suite for suite in suites}
    if "all" in names:
        return list(suites)
    for name in names:
        if name not in known:
            raise UsageError(f"there is no suite '{name}'", hint=f"known suites: {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)]


def _run_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def carry_out(home: Home, prepared: Prepared, reporter: Reporter) -> Result:
    """Execute a plan and return what came of it."""
    counts: Counter[str] = Counter()
    if prepared.plan.cells:
        counts = Executor(home, prepared.job, reporter).execute(prepared.plan)
    logs = tuple(compare_neighbours(home, prepared))
    interrupted = home.stop()
    code = exit_code(home, prepared, counts, logs, interrupted)
    return Result(prepared.job.run, dict(counts), interrupted, logs, code)


def compare_neighbours(home: Home, prepared: Prepared) -> Iterator[Changelog]:
    """Yield the changelog of each build that was asked for against the one before it among them.

    A build that was asked for alone is compared with the one before it on the index.
    """
    versions = [build.version for build in prepared.builds]
    views = Views(home, prepared.job.track)
    before = predecessor(prepared.builds[0], prepared.known) if len(versions) == 1 else None
    for old, new in pairs([before.version, *versions] if before else versions):
        yield views.changelog(old, new)


def exit_code(
    home: Home, prepared: Prepared, counts: Mapping[str, int], logs: Sequence[Changelog], interrupted: bool
) -> Exit:
    """Return 130 when interrupted, 5 when nothing conclusive came of it, 1 on a regression, else 0.

    When nothing had to be executed, what is on record of the cells asked for decides.
    """
    if interrupted:
        return Exit.INTERRUPTED
    states = counts.keys() if prepared.plan.cells else states_of(home, prepared.cells)
    if not any(State(state).conclusive for state in states):
        return Exit.INCONCLUSIVE
    regressed = any(change.kind is ChangeKind.REGRESSED for log in logs for change in log.verdicts)
    return Exit.REGRESSION if regressed else Exit.OK
