"""What is slow is told by the shape of a series: stalls, growth, and a float16 that gains nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tracker.model import State
from tracker.numbers import Unreadable
from tracker.pace import device_kind, diagnose, percentile_95

MB = 1 << 20
GPU = {"device": {"kind": "directml"}}


def said(**measures: Any) -> str:
    found = diagnose({**GPU, **measures})
    assert found is None or found.state is State.SLOW
    return found.reason if found else ""


def test_nothing_measured_is_nothing_slow() -> None:
    assert said() == ""


def test_a_stall_every_tenth_step_is_a_stutter() -> None:
    assert said(steps=([0.02] * 9 + [0.2]) * 3) == "stutter"


def test_one_stall_in_twenty_steps_is_not() -> None:
    assert said(steps=[0.02] * 19 + [0.9]) == ""


def test_too_few_steps_say_nothing() -> None:
    assert said(steps=[0.02, 0.9] * 9) == ""


def test_a_stall_that_nobody_can_see_is_none() -> None:
    assert said(steps=([1e-4] * 9 + [2e-3]) * 3) == ""


def test_the_cpu_is_not_blamed_for_its_load() -> None:
    stalls = ([0.02] * 9 + [0.2]) * 3
    rounds = {"float32": [1.0] * 5, "float16": [9.0] * 5}
    assert diagnose({"device": {"kind": "cpu"}, "steps": stalls, "speedup": rounds}) is None
    assert diagnose({"steps": stalls, "speedup": rounds}) is None


def test_memory_is_judged_on_the_cpu_too() -> None:
    found = diagnose({"device": {"kind": "cpu"}, "memory": [step * MB for step in range(40)]})
    assert found is not None
    assert found.reason == "memory-grows"


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ([500 * MB + step * MB for step in range(24)], "memory-grows"),
        ([500 * MB] * 24, ""),
        ([100 * MB] * 6 + [500 * MB] * 18, ""),  # warming up
        ([500 * MB] * 18 + [600 * MB] * 6, ""),  # one jump
        ([int(600 * MB * (1 - 0.7**step)) for step in range(24)], ""),  # a cache that fills
        ([500 * MB + step * 1000 for step in range(24)], ""),
        ([900 * MB - step * MB for step in range(24)], ""),
        ([step * MB for step in range(19)], ""),
    ],
)
def test_memory_grows_when_it_goes_on_growing(memory: list[int], expected: str) -> None:
    assert said(memory=memory) == expected


@given(st.integers(20, 60), st.integers(0, 60), st.integers(1, 1000), st.integers(0, 60))
@settings(max_examples=1000)
@example(steps=32, place=20, size=2, spike=24)
def test_one_jump_or_one_spike_is_no_leak_wherever_it_comes(
    steps: int, place: int, size: int, spike: int
) -> None:
    memory = [500 * MB + (size * MB if step >= place else 0) for step in range(steps)]
    assert said(memory=memory) == ""
    memory[min(spike, steps - 1)] += 700 * MB
    assert said(memory=memory) == ""


@pytest.mark.parametrize(
    ("full", "half", "expected"),
    [
        ([1.0] * 5, [0.5] * 5, ""),
        ([1.0] * 5, [1.0] * 5, "float16-not-faster"),
        ([1.0] * 5, [3.0] * 5, "float16-not-faster"),
        ([1.0] * 5, [0.96] * 5, "float16-not-faster"),
        ([1.0] * 5, [0.95] * 5, ""),
        ([1.0] * 4, [3.0] * 9, ""),
        ([1.0] * 5, [0.5, 0.5, 0.5, 9.0, 9.0], ""),
    ],
)
def test_float16_must_gain_something(full: list[float], half: list[float], expected: str) -> None:
    assert said(speedup={"float32": full, "float16": half}) == expected


def test_a_leak_goes_before_a_stall_before_float16() -> None:
    slow = {"steps": ([0.02] * 9 + [0.2]) * 3, "speedup": {"float32": [1.0] * 5, "float16": [1.0] * 5}}
    assert said(**slow) == "stutter"
    assert said(**slow, memory=[step * MB for step in range(40)]) == "memory-grows"


@pytest.mark.parametrize(
    ("measures", "kind"),
    [
        ({"device": {"kind": "cuda"}, "facts": {"device_kind": "cpu"}}, "cuda"),
        ({"facts": {"device_kind": "dml"}}, "dml"),
        ({"checks": [{"device": "privateuseone"}]}, "privateuseone"),
        ({"device": "cuda", "facts": [], "checks": {}}, ""),
        ({}, ""),
    ],
)
def test_the_workers_word_on_the_device_goes_first(measures: dict[str, Any], kind: str) -> None:
    assert device_kind(measures) == kind


@pytest.mark.parametrize(
    "measures",
    [
        {"steps": 3},
        {"steps": ["x"]},
        {"memory": [-1]},
        {"speedup": []},
        {"steps": ["inf"]},
        {"steps": ["nan"]},
    ],
)
def test_what_is_no_series_is_unreadable(measures: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        diagnose({**GPU, **measures})


series = st.lists(st.floats(0, 1e12) | st.integers(0, 2**40), min_size=20, max_size=60)


@given(series, series, series, series)
def test_any_series_has_a_word(steps: Any, memory: Any, full: Any, half: Any) -> None:
    found = diagnose({**GPU, "steps": steps, "memory": memory, "speedup": {"float32": full, "float16": half}})
    assert found is None or found.state is State.SLOW


@given(st.lists(st.floats(0.01, 10), min_size=20, max_size=60), st.floats(1, 1000))
def test_slower_steps_of_the_same_shape_stutter_alike(steps: list[float], factor: float) -> None:
    slower = [step * factor for step in steps]
    if said(steps=steps):
        assert said(steps=slower)


@given(st.lists(st.floats(0, 10), min_size=20, max_size=60), st.randoms())
def test_the_order_of_steps_does_not_matter_for_a_stutter(steps: list[float], dice: random.Random) -> None:
    mixed = steps[:]
    dice.shuffle(mixed)
    assert said(steps=mixed) == said(steps=steps)


def test_the_percentile_is_one_of_the_values() -> None:
    assert percentile_95(list(range(1, 101))) == 95
    assert percentile_95(list(range(1, 21))) == 19
