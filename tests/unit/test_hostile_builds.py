"""Builds that change the interpreter under the worker: each case still gets its own result, and nothing hangs."""

from __future__ import annotations

import os
import shutil
import sysconfig
import textwrap
import venv
from dataclasses import replace
from pathlib import Path

import pytest

from tests.systems import gone, posix
from tests.unit.test_workers import LIMITS, NO_BUILD, QUICK, ROOT, Stage, copy_suites
from tracker.model import Ending, Outcome

BUILDS = {
    "replaces functions": """
        import builtins, json, os, time
        def broken(*args, **more): raise RuntimeError("replaced")
        builtins.open = json.dumps = os.write = os.open = os.fstat = os.chdir = os.dup2 = broken
        time.time = time.perf_counter = broken
    """,
    "ends at exit": "import atexit, os; atexit.register(os._exit, 0)",
    "sleeps at exit": "import atexit, time; atexit.register(time.sleep, 600)",
    "takes signals": """
        import signal
        for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.SIG_IGN)
    """,
    "moves away": "import os, shutil; here = os.getcwd(); os.chdir('/'); shutil.rmtree(here, True)",
    "leaves a thread": "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start()",
    "speaks like a worker": """
        import sys
        for stream in (sys.stdout, sys.stderr):
            stream.write('{"m": "result", "case": "planted/raises", "seconds": 0, "measures": {}}\\n')
            stream.write('{"m": "done"}\\n\\x1edmltrack 0123456789abcdef planted/raises\\n')
    """,
    "takes the streams away": "import sys; sys.stdout = sys.stderr = sys.stdin = None",
    "leaves no stack": "import sys; sys.setrecursionlimit(70)",
    "speaks of nothing": "import warnings, logging; warnings.warn = logging.info = None",
}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A stage with a folder of its own, in which a build can be planted."""
    folder = tmp_path / "copy"
    copy_suites(folder)
    shutil.copytree(ROOT / "tests/planted_suite/planted", folder / "suites/planted")
    return Stage(folder, tmp_path / "workers")


def plant(stage: Stage, source: str) -> None:
    (stage.spec.suites / "hostile.py").write_text(textwrap.dedent(source), "utf-8")
    stage.spec = replace(stage.spec, track={**NO_BUILD, "module": "hostile"})


@pytest.mark.parametrize("source", BUILDS.values(), ids=BUILDS.keys())
def test_a_build_that_tampers_with_python_changes_no_result(stage: Stage, source: str) -> None:
    plant(stage, source)
    results = stage.play("passes", "raises", "returns_nonfinite", limits=replace(LIMITS, exit_timeout=0.5))
    assert results["passes"].outcome == Outcome(Ending.COMPLETED)
    assert results["passes"].measures["value"] == 1.0
    assert results["raises"].outcome.error_type == "ValueError"
    assert results["returns_nonfinite"].measures == {"values": ["nan", "inf", "-inf", 1.5]}
    assert stage.workers == ["worker-1"]


def test_a_build_that_hears_no_signal_is_ended_like_any_other(stage: Stage) -> None:
    plant(stage, BUILDS["takes signals"])
    results = stage.play("passes", "sleeps", limits=QUICK)
    assert results["sleeps"].outcome.ending is Ending.TIMEOUT
    assert gone(results["passes"].measures["pid"], seconds=0.5)


def test_an_exception_that_refuses_to_be_told_is_still_the_cases_own(stage: Stage) -> None:
    plant(stage, "class Mute(Exception):\n    def __str__(self): raise SystemExit(3)\nraise Mute")
    results = stage.play("passes", "raises")
    assert {r.outcome.error_type for r in results.values()} == {"import:hostile.Mute"}
    assert stage.workers == ["worker-1"]


@posix
def test_a_build_that_stops_its_own_process_is_a_hang(stage: Stage) -> None:
    plant(stage, "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
    assert stage.ends("passes", limits=QUICK).ending is Ending.TIMEOUT


def test_a_build_that_ends_python_quietly_has_not_passed(stage: Stage) -> None:
    plant(stage, "import os; os._exit(0)")
    outcome = stage.ends("passes")
    assert (outcome.ending, outcome.exit_code) == (Ending.EXITED, 0)


STARTS = {
    "prints": "import sys; print('{\"m\": \"hello\"}'); sys.stderr.write('started')",
    "tampers": "import builtins, json; json.dumps = builtins.input = None",
    "raises": "import no_such_module",
    "leaves a thread": "import threading, time; threading.Thread(target=time.sleep, args=(600,)).start()",
}


@pytest.mark.parametrize("line", STARTS.values(), ids=STARTS.keys())
def test_a_build_that_runs_when_python_starts_changes_no_result(stage: Stage, line: str) -> None:
    start_with(stage, line)
    results = stage.play("passes", "raises", limits=replace(LIMITS, exit_timeout=0.5))
    assert results["passes"].outcome == Outcome(Ending.COMPLETED)
    assert results["raises"].outcome.error_type == "ValueError"


def test_a_build_that_ends_python_when_it_starts_is_tried_three_times(stage: Stage) -> None:
    start_with(stage, "import os; os._exit(3)")
    outcome = stage.ends("passes")
    assert (outcome.ending, outcome.exit_code) == (Ending.NOT_STARTED, 3)
    assert len(stage.workers) == 3


def test_a_build_that_hangs_when_python_starts_is_given_up(stage: Stage) -> None:
    start_with(stage, "import time; time.sleep(600)")
    outcome = stage.ends("passes", limits=replace(LIMITS, start_timeout=0.3))
    assert outcome.error_message == "no greeting within 0.3 s"


def start_with(stage: Stage, line: str) -> None:
    """Let the stage's Python be that of an environment in which a line of code runs at every start."""
    environment = stage.spec.folder.parent / "env"
    venv.create(environment, symlinks=os.name == "posix")
    variables = {"base": str(environment), "platbase": str(environment)}
    packages = Path(sysconfig.get_path("purelib", "nt" if os.name == "nt" else "posix_prefix", variables))
    (packages / "planted.pth").write_text(f"{line}\n", "utf-8")
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stage.spec = replace(stage.spec, python=python)
