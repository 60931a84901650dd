"""The service over planted builds: it finds, runs and confirms by itself, and goes on after whatever ends it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.scenarios.world import World, module
from tests.systems import posix

SETTINGS = """
[service]
tracks = ["planted"]
suites = ["census"]
poll_hours = {hours}
retry_minutes = 0.02
"""


@pytest.fixture
def two(world: World) -> World:
    world.settings(SETTINGS.format(hours=0.0005))
    world.plant("1.0", module())
    world.plant("2.0", module())
    return world


def until(done: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.5)


def run_here(world: World) -> set[str]:
    rows = world.run("sql", "select distinct version from observation", "--json").data
    return {row["version"] for row in rows}


def stopped(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> tuple[int, str]:
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    return process.returncode, err.decode()


def test_once_it_looks_runs_what_is_due_and_ends(two: World) -> None:
    done = two.run("serve", "--once", code=0)
    new, old = (
        done.err.index("due (new-build): dmltrack run 2.0"),
        done.err.index("due (back-fill): dmltrack run 1.0"),
    )
    assert new and old and run_here(two) == {"1.0", "2.0"}
    begun = [line.split(" ")[-7:] for line in done.err.splitlines() if " job " in line and "dmltrack" in line]
    assert [words[words.index("run") + 1] for words in begun] == ["2.0", "1.0"], "the new build goes first"
    again = two.run("serve", "--once", code=0)
    assert "due" not in again.err and " job " not in again.err
    assert two.run("status").out.splitlines()[0] == "service: well"


@posix
def test_a_new_build_is_found_and_run_and_what_it_broke_is_run_again_until_it_is_sure(two: World) -> None:
    process = two.start("serve")
    until(lambda: run_here(two) == {"1.0", "2.0"})
    two.plant("3.0", module(body="raise RuntimeError('planted')\n"))
    repeated = "select count(*) as n from observation where attempt = 2 and version = '2.0'"
    until(lambda: two.run("sql", repeated, "--json").data[0]["n"] >= 2)
    code, err = stopped(process)
    assert code == 0 and "the service has ended" in err
    assert "due (new-build): dmltrack run 3.0" in err and "interrupted: it was asked to stop" in err
    [job] = two.run("queue", "list", "--json", code=0).data["waiting"]
    assert (job["cause"], job["builds"], job["starts"]) == ("confirmation", ["2.0", "3.0"], 0)


@posix
def test_a_home_has_one_service_and_says_which(two: World) -> None:
    process = two.start("serve")
    until(lambda: (two.home / "service.json").exists())
    refused = two.run("serve", code=3)
    assert f"has a service already (process {process.pid}, since" in refused.err
    status = two.run("status", "--json", code=0).data
    assert status["alive"] and status["well"] and status["service"]["pid"] == process.pid
    assert stopped(process, signal.SIGINT)[0] == 0


@posix
def test_after_a_kill_it_goes_on_and_observes_nothing_twice(two: World) -> None:
    for moment in (1.0, 2.0, 3.0):
        process = two.start("serve")
        time.sleep(moment)
        process.kill()
        process.communicate(timeout=60)
    two.run("serve", "--once", code=0)
    rows = two.run("sql", "select version, case_id, attempt from observation", "--json", code=0).data
    counted = Counter((row["version"], row["case_id"], row["attempt"]) for row in rows)
    assert {version for version, _, _ in counted} == {"1.0", "2.0"} and set(counted.values()) == {1}


@posix
def test_an_index_that_is_away_is_trouble_and_no_end(two: World) -> None:
    two.run("poll", code=0)
    two.environ["DMLTRACK_INDEX_URL"] = "http://127.0.0.1:9/simple/"
    process = two.start("serve")
    until(lambda: (two.home / "service.json").exists() and "planted" in two.run("status").out)
    code, err = stopped(process)
    assert code == 0 and "trouble: planted:" in err


def test_status_says_when_there_is_no_service(two: World) -> None:
    assert "no service was ever started" in two.run("status", code=3).out


def test_settings_of_the_service_are_checked_when_they_are_read(two: World) -> None:
    for text, said in (
        ("poll_hours = 0", "service.poll_hours must lie between"),
        ("poll_hour = 1", "did you mean 'poll_hours'"),
        ("tracks = 'planted'", "service.tracks"),
    ):
        two.settings(f"[service]\n{text}\n")
        assert said in two.run("serve", "--once", code=2).err
    two.settings("[service]\ntracks = ['nonsense']\n")
    assert "nonsense" in two.run("serve", "--once", code=2).err
