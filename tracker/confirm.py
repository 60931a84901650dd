"""Confirm what changed from one build to another: run both again in turns, alone, until it is sure or contradicted.

Nothing is kept but observations: what came of it is derived from them, here and in every changelog. What to run
is decided in ``confirming``; nothing is printed here.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tracker import matrix
from tracker.alone import environment_of, run_alone
from tracker.case_runs import TURNS, case_runs
from tracker.changelog import VerdictChange
from tracker.changes import ChangeKind
from tracker.confirming import QUICK, THOROUGH, Action, Rule, Step
from tracker.errors import UsageError
from tracker.home import Home
from tracker.job import Job, Reporter
from tracker.locate import locate, predecessor
from tracker.matrix import Case
from tracker.model import Build, Cell, Verdict
from tracker.plan import cell_of, obstacle
from tracker.records import Run, confirmation
from tracker.running import Wish, options_of, prepare
from tracker.standing import Demand, quarantined
from tracker.suite_files import hand_out
from tracker.views import Views, host_deaths, outdated_environments


@dataclass(frozen=True, slots=True)
class ConfirmWish:
    """What a command line asks to be confirmed: OLD NEW, or NEW alone. ``each``: every change, not one per group."""

    builds: tuple[str, ...]
    cases: tuple[str, ...] = ()
    quick: bool = False
    each: bool = False
    adapter: str = ""
    track: str = "torch-directml"
    device: str = ""
    size: str = ""

    @property
    def rule(self) -> Rule:
        """How often the builds have to repeat what they did."""
        return QUICK if self.quick else THOROUGH

    def command(self) -> str:
        """Return the command line that goes on with this when it was interrupted."""
        words = ["dmltrack confirm", *self.builds]
        words += options_of(self.cases, self.track, self.size, self.device, self.adapter)
        words += [name for name, asked in (("--quick", self.quick), ("--each", self.each)) if asked]
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Group:
    """Changes that are alike in all but their case; the first one is run, and speaks for the ``others``."""

    change: VerdictChange
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """What is to be confirmed, ready to go on. ``why_not`` says of a group why it can not be run here."""

    job: Job | None
    old: Build
    new: Build
    groups: tuple[Group, ...]
    cases: Mapping[str, Case]
    rule: Rule
    deaths: Mapping[Cell, int]
    """How often this machine went down while a cell was in flight."""

    def why_not(self, change: VerdictChange) -> str:
        """Return why a change can not be run again here; empty where it can."""
        case = self.cases.get(change.case)
        if self.job is None or case is None:
            return "there is no such case in the suites now, in this size"
        if why := obstacle(case, self.job.host):
            return why
        cell = cell_of(self.new, case, self.job.host, self.job.digests)
        if cell.adapter != change.adapter:
            return f"it was measured on {change.adapter}, and a run would be on {cell.adapter}"
        for version in (self.old.version, self.new.version):
            deaths = self.deaths.get(replace(cell, version=version), 0)
            if quarantined(deaths, case.isolate, Demand()):
                return f"this machine went down while it ran on {version}"
        return ""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What came of one group: ``step`` ends it, ``runs`` were made for it now."""

    group: Group
    step: Step
    runs: int


# --- what is asked for -----------------------------------------------------------------------------------


def grouped(changes: Sequence[VerdictChange], *, each: bool = False) -> list[Group]:
    """Return one group for each way in which cases changed, or one for each change."""
    found: dict[tuple[object, ...], list[VerdictChange]] = {}
    for change in changes:
        key = (change.case, change.adapter) if each else _way(change)
        found.setdefault(key, []).append(change)
    return [Group(own[0], tuple(other.case for other in own[1:])) for own in found.values()]


def _way(change: VerdictChange) -> tuple[object, ...]:
    told = [_told(verdict) for verdict in (change.old, change.new)]
    return (change.kind, change.adapter, *told)


def _told(verdict: Verdict | None) -> tuple[str, str, str]:
    return (verdict.state, verdict.reason, verdict.message) if verdict else ("", "", "")


def wanted(change: VerdictChange, cases: Sequence[str], adapter: str) -> bool:
    """Whether a change can be confirmed and was asked for."""
    named = not cases or any(fnmatch.fnmatchcase(change.case, pattern) for pattern in cases)
    return change.kind in TURNS and named and bool(_pattern(adapter).search(change.adapter))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"'{text}' is no regular expression: {error}") from None


def pair_of(texts: Sequence[str], builds: Sequence[Build]) -> tuple[Build, Build]:
    """Return the two builds that a command line names: OLD NEW, or NEW and the one before it."""
    if len(texts) not in (1, 2):
        raise UsageError(
            f"{len(texts)} builds were named, a change is between two", hint="OLD NEW, or NEW alone"
        )
    new = locate(texts[-1], builds)
    old = locate(texts[0], builds) if len(texts) == 2 else predecessor(new, builds)
    if old is None:
        raise UsageError(f"{new.version} is the first build, there is none before it")
    return old, new


def prepare_trial(home: Home, wish: ConfirmWish, reporter: Reporter) -> Trial:
    """Return what is to be run; the caller holds the home's lock."""
    track = home.track(wish.track)
    old, new = pair_of(wish.builds, home.builds(track.name))
    log = Views(home, track).changelog(old.version, new.version)
    if log.machine != home.fingerprint:
        raise UsageError(
            f"this machine has not measured both {old.version} and {new.version}",
            hint=f"run them first: dmltrack run {old.version} {new.version}",
        )
    groups = grouped([c for c in log.verdicts if wanted(c, wish.cases, wish.adapter)], each=wish.each)
    size = wish.size or home.loaded.settings.suites.size
    suites = matrix.load_suites(hand_out(home.folder) / "suites", size)
    every = {case.id: case for suite in suites for case in suite.cases}
    cases = {g.change.case: every[g.change.case] for g in groups if g.change.case in every}
    job = None
    if cases:
        matrix_wish = _matrix_wish(wish, (old.version, new.version), tuple(cases))
        job = replace(prepare(home, matrix_wish, reporter).job, command=wish.command())
    deaths = host_deaths(home, track, home.fingerprint)
    return Trial(job, old, new, tuple(groups), cases, wish.rule, deaths)


def _matrix_wish(wish: ConfirmWish, versions: tuple[str, str], cases: tuple[str, ...]) -> Wish:
    """Return the wish of a run of the cases on both builds, whatever is known of them, that asks no index."""
    return Wish(
        builds=versions,
        track=wish.track,
        again_before=datetime.now(UTC),
        offline=True,
        cases=cases,
        size=wish.size,
        device=wish.device,
        adapter=wish.adapter,
    )


# --- what is known, and what next ------------------------------------------------------------------------


def _runs(home: Home, trial: Trial, change: VerdictChange) -> dict[str, list[Run]]:
    """Return the runs of a change's case at both builds."""
    versions = (trial.old.version, trial.new.version)
    found = case_runs(home.store, trial.old.track, home.fingerprint, [change.case], versions)
    own = found.get((change.case, change.adapter), {})
    return {version: own.get(version, []) for version in versions}


def confirm(
    home: Home, trial: Trial, reporter: Reporter, say: Callable[[Group, Step, int], None]
) -> Iterator[Confirmed]:
    """Yield what comes of each group. ``say`` is told what is run next, before, with the runs made for it so far.

    Raises Stopped when it was asked to stop; what was observed until then stands.
    """
    for group in trial.groups:
        if why := trial.why_not(group.change):
            yield Confirmed(group, Step(Action.CANNOT_TELL, why), 0)
        else:
            yield _confirm(home, trial, group, reporter, say)


def _confirm(
    home: Home, trial: Trial, group: Group, reporter: Reporter, say: Callable[[Group, Step, int], None]
) -> Confirmed:
    assert trial.job is not None
    change, done = group.change, 0
    builds = {Action.RUN_OLD: trial.old, Action.RUN_NEW: trial.new}
    case, digests = trial.cases[change.case], trial.job.digests
    while True:
        runs = _runs(home, trial, change)
        old, new = runs[trial.old.version], runs[trial.new.version]
        if any(own[-1].suite_digest != digests[case.part] for own in (old, new)):
            why = "the suite's files have changed since it was measured: run both builds again first"
            return Confirmed(group, Step(Action.CANNOT_TELL, why), done)
        step = confirmation(change.kind is ChangeKind.FIXED, old, new, trial.rule)
        if step.action.ends:
            return Confirmed(group, step, done)
        say(group, step, done)
        build = builds[step.action]
        outdated = outdated_environments(home, trial.job.track, [build])
        recipe = environment_of(runs[build.version], outdated)
        if problem := run_alone(home, trial.job, reporter, build, case, recipe):
            why = f"{build.version} can not be installed any more: {problem}"
            return Confirmed(group, Step(Action.CANNOT_TELL, why), done)
        done += 1
