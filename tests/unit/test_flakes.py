"""A failing rate is an interval, and how sure one can be that a failure is gone follows from its lower end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.flakes import (
    EXPIRY_DAYS,
    MOST_REPEATS,
    RISK,
    SURE_REPEATS,
    Tally,
    expired,
    interval,
    is_flaky,
    needed_repeats,
    phrase,
    repeats_after,
    runs_to_see,
)

NOW = datetime(2026, 12, 1, tzinfo=UTC)
counts = st.integers(0, 300)


@pytest.mark.parametrize(
    ("failed", "total", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe, Statistics in Medicine 17 (1998), table I
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (10, 10, 0.7225, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_the_interval_is_wilsons(failed: int, total: int, low: float, high: float) -> None:
    assert interval(failed, total) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("failed", "total"), [(-1, 3), (4, 3)])
def test_impossible_counts_have_no_interval(failed: int, total: int) -> None:
    with pytest.raises(ValueError, match=str(failed)):
        interval(failed, total)


@given(counts, counts)
def test_the_interval_holds_the_rate_and_mirrors(failed: int, clean: int) -> None:
    total = failed + clean
    low, high = interval(failed, total)
    assert 0 <= low <= high <= 1
    assert not total or low <= failed / total <= high
    assert interval(clean, total) == pytest.approx((1 - high, 1 - low))


@given(counts, counts, st.floats(0.5, 0.98))
def test_more_confidence_is_a_wider_interval(failed: int, clean: int, confidence: float) -> None:
    low, high = interval(failed, failed + clean, confidence)
    wide_low, wide_high = interval(failed, failed + clean, confidence + 0.01)
    assert wide_low <= low and high <= wide_high


@given(st.floats(0.001, 1), st.floats(1e-6, 0.5))
def test_so_many_runs_show_it_and_one_fewer_does_not(rate: float, risk: float) -> None:
    needed = runs_to_see(rate, risk)
    assert (1 - rate) ** needed <= risk * (1 + 1e-6)
    assert needed == 1 or (1 - rate) ** (needed - 1) > risk * (1 - 1e-6)


@pytest.mark.parametrize(
    ("rate", "risk", "needed"), [(1, 0.05, 1), (0.5, 0.25, 2), (0.7, 0.09, 2), (0.2, 1e-4, 42)]
)
def test_rounding_asks_for_no_run_more(rate: float, risk: float, needed: int) -> None:
    assert runs_to_see(rate, risk) == needed


@pytest.mark.parametrize(("rate", "risk"), [(0, 0.1), (-1, 0.1), (1.1, 0.1), (0.5, 0), (0.5, 1)])
def test_what_never_shows_has_no_number_of_runs(rate: float, risk: float) -> None:
    with pytest.raises(ValueError, match=str(rate)):
        runs_to_see(rate, risk)


@pytest.mark.parametrize(
    ("failed", "clean", "needed"),
    [
        (1, 0, 2),
        (2, 0, 2),
        (50, 0, 2),
        (9, 1, 4),
        (1, 1, 31),
        (10, 40, 26),
        (200, 800, 16),
        (1, 5, 99),
        (3, 32, 100),
    ],
)
def test_the_clean_runs_that_a_fix_needs(failed: int, clean: int, needed: int) -> None:
    assert needed_repeats(Tally(failed, clean, NOW)) == needed


@pytest.mark.parametrize(("failed", "clean"), [(1, 6), (1, 49), (5, 95)])
def test_too_rare_a_failure_can_not_be_told_to_be_gone(failed: int, clean: int) -> None:
    assert repeats_after(failed, clean) is None


@pytest.mark.parametrize("clean", [0, 1, 50])
def test_what_never_failed_can_not_be_gone(clean: int) -> None:
    assert repeats_after(0, clean) is None


def test_a_build_of_which_nothing_is_known_is_taken_to_fail_always() -> None:
    assert needed_repeats(None) == SURE_REPEATS


@given(st.integers(1, 300), counts)
def test_the_number_is_bounded_and_keeps_the_risk(failed: int, clean: int) -> None:
    needed = repeats_after(failed, clean)
    low = interval(failed, failed + clean)[0]
    assert needed is None or SURE_REPEATS <= needed <= MOST_REPEATS
    if needed is None:
        assert (1 - low) ** MOST_REPEATS > RISK
    elif clean:
        assert (1 - low) ** needed <= RISK * (1 + 1e-6)


@given(st.integers(1, 300), counts)
def test_a_rarer_failure_never_needs_fewer_clean_runs(failed: int, clean: int) -> None:
    needed, rarer = repeats_after(failed, clean), repeats_after(failed, clean + 1)
    assert rarer is None or (needed is not None and needed <= rarer)


@given(st.integers(1, 100), counts, st.integers(2, 5))
def test_more_runs_at_one_rate_never_ask_for_more_clean_ones(failed: int, clean: int, times: int) -> None:
    needed, surer = repeats_after(failed, clean), repeats_after(failed * times, clean * times)
    assert needed is None or (surer is not None and surer <= needed)


@pytest.mark.parametrize(
    ("days", "old"), [(0, False), (EXPIRY_DAYS, False), (EXPIRY_DAYS + 0.1, True), (-5, False)]
)
def test_evidence_expires(days: float, old: bool) -> None:
    assert expired(NOW - timedelta(days=days), NOW) is old


@pytest.mark.parametrize(
    ("tally", "flaky"),
    [(None, False), (Tally(3, 0, NOW), False), (Tally(0, 3, NOW), False), (Tally(1, 9, NOW), True)],
)
def test_flaky_is_both_outcomes_of_one_build(tally: Tally | None, flaky: bool) -> None:
    assert is_flaky(tally) is flaky


def test_a_tally_is_said_with_its_interval() -> None:
    assert phrase(Tally(10, 40, NOW)) == "failed in 10 of 50 runs (11 to 33 %)"
