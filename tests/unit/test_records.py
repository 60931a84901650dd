"""Which runs on record count for a confirmation and for a bisection, and what they say."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from tracker.bisecting import TRIES, Evidence
from tracker.confirming import QUICK, THOROUGH, Action, Rule, Step
from tracker.judge import ALONE, REORDERED, SHARED
from tracker.model import State
from tracker.records import USUAL, Ground, Reading, Run, confirmation, counted, evidence

START = datetime(2026, 12, 1, tzinfo=UTC)
SIGNS = {
    "P": (State.PASS, "pass"),
    "W": (State.WRONG, "values"),
    "C": (State.CRASH, "segmentation-fault"),
    "?": (State.INFRA, "disk-full"),
}


def run(sign: str, at: int = 0, version: str = "2", attempt: int = ALONE, **changes: str) -> Run:
    """Return a run of a sign, in the minute ``at``."""
    state, reason = SIGNS[sign]
    told = {"suite_digest": "d1", "environment": "e1"} | changes
    moment = START + timedelta(minutes=at)
    return Run(version, told["suite_digest"], told["environment"], attempt, state, reason, moment)


class Record:
    """Runs of two builds, each a minute after the one before."""

    def __init__(self) -> None:
        self.old: list[Run] = []
        self.new: list[Run] = []

    def add(self, side: str, sign: str, attempt: int = ALONE) -> None:
        own, version = (self.old, "1") if side == "old" else (self.new, "2")
        own.append(run(sign, len(self.old) + len(self.new), version, attempt))

    def step(self, fixed: bool, rule: Rule = QUICK) -> Step:
        return confirmation(fixed, self.old, self.new, rule)


def regression() -> Record:
    """Return what an ordinary run of two builds leaves: what failed was run once more alone."""
    record = Record()
    record.add("old", "P", SHARED)
    record.add("new", "W", SHARED)
    record.add("new", "W", ALONE)
    return record


def carried_out(
    record: Record, fixed: bool, rule: Rule, dice: random.Random, rates: dict[str, float]
) -> Step:
    while not (step := record.step(fixed, rule)).action.ends:
        side = "old" if step.action is Action.RUN_OLD else "new"
        record.add(side, "W" if dice.random() < rates[side] else "P")
    return step


def test_the_run_alone_after_the_change_was_seen_is_the_first_that_counts() -> None:
    assert regression().step(fixed=False).left == QUICK.clean + QUICK.failing - 1


def test_what_was_run_before_the_change_could_be_seen_does_not_count() -> None:
    record = Record()
    for _ in range(20):
        record.add("old", "W")
    record.add("new", "P", SHARED)
    assert record.step(fixed=True).left == QUICK.clean + QUICK.failing


def test_runs_beside_other_cases_do_not_count() -> None:
    record = regression()
    for _ in range(20):
        record.add("old", "P", SHARED)
        record.add("new", "W", REORDERED)
    assert record.step(fixed=False).left == QUICK.clean + QUICK.failing - 1


@pytest.mark.parametrize("rule", [QUICK, THOROUGH])
def test_what_repeats_is_confirmed_after_as_many_runs_as_the_rule_says(rule: Rule) -> None:
    record = regression()
    step = carried_out(record, False, rule, random.Random(0), {"old": 0, "new": 1})
    assert step.action is Action.CONFIRMED
    assert (len(record.old) - 1, len(record.new) - 1) == (rule.clean, rule.failing)


def test_another_environment_or_other_suite_files_begin_anew() -> None:
    runs = [run("W", 0), run("P", 1, environment="e2"), run("?", 2, environment="")]
    assert [item.environment for item in counted(runs)] == ["e2", ""]
    assert counted([*runs, last := run("P", 3, suite_digest="d2")]) == [last]


def test_a_build_that_fails_in_two_ways_is_flaky() -> None:
    record = regression()
    record.add("new", "C")
    step = record.step(fixed=False)
    assert step.action is Action.FLAKY
    assert step.why.startswith("the new build does not always give the same: wrong (values) 1 times")


def test_what_fails_only_beside_others_is_run_alone_until_chance_is_ruled_out() -> None:
    record = Record()
    for side, sign, attempt in (("old", "P", SHARED), ("new", "W", SHARED), ("new", "P", ALONE)):
        record.add(side, sign, attempt)
    assert record.step(fixed=False).action is Action.RUN_NEW
    step = carried_out(record, False, QUICK, random.Random(0), {"old": 0, "new": 0})
    assert step.action is Action.CANNOT_TELL and len(record.new) == 1 + QUICK.clean
    assert "runs alone can not show what only comes with others" in step.why


def test_what_fails_by_chance_beside_others_is_flaky_once_it_fails_alone_too() -> None:
    record = Record()
    for side, sign, attempt in (
        ("old", "P", SHARED),
        ("new", "W", SHARED),
        ("new", "P", ALONE),
        ("new", "W", ALONE),
    ):
        record.add(side, sign, attempt)
    assert record.step(fixed=False).action is Action.FLAKY


def test_nothing_that_wavers_is_ever_confirmed_in_a_thousand_histories() -> None:
    dice, ended = random.Random(2026), set[Action]()
    for _ in range(1000):
        flaky, fixed = dice.choice(("old", "new", "both")), dice.random() < 0.5
        sure = {"old": float(fixed), "new": float(not fixed)}
        rates = {side: 0.2 if flaky in (side, "both") else rate for side, rate in sure.items()}
        record = Record()
        for side in ("old", "new"):
            sign = "W" if sure[side] else "P"
            record.add(side, sign, dice.choice((SHARED, ALONE)))
        ended.add(carried_out(record, fixed, THOROUGH, dice, rates).action)
    assert Action.CONFIRMED not in ended and Action.FLAKY in ended


def test_three_runs_that_say_nothing_end_it() -> None:
    record = regression()
    for _ in range(3):
        record.add("old", "?")
    assert record.step(fixed=False).action is Action.CANNOT_TELL


# --- bisection -------------------------------------------------------------------------------------------


def told(*runs: Run, reading: Reading = USUAL, outdated: tuple[str, ...] = (), minutes: int = 10) -> Evidence:
    ground = Ground(outdated, {}, START + timedelta(minutes=minutes))
    return evidence(runs, reading, ground).get("2", Evidence())


def test_runs_of_every_setting_count_as_long_as_they_agree() -> None:
    assert told(run("P", attempt=SHARED), run("P", 1)) == Evidence(good=2)
    assert told(run("W", attempt=SHARED), run("P", 1)) == Evidence(good=1)
    assert told(run("W", attempt=SHARED), run("P", 1), run("W", 2)) == Evidence(good=1, bad=2)


def test_environments_that_are_out_of_date_do_not_count() -> None:
    assert told(run("W", environment="e0"), run("P", 1), outdated=("e0",)) == Evidence(good=1)


def test_a_full_disk_of_last_month_is_no_try() -> None:
    assert told(run("?")) == Evidence(inconclusive=1)
    assert told(run("?"), minutes=60 * 24 * 30) == Evidence()


def test_a_build_that_can_not_be_installed_is_a_hole_at_once_and_for_long() -> None:
    gone = Run("2", "d1", "", SHARED, State.UNINSTALLABLE, "no-wheel", START)
    assert told(gone, minutes=60 * 24 * 30) == Evidence(inconclusive=TRIES)
    changed = Ground((), {"2": START + timedelta(days=1)}, START + timedelta(days=30))
    assert evidence([gone], USUAL, changed)["2"] == Evidence()


def test_what_a_reading_calls_unclear_says_nothing() -> None:
    reading = Reading(frozenset({State.PASS}), frozenset({State.CRASH}))
    assert told(run("C"), run("W", 1), reading=reading) == Evidence(bad=1, inconclusive=1)
