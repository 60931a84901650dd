"""What is due without anybody asking: new builds, the old ones, and what has to be run again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import build
from tracker.model import Build, Cause, JobEnded, JobEnding, JobQueued
from tracker.queueing import Queue, queue
from tracker.serving import BEAT, Told, health
from tracker.upkeep import PATIENCE, differences, due, not_lately

NOW = datetime(2026, 12, 1, tzinfo=UTC)
BUILDS = [build(f"{number}.0") for number in range(1, 6)]


def told(
    run_here: set[str], *, changed: bool = False, builds: list[Build] = BUILDS, **more: object
) -> dict[str, Cause]:
    jobs = due(builds, run_here, changed, machine="box", **more)  # type: ignore[arg-type]
    return {job.builds[0]: job.cause for job in jobs}


def test_on_an_empty_machine_the_newest_build_is_new_and_the_others_are_filled_in() -> None:
    assert told(set()) == {
        **dict.fromkeys(("1.0", "2.0", "3.0", "4.0"), Cause.BACKFILL),
        "5.0": Cause.NEW_BUILD,
    }


def test_a_build_newer_than_all_that_were_run_is_new() -> None:
    assert told({"1.0", "2.0", "3.0"}) == {"4.0": Cause.NEW_BUILD, "5.0": Cause.NEW_BUILD}
    assert told({"3.0", "5.0"}) == dict.fromkeys(("1.0", "2.0", "4.0"), Cause.BACKFILL)


def test_old_builds_can_be_left_alone() -> None:
    assert told({"4.0"}, backfill=False) == {"5.0": Cause.NEW_BUILD}


def test_after_a_change_of_the_host_the_last_builds_that_were_run_are_run_again() -> None:
    everything = {item.version for item in BUILDS}
    assert told(everything) == {}
    assert told(everything, changed=True) == dict.fromkeys(("4.0", "5.0"), Cause.STALE)
    assert told(everything, changed=True, stale_builds=0) == {}
    assert told({"2.0", "3.0", "5.0"}, changed=True, backfill=False) == dict.fromkeys(
        ("3.0", "5.0"), Cause.STALE
    )


def test_a_build_without_files_is_never_due() -> None:
    gone = Build("torch-directml", "6.0", NOW, ())
    assert "6.0" not in told(set(), builds=[*BUILDS, gone])


@given(st.sets(st.sampled_from([item.version for item in BUILDS])), st.booleans())
def test_every_build_without_a_result_is_due_exactly_once(run_here: set[str], changed: bool) -> None:
    jobs = list(due(BUILDS, run_here, changed, machine="box"))
    versions = [job.builds[0] for job in jobs]
    assert len(versions) == len(set(versions))
    missing = {item.version for item in BUILDS} - run_here
    assert {job.builds[0] for job in jobs if job.cause is not Cause.STALE} == missing
    assert not any(job.builds[0] in missing for job in jobs if job.cause is Cause.STALE)


def after(*events: JobQueued | JobEnded, at: datetime = NOW) -> Queue:
    return queue([(at, event) for event in events], {})


def test_what_waits_or_ended_a_short_time_ago_is_not_put_in_once_more() -> None:
    [job] = due(BUILDS[:1], set(), False, machine="box")
    failed = JobEnded(job.job, "box", JobEnding.FAILED)
    assert not_lately(iter([job]), after(), NOW) == [job]
    assert not_lately(iter([job]), after(job), NOW) == []
    assert not_lately(iter([job]), after(job, failed), NOW + PATIENCE / 2) == []
    assert not_lately(iter([job]), after(job, failed), NOW + PATIENCE * 1.1) == [job]


def test_what_is_stale_is_due_however_lately_it_was_run() -> None:
    [job] = due(BUILDS[:1], {"1.0"}, True, machine="box")
    assert not_lately(iter([job]), after(job, JobEnded(job.job, "box", JobEnding.DONE)), NOW) == [job]


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (None, {"suites": "a"}, []),
        ({"suites": "a"}, {"suites": "a"}, []),
        ({"suites": "a"}, {"suites": "b"}, ["suites: a -> b"]),
        ({"x": "1"}, {"y": "2"}, ["x: 1 -> nothing", "y: nothing -> 2"]),
    ],
)
def test_what_changed_is_told_in_words(
    before: dict[str, str] | None, now: dict[str, str], said: list[str]
) -> None:
    assert differences(before, now) == said


def test_a_service_is_well_as_long_as_something_comes_of_something() -> None:
    silence = timedelta(hours=72)
    fresh = Told(1, NOW, NOW)
    assert not health(None, NOW, silence).alive
    assert health(fresh, NOW, silence).well
    quiet = health(fresh, NOW + BEAT * 2, silence)
    assert not quiet.alive and "has said nothing since 2026-12-01 00:00" in quiet.why
    later = NOW + silence * 2
    sick = health(Told(1, NOW, later, last_poll=NOW), later, silence)
    assert sick.alive and not sick.well and "nothing has come of anything since 2026-12-01" in sick.why
    assert health(Told(1, NOW, later, last_done=later), later, silence).well
