"""How often a case fails that does not always fail, and how many clean runs on a later build say that it is gone.

Pure. What is counted is of one build in one lane (machine, adapter, driver, suite files): a build is never called
flaky for what another one did. Moments come as parameters; it must not know where the counts come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import NormalDist

CONFIDENCE = 0.95
"""Of the interval of a failing rate."""
RISK = 0.05
"""Chance that a failure which is still there passes so often that it is called gone."""
SURE_REPEATS = 2
"""Clean runs asked for where every run of the bad build failed."""
MOST_REPEATS = 100
"""Where more clean runs than this were needed, it can not be told."""
EXPIRY_DAYS = 90
"""After so many days without a run, a tally is no longer held against a build."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The conclusive runs of a case at one build in one lane, and when the last one was."""

    failed: int
    clean: int
    last_at: datetime


def interval(failed: int, total: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the least and the greatest failing rate that ``failed`` of ``total`` runs allow (Wilson's score).

    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927). Good for
    few runs and for rates near 0 and 1. Without runs the rate may be anything.
    """
    if not 0 <= failed <= total:
        raise ValueError(f"{failed} of {total} runs can not have failed")
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, pull = failed / total, z * z / total
    middle = (rate + pull / 2) / (1 + pull)
    half = z * math.sqrt(rate * (1 - rate) / total + pull / (4 * total)) / (1 + pull)
    # The ends are exact where nothing or everything failed; rounding would leave them a little off.
    return (max(0.0, middle - half) if failed else 0.0), (min(1.0, middle + half) if failed < total else 1.0)


def expired(last_at: datetime, now: datetime, days: float = EXPIRY_DAYS) -> bool:
    """Whether evidence is too old to count; what seems to come from the future (a clock was set) is not."""
    return now - last_at > timedelta(days=days)


def is_flaky(tally: Tally | None) -> bool:
    """Whether the same build gave both outcomes."""
    return tally is not None and tally.failed > 0 and tally.clean > 0


def runs_to_see(rate: float, risk: float) -> int:
    """Return the fewest runs that miss something which happens at ``rate`` with a chance of ``risk`` at most."""
    if not (0 < rate <= 1 and 0 < risk < 1):
        raise ValueError(f"no number of runs shows a rate of {rate} at a risk of {risk}")
    if rate == 1:
        return 1
    # What is a whole number but for rounding stays that number.
    return max(1, math.ceil(math.log(risk) / math.log1p(-rate) - 1e-9))


def needed_repeats(tally: Tally | None) -> int | None:
    """Return how many clean runs on a later build a "fixed" needs, or None where that can not be told.

    ``tally`` is of the bad build. See ``repeats_after``; where nothing is known of it (None), the failure is taken
    as one that is always there.
    """
    return SURE_REPEATS if tally is None else repeats_after(tally.failed, tally.clean)


def repeats_after(failed: int, clean: int) -> int | None:
    """Return how many clean runs say that a failure is gone which showed in ``failed`` runs and not in ``clean``.

    It is the fewest at which a failure that comes at the *lower* end of the interval of the rate would have shown
    with 95 %: 26 after 10 of 50, 31 after 1 of 2, 4 after 9 of 10. None, it can not be told, above 100 (from
    1 of 7 on: the bad build has to be run more often first) and for what never failed.

    A build at which no run was ever clean is taken to fail always, so two are enough, however few its runs were:
    by the interval alone a failure seen once would ask for thirteen. That is a convention and no proof. A case that
    fails at 20 % and was run once looks the same when that one run failed, and two clean runs follow it with a
    chance of 64 %. So this number is for an answer as observed; what ``confirming`` confirms does not rest on it.
    """
    if not failed:
        return None
    if not clean:
        return SURE_REPEATS
    needed = max(SURE_REPEATS, runs_to_see(interval(failed, failed + clean)[0], RISK))
    return needed if needed <= MOST_REPEATS else None


def phrase(tally: Tally) -> str:
    """Say a tally: ``failed in 10 of 50 runs (11 to 33 %)``."""
    total = tally.failed + tally.clean
    low, high = interval(tally.failed, total)
    return f"failed in {tally.failed} of {total} runs ({100 * low:.0f} to {100 * high:.0f} %)"
