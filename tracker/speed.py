"""Say whether one build is slower than another: rounds of seconds go in, a word comes out.

Pure. A round is one fresh process of one build; the builds' rounds were taken in turns. A difference counts when
chance does not explain it (exact two-sided Mann-Whitney test) and when it is large enough to matter: at least 5 %,
and three times what the same build differs from itself.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import median
from typing import Any

ALPHA = 0.05
"""Chance of a word other than ``same`` for equal builds, were there no least effect."""
LEAST_EFFECT = 0.05
NOISE_FACTOR = 3.0

_ALL_HALVES = 12
"""Most rounds of which every split into halves is looked at."""
_SOME_HALVES = 500


class Pace(StrEnum):
    """What the new build is, seen from the old one."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    INSUFFICIENT = "insufficient-data"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One case of two builds. ``old`` and ``new`` are median seconds, None without any round.

    ``ratio`` is new / old: above 1 is slower. ``p`` is the chance of such an order of rounds among equal builds,
    ``effect`` the least ratio above 1 that counts, less 1; ``noise`` is what halves of one build's rounds differ.
    """

    pace: Pace
    old: float | None
    new: float | None
    rounds: tuple[int, int]
    ratio: float | None = None
    p: float | None = None
    effect: float | None = None
    noise: float | None = None


def compare(old: Iterable[float], new: Iterable[float]) -> Comparison:
    """Compare the seconds of two builds' rounds; what is no time (0, NaN, infinite) is no round."""
    before, after = _times(old), _times(new)
    rounds = (len(before), len(after))
    first, second = (median(times) if times else None for times in (before, after))
    if first is None or second is None or smallest_p(*rounds) >= ALPHA:
        return Comparison(Pace.INSUFFICIENT, first, second, rounds)
    noise = max(own_noise(before), own_noise(after))
    effect = max(LEAST_EFFECT, NOISE_FACTOR * noise)
    p = chance(before, after)
    # By logarithms, so that twice as slow and twice as fast are equally far.
    change = math.log(second) - math.log(first)
    pace = Pace.SAME
    if p < ALPHA and abs(change) > math.log1p(effect):
        pace = Pace.SLOWER if change > 0 else Pace.FASTER
    return Comparison(pace, first, second, rounds, second / first, p, effect, noise)


def smallest_p(old: int, new: int) -> float:
    """Return the least p that the exact test can give for so many rounds: all of one before all of the other."""
    return min(1.0, 2.0 / math.comb(old + new, old)) if old and new else 1.0


def chance(old: Sequence[float], new: Sequence[float]) -> float:
    """Return p of the exact two-sided Mann-Whitney test.

    The exact distribution knows no ties. Equal times of both builds are put into the order that speaks least for a
    difference: p is then never below what breaking the ties by lot would give, and that would be exact.
    """
    # Takes a second to import, and only comparisons need it.
    from scipy.stats import mannwhitneyu

    before = sum(a < b for a in old for b in new)
    after = sum(a > b for a in old for b in new)
    if 2 * max(before, after) <= len(old) * len(new):
        return 1.0  # the equal ones can even it out
    ranks = _ranked(old, new, old_first=after > before)
    return float(mannwhitneyu(*ranks, alternative="two-sided", method="exact").pvalue)


def _ranked(old: Sequence[float], new: Sequence[float], *, old_first: bool) -> tuple[list[int], list[int]]:
    """Return the places of both builds' times among all, equal ones as ``old_first`` says."""
    tagged = sorted(
        [*((time, not old_first, False) for time in old), *((time, old_first, True) for time in new)]
    )
    places = [(at, is_new) for at, (_, _, is_new) in enumerate(tagged)]
    return [at for at, is_new in places if not is_new], [at for at, is_new in places if is_new]


def own_noise(times: Sequence[float]) -> float:
    """Return by how much the medians of two halves of one build's rounds differ, 0.03 for three percent.

    The root mean square over the splits, all of them or many drawn from a fixed seed. It does not depend on the
    order of the rounds.
    """
    ordered = sorted(times)
    squares = [math.log(median(one) / median(other)) ** 2 for one, other in _halves(ordered)]
    return math.expm1(math.sqrt(sum(squares) / len(squares))) if squares else 0.0


def _halves(ordered: Sequence[float]) -> Iterator[tuple[list[float], list[float]]]:
    count = len(ordered)
    if count < 2:
        return
    dice = random.Random(0)  # the same halves every time
    drawn = (dice.sample(range(count), count // 2) for _ in range(_SOME_HALVES))
    for places in combinations(range(count), count // 2) if count <= _ALL_HALVES else drawn:
        chosen = set(places)
        yield [ordered[at] for at in places], [ordered[at] for at in range(count) if at not in chosen]


def _times(seconds: Iterable[float]) -> list[float]:
    return [float(time) for time in seconds if math.isfinite(time) and time > 0]


# --- what a round says -----------------------------------------------------------------------------------


def seconds_of(measures: Mapping[str, Any], key: str = "each") -> float | None:
    """Return the median seconds of one process's repeats, or None; ``cpu_each`` is the same work on the CPU."""
    timing = measures.get("timing")
    each = timing.get(key) if isinstance(timing, dict) else None
    if not isinstance(each, list):
        return None
    numbers = [time for time in each if isinstance(time, (int, float)) and not isinstance(time, bool)]
    times = _times(time for time in numbers if abs(time) < 1e300)
    return median(times) if times else None


def times_as_fast(other: Iterable[float], own: Iterable[float]) -> float | None:
    """Return how many times as fast as ``other`` the ``own`` rounds are; None where one of them has none."""
    theirs, ours = _times(other), _times(own)
    return median(theirs) / median(ours) if theirs and ours else None


def turns(rounds: int) -> Iterator[tuple[int, int]]:
    """Yield (side, round) of two sides in the order A B B A A B B A: what drifts evenly meets both alike.

    Rounds count from 1.
    """
    for number in range(1, rounds + 1):
        for side in (0, 1) if number % 2 else (1, 0):
            yield side, number
