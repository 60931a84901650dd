"""What stands need not run again; what does not stand is run, and a failure is run once more alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tracker.model import State
from tracker.standing import HOST_REASONS, UNFINISHED, Demand, Known, Next, next_step

USUAL = Demand()
NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def known(state: State, reason: str = "", attempts: int = 1, environment: str = "e1") -> Known:
    return Known(state, reason, environment, attempts, NOON)


def step(
    record: Known | None, changed_at: datetime | None = None, *outdated: str, demand: Demand = USUAL
) -> Next:
    return next_step(record, outdated, changed_at, demand)


def test_a_cell_never_observed_is_run() -> None:
    assert step(None) is Next.RUN


def test_a_pass_stands() -> None:
    assert step(known(State.PASS)) is Next.NOTHING


@pytest.mark.parametrize("state", [s for s in State if s.conclusive and s is not State.PASS])
def test_a_failure_runs_once_more_alone_and_then_stands(state: State) -> None:
    assert step(known(state)) is Next.RUN_ALONE
    assert step(known(state, attempts=2)) is Next.NOTHING


@pytest.mark.parametrize("state", sorted(UNFINISHED))
def test_what_was_our_own_fault_is_run_again(state: State) -> None:
    assert step(known(state, attempts=9)) is Next.RUN


@pytest.mark.parametrize("reason", sorted(HOST_REASONS))
def test_what_this_host_lacked_is_looked_for_again(reason: str) -> None:
    assert step(known(State.UNINSTALLABLE, reason)) is Next.RUN


def test_what_the_build_lacks_stands_until_the_index_changes_it() -> None:
    record = known(State.UNINSTALLABLE, "no-wheel")
    assert step(record, NOON - HOUR) is Next.NOTHING
    assert step(record, NOON + HOUR) is Next.RUN


def test_a_result_of_another_installation_is_history() -> None:
    assert step(known(State.PASS), None, "e1") is Next.RUN
    assert step(known(State.PASS), None, "e2") is Next.NOTHING


def test_retry_runs_what_was_inconclusive_and_nothing_else() -> None:
    retry = Demand(retry=True)
    assert step(known(State.UNINSTALLABLE, "no-wheel"), demand=retry) is Next.RUN
    assert step(known(State.PASS), demand=retry) is Next.NOTHING


def test_again_runs_what_was_observed_before_the_moment_and_not_what_came_since() -> None:
    assert step(known(State.PASS), demand=Demand(before=NOON + HOUR)) is Next.RUN
    assert step(known(State.PASS), demand=Demand(before=NOON - HOUR)) is Next.NOTHING
