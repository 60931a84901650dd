"""What the runs of a case on record say: whether a change is confirmed by them, and what a bisection knows.

Pure. Everything is derived from observations and nothing else is kept, so an answer can be had again at any time.
Here is decided which runs count; the rules they are put to are in ``confirming`` and ``bisecting``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tracker.bisecting import TRIES, Evidence
from tracker.confirming import THOROUGH, Action, Rule, Seen, Side, Step, next_step
from tracker.flakes import Tally
from tracker.judge import ALONE
from tracker.model import State
from tracker.plan import RIGHT
from tracker.standing import Demand, Known, Next
from tracker.standing import next_step as what_is_left

RECENT = timedelta(days=1)
"""An inconclusive run counts as a try of a bisection for so long: it may have been broken off in between."""


@dataclass(frozen=True, slots=True)
class Run:
    """One observation of a case: where it comes from and what it came to."""

    version: str
    suite_digest: str
    environment: str
    attempt: int
    state: State
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Reading:
    """Which states are good, and which say nothing beside those that say nothing of any build."""

    good: frozenset[State] = RIGHT
    unclear: frozenset[State] = frozenset()

    def of(self, run: Run) -> bool | None:
        """Return whether a run is good; None where it says nothing."""
        if not run.state.conclusive or run.state in self.unclear:
            return None
        return run.state in self.good


USUAL = Reading()


def counted(runs: Sequence[Run]) -> list[Run]:
    """Return the runs of one build, oldest first, that its verdict rests on, and those that nothing was run in.

    Those are the ones of the latest suite files and the latest environment; what others gave is history.
    """
    latest = [run for run in runs if run.suite_digest == runs[-1].suite_digest]
    used = next((run.environment for run in reversed(latest) if run.environment), "")
    return [run for run in latest if run.environment in ("", used)]


# --- is a change confirmed -------------------------------------------------------------------------------


def confirmation(fixed: bool, old: Sequence[Run], new: Sequence[Run], rule: Rule = THOROUGH) -> Step:
    """Return what a change (a fix, or else a regression) needs next to be confirmed, or what came of it.

    ``old`` and ``new`` are all runs of the two builds on record, oldest first. The change was seen when both had
    said something; the runs after that count which were made alone in a fresh process, whoever asked for them.
    """
    sides = {Side.OLD: counted(old), Side.NEW: counted(new)}
    seen = [Seen(side, USUAL.of(run), run.at) for side, run in _since_seen(sides)]
    tallies = {side: _wavering(runs) for side, runs in sides.items()}
    if not any(tallies.values()):
        for side, runs in sides.items():
            if step := _many_causes(side, runs) or _in_company(side, runs, rule):
                return step
    return next_step(fixed, seen, tallies[Side.OLD], tallies[Side.NEW], rule)


def _wavering(runs: Sequence[Run]) -> Tally | None:
    """Return the count of runs in the first setting in which a build both passed and failed."""
    for own in _by_setting(runs):
        clean = sum(USUAL.of(run) is True for run in own)
        if 0 < clean < len(own):
            return Tally(len(own) - clean, clean, own[-1].at)
    return None


def _many_causes(side: Side, runs: Sequence[Run]) -> Step | None:
    """Return that a build is flaky where its runs in one setting failed, or passed, in more than one way."""
    for own in _by_setting(runs):
        causes = Counter(_cause(run) for run in own)
        if len(causes) > 1:
            told = ", ".join(f"{cause} {times} times" for cause, times in causes.most_common())
            return Step(Action.FLAKY, f"the {side} build does not always give the same: {told}")
    return None


def _by_setting(runs: Sequence[Run]) -> list[list[Run]]:
    """Return the runs that say something, those alone first."""
    order = sorted({run.attempt for run in runs}, key=lambda attempt: (attempt != ALONE, attempt))
    return [[run for run in runs if run.attempt == attempt and run.state.conclusive] for attempt in order]


def _cause(run: Run) -> str:
    return f"{run.state} ({run.reason})" if run.reason != run.state else str(run.state)


def _in_company(side: Side, runs: Sequence[Run], rule: Rule) -> Step | None:
    """Return what to do where a case gives one thing alone and another beside other cases.

    That may be what it is, or the chance of a case that is flaky: as many runs alone as the rule asks for tell.
    """
    alone = [good for run in runs if run.attempt == ALONE and (good := USUAL.of(run)) is not None]
    beside = [good for run in runs if run.attempt != ALONE and (good := USUAL.of(run)) is not None]
    if not alone or not beside or alone[-1] in beside:
        return None
    word, other = ("passed", "failed") if alone[-1] else ("failed", "passed")
    left = (rule.clean if alone[-1] else rule.failing) - len(alone)
    said = f"alone the {side} build {word} {len(alone)} times, and beside other cases it {other}"
    if left > 0:
        return Step(Action.RUN_OLD if side is Side.OLD else Action.RUN_NEW, f"{said}: chance or not", left)
    return Step(Action.CANNOT_TELL, f"{said}: runs alone can not show what only comes with others")


def _since_seen(sides: dict[Side, list[Run]]) -> list[tuple[Side, Run]]:
    """Return the runs alone after the one by which the change was there to be seen, in their order."""
    first = [next((run.at for run in runs if run.state.conclusive), None) for runs in sides.values()]
    known = [moment for moment in first if moment is not None]
    if len(known) < len(sides):
        return []
    after = [
        (side, run)
        for side, runs in sides.items()
        for run in runs
        if run.at > max(known) and run.attempt == ALONE
    ]
    return sorted(after, key=lambda item: item[1].at)


# --- what a bisection knows ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ground:
    """What decides which runs count: environments that are ``outdated``, when the index last ``changed`` the
    record of each build, and what time it is."""

    outdated: Collection[str]
    changed: dict[str, datetime]
    now: datetime


def evidence(runs: Iterable[Run], reading: Reading, ground: Ground) -> dict[str, Evidence]:
    """Return what the runs of a case in one lane, oldest first, say of each build."""
    by_version: dict[str, list[Run]] = {}
    for run in runs:
        if run.environment not in ground.outdated:
            by_version.setdefault(run.version, []).append(run)
    return {version: _evidence(own, reading, ground) for version, own in by_version.items()}


def _evidence(runs: Sequence[Run], reading: Reading, ground: Ground) -> Evidence:
    alone = [good for run in runs if run.attempt == ALONE and (good := reading.of(run)) is not None]
    beside = [good for run in runs if run.attempt != ALONE and (good := reading.of(run)) is not None]
    # A bisection asks what a case does alone: where that is known, company that says otherwise does not count.
    told = alone if len({*alone}) == 1 and {*alone} != {*alone, *beside} else alone + beside
    tries = sum(reading.of(run) is None and ground.now - run.at < RECENT for run in runs)
    return Evidence(told.count(True), told.count(False), max(tries, TRIES if _hole(runs[-1], ground) else 0))


def _hole(last: Run, ground: Ground) -> bool:
    """Whether what is known of a build last is that it can not be installed, and nothing has changed since."""
    if last.state is not State.UNINSTALLABLE:
        return False
    known = Known(last.state, last.reason, last.environment, 1, last.at)
    left = what_is_left(known, ground.outdated, ground.changed.get(last.version), Demand())
    return left is Next.NOTHING or ground.now - last.at < RECENT
