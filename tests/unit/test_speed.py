"""Two builds are told apart by exact chance and a least effect, whatever the order, unit and side of the rounds."""

from __future__ import annotations

import math
import random
import subprocess
import sys
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracker.speed import (
    ALPHA,
    LEAST_EFFECT,
    Pace,
    chance,
    compare,
    own_noise,
    seconds_of,
    smallest_p,
    times_as_fast,
    turns,
)

SWAPPED = {
    Pace.SLOWER: Pace.FASTER,
    Pace.FASTER: Pace.SLOWER,
    Pace.SAME: Pace.SAME,
    Pace.INSUFFICIENT: Pace.INSUFFICIENT,
}
rounds = st.lists(st.floats(1e-3, 1e3), max_size=9)
ticks = st.lists(st.integers(1, 4), min_size=1, max_size=6)


def noisy(dice: random.Random, count: int, middle: float = 1.0, spread: float = 0.02) -> list[float]:
    return [middle * math.exp(dice.gauss(0, spread)) for _ in range(count)]


@pytest.mark.parametrize(
    ("factor", "pace"), [(1.5, Pace.SLOWER), (1 / 1.5, Pace.FASTER), (1.0, Pace.SAME), (1.03, Pace.SAME)]
)
def test_a_difference_counts_when_it_is_large_enough(factor: float, pace: Pace) -> None:
    dice = random.Random(1)
    assert compare(noisy(dice, 8), noisy(dice, 8, factor)).pace is pace


def test_a_small_but_certain_difference_is_the_same() -> None:
    found = compare([1.0, 1.001, 1.002, 1.003] * 2, [1.04, 1.041, 1.042, 1.043] * 2)
    assert (found.pace, found.effect) == (Pace.SAME, LEAST_EFFECT)
    assert found.p is not None and found.p < ALPHA


def test_a_build_that_differs_from_itself_is_allowed_three_times_that() -> None:
    wild = [1.0, 1.0, 1.6, 1.6]
    found = compare(wild, [2.0, 2.0, 2.0, 2.0])
    assert found.noise is not None and found.noise > 0.2
    assert found.effect == pytest.approx(3 * found.noise)
    assert found.pace is Pace.SAME


@pytest.mark.parametrize(("old", "new"), [(0, 9), (9, 0), (1, 9), (3, 3), (2, 4)])
def test_too_few_rounds_say_nothing(old: int, new: int) -> None:
    assert compare([1.0] * old, [9.0] * new).pace is Pace.INSUFFICIENT


@pytest.mark.parametrize(("old", "new"), [(4, 4), (3, 5), (2, 8)])
def test_the_fewest_rounds_that_can_say_something(old: int, new: int) -> None:
    assert smallest_p(old, new) < ALPHA
    assert compare([1.0] * old, [9.0] * new).pace is Pace.SLOWER


def test_what_is_no_time_is_no_round() -> None:
    found = compare([1.0] * 4 + [0.0, math.nan], [1.0] * 3 + [math.inf])
    assert (found.rounds, found.pace) == ((4, 3), compare([1.0] * 4, [1.0] * 3).pace)


@given(rounds, rounds)
def test_two_builds_that_trade_places_trade_words(old: list[float], new: list[float]) -> None:
    there, back = compare(old, new), compare(new, old)
    assert back.pace is SWAPPED[there.pace]
    assert (back.p, back.effect) == (there.p, there.effect)


@given(rounds, rounds, st.randoms())
def test_the_order_of_rounds_does_not_matter(old: list[float], new: list[float], dice: random.Random) -> None:
    mixed_old, mixed_new = dice.sample(old, len(old)), dice.sample(new, len(new))
    assert compare(mixed_old, mixed_new) == compare(old, new)


@given(rounds, rounds, st.integers(-8, 8))
def test_the_unit_does_not_matter(old: list[float], new: list[float], power: int) -> None:
    factor = 2.0**power
    scaled = compare([time * factor for time in old], [time * factor for time in new])
    assert scaled.pace is compare(old, new).pace


@given(st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=8))
def test_a_build_is_the_same_as_itself(times: list[float]) -> None:
    assert compare(times, times).pace is Pace.SAME


def by_counting(old: list[int], new: list[int]) -> float:
    """Return p by every way to deal the ranks out; for times without ties."""
    order = sorted([*old, *new])
    total = [sum(order.index(x) for x in side) for side in combinations(order, len(old))]
    middle, got = sum(total) / len(total), sum(order.index(x) for x in old)
    return sum(abs(value - middle) >= abs(got - middle) for value in total) / len(total)


@given(st.lists(st.integers(1, 99), min_size=2, max_size=9, unique=True), st.data())
@settings(max_examples=30)
def test_the_chance_is_exact(values: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(values) - 1))
    assert chance(values[:cut], values[cut:]) == pytest.approx(by_counting(values[:cut], values[cut:]))


@given(ticks, ticks, st.randoms())
@settings(max_examples=50)
def test_ties_never_make_a_difference_more_certain(
    old: list[int], new: list[int], dice: random.Random
) -> None:
    by_lot = [[time + dice.random() / 2 for time in side] for side in (old, new)]
    assert chance(old, new) >= chance(*by_lot)


def test_equal_builds_are_called_different_at_most_at_the_nominal_rate() -> None:
    dice = random.Random(20261201)
    trials = [compare(noisy(dice, 6, spread=0.3), noisy(dice, 6, spread=0.3)) for _ in range(300)]
    tested = sum(trial.p is not None and trial.p < ALPHA for trial in trials)
    assert tested / 300 <= ALPHA + 0.03
    assert sum(trial.pace is not Pace.SAME for trial in trials) / 300 <= 0.01


def test_a_build_without_variance_has_no_noise() -> None:
    assert own_noise([2.0] * 7) == own_noise([2.0]) == own_noise([]) == 0.0


def test_noise_is_about_what_the_rounds_scatter() -> None:
    dice = random.Random(3)
    few, many = own_noise(noisy(dice, 12, spread=0.05)), own_noise(noisy(dice, 40, spread=0.05))
    assert 0.01 < many < few < 0.1


@pytest.mark.parametrize(
    ("measures", "seconds"),
    [
        ({"timing": {"each": [3.0, 1.0, 2.0]}}, 2.0),
        ({"timing": {"each": [1, 0, "inf", "nan", -2, True, None, 10**400]}}, 1.0),
        ({"timing": {"each": []}}, None),
        ({"timing": {"each": 1.0}}, None),
        ({"timing": []}, None),
        ({}, None),
    ],
)
def test_a_round_is_the_median_of_its_repeats(measures: dict[str, Any], seconds: float | None) -> None:
    assert seconds_of(measures) == seconds


def test_the_cpus_times_are_read_by_the_same_rule() -> None:
    measures = {"timing": {"each": [1.0], "cpu_each": [4.0, 6.0]}}
    assert times_as_fast([seconds_of(measures, "cpu_each") or 0], [seconds_of(measures) or 0]) == 5.0
    assert times_as_fast([], [1.0]) is None


def test_turns_meet_an_even_drift_alike() -> None:
    order = list(turns(4))
    assert "".join("AB"[side] for side, _ in order) == "ABBAABBA"
    places = [[at for at, (side, _) in enumerate(order) if side == wanted] for wanted in (0, 1)]
    assert sum(places[0]) == sum(places[1])
    assert sorted(order) == [(side, number) for side in (0, 1) for number in (1, 2, 3, 4)]


def test_a_command_that_compares_nothing_does_not_pay_for_it() -> None:
    code = "import sys; import tracker.speed, tracker.cli; print('scipy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"
