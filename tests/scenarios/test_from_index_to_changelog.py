"""The main job over planted builds: poll, install, measure, store, tell what changed, and go on after a stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.planted_index import Reply
from tests.scenarios.world import World, module
from tests.systems import eventually, posix

OLD, NEW = "1.0.dev9", "1.0.dev10"


@pytest.fixture
def two(world: World) -> World:
    """Two good builds; the second has one kernel more, one less, and another signature."""
    world.plant(OLD, module("aten::add.out aten::native_layer_norm"))
    world.plant(
        NEW, module("aten::add.out aten::lerp.Scalar_out", "def device(device_id=None, *, name=''): ...\n")
    )
    return world


def journal(world: World) -> list[dict[str, Any]]:
    """Return the whole lines of the journal as they are at this moment."""
    files = sorted((world.home / "journal").glob("*.jsonl"))
    texts = [path.read_text("utf-8").rpartition("\n")[0] for path in files]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def observed(world: World) -> list[tuple[str, str, int]]:
    rows = [line["observation"] for line in journal(world) if "observation" in line]
    return [(r["cell"]["version"], r["cell"]["case"], r.get("attempt", 1)) for r in rows]


def test_one_command_polls_installs_measures_and_tells_what_changed(two: World) -> None:
    answer = two.run("run", code=0)
    assert f"{OLD} (2024-09-14) -> {NEW} (2024-09-14)" in answer.out
    assert "PrivateUse1            2 -> 2 (+1, -1)" in answer.out
    assert "+ aten::lerp.Scalar_out" in answer.out and "- aten::native_layer_norm" in answer.out
    assert "~ device(device_id=None) is now device(device_id=None, *, name='')" in answer.out
    cells = 2 * len(two.planned(NEW))
    assert f"will run {cells} cells of bugs, census on 2 builds of planted" in answer.err


@pytest.mark.skipif(sys.platform == "win32", reason="every Windows that we run on has DirectX 12")
def test_what_this_machine_can_not_run_is_said_and_left_out(two: World) -> None:
    answer = two.run("run", "--plan", code=0)
    [line] = [line for line in answer.err.splitlines() if "no DirectX 12 on this host" in line] or [""]
    told = line.startswith("left out: ") and "census/adapters" in line
    assert ("census/adapters" in two.planned()) != told


def test_torchs_own_kernels_are_not_counted_as_the_builds(two: World) -> None:
    two.run("run", code=0)
    rows = two.run("builds", "--json", code=0).data
    assert [(row["version"], row["kernels"], row["torch"], row["status"]) for row in rows] == [
        (OLD, 2, "2.4.1", "pass"),
        (NEW, 2, "2.4.1", "pass"),
    ]


def test_builds_lists_what_people_and_scripts_rely_on(two: World) -> None:
    two.run("poll", code=0)
    [row, _] = two.run("builds", "--json", code=0).data
    assert {
        "version",
        "uploaded",
        "yanked",
        "pythons",
        "torch",
        "directml",
        "kernels",
        "status",
    } <= row.keys()
    assert row["kernels"] is None and row["status"] == "not run"


def test_a_second_run_has_nothing_to_do_and_says_so(two: World) -> None:
    two.run("run", code=0)
    before = observed(two)
    answer = two.run("run", code=0)
    assert f"nothing to do: all {len(before)} cells were executed before" in answer.err
    assert observed(two) == before


def test_again_runs_what_was_run(two: World) -> None:
    two.run("run", NEW, code=0)
    assert f"will run {len(two.planned(NEW))} cells" in two.run("run", NEW, "--again", code=0).err


def test_a_plan_can_be_looked_at_without_running_it(two: World) -> None:
    answer = two.run("run", "--plan", "--json", code=0)
    assert answer.data["cells"] == sum(len(work["cases"]) for work in answer.data["work"]) >= 6
    assert observed(two) == []


def slow(two: World) -> Path:
    """Let the second build wait in its second case until a file appears; return the file."""
    gate = two.folder / "gate"
    body = (
        "import os, time\n"
        "def __dir__():\n"
        f"    while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n"
        "    return ['device']\n"
    )
    two.plant("1.0.dev11", module(body=body))
    return gate


def at_the_gate(world: World) -> tuple[Path, subprocess.Popen[bytes], Sequence[str]]:
    """Start a run of three builds; return the gate at which the third waits, the run, and a build's cases."""
    gate, cases = slow(world), world.planned(NEW)
    process = world.start("run", "all")
    # A result is known when the next case begins; the case that waits is the first to list the API.
    count = 2 * len(cases) + cases.index("census/api")
    assert eventually(lambda: len(observed(world)) >= count)
    return gate, process, cases


def interrupt(process: subprocess.Popen[bytes], how: str) -> None:
    """Stop a run as a person, a service manager or a power cut would."""
    if how == "kill":
        process.kill()
    elif sys.platform == "win32":
        process.send_signal(signal.CTRL_BREAK_EVENT)
    else:
        process.send_signal(getattr(signal, how))


@pytest.mark.parametrize("how", ["kill", "SIGINT", pytest.param("SIGTERM", marks=posix)])
def test_a_run_that_was_stopped_goes_on_with_no_case_twice_and_none_lost(two: World, how: str) -> None:
    gate, process, cases = at_the_gate(two)
    interrupt(process, how)
    _, err = process.communicate(timeout=60)
    if how != "kill":
        assert process.returncode == 130 and b"this goes on where it stopped: dmltrack run all" in err
    gate.touch()
    two.run("run", "all", code=0)
    assert sorted(observed(two)) == sorted(
        (version, case, 1) for version in (OLD, NEW, "1.0.dev11") for case in cases
    )


def test_two_runs_on_one_home_exclude_each_other(two: World) -> None:
    gate, process, _ = at_the_gate(two)
    answer = two.run("run", "all", code=3)
    assert f"another run is going on in {two.home} (process {process.pid}, since" in answer.err
    gate.touch()
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_questions_are_answered_while_a_run_is_writing(two: World) -> None:
    gate, process, _ = at_the_gate(two)
    assert "native in 1.0.dev10, absent since 1.0.dev11" in two.run("ops", "lerp", code=0).out
    gate.touch()
    process.communicate(timeout=60)


def test_rebuilding_the_database_changes_no_answer(two: World) -> None:
    two.run("run", code=0)
    questions = [
        ("builds", "--json"),
        ("changelog", "--all", "--json"),
        ("ops", "a", "--json"),
        ("explain", "c", "--json"),
    ]
    before = [two.run(*question, code=0).out for question in questions]
    two.run("rebuild", code=0)
    assert [two.run(*question, code=0).out for question in questions] == before


def test_a_lost_database_is_made_again_from_the_journal(two: World) -> None:
    two.run("run", code=0)
    before = two.run("builds", "--json", code=0).out
    for path in (two.home / "store").iterdir():
        path.unlink()
    assert two.run("builds", "--json", code=0).out == before


def test_changelogs_come_as_text_markdown_and_json(two: World) -> None:
    two.run("run", code=0)
    assert two.run("changelog", NEW, "--format", "md", code=0).out.startswith(f"## planted {NEW}")
    [log] = two.run("changelog", OLD, NEW, "--format", "json", code=0).data
    assert log["kernels"]["PrivateUse1"]["appeared"] == ["aten::lerp.Scalar_out"]
    assert "there is no format 'html'" in two.run("changelog", NEW, "--format", "html", code=2).err


def test_a_changelog_of_builds_never_measured_says_what_is_missing(two: World) -> None:
    two.run("poll", code=0)
    said = two.run("changelog", NEW, code=5).out
    assert "never measured" in said and "Nothing differs" not in said


def test_ops_tells_since_when_an_operator_is_native(two: World) -> None:
    two.run("run", code=0)
    out = two.run("ops", "layer_norm", code=0).out
    assert out == f"aten::native_layer_norm [PrivateUse1]: native in {OLD}, absent since {NEW}\n"
    assert two.run("ops", "nope", code=5).out == ""


def test_each_change_of_the_index_is_told_once(two: World) -> None:
    assert two.run("poll", code=0).out.splitlines() == [f"new-build: {OLD}", f"new-build: {NEW}"]
    entry = two.index.pages["planted"]["files"][0]
    entry["yanked"] = "deprecated"
    assert two.run("poll", code=0).out == f"yanked: {OLD} deprecated\n"
    assert two.run("poll", code=0).out == ""
    entry["yanked"] = False
    assert two.run("poll", code=0).out == f"unyanked: {OLD}\n"


def test_a_build_that_leaves_the_index_stays_on_record(two: World) -> None:
    two.run("poll", code=0)
    del two.index.pages["planted"]["files"][0]
    assert two.run("poll", code=0).out == f"build-gone: {OLD}\n"
    assert two.run("poll", code=0).out == ""
    rows = two.run("builds", "--json", code=0).data
    assert [row["status"] for row in rows] == ["gone from the index", "not run"]


def test_a_yanked_build_is_not_run_by_itself(two: World) -> None:
    two.index.pages["planted"]["files"][1]["yanked"] = "broken"
    assert two.run("run", "--plan", "--json", code=0).data["work"][0]["build"] == OLD


def test_an_index_that_fails_is_no_obstacle_to_what_is_known(two: World) -> None:
    two.run("run", code=0)
    two.index.answer_next("/simple/planted/", Reply(503))
    answer = two.run("run", code=0)
    assert "the index did not answer, going on with the builds known" in answer.err


def test_without_index_and_builds_there_is_one_clear_error(two: World) -> None:
    two.index.answer_next("/simple/planted/", Reply(503))
    answer = two.run("run", code=3)
    assert answer.err.startswith("error: no usable answer for planted from http://127.0.0.1")
    assert "hint: " in answer.err and "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--suites", "nope"), "error: there is no suite 'nope'"),
        (("run", "7.7"), "error: there is no build '7.7'"),
        (("changelog", "a", "b", "c"), "error: 3 builds were named, a changelog is between two"),
        (("sql", "select nothing from nowhere"), "error: the SQL does not work"),
        (("sql", "drop table build"), "error: the SQL does not work"),
        (("inspect", OLD, "--platform", "mac"), "error: there is no platform 'mac'"),
    ],
)
def test_a_wrong_command_is_one_error_line_and_exit_2(
    two: World, arguments: tuple[str, ...], message: str
) -> None:
    two.run("poll", code=0)
    answer = two.run(*arguments, code=2)
    assert answer.err.startswith(message) and answer.out == ""


def test_a_wrong_setting_is_one_error_line_and_exit_2(two: World) -> None:
    two.settings("[index]\nurll = 'x'\n")
    answer = two.run("config", code=2)
    assert "[index] has no 'urll'" in answer.err and "did you mean 'url'?" in answer.err


def test_without_the_index_and_any_build_the_way_out_is_told(two: World) -> None:
    assert "dmltrack poll" in two.run("run", "--offline", code=2).err


def test_sql_can_not_read_files(two: World) -> None:
    two.run("poll", code=0)
    assert two.run("sql", "select * from read_text('/etc/passwd')").code == 2


def test_config_says_where_each_value_came_from(two: World) -> None:
    rows = {row["name"]: row for row in two.run("config", "--json", code=0).data["settings"]}
    assert rows["index.url"]["source"] == "environment variable DMLTRACK_INDEX_URL"
    assert rows["index.timeout"]["source"] == "default"


def test_the_outcome_of_a_run_is_there_as_json(two: World) -> None:
    data = two.run("run", "--json", code=0).data
    # Of the reports that only an import is needed for, one is about Windows and one about Linux.
    assert data["counts"].keys() == {"pass", "skipped"} and len(data["changelogs"]) == 1
    assert sum(data["counts"].values()) == len(observed(two))


def test_ops_tells_scripts_what_it_tells_people(two: World) -> None:
    two.run("run", code=0)
    [history] = two.run("ops", "aten::lerp.Scalar_out", "--json", code=0).data
    assert (history["now"], history["since"]) == ("native", NEW)
    assert history["says"].endswith(f"native since {NEW}")


def test_explain_shows_the_end_of_the_traceback_and_the_outcome_as_data(two: World) -> None:
    two.plant("2.0", module(body="raise ImportError('planted at the end')"))
    two.run("run", "2.0")
    assert "  > ImportError: planted at the end" in two.run("explain", "census/import", code=0).out
    [row, *_] = two.run("explain", "census/import", "--build", "2.0", "--json", code=0).data
    assert row["outcome"]["error_type"] == "import:ImportError"
    assert row["outcome"]["traceback"].endswith("planted at the end\n")
