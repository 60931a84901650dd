"""The queue as its events make it: order, equal jobs, what waits on and what does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.model import Cause, JobEnded, JobEnding, JobKind, JobQueued, JobStarted, QueuePaused
from tracker.queueing import KEPT, QueueEvent, named, queue

START = datetime(2026, 12, 1, tzinfo=UTC)
RANKS = {("t", f"{number}.0"): number for number in range(1, 6)}


def job(build: str = "1.0", cause: Cause = Cause.ASKED, kind: JobKind = JobKind.RUN) -> JobQueued:
    return named(JobQueued("", "box", kind, cause, "t", (build,)))


def told(*events: QueueEvent) -> list[tuple[datetime, QueueEvent]]:
    return [(START + timedelta(seconds=place), event) for place, event in enumerate(events)]


def ended(of: JobQueued, ending: JobEnding, message: str = "") -> JobEnded:
    return JobEnded(of.job, "box", ending, message)


def started(of: JobQueued) -> JobStarted:
    return JobStarted(of.job, "box")


def test_jobs_are_done_by_their_cause_and_then_in_the_order_they_came() -> None:
    jobs = [
        job(f"{place}.0", cause)
        for place, cause in enumerate(
            (Cause.BACKFILL, Cause.STALE, Cause.NEW_BUILD, Cause.ASKED, Cause.CONFIRMATION, Cause.ASKED), 1
        )
    ]
    found = [one.asked.builds[0] for one in queue(told(*jobs), RANKS).waiting]
    assert found == ["4.0", "6.0", "3.0", "5.0", "2.0", "1.0"]


def test_back_filling_begins_with_the_newest_build_by_version() -> None:
    jobs = [job(build, Cause.BACKFILL) for build in ("2.0", "5.0", "1.0", "4.0")]
    assert [one.asked.builds[0] for one in queue(told(*jobs), RANKS).waiting] == ["5.0", "4.0", "2.0", "1.0"]


def test_a_name_follows_from_what_is_done_and_not_from_why() -> None:
    assert job(cause=Cause.ASKED).job == job(cause=Cause.BACKFILL).job
    names = {job().job, job("2.0").job, job(kind=JobKind.CONFIRM).job}
    names |= {named(replace(job(), machine="other")).job, named(replace(job(), size="small")).job}
    names |= {named(replace(job(), again_before=START)).job}
    assert len(names) == 6


def test_what_waits_already_moves_forward_when_a_person_asks_for_it_and_never_back() -> None:
    slow, fast = job(cause=Cause.BACKFILL), job(cause=Cause.ASKED)
    for order in ((slow, fast), (fast, slow), (slow, fast, slow)):
        [one] = queue(told(*order), RANKS).waiting
        assert one.asked.cause is Cause.ASKED and one.since == START


@pytest.mark.parametrize("ending", list(JobEnding))
def test_what_was_broken_off_or_put_off_waits_on_and_all_else_does_not(ending: JobEnding) -> None:
    one = job()
    found = queue(told(one, started(one), ended(one, ending, "why")), RANKS)
    if ending in (JobEnding.INTERRUPTED, JobEnding.POSTPONED):
        assert [(item.starts, item.message) for item in found.waiting] == [(0, "why")] and not found.ended
    else:
        assert not found.waiting
        assert [(item.ending, item.message) for item in found.ended] == [(ending, "why")]


def test_each_start_without_an_end_is_counted() -> None:
    one = job()
    assert queue(told(one, started(one), started(one)), RANKS).waiting[0].starts == 2
    again = ended(one, JobEnding.INTERRUPTED)
    assert queue(told(one, started(one), again, started(one)), RANKS).waiting[0].starts == 1


def test_a_job_is_hopeless_after_three_starts_or_five_times_in_which_it_was_put_off() -> None:
    one, off = job(), ended(job(), JobEnding.POSTPONED, "disk full")
    assert not queue(told(one, started(one), started(one)), RANKS).waiting[0].hopeless
    assert "begun 3 times" in queue(told(one, *[started(one)] * 3), RANKS).waiting[0].hopeless
    tries: list[QueueEvent] = [started(one), off]
    assert not queue(told(one, *tries * 4, started(one)), RANKS).waiting[0].hopeless
    assert "disk full" in queue(told(one, *tries * 5), RANKS).waiting[0].hopeless


def test_a_job_that_was_done_can_be_asked_for_again() -> None:
    one = job()
    found = queue(told(one, ended(one, JobEnding.DONE), one), RANKS)
    assert [item.since for item in found.waiting] == [START + timedelta(seconds=2)] and len(found.ended) == 1


def test_a_pause_holds_until_it_is_lifted() -> None:
    pause, lift = QueuePaused("box", True, "games"), QueuePaused("box", False)
    assert queue(told(pause), RANKS).paused == "games"
    assert queue(told(pause, lift), RANKS).paused is None
    assert queue(told(pause, lift, pause), RANKS).paused == "games"


EVENTS = st.lists(
    st.one_of(
        st.builds(job, st.sampled_from(["1.0", "2.0", "3.0"]), st.sampled_from(list(Cause))),
        st.builds(lambda build: started(job(build)), st.sampled_from(["1.0", "2.0", "9.0"])),
        st.builds(
            lambda build, ending: ended(job(build), ending),
            st.sampled_from(["1.0", "2.0", "9.0"]),
            st.sampled_from(list(JobEnding)),
        ),
        st.builds(QueuePaused, st.just("box"), st.booleans()),
    ),
    max_size=60,
)


@given(EVENTS)
def test_no_job_is_lost_and_none_waits_twice(events: list[QueueEvent]) -> None:
    found = queue(told(*events), RANKS)
    names = [one.asked.job for one in found.waiting]
    assert len(names) == len(set(names))
    assert [one.asked.cause.rank for one in found.waiting] == sorted(
        one.asked.cause.rank for one in found.waiting
    )
    assert len(found.ended) <= KEPT
    final = {JobEnding.DONE, JobEnding.FAILED, JobEnding.CANCELLED}
    for name in {event.job for event in events if isinstance(event, JobQueued)}:
        own = [event for event in events if not isinstance(event, QueuePaused) and event.job == name]
        last_asked = max(place for place, event in enumerate(own) if isinstance(event, JobQueued))
        first_asked = min(place for place, event in enumerate(own) if isinstance(event, JobQueued))
        ends = [
            p for p, e in enumerate(own) if isinstance(e, JobEnded) and e.ending in final and p > first_asked
        ]
        assert (name in names) == (not ends or last_asked > ends[-1])


@given(EVENTS, st.integers(0, 60))
def test_a_queue_that_is_read_in_the_middle_goes_on_as_one_that_is_not(
    events: list[QueueEvent], cut: int
) -> None:
    """A power cut keeps a beginning of the journal: what waits then is what waited at that moment."""
    before = {one.asked.job for one in queue(told(*events[:cut]), RANKS).waiting}
    touched = {event.job for event in events[cut:] if not isinstance(event, QueuePaused)}
    after = {one.asked.job for one in queue(told(*events), RANKS).waiting}
    assert before - touched <= after
