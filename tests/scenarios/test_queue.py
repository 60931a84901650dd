"""The queue over planted builds: what is asked for is done once, whatever kills the program in the middle."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from typing import Any

import pytest

from tests.scenarios.world import World, module
from tests.systems import posix

TRACK = ("--track", "planted")


@pytest.fixture
def three(world: World) -> World:
    """Three builds: the second lost an import-time check that the third has again."""
    world.plant("1.0", module())
    world.plant("2.0", module(body="raise RuntimeError('planted')\n"))
    world.plant("3.0", module())
    world.run("poll", code=0)
    return world


def waiting(world: World) -> list[dict[str, Any]]:
    return list(world.run("queue", "list", "--json", code=0).data["waiting"])


def observed(world: World) -> Counter[tuple[str, str, int]]:
    rows = world.run("sql", "select version, case_id, attempt from observation", "--json", code=0).data
    return Counter((row["version"], row["case_id"], row["attempt"]) for row in rows)


def test_what_is_asked_for_waits_is_done_and_is_told(three: World) -> None:
    first = three.run("queue", "add", "1.0", "--suites", "census", *TRACK, "--json", code=0).data
    assert (
        first["cause"] == "asked" and first["command"] == "dmltrack run 1.0 --suites census --track planted"
    )
    again = three.run("queue", "add", "1.0", "--suites", "census", *TRACK, code=0)
    assert "it waits already" in again.err
    assert [job["job"] for job in waiting(three)] == [first["job"]]
    done = three.run("queue", "work", code=0)
    assert f"job {first['job']} done: 3 pass" in done.err and "1 done" in done.err
    listed = three.run("queue", "list", code=0)
    assert "nothing waits" in listed.err and f"{first['job']} done" in listed.err
    assert three.states()[("1.0", "census/import")] == "pass"
    assert "nothing waits" in three.run("queue", "work", code=0).err


def test_a_change_that_was_seen_once_waits_to_be_confirmed_and_then_is(three: World) -> None:
    run = three.run("run", "1.0", "2.0", "--suites", "census", "--cases", "census/import", code=1)
    assert (
        "changes that were seen once wait to be confirmed: dmltrack queue work, or dmltrack confirm 1.0 2.0"
        in run.err
    )
    [job] = waiting(three)
    assert (job["kind"], job["cause"], job["builds"]) == ("confirm", "confirmation", ["1.0", "2.0"])
    three.run("run", "1.0", "2.0", "--suites", "census", "--cases", "census/import", code=1)
    assert len(waiting(three)) == 1, "nothing new was run, so nothing more waits"
    done = three.run("queue", "work", code=0)
    assert f"job {job['job']} done: 1 confirmed" in done.err
    log = three.run("changelog", "1.0", "2.0", code=0)
    assert "confirmed" in log.out and not waiting(three)


def test_who_asks_goes_before_what_nobody_asked_for(three: World) -> None:
    three.run("run", "1.0", "2.0", "--suites", "census", "--cases", "census/import", code=1)
    three.run("queue", "add", "3.0", "--suites", "census", *TRACK, code=0)
    assert [job["cause"] for job in waiting(three)] == ["asked", "confirmation"]


def test_what_can_not_be_done_is_refused_when_it_is_asked_for(three: World) -> None:
    for arguments, said in (
        (("9.9",), "9.9"),
        (("1.0", "--suites", "nonsense"), "there is no suite 'nonsense'"),
        (("1.0", "--cases", "nonsense*"), "no case of"),
        (("1.0", "--device", "cuda"), "track planted computes on"),
        (("1.0", "--size", "huge"), "there is no size 'huge'"),
        (("1.0", "--confirm"), "first build"),
        (("1.0", "2.0", "3.0", "--confirm"), "3 builds were named"),
        (("1.0", "2.0", "--confirm", "--again"), "--suites and --again are for runs"),
    ):
        refused = three.run("queue", "add", *arguments, *TRACK, code=2)
        assert said in refused.err and refused.err.count("error:") == 1
    assert "no job 'abc' waits" in three.run("queue", "cancel", "abc", code=2).err
    assert waiting(three) == []


def test_jobs_can_be_cancelled_and_the_queue_be_paused(three: World) -> None:
    for build in ("1.0", "2.0", "3.0"):
        three.run("queue", "add", build, "--suites", "census", *TRACK, code=0)
    first, second, third = (job["job"] for job in waiting(three))
    three.run("queue", "cancel", second, code=0)
    assert [job["job"] for job in waiting(three)] == [first, third]
    three.run("queue", "pause", "--reason", "somebody plays", code=0)
    assert "the queue is paused" in three.run("queue", "work", code=0).err
    assert "paused: somebody plays" in three.run("queue", "list", code=0).err
    assert len(waiting(three)) == 2 and not observed(three)
    three.run("queue", "resume", code=0)
    three.run("queue", "cancel", "all", code=0)
    assert not waiting(three)


def test_an_index_that_is_away_puts_a_job_off_and_loses_nothing(three: World) -> None:
    three.run("queue", "add", "1.0", "--suites", "census", *TRACK, code=0)
    three.environ["DMLTRACK_INDEX_URL"] = "http://127.0.0.1:9/simple/"
    put_off = three.run("queue", "work", code=3)
    assert "postponed" in put_off.err and "because of this host" in put_off.err
    [job] = waiting(three)
    assert "because of this host" in job["message"] and job["starts"] == 0
    three.environ.clear()
    assert "1 done" in three.run("queue", "work", code=0).err
    assert three.states()[("1.0", "census/import")] == "pass" and not waiting(three)


@posix
@pytest.mark.parametrize("after", [0.3, 1.0, 2.0])
def test_after_a_kill_it_goes_on_with_what_is_left(three: World, after: float) -> None:
    for build in ("1.0", "3.0"):
        three.run("queue", "add", build, "--suites", "census", *TRACK, code=0)
    process = three.start("queue", "work")
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    three.run("queue", "work", code=0)
    assert not waiting(three)
    counted = observed(three)
    assert {version for version, _, _ in counted} == {"1.0", "3.0"}
    assert set(counted.values()) == {1}, "no case was observed twice in one setting"


@posix
def test_a_job_under_which_the_program_ends_again_and_again_is_given_up(three: World) -> None:
    three.run("queue", "add", "1.0", "--suites", "census", *TRACK, code=0)
    [job] = waiting(three)
    machine = json.dumps({"job": job["job"], "machine": job["machine"]})
    lines = [f'{{"job_started":{machine},"seq":{n},"at":"2026-12-06T0{n}:00:00Z"}}' for n in (1, 2, 3)]
    at_end = '"at":"2099-12-06T0'
    text = "\n".join(lines).replace('"at":"2026-12-06T0', at_end) + "\n"
    (three.home / "journal" / "20991206T000000Z-0000000a.jsonl").write_text(text)
    done = three.run("queue", "work", code=3)
    assert "begun 3 times and the program ended each time" in done.err


@posix
def test_an_interrupt_ends_the_work_in_order_and_the_job_waits_on(three: World) -> None:
    three.plant("4.0", module(body="import time\ntime.sleep(30)\n"))
    three.run("poll", code=0)
    three.run("queue", "add", "4.0", "--suites", "census", *TRACK, code=0)
    process = three.start("queue", "work")
    time.sleep(4)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    [job] = waiting(three)
    assert job["starts"] == 0 and job["message"] == "it was asked to stop"
