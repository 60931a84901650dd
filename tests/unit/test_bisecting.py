"""A bisection ends, asks little, and the pair it finds is a true change of the history."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.bisecting import TRIES, Ask, Evidence, Found, Impossible, next_step
from tracker.flakes import MOST_REPEATS

GOOD, BAD, HOLE = "g", "b", "?"
NOTHING: Mapping[str, Evidence] = {}
BOTH = Evidence(good=1, bad=1)


class Bisection(NamedTuple):
    """How a bisection ended, which builds it asked for, and what is known then."""

    end: Found | Impossible
    asked: list[str]
    known: dict[str, Evidence]


def names(count: int) -> list[str]:
    return [f"v{number}" for number in range(count)]


def added(evidence: Evidence, outcome: str) -> Evidence:
    field = {GOOD: "good", BAD: "bad", HOLE: "inconclusive"}[outcome]
    return replace(evidence, **{field: getattr(evidence, field) + 1})


def bisected(
    history: Sequence[str],
    repeats: int = 1,
    known: Mapping[str, Evidence] = NOTHING,
    dice: random.Random | None = None,
    rate: float = 0.5,
) -> Bisection:
    """Bisect a history from its first build to its last; ``f`` is a build that fails at ``rate``."""
    versions, asked, found = names(len(history)), list[str](), dict(known)
    truth = dict(zip(versions, history, strict=True))
    dice = dice or random.Random(0)
    while isinstance(step := next_step(versions, found, versions[0], versions[-1], repeats), Ask):
        asked.append(step.version)
        outcome = truth[step.version]
        if outcome == "f":
            outcome = BAD if dice.random() < rate else GOOD
        found[step.version] = added(found.get(step.version, Evidence()), outcome)
        assert len(asked) < 10_000
    return Bisection(step, asked, found)


def pair(found: Found | Impossible) -> tuple[str, str]:
    assert isinstance(found, Found), found
    return found.before, found.after


histories = st.lists(st.sampled_from([GOOD, BAD, HOLE]), min_size=2, max_size=40)
flaky_histories = st.lists(st.sampled_from([GOOD, BAD, HOLE, "f"]), min_size=2, max_size=25)
repeated = st.integers(1, 4)
seeded = st.randoms(use_true_random=False)
evidence = st.builds(Evidence, *[st.integers(0, 4)] * 3)


@st.composite
def monotone(draw: st.DrawFn, holes: bool = False) -> str:
    """Return a history with one change, with proper ends, and with holes between them if they are wanted."""
    ends = draw(st.permutations([GOOD, BAD]))
    row = [ends[0]] * draw(st.integers(1, 60)) + [ends[1]] * draw(st.integers(1, 60))
    if holes and len(row) > 2:
        for at in draw(st.lists(st.integers(1, len(row) - 2), max_size=30)):
            row[at] = HOLE
    return "".join(row)


# --- what is found ---------------------------------------------------------------------------------------


@given(monotone(), repeated)
def test_a_monotone_history_gives_its_only_boundary(history: str, repeats: int) -> None:
    found = bisected(history, repeats).end
    place = history.index(history[-1])
    assert found == Found(f"v{place - 1}", f"v{place}", (), (), fixed=history[-1] == GOOD)


@given(monotone(holes=True), repeated)
def test_holes_at_the_boundary_are_told(history: str, repeats: int) -> None:
    found = bisected(history, repeats).end
    before = history.rindex(history[0])
    after = history.index(history[-1])
    assert isinstance(found, Found)
    assert (found.before, found.after) == (f"v{before}", f"v{after}")
    assert found.holes == tuple(names(len(history))[before + 1 : after])


@given(histories, repeated)
def test_the_pair_is_a_true_change_with_nothing_testable_between(history: list[str], repeats: int) -> None:
    found = bisected(history, repeats).end
    if HOLE in (history[0], history[-1]) or history[0] == history[-1]:
        assert isinstance(found, Impossible)
        return
    before, after = (int(name[1:]) for name in pair(found))
    assert before < after
    assert (history[before], history[after]) == (history[0], history[-1])
    assert set(history[before + 1 : after]) <= {HOLE}


@given(flaky_histories, repeated, st.dictionaries(st.sampled_from(names(25)), evidence), seeded)
def test_it_ends_whatever_the_builds_do_and_did(
    history: list[str], repeats: int, known: dict[str, Evidence], dice: random.Random
) -> None:
    bisection = bisected(history, repeats, known, dice)
    if isinstance(bisection.end, Found):
        before, after = (bisection.known[name] for name in pair(bisection.end))
        assert before.seen is not after.seen
        assert bisection.end.fixed is (after.bad == 0)


@given(st.text("gb", min_size=1, max_size=20))
def test_the_last_change_of_a_known_history_is_found_without_a_question(middle: str) -> None:
    history = GOOD + middle + BAD
    known = {name: added(Evidence(), outcome) for name, outcome in zip(names(99), history, strict=False)}
    bisection = bisected(history, known=known)
    assert bisection.asked == []
    assert pair(bisection.end) == (f"v{history.rindex(GOOD)}", f"v{history.rindex(GOOD) + 1}")


# --- what it costs ---------------------------------------------------------------------------------------


@given(monotone(), repeated)
def test_as_few_builds_are_asked_as_halving_needs(history: str, repeats: int) -> None:
    asked = bisected(history, repeats).asked
    assert len(asked) <= (2 + math.ceil(math.log2(len(history)))) * repeats


@given(histories, repeated)
def test_flips_cost_no_more_and_holes_three_runs_each(history: list[str], repeats: int) -> None:
    asked = bisected(history, repeats).asked
    bound = (2 + math.ceil(math.log2(len(history)))) * repeats + TRIES * history.count(HOLE)
    assert len(asked) <= bound


@given(flaky_histories, repeated, seeded)
def test_no_build_is_asked_more_often_than_allowed(
    history: list[str], repeats: int, dice: random.Random
) -> None:
    bisection = bisected(history, repeats, dice=dice)
    for version, times in Counter(bisection.asked).items():
        evidence = bisection.known[version]
        assert evidence.inconclusive <= TRIES
        assert times <= (repeats if "f" not in history else max(repeats, MOST_REPEATS)) + TRIES


@given(monotone(), repeated, st.data())
def test_what_is_known_is_not_asked_again(history: str, repeats: int, data: st.DataObject) -> None:
    fresh = bisected(history, repeats)
    cut = data.draw(st.integers(0, len(fresh.asked)))
    known: dict[str, Evidence] = {}
    for version in fresh.asked[:cut]:
        known[version] = added(known.get(version, Evidence()), history[int(version[1:])])
    assert bisected(history, repeats, known).asked == fresh.asked[cut:]


@given(histories, repeated, st.dictionaries(st.sampled_from(names(40)), st.integers(1, 4)))
def test_what_was_known_before_never_makes_the_pair_untrue(
    history: list[str], repeats: int, times: dict[str, int]
) -> None:
    known = dict[str, Evidence]()
    for version, count in times.items():
        for _ in range(count):
            at = min(int(version[1:]), len(history) - 1)
            known[f"v{at}"] = added(known.get(f"v{at}", Evidence()), history[at])
    found, fresh = bisected(history, repeats, known).end, bisected(history, repeats).end
    assert type(found) is type(fresh)
    if isinstance(found, Found):
        before, after = (int(name[1:]) for name in pair(found))
        assert (history[before], history[after]) == (history[0], history[-1])
        assert set(history[before + 1 : after]) <= {HOLE}


@given(monotone(), repeated)
def test_what_is_left_never_promises_too_little(history: str, repeats: int) -> None:
    versions, known, left = names(len(history)), dict[str, Evidence](), list[int]()
    while isinstance(step := next_step(versions, known, versions[0], versions[-1], repeats), Ask):
        for _ in range(step.times):
            outcome = history[int(step.version[1:])]
            known[step.version] = added(known.get(step.version, Evidence()), outcome)
        left.append(step.left)
    assert all(promised >= len(left) - at for at, promised in enumerate(left))
    assert left == sorted(left, reverse=True)


# --- single steps ----------------------------------------------------------------------------------------


def asked_next(known: Mapping[str, Evidence], count: int = 9, repeats: int = 1) -> Ask:
    step = next_step(names(count), known, "v0", f"v{count - 1}", repeats)
    assert isinstance(step, Ask), step
    return step


ENDS = {"v0": Evidence(good=3), "v8": Evidence(bad=3)}


def test_both_ends_are_proven_first() -> None:
    first = asked_next({}, repeats=3)
    assert (first.version, first.times, first.why) == ("v0", 3, "to prove the start of the range")
    second = asked_next({"v0": Evidence(good=3), "v8": Evidence(bad=2)}, repeats=3)
    assert (second.version, second.times, second.why) == ("v8", 1, "to prove the end of the range")


def test_the_middle_is_asked_and_why() -> None:
    step = asked_next(ENDS, repeats=3)
    assert (step.version, step.times, step.left) == ("v4", 3, 3)
    assert step.why == "half-way between v0, where it passed, and v8, where it failed"


def test_a_hole_in_the_middle_is_stepped_round_to_its_neighbour() -> None:
    assert asked_next(ENDS | {"v4": Evidence(inconclusive=TRIES - 1)}).version == "v4"
    assert asked_next(ENDS | {"v4": Evidence(inconclusive=TRIES)}).version in ("v3", "v5")


def test_a_proven_build_is_no_hole_however_often_it_said_nothing() -> None:
    step = asked_next(ENDS | {"v4": Evidence(good=1, inconclusive=50)})
    assert step.why.startswith("half-way between v4")


def test_a_build_with_both_outcomes_has_the_fault_and_is_warned_of() -> None:
    found = next_step(names(3), {"v0": Evidence(good=50), "v1": BOTH, "v2": Evidence(bad=1)}, "v0", "v2", 1)
    assert isinstance(found, Found)
    assert (found.before, found.after) == ("v0", "v1")
    assert found.warnings == ("v1 failed in 1 of 2 runs: it counts as failing",)


def test_a_flaky_build_raises_what_proves_a_good_one() -> None:
    known = ENDS | {"v6": BOTH}
    step = asked_next(known, repeats=3)
    assert (step.version, step.times) == ("v0", 31 - 3)
    assert asked_next(known | {"v0": Evidence(good=31)}, repeats=3).version == "v3"
    assert asked_next(known | {"v0": Evidence(good=31), "v3": Evidence(good=3)}, repeats=3).times == 28


def test_a_fault_too_rare_to_tell_asks_for_the_most_and_says_so() -> None:
    known = {"v0": Evidence(good=MOST_REPEATS), "v1": Evidence(good=99, bad=1)}
    found = next_step(names(2), known, "v0", "v1", 1)
    assert isinstance(found, Found)
    assert "passed 100 times may have it too" in found.warnings[1]


def test_flips_are_told_with_their_builds() -> None:
    outcomes = "ggbbgbgbb"
    known = {name: added(Evidence(), outcome) for name, outcome in zip(names(9), outcomes, strict=True)}
    found = next_step(names(9), known, "v0", "v8", 1)
    assert isinstance(found, Found)
    assert found.warnings == (
        "it changes more than once: passed from v0 to v1, failed from v2 to v3, passed at v4, failed at v5, "
        "passed at v6, failed from v7 to v8",
    )


def test_a_flip_that_was_seen_but_not_proven_is_told_too() -> None:
    proven = {"v0": Evidence(good=3), "v2": Evidence(good=3), "v3": Evidence(bad=3)}
    found = next_step(names(4), proven | {"v1": Evidence(bad=1)}, "v0", "v3", 3)
    assert isinstance(found, Found)
    assert "failed at v1" in found.warnings[0]


@pytest.mark.parametrize(
    ("history", "why"),
    [
        ("ggg", "passed at both ends, v0 and v2, and no other outcome is known between them"),
        ("bb", "failed at both ends, v0 and v1, and no other outcome is known between them"),
        ("?gb", "the start, v0, can not be tested: 3 runs were inconclusive"),
        ("gb?", "the end, v2, can not be tested: 3 runs were inconclusive"),
    ],
)
def test_ends_that_will_not_do_are_told(history: str, why: str) -> None:
    assert bisected(history).end == Impossible(why)


def test_equal_ends_name_a_build_between_that_differs() -> None:
    found = bisected("gggg", known={"v2": Evidence(bad=1)}).end
    assert isinstance(found, Impossible)
    assert found.why == "passed at both ends, v0 and v3; it failed at v2 between them, which may be an end"
    assert bisected("gbg", known={"v1": Evidence(bad=1)}).end == Impossible(
        "passed at both ends, v0 and v2; it failed at v1 between them, which may be an end",
        ("it changes more than once: passed at v0, failed at v1, passed at v2",),
    )


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        ("v9", "v1", "v9 is not among the 3 builds"),
        ("v0", "x", "x is not among the 3 builds"),
        ("v2", "v0", "v2 does not come before v0"),
        ("v1", "v1", "v1 does not come before v1"),
    ],
)
def test_a_range_that_is_none_is_refused(start: str, end: str, why: str) -> None:
    assert next_step(names(3), {}, start, end, 1) == Impossible(why)


def test_builds_outside_of_the_range_do_not_matter() -> None:
    known = {"v0": BOTH, "v1": Evidence(good=1), "v2": Evidence(bad=1), "v3": Evidence(good=1)}
    assert next_step(names(4), known, "v1", "v2", 1) == Found("v1", "v2", (), (), fixed=False)


def test_a_build_that_is_listed_twice_counts_once() -> None:
    known = {"v0": Evidence(good=1), "v1": Evidence(bad=1)}
    assert pair(_as_end(next_step(["v0", "v0", "v1", "v1"], known, "v0", "v1", 1))) == ("v0", "v1")


def _as_end(step: Ask | Found | Impossible) -> Found | Impossible:
    assert not isinstance(step, Ask)
    return step


@pytest.mark.parametrize("repeats", [0, -3])
def test_every_build_is_run_at_least_once(repeats: int) -> None:
    assert bisected("ggbb", repeats) == bisected("ggbb", 1)
    assert asked_next({}, repeats=repeats).times == 1


def test_a_fault_known_to_come_at_twenty_percent_is_found_where_it_begins() -> None:
    history = GOOD * 11 + "f" * 13
    known = {"v23": Evidence(good=40, bad=10)}
    ends = [bisected(history, 3, known, random.Random(seed), rate=0.2).end for seed in range(60)]
    assert sum(isinstance(end, Found) and end.after == "v11" for end in ends) >= 57
