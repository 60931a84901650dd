"""The A-B-A rule: what to run next to confirm that a case changed from one build to the next, and what it gave.

Pure. It knows one change of one case and the runs since it was seen, each alone in a fresh process, on both builds
in the same lane (machine, adapter, driver, suite files). It must not know how runs are made, nor who asks.

**What is guaranteed.** Every run on one build has to come out alike, so a case that fails at rate g on the build
said to be good and at rate b on the one said to be bad is confirmed with the chance ``(1 - g)**clean * b**failing``,
given that it looked like a change at all. By ``THOROUGH``, 42 clean and 14 failing runs:

- what fails at 20 % or more on the build said to be good: 0.85 in 10,000 at most, whatever the other build does;
- what fails at 50 % or less on the build said to be bad: 0.61 in 10,000 at most (at 20 %: none in a billion);
- what fails at any one rate on both builds, so that nothing changed: below one in a trillion.

And what is not: a case that always fails on one build and at 5 % on the other is confirmed as changed with 12 %,
at 1 % with 66 %; one that is always clean on one and fails at 80 % on the other with 4 %. The change is then real
and only its end is not as clean as it is told. No small number does better: with two or three repeats a build that
still fails at 20 % is called fixed more often than not, and that it failed once and only once before can not be
seen in it. ``QUICK`` is for cases that take many minutes, and keeps only the promise about what did not change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tracker.flakes import Tally, phrase, runs_to_see

ERROR = 1e-4
"""Greatest chance to confirm what fails at ``SEEN_RATE`` on the good build or at ``MASKED_RATE`` on the bad one."""
SEEN_RATE = 0.2
MASKED_RATE = 0.5
UNCLEAR_LIMIT = 3
"""Inconclusive runs of one build at which it is given up.

In all and not in a row: a failure may now and then take the host or the device with it, and so hide among them.
"""


@dataclass(frozen=True, slots=True)
class Rule:
    """How many runs must come out ``clean`` on the good build and ``failing`` on the bad one, each at least 1."""

    clean: int
    failing: int

    def __post_init__(self) -> None:
        """Refuse a rule that repeats nothing."""
        if min(self.clean, self.failing) < 1:
            raise ValueError(f"a rule needs a run of each build, not {self.clean} and {self.failing}")

    def error(self, good_rate: float, bad_rate: float) -> float:
        """Return the chance to confirm, given the failing rates on the build said to be good and on the bad one."""
        return float((1 - good_rate) ** self.clean * bad_rate**self.failing)


THOROUGH = Rule(runs_to_see(SEEN_RATE, ERROR), runs_to_see(1 - MASKED_RATE, ERROR))
QUICK = Rule(7, 7)
"""What did not change is confirmed as changed with 0.61 in 10,000 at most, whatever its rate (4**-7).

But one that always failed and now fails at 20 % is called fixed with a chance of 21 %.
"""


class Side(StrEnum):
    """Which of the two builds."""

    OLD = "old"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class Seen:
    """One run since the change was seen; ``good`` is None where it was inconclusive."""

    side: Side
    good: bool | None
    at: datetime


class Action(StrEnum):
    """What is to be done, or what came of it."""

    RUN_OLD = "run-old"
    RUN_NEW = "run-new"
    CONFIRMED = "confirmed"
    FLAKY = "flaky"
    CANNOT_TELL = "cannot-tell"

    @property
    def ends(self) -> bool:
        """Whether nothing more is to be run."""
        return self not in (Action.RUN_OLD, Action.RUN_NEW)


@dataclass(frozen=True, slots=True)
class Step:
    """What to do next, and why, for a person to read. ``left``: runs until the end if nothing contradicts."""

    action: Action
    why: str
    left: int = 0


def next_step(
    fixed: bool,
    seen: Sequence[Seen],
    old: Tally | None = None,
    new: Tally | None = None,
    rule: Rule = THOROUGH,
) -> Step:
    """Return what a change (a fix, or else a regression) needs next to be confirmed.

    ``seen`` holds the runs since the change was seen, in the order in which they were made, without the two that
    showed it: those were picked for being different. ``old`` and ``new`` are all that is known of each build in
    this lane and has not expired; they may hold the same runs once more, as they are asked only for contradiction.
    Confirmed are the outcomes that came as often as the rule wants, the last one on the old build after the new
    build had shown all of its own.
    """
    should_pass = {Side.OLD: not fixed, Side.NEW: fixed}
    if contradiction := _contradiction(should_pass, seen, {Side.OLD: old, Side.NEW: new}):
        return Step(Action.FLAKY, contradiction)
    for side in Side:
        unclear = sum(run.side is side and run.good is None for run in seen)
        if unclear >= UNCLEAR_LIMIT:
            return Step(Action.CANNOT_TELL, f"{unclear} runs on the {side} build were inconclusive")
    return _turn(fixed, [run.side for run in seen if run.good is not None], rule)


def _contradiction(
    should_pass: Mapping[Side, bool], seen: Sequence[Seen], tallies: Mapping[Side, Tally | None]
) -> str:
    """Say which run or record of a build contradicts the outcome that it is said to have; empty if none does."""
    for run in seen:
        if run.good is not None and run.good is not should_pass[run.side]:
            words = ("passed", "failed") if run.good else ("failed", "passed")
            return f"the {run.side} build {words[0]} at {run.at:%Y-%m-%d %H:%M}, though it {words[1]} before"
    for side, tally in tallies.items():
        if tally and (tally.failed if should_pass[side] else tally.clean):
            word = "pass" if should_pass[side] else "fail"
            return f"the {side} build does not always {word}: it {phrase(tally)}"
    return ""


def _turn(fixed: bool, done: Sequence[Side], rule: Rule) -> Step:
    """Return whose turn it is, given the sides of the runs that came out as they should.

    The builds take turns, so that what fails now and then shows early on whichever side shows it sooner, and what
    drifts meets both. The old build's last run is kept for the end.
    """
    needed = {
        Side.OLD: rule.failing if fixed else rule.clean,
        Side.NEW: rule.clean if fixed else rule.failing,
    }
    had = {side: done.count(side) for side in Side}
    new_left = max(0, needed[Side.NEW] - had[Side.NEW])
    closing = 0 if not new_left and _stands_after(done, needed[Side.NEW]) else 1
    old_left = max(closing, needed[Side.OLD] - had[Side.OLD])
    left = new_left + old_left
    if not left:
        return Step(Action.CONFIRMED, _proof(fixed, had, rule))
    if new_left and (old_left <= 1 or had[Side.NEW] <= had[Side.OLD]):
        return Step(Action.RUN_NEW, _so_far(Side.NEW, fixed, had, needed), left)
    if new_left or had[Side.OLD] < needed[Side.OLD]:
        return Step(Action.RUN_OLD, _so_far(Side.OLD, not fixed, had, needed), left)
    return Step(Action.RUN_OLD, "the old build has not yet been run again after the new one", left)


def _stands_after(done: Sequence[Side], needed: int) -> bool:
    """Whether the old build was run after the new one's last needed run."""
    places = [at for at, side in enumerate(done) if side is Side.NEW]
    return Side.OLD in done[places[needed - 1] :]


def _so_far(side: Side, good: bool, had: Mapping[Side, int], needed: Mapping[Side, int]) -> str:
    word = "passed" if good else "failed"
    return f"the {side} build {word} again {had[side]} of {needed[side]} times so far"


def _proof(fixed: bool, had: Mapping[Side, int], rule: Rule) -> str:
    good, bad = (Side.NEW, Side.OLD) if fixed else (Side.OLD, Side.NEW)
    tries = float(f"{1 / rule.error(SEEN_RATE, 1):.2g}")
    return (
        f"the {good} build passed {had[good]} more times and the {bad} build failed {had[bad]} more times, the old "
        f"one also after the new one; what fails one time in five passes for good here once in {tries:,.0f} tries"
    )
