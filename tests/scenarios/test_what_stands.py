"""A result stands for the installation that gave it, and only as long as nothing that decides it has changed."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime

import pytest

from tests.scenarios.test_from_index_to_changelog import observed
from tests.scenarios.world import World, module
from tracker.cli_run import NOTHING, Lines
from tracker.home import Home
from tracker.running import Wish, locked, prepare


def replant(world: World, version: str, source: str) -> None:
    """Put another wheel of the same name on the index, as an index must never do."""
    [old] = [file for file in world.index.pages["planted"]["files"] if f"-{version}-" in file["filename"]]
    world.index.pages["planted"]["files"].remove(old)
    (world.wheels / old["filename"]).unlink()
    world.plant(version, source)


def test_a_wheel_that_was_replaced_on_the_index_is_measured_anew(world: World) -> None:
    world.plant("1.0", module("aten::add.out"))
    world.run("run", "--suites", "census", "1.0", code=0)
    replant(world, "1.0", module("aten::add.out aten::mul.out"))
    answer = world.run("run", "--suites", "census", "1.0", code=0)
    assert "will run 3 cells" in answer.err
    [row] = world.run("builds", "--json", code=0).data
    assert (row["kernels"], row["status"]) == (2, "pass")


def test_what_failed_in_the_wheel_that_was_replaced_is_no_flake_of_the_new_one(world: World) -> None:
    world.plant("1.0", "raise ImportError('broken')")
    world.run("run", "--suites", "census", "1.0")
    replant(world, "1.0", module())
    world.run("run", "--suites", "census", "1.0", code=0)
    rows = world.run("sql", "select distinct state, confidence from verdict", "--json", code=0).data
    assert rows == [{"state": "pass", "confidence": "observed"}]


def test_a_library_that_is_there_now_is_found_without_being_told_to_retry(world: World) -> None:
    track = world.home / "tracks" / "planted.toml"
    library = '[[libraries]]\nname = "libnowhere.so.5"\nhint = "install nowhere"\nplatform = "any"\n'
    track.write_text(track.read_text() + library)
    world.plant("1.0", module())
    answer = world.run("run", "--suites", "census", "1.0", code=5)
    assert "this host lacks libnowhere.so.5: install nowhere" in answer.err
    folder = world.folder / "lib"
    folder.mkdir()
    (folder / "libnowhere.so.5").touch()
    world.settings(f'[worker.environment]\nLD_LIBRARY_PATH = "{folder.as_posix()}"\n')
    assert "3 pass" in world.run("run", "--suites", "census", "1.0", code=0).err


def test_a_failure_whose_second_attempt_was_cut_off_gets_one_and_no_more(world: World) -> None:
    gate, starts = world.folder / "gate", world.folder / "starts"
    body = (
        "import os, time\n"
        f"with open({str(starts)!r}, 'a') as file: file.write('x')\n"
        f"while os.path.getsize({str(starts)!r}) > 3 and not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        "raise ImportError('planted')\n"
    )
    world.plant("1.0", module(body=body))
    process = world.start("run", "--suites", "census", "1.0")
    deadline = time.monotonic() + 60
    while not (starts.exists() and starts.stat().st_size > 3):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.communicate(timeout=60)
    gate.touch()
    world.run("run", "--suites", "census", "1.0")
    cases = [f"census/{case}" for case in ("api", "import", "kernels")]
    assert sorted(observed(world)) == sorted(("1.0", case, attempt) for case in cases for attempt in (1, 2))


def test_a_run_of_nothing_but_our_own_faults_is_not_green_beside_old_passes(world: World) -> None:
    world.plant("1.0", module())
    world.run("run", "--suites", "census", "1.0", code=0)
    shutil.rmtree(world.home / "envs")
    world.settings("[environments]\nmin_free_gb = 1e9\n")
    world.environ = {"DMLTRACK_ENVIRONMENTS_MIN_FREE_GB": "1e9"}
    answer = world.run("run", "--suites", "census", "1.0", "--again", code=5)
    assert "3 infra" in answer.err


def test_withdrawn_builds_are_named_as_left_out(world: World) -> None:
    world.plant("1.0", module())
    world.plant("2.0", module(), yanked="broken wheels")
    answer = world.run("run", "--suites", "census", "--plan", code=0)
    assert "left out: 2.0: withdrawn from the index (broken wheels); name it to run it" in answer.err


def test_a_run_whose_results_can_not_be_looked_at_is_not_green(world: World) -> None:
    world.plant("1.0", module())
    world.run("run", "--suites", "census", "1.0", code=0)
    shutil.rmtree(world.home / "store")
    (world.home / "store").write_text("in the way")
    answer = world.run("run", "--suites", "census", "1.0", "--again", code=3)
    assert answer.err.count("error:") == 1 and "Traceback" not in answer.err


def test_a_file_name_for_no_python_of_ours_takes_no_listing_down(world: World) -> None:
    world.plant("1.0", module())["filename"] = "planted-1.0-py2.py3-none-any.whl"
    world.run("poll", code=0)
    assert world.run("builds", code=0).out.splitlines()[1].startswith("1.0")


def test_suite_files_that_were_changed_in_the_home_are_made_anew(world: World) -> None:
    world.plant("1.0", module())
    world.run("run", "--suites", "census", "1.0", code=0)
    [worker] = (world.home / "suites").glob("*/suites/worker.py")
    worker.unlink()
    assert "3 pass" in world.run("run", "--suites", "census", "1.0", "--again", code=0).err


@pytest.mark.parametrize(
    ("wish", "command"),
    [
        (Wish(), "dmltrack run"),
        (Wish(("all",), ("census",), retry=True), "dmltrack run all --suites census --retry"),
        (
            Wish(again_before=datetime(2026, 12, 1, 9, 30, tzinfo=UTC), offline=True),
            "dmltrack run --again-before 2026-12-01T09:30:00Z --offline",
        ),
    ],
)
def test_the_command_that_resumes_asks_for_the_same(wish: Wish, command: str) -> None:
    assert wish.command() == command


def test_what_an_own_reproducer_gave_stands_for_its_own_text(world: World) -> None:
    world.plant("1.0", module())
    world.run("poll", code=0)
    file = world.home / "bugs" / "mine.py"
    file.parent.mkdir()

    def digest(text: str) -> str:
        file.write_text(text, "utf-8")
        home = Home(world.home)
        with locked(home):
            prepared = prepare(home, Wish(("1.0",), ("census",), "planted", offline=True), Lines(NOTHING))
        home.store.close()
        return prepared.job.digests["bugs:own/mine"]

    first = digest("raise SystemExit(0)\n")
    assert digest("raise SystemExit(0)\n") == first
    assert digest("raise SystemExit(1)\n") != first
