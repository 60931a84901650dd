"""Planted builds with known faults go through the whole program, and each gets the verdict that it deserves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.scenarios.world import World, module
from tests.systems import gone, posix

ENDLESS = "def __dir__():\n    while True: "
"""A hang when the API is listed, and not at the import, which every case and every second attempt would wait for."""

FAULTS = {
    "1.0.dev1": module(),
    "1.0.dev2": "raise ImportError('DLL load failed while importing planted')",
    "1.0.dev3": "import faulthandler; faulthandler._read_null()",
    "1.0.dev4": "import os; os.abort()",
    "1.0.dev5": module(body=f"import time\n{ENDLESS}time.sleep(600)"),
    "1.0.dev6": module(body=f"print('x' * 1000000)\n{ENDLESS}print('no end of it')"),
    "1.0.dev7": "import os; os._exit(7)",
}


def test_each_fault_gets_its_own_verdict_and_the_other_builds_go_on(world: World) -> None:
    for version, source in FAULTS.items():
        world.plant(version, source)
    # 5 of the 300 s that a census has: a hundred times what these builds need, and no more waits than four.
    world.settings(f"[worker]\ntimeout_factor = {5 / 300}\n")
    world.run("run", "all", code=1)
    states = world.states()
    got = {version: (states[version, "census/import"], states[version, "census/api"]) for version in FAULTS}
    assert got == {
        "1.0.dev1": ("pass", "pass"),
        "1.0.dev2": ("import-failed", "import-failed"),
        "1.0.dev3": ("crash", "crash"),
        "1.0.dev4": ("crash", "crash"),
        "1.0.dev5": ("pass", "hang"),
        "1.0.dev6": ("pass", "hang"),
        "1.0.dev7": ("crash", "crash"),
    }
    evidence = world.run("explain", "census/import", "--build", "1.0.dev2", "--json", code=0).data
    assert "DLL load failed" in evidence[0]["message"]
    endless = world.run("explain", "census/api", "--build", "1.0.dev6", "--json", code=0).data
    assert 0 < len(endless[0]["log"]) < 100_000
    sizes = [path.stat().st_size for path in (world.home / "journal").iterdir()]
    assert sum(sizes) < 2_000_000, "a build that prints without end costs a fixed amount"
    assert_nothing_is_left(world)


def assert_nothing_is_left(world: World) -> None:
    """Check that neither folders nor processes of a run outlive it."""
    assert not list((world.home / "runs").glob("*"))
    assert not [path for path in (world.home / "envs").iterdir() if path.name.startswith(".")]
    running = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in running if str(world.home) in line]


def test_a_build_that_eats_memory_is_stopped_at_the_limit(world: World) -> None:
    world.plant("1.0", module(body="hog = []\nwhile True: hog.append(bytearray(20_000_000))"))
    world.settings("[worker]\nmemory_gb = 0.5\n")
    world.run("run", "1.0", "--suites", "census")
    assert world.states()["1.0", "census/import"] == "oom"


@posix
def test_a_grandchild_does_not_outlive_its_build(world: World, tmp_path: Path) -> None:
    mark = tmp_path / "grandchild.pid"
    body = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        f"        open({str(mark)!r}, 'w').write(str(os.getpid()))\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        f"while not os.path.exists({str(mark)!r}): time.sleep(0.01)\n"
    )
    world.plant("1.0", module(body=body))
    world.run("run", "1.0", code=0)
    assert gone(int(mark.read_text()), seconds=0.5)


def test_a_build_with_no_wheel_for_any_python_here_is_uninstallable_in_one_line(world: World) -> None:
    entry = world.plant("1.0", module())
    entry["filename"] = entry["filename"].replace("py3-none", "cp36-cp36m")
    answer = world.run("run", "1.0", code=5)
    assert world.states()["1.0", "census/import"] == "uninstallable"
    assert "1.0 has no wheel for" in answer.err


def test_a_build_whose_dependency_is_nowhere_is_uninstallable_with_uvs_reason(world: World) -> None:
    from tests.planted_wheels import make_wheel

    files = {"planted/__init__.py": "x = 1\n"}
    world.index.add(make_wheel(world.wheels, "planted", "1.0", "py3", "any", files, ["torch==99"]))
    world.plant("2.0", module())
    answer = world.run("run", "all", code=0)
    states = world.states()
    assert states["1.0", "census/import"] == "uninstallable" and states["2.0", "census/import"] == "pass"
    assert "there is no version of torch==99" in answer.err


def test_a_wheel_that_is_not_what_the_index_promised_is_not_installed(world: World) -> None:
    entry = world.plant("1.0", module())
    entry["hashes"]["sha256"] = "0" * 64
    answer = world.run("run", "1.0", code=5)
    assert "sha256" in answer.err and world.states()["1.0", "census/import"] == "uninstallable"


def test_tokens_of_the_host_do_not_reach_a_build(world: World) -> None:
    world.environ = {
        "GITHUB_TOKEN": "ghs_secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "PYTHONPATH": "/nowhere",
    }
    world.plant("1.0", module(body="import os; raise ImportError('sees ' + ' '.join(sorted(os.environ)))"))
    world.run("run", "1.0", code=0)
    [said] = {row["message"] for row in world.run("explain", "census/import", "--json", code=0).data}
    assert "GITHUB_TOKEN" not in said and "AWS" not in said and "PYTHONPATH" not in said and "PATH" in said


def test_extra_variables_come_from_the_configuration(world: World) -> None:
    world.settings('[worker.environment]\nVK_DRIVER_FILES = "/somewhere/lvp.json"\n')
    world.plant("1.0", module(body="import os; raise ImportError(os.environ['VK_DRIVER_FILES'][-8:])"))
    world.run("run", "1.0", code=0)
    assert "lvp.json" in world.run("explain", "census/import", "--json", code=0).data[0]["message"]


def test_a_hostile_file_name_is_one_warning_and_the_rest_goes_on(world: World) -> None:
    world.plant("1.0", module())
    world.plant("2.0", module())["filename"] = "../../planted-2.0-py3-none-any.whl"
    answer = world.run("poll", code=0)
    assert answer.err.count("warning:") == 1 and "new-build: 1.0" in answer.out
    assert not any(path.suffix == ".whl" for path in world.folder.iterdir())


def test_text_of_a_build_can_not_steer_the_terminal(world: World) -> None:
    world.plant("1.0", "raise ImportError('\\x1b[2J\\x1b]0;owned\\x07 \\u202edesrever \\ud800')")
    answer = world.run("run", "1.0")
    assert "\x1b" not in answer.err + answer.out and "\u202e" not in answer.err


def test_a_build_that_ends_python_when_it_starts_neither_passes_nor_hangs(world: World) -> None:
    world.plant("1.0", module(), {"planted.pth": "import os; os._exit(3)\n"})
    world.run("run", "1.0", code=5)
    assert "pass" not in world.states().values()


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "ascii"])
def test_any_text_of_a_build_can_be_printed_on_any_console(world: World, encoding: str) -> None:
    world.environ = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    world.plant("1.0", "raise ImportError('加载失败 😀 \\x1b[31m \\u2028 \\u202e')")
    answers = [world.run("run", "1.0"), world.run("builds", code=0), world.run("explain", "import", code=0)]
    assert all("Traceback" not in a.err and "\x1b" not in a.out + a.err for a in answers)
    [row] = {r["message"] for r in world.run("explain", "census/import", "--json", code=0).data}
    assert row.startswith("加载失败 😀 ")


def test_a_home_folder_may_have_spaces_and_any_letters_in_its_name(
    tmp_path: Path, new_world: Callable[[Path], World]
) -> None:
    world = new_world(tmp_path / "мой home 中文")
    world.plant("1.0", module())
    world.run("run", "1.0", "--json", code=0)
    assert world.run("builds", "--json", code=0).data[0]["status"] == "pass"
    assert str(world.home) in world.run("config", code=0).out
