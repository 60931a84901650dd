"""Judge how a case went, not what it gave: float16 that gains nothing, steps that stall, memory that grows.

Pure, and total over any JSON. A finding here is ``slow``: the result is right. What depends on a machine's load is
judged on devices only, never on the CPU that does everything else as well; memory is judged everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

from tracker.model import Finding, State
from tracker.numbers import Unreadable, power, size

LEAST_ROUNDS = 5
"""Interleaved rounds of either kind below which a speed-up is not judged."""
LEAST_SPEEDUP = 1.05
"""Times as fast as float32 that float16 must be: the least effect that counts anywhere here."""

LEAST_STEPS = 20
STALL_RATIO = 3.0
"""The 95th percentile of step times over their median that is no smooth run any more."""
STALL_SECONDS = 0.005
"""What a stall must last beyond the median step; less is nothing that anybody sees, and any host does it."""

LEAST_GROWTH = 1 << 20
"""Bytes that the memory must grow from one quarter of the steps to the next."""

RULES = (LEAST_ROUNDS, LEAST_SPEEDUP, LEAST_STEPS, STALL_RATIO, STALL_SECONDS, LEAST_GROWTH)
"""All that a judge's digest must cover."""


def diagnose(measures: Mapping[str, Any]) -> Finding | None:
    """Return what is slow, or None. Raises Unreadable where a series is not a list of numbers from 0 up."""
    speedup, steps, memory = _speedup(measures), _series(measures, "steps"), _series(measures, "memory")
    # The worst first: a leak ends a training, stalls end the patience, and float16 can be left alone.
    said = _growth(memory)
    if device_kind(measures) not in ("cpu", ""):
        said = said or _stutter(steps) or _no_gain(*speedup)
    return Finding(State.SLOW, *said) if said else None


def device_kind(measures: Mapping[str, Any]) -> str:
    """Return what the case was computed on: directml, dml, cuda or cpu; empty where nothing says it.

    The worker's own word goes first (``measures["device"]``), then the case's facts, then its first check.
    """
    checks = measures.get("checks")
    first = checks[0] if isinstance(checks, list) and checks else None
    places = ((measures.get("device"), "kind"), (measures.get("facts"), "device_kind"), (first, "device"))
    found = (place.get(key) for place, key in places if isinstance(place, dict))
    return next((kind for kind in found if isinstance(kind, str) and kind), "")


def _stutter(steps: Sequence[float]) -> tuple[str, str] | None:
    if len(steps) < LEAST_STEPS:
        return None
    middle, high = median(steps), percentile_95(steps)
    if high <= STALL_RATIO * middle or high - middle < STALL_SECONDS:
        return None
    times = power(high / middle) if middle else "any number of"
    return "stutter", f"one step in twenty takes {times} times the median or more"


def percentile_95(values: Sequence[float]) -> float:
    """Return the smallest value that at least 95 % of them do not exceed."""
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def _no_gain(full: Sequence[float], half: Sequence[float]) -> tuple[str, str] | None:
    if min(len(full), len(half)) < LEAST_ROUNDS or median(full) >= LEAST_SPEEDUP * median(half):
        return None
    # In three steps, because a ratio near one of them would be another text in each run.
    times = median(full) / median(half) if median(half) else 0.0
    much = (
        "about as fast as" if times > 0.9 else "slower than" if times > 0.5 else "less than half as fast as"
    )
    return "float16-not-faster", f"float16 is {much} float32"


def _growth(memory: Sequence[float]) -> tuple[str, str] | None:
    """Return that memory grows and goes on growing; the first quarter is warming up and not looked at.

    Caches fill in steps that become smaller, a leak does not: the last quarter must have grown at least half as much
    as the one before it. By the medians of the quarters, their largest and their least values, because one jump in
    the middle of a quarter moves two medians, and one spike moves a largest value.
    """
    if len(memory) < LEAST_STEPS:
        return None
    quarter = len(memory) // 4
    parts = [memory[-at * quarter :][:quarter] for at in (3, 2, 1)]
    levels: tuple[Callable[[Sequence[float]], float], ...] = (max, min, median)
    for level in levels:
        second, third, last = map(level, parts)
        before, now = third - second, last - third
        if before < LEAST_GROWTH or now < max(LEAST_GROWTH, before / 2):
            return None
    return "memory-grows", f"about {power(now / quarter)} bytes more with each step"


def _speedup(measures: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    found = measures.get("speedup")
    if found is None:
        return [], []
    if not isinstance(found, dict):
        raise Unreadable("speedup is not an object")
    return _series(found, "float32"), _series(found, "float16")


def _series(measures: Mapping[str, Any], key: str) -> list[float]:
    values = measures.get(key)
    if values is None:
        return []
    if not isinstance(values, list):
        raise Unreadable(f"{key} is not a list")
    numbers = [size(value, key) for value in values]
    if not all(map(math.isfinite, numbers)):
        raise Unreadable(f"{key} has an infinite value")
    return numbers
