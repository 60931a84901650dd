"""Bisect between the builds of a track: ask what to run next, run it alone, and ask again until there is an end.

Nothing is kept but observations, so a bisection that was broken off goes on where it was, and one that was made
before is answered at once. What to run is decided in ``bisecting``; nothing is printed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tracker import matrix
from tracker.alone import environment_of, run_alone
from tracker.bisecting import TRIES, Ask, Evidence, Found, Impossible, next_step
from tracker.bug_views import one_bug, registry
from tracker.bugs import SUITE, Bug, by_case, matching
from tracker.case_runs import case_runs
from tracker.errors import OutsideError, UsageError
from tracker.home import Home
from tracker.job import Job, Reporter
from tracker.locate import locate
from tracker.matrix import Case
from tracker.model import Build, State
from tracker.plan import cell_of, obstacle
from tracker.records import Ground, Reading, Run, evidence
from tracker.running import Wish, options_of, prepare, quoted
from tracker.standing import Demand, quarantined
from tracker.suite_files import hand_out
from tracker.views import build_changes, host_deaths, outdated_environments

USUAL_REPEATS = 3


@dataclass(frozen=True, slots=True)
class BisectWish:
    """What a command line asks of a bisection. ``text`` names a case or a report."""

    text: str
    good: str = ""
    bad: str = ""
    repeats: int = USUAL_REPEATS
    adapter: str = ""
    track: str = "torch-directml"
    device: str = ""
    size: str = ""
    plan_only: bool = False

    def command(self) -> str:
        """Return the command line that goes on with this bisection when it was interrupted."""
        words = ["dmltrack bisect", quoted(self.text)]
        words += [f"--good {quoted(self.good)}"] if self.good else []
        words += [f"--bad {quoted(self.bad)}"] if self.bad else []
        words += [f"--repeats {self.repeats}"] if self.repeats != USUAL_REPEATS else []
        return " ".join([*words, *options_of((), self.track, self.size, self.device, self.adapter)])


@dataclass(frozen=True, slots=True)
class Subject:
    """What is bisected: a case, with the report that it reproduces where it does."""

    case: Case
    bug: Bug | None

    @property
    def reading(self) -> Reading:
        """How its states are to be read. A build that can not be imported says nothing of what comes after."""
        if self.bug is not None:
            return Reading(frozenset(self.bug.good), self.bug.silent | self.bug.partial)
        about_imports = self.case.suite == "census"
        return Reading(unclear=frozenset() if about_imports else frozenset({State.IMPORT_FAILED}))


@dataclass(frozen=True, slots=True)
class Ends:
    """Between which builds is searched. Those that nobody named give way to the next one that can be tested."""

    start: str
    end: str
    fixed_start: bool
    fixed_end: bool
    good: str = ""
    bad: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """A bisection that is ready to go on."""

    subject: Subject
    job: Job
    builds: Mapping[str, Build]
    """By version, oldest first."""
    ends: Ends
    repeats: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What is on record of the builds of a search, in its lane."""

    runs: Mapping[str, Sequence[Run]]
    evidence: Mapping[str, Evidence]
    outdated: frozenset[str]


@dataclass(frozen=True, slots=True)
class Bisected:
    """What came of a bisection, or how far it is: ``step`` is an Ask where it was not carried on."""

    step: Ask | Found | Impossible
    known: Known
    runs: int = 0
    skipped: tuple[str, ...] = ()
    """Builds at the ends that can not be tested."""


# --- what is asked for -----------------------------------------------------------------------------------


def subject_of(text: str, cases: Sequence[Case], bugs: Sequence[Bug]) -> Subject:
    """Return the case or report that a person means; UsageError says what was possible."""
    by_id, reported = {case.id: case for case in cases}, by_case(bugs)
    parts = [name for name in by_id if text and text in name]
    exact = by_id.get(text) or (by_id[parts[0]] if len(parts) == 1 else None)
    if exact is not None and not text.lstrip("#").isdecimal():
        return Subject(exact, next(iter(reported.get(exact.id, ())), None))
    if parts and not matching(text, bugs):
        few = ", ".join(parts[:8]) + (", ..." if len(parts) > 8 else "")
        raise UsageError(f"'{text}' fits {len(parts)} cases: {few}", hint="name one by its whole id")
    bug = one_bug(text, bugs)
    if not bug.case:
        raise UsageError(f"{bug.id} has no reproducer to run: {bug.why_not}")
    if bug.case not in by_id:
        raise UsageError(f"the case of {bug.id}, {bug.case}, is not among the suite '{SUITE}'")
    return Subject(by_id[bug.case], bug)


def ends_of(versions: Sequence[str], good: str, bad: str) -> Ends:
    """Return the ends of a search, given the builds that are said to be good and bad; empty where nobody says."""
    if good and good == bad:
        raise UsageError(f"{good} can not be both good and bad")
    named = sorted(filter(None, (good, bad)), key=versions.index)
    if len(named) == 2:
        return Ends(named[0], named[1], True, True, good, bad)
    if not named or len(versions) == 1:
        return Ends(versions[0], versions[-1], False, False, good, bad)
    # The other end is the newest build: what broke or was mended since is asked for most.
    if named[0] == versions[-1]:
        return Ends(versions[0], named[0], False, True, good, bad)
    return Ends(named[0], versions[-1], True, False, good, bad)


def prepare_search(home: Home, wish: BisectWish, reporter: Reporter) -> Search:
    """Return what is to be searched; the caller holds the home's lock."""
    suites = matrix.load_suites(
        hand_out(home.folder) / "suites", wish.size or home.loaded.settings.suites.size
    )
    subject = subject_of(wish.text, [case for suite in suites for case in suite.cases], registry(home))
    known = home.builds(home.track(wish.track).name)
    good, bad = (locate(text, known).version if text else "" for text in (wish.good, wish.bad))
    prepared = prepare(home, _matrix_wish(wish, subject, [good, bad], ask_index=not known), reporter)
    if why := obstacle(subject.case, prepared.job.host):
        raise OutsideError(f"{subject.case.id} can not run here: {why}")
    builds = {build.version: build for build in prepared.builds}
    if len(builds) < 2:
        raise UsageError(f"a bisection is between two builds, and only {', '.join(builds)} can be had")
    job = replace(prepared.job, command=wish.command())
    ends = ends_of(list(builds), good, bad)
    return Search(subject, job, builds, ends, wish.repeats, prepared.notes)


def _matrix_wish(wish: BisectWish, subject: Subject, named: Sequence[str], *, ask_index: bool) -> Wish:
    """Return the wish of a run of the case on every build, whatever is known of it."""
    return Wish(
        builds=("all", *filter(None, named)),
        track=wish.track,
        again_before=datetime.now(UTC),
        offline=not ask_index,
        plan_only=wish.plan_only,
        cases=(subject.case.id,),
        size=wish.size,
        device=wish.device,
        adapter=wish.adapter,
    )


# --- what is known, and what next ------------------------------------------------------------------------


def known_of(home: Home, search: Search) -> Known:
    """Return what is on record of the case in the lane of the search."""
    job, case = search.job, search.subject.case
    cells = {version: cell_of(build, case, job.host, job.digests) for version, build in search.builds.items()}
    lane = next(iter(cells.values()))
    found = case_runs(home.store, job.track.name, job.host.machine, [case.id])
    runs = {
        version: [run for run in own if run.suite_digest == lane.suite_digest]
        for version, own in found.get((case.id, lane.adapter), {}).items()
    }
    outdated = outdated_environments(home, job.track, search.builds.values())
    ground = Ground(outdated, build_changes(home, job.track), datetime.now(UTC))
    told = evidence([run for own in runs.values() for run in own], search.subject.reading, ground)
    deaths = host_deaths(home, job.track, job.host.machine)
    for version, cell in cells.items():
        if quarantined(deaths.get(cell, 0), case.isolate, Demand()):
            told[version] = replace(told.get(version, Evidence()), inconclusive=TRIES)
    return Known(runs, {version: told[version] for version in cells if version in told}, outdated)


def what_next(
    versions: Sequence[str], ends: Ends, known: Mapping[str, Evidence], repeats: int
) -> tuple[Ask | Found | Impossible, tuple[str, ...]]:
    """Return what to do next, and the builds at the ends that were left out because they can not be tested."""
    good = known.get(ends.good, Evidence())
    if good.bad:
        total = good.good + good.bad
        return Impossible(f"{ends.good} was said to be good, and it failed in {good.bad} of {total} runs"), ()
    order = list(versions[versions.index(ends.start) : versions.index(ends.end) + 1])
    skipped: list[str] = []
    while True:
        step = next_step(order, known, order[0], order[-1], repeats)
        lost = step.untestable if isinstance(step, Impossible) else ""
        movable = (lost == order[0] and not ends.fixed_start) or (lost == order[-1] and not ends.fixed_end)
        if not lost or not movable or len(order) == 2:
            return _as_said(step, versions, ends), tuple(skipped)
        skipped.append(lost)
        order.remove(lost)


def _as_said(step: Ask | Found | Impossible, versions: Sequence[str], ends: Ends) -> Ask | Found | Impossible:
    """Refuse a change in the other direction than the one that the builds named ask for."""
    if not isinstance(step, Found) or not ends.bad:
        return step
    wanted_fix = versions.index(ends.bad) < versions.index(ends.good) if ends.good else ends.bad == ends.start
    if step.fixed is wanted_fix:
        return step
    return Impossible(f"{ends.bad} was said to be bad, and it passed", step.warnings)


def bisect(home: Home, search: Search, reporter: Reporter, say: Callable[[Ask, int], None]) -> Bisected:
    """Carry a bisection on to its end. ``say`` is told what is run next, before, with the number of runs so far.

    Raises Stopped when it was asked to stop; what was observed until then stands.
    """
    runs, versions, asked = 0, list(search.builds), ("", Evidence())
    while True:
        now = known_of(home, search)
        version, before = asked
        if version and now.evidence.get(version, Evidence()) == before:
            raise OutsideError(
                f"a run on {version} does not count, as it would be installed in another way now",
                hint=f"is the index changing? dmltrack poll, then: {search.job.command}",
            )
        step, skipped = what_next(versions, search.ends, now.evidence, search.repeats)
        if not isinstance(step, Ask):
            return Bisected(step, now, runs, skipped)
        say(step, runs)
        recipe = environment_of(now.runs.get(step.version, ()), now.outdated)
        run_alone(home, search.job, reporter, search.builds[step.version], search.subject.case, recipe)
        runs, asked = runs + 1, (step.version, now.evidence.get(step.version, Evidence()))


def look(home: Home, search: Search) -> Bisected:
    """Return how far a bisection is, without running anything."""
    now = known_of(home, search)
    step, skipped = what_next(list(search.builds), search.ends, now.evidence, search.repeats)
    return Bisected(step, now, 0, skipped)
