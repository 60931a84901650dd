"""Planted cases run in real worker processes; only the conversation's own rules are tested without one."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from suites import protocol
from tests.systems import eventually, gone, posix
from tests.unit.test_process import ENV
from tracker.case_log import MARK_PATIENCE
from tracker.matrix import Case
from tracker.model import Ending, Outcome
from tracker.process import Process
from tracker.takeover import salvage
from tracker.workers import (
    UNDEAD,
    CaseResult,
    WorkerLimits,
    WorkerSpec,
    run_cases,
)

ROOT = Path(__file__).parents[2]
LIMITS = WorkerLimits(case_timeout=20, start_timeout=20, exit_timeout=5)
QUICK = replace(LIMITS, case_timeout=0.7)
NO_BUILD = {"name": "planted", "package": "planted", "module": "", "dispatch_keys": []}


def copy_suites(folder: Path) -> None:
    shutil.copytree(ROOT / "suites", folder / "suites", ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture(scope="session")
def suites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    copy_suites(folder)
    shutil.copytree(ROOT / "tests/planted_suite/planted", folder / "suites/planted")
    return folder


class Stage:
    """Runs planted cases by the names of their functions."""

    def __init__(self, suites: Path, folder: Path) -> None:
        self.spec = WorkerSpec(Path(sys.executable), suites, folder, NO_BUILD, "absent", ENV)

    def play(self, *cases: str | Case, limits: WorkerLimits = LIMITS, **more: Any) -> dict[str, CaseResult]:
        listed = [planted(case) if isinstance(case, str) else case for case in cases]
        results = list(run_cases(self.spec, listed, limits, **more))
        names = [result.case.partition("/")[2] for result in results]
        assert len(names) == len(set(names))
        return dict(zip(names, results, strict=True))

    @property
    def workers(self) -> list[str]:
        """The names of the workers that were started."""
        return sorted(path.name for path in self.spec.folder.glob("worker-*"))

    def ends(self, *cases: str, limits: WorkerLimits = LIMITS) -> Outcome:
        """Play one case, or several of which the last matters."""
        return self.play(*cases, limits=limits)[cases[-1]].outcome


def planted(function: str, name: str = "", **params: Any) -> Case:
    return Case(f"planted/{name or function}", "planted", function, params)


@pytest.fixture
def stage(suites: Path, tmp_path: Path) -> Stage:
    return Stage(suites, tmp_path)


# Cases that end by themselves


def test_a_case_sends_measures_seconds_and_its_own_output(stage: Stage) -> None:
    result = stage.play(planted("passes", value=2.5))["passes"]
    assert result.outcome == Outcome(Ending.COMPLETED)
    assert result.measures["value"] == 2.5
    assert result.log == "out of a passing case\n"
    assert 0 <= result.seconds < LIMITS.case_timeout


def test_an_exception_comes_with_type_message_and_traceback(stage: Stage) -> None:
    outcome = stage.ends("raises")
    assert (outcome.ending, outcome.error_type) == (Ending.EXCEPTION, "ValueError")
    assert outcome.error_message == "planted: 中文 \\ud800"
    assert 'raise ValueError("planted' in outcome.traceback


def test_an_exception_without_words_is_reported_too(stage: Stage) -> None:
    outcome = stage.ends("raises_without_words")
    assert outcome.error_type.endswith("Wordless")
    assert outcome.error_message == "<no message: RuntimeError>"


def test_system_exit_is_an_exception_of_the_case(stage: Stage) -> None:
    results = stage.play("exits", "passes")
    assert (results["exits"].outcome.error_type, results["exits"].outcome.error_message) == (
        "SystemExit",
        "3",
    )
    assert results["passes"].worker == results["exits"].worker


def test_a_suite_that_lacks_its_function_is_our_own_error(stage: Stage) -> None:
    assert stage.ends("no_such_case").error_type == "suite:AttributeError"
    nowhere = Case("planted/nowhere", "planted", "nowhere:at_all")
    assert stage.play(nowhere)["nowhere"].outcome.error_type == "suite:ModuleNotFoundError"


def test_a_build_that_can_not_be_imported_says_so_in_every_case(stage: Stage) -> None:
    stage.spec = replace(stage.spec, track={**NO_BUILD, "module": "no_such_build"})
    results = stage.play("passes", "raises")
    assert {r.outcome.error_type for r in results.values()} == {"import:ModuleNotFoundError"}
    assert "no_such_build" in results["raises"].outcome.error_message


@pytest.mark.parametrize(
    ("case", "error"),
    [("returns_an_object", protocol.NOT_JSON), ("returns_too_much", protocol.TOO_LARGE)],
)
def test_measures_that_can_not_be_sent_are_an_error(stage: Stage, case: str, error: str) -> None:
    results = stage.play(case, "passes")
    assert results[case].outcome.error_type == error
    assert results["passes"].outcome.ending is Ending.COMPLETED


def test_numbers_that_are_not_finite_are_sent_as_text(stage: Stage) -> None:
    assert stage.play("returns_nonfinite")["returns_nonfinite"].measures == {
        "values": ["nan", "inf", "-inf", 1.5]
    }


def test_text_that_utf8_can_not_say_is_written_out(stage: Stage) -> None:
    measures = stage.play("returns_surrogates")["returns_surrogates"].measures
    assert measures == {"\\ud800": "\\udfff", "good": "中文"}


def test_warnings_belong_to_their_case_each_time_anew(stage: Stage) -> None:
    first, plain, second = planted("warns", "first"), planted("passes"), planted("warns", "second")
    results = stage.play(first, plain, second)
    assert results["first"].outcome.warnings == ("UserWarning: fell back, number 0",)
    assert results["passes"].outcome.warnings == ()
    assert results["second"].outcome.warnings == results["first"].outcome.warnings


def test_warnings_are_bounded(stage: Stage) -> None:
    outcome = stage.play(planted("warns", times=1000))["warns"].outcome
    assert len(outcome.warnings) == protocol.MAX_WARNINGS


# Processes that end


@posix
@pytest.mark.parametrize(("case", "code"), [("segfaults", -11), ("aborts", -6), ("exits_at_once", 7)])
def test_a_death_is_charged_to_the_case_in_flight(stage: Stage, case: str, code: int) -> None:
    results = stage.play("passes", case, planted("passes", "after"))
    assert (results[case].outcome.ending, results[case].outcome.exit_code) == (Ending.EXITED, code)
    assert results["passes"].outcome == results["after"].outcome == Outcome(Ending.COMPLETED)
    assert results["passes"].worker == results[case].worker != results["after"].worker


@posix
def test_the_log_of_a_crash_shows_where_it_was(stage: Stage) -> None:
    log = stage.play("passes", "segfaults")["segfaults"].log
    assert log.startswith("about to crash\n")
    assert "Segmentation fault" in log
    assert "in segfaults" in log


def test_a_case_that_hangs_is_ended_and_its_stack_is_kept(stage: Stage) -> None:
    results = stage.play("sleeps", "passes", limits=QUICK)
    assert results["sleeps"].outcome.ending is Ending.TIMEOUT
    assert results["sleeps"].outcome.error_message == "no result within 0.7 s"
    assert "in sleeps" in results["sleeps"].log
    assert results["passes"].outcome.ending is Ending.COMPLETED


def test_a_case_has_a_time_limit_of_its_own(stage: Stage) -> None:
    result = stage.play(replace(planted("sleeps"), timeout=0.3))["sleeps"]
    assert result.outcome.error_message == "no result within 0.3 s"
    assert 0.3 <= result.seconds < 10


def test_a_case_that_grows_past_the_memory_limit_is_ended(stage: Stage) -> None:
    results = stage.play("eats_memory", "passes", limits=replace(LIMITS, memory=250 << 20))
    assert results["eats_memory"].outcome.ending is Ending.MEMORY_LIMIT
    assert "the limit is 262144000" in results["eats_memory"].outcome.error_message
    assert results["passes"].outcome.ending is Ending.COMPLETED


def test_endless_output_costs_its_own_case_only(stage: Stage) -> None:
    results = stage.play("passes", "prints_for_ever", limits=QUICK)
    assert results["prints_for_ever"].outcome.ending is Ending.TIMEOUT
    assert "bytes left out" in results["prints_for_ever"].log
    assert len(results["prints_for_ever"].log) < 40_000
    assert results["passes"].log == "out of a passing case\n"


@posix
def test_a_grandchild_that_left_the_session_is_gone_after_the_worker(stage: Stage) -> None:
    result = stage.play("leaves_a_grandchild")["leaves_a_grandchild"]
    assert gone(result.measures["grandchild"], seconds=0.5)


def test_a_death_after_the_result_is_told_with_the_result(stage: Stage) -> None:
    outcome = stage.ends("crashes_at_exit")
    assert (outcome.ending, outcome.exit_code) == (Ending.COMPLETED, 9)


@posix
def test_a_death_between_two_cases_is_told_and_charged_once(stage: Stage) -> None:
    results = stage.play("dies_after_its_result", "sleeps", limits=QUICK)
    codes = [results[case].outcome.exit_code for case in ("dies_after_its_result", "sleeps")]
    assert results["dies_after_its_result"].outcome.ending is Ending.COMPLETED
    assert codes in ([11, None], [None, 11])


# The run as a whole


def test_an_isolated_case_has_a_process_of_its_own(stage: Stage) -> None:
    results = stage.play("passes", planted("passes", "again"), isolate=True)
    assert len({result.measures["pid"] for result in results.values()}) == 2


def test_a_stop_cancels_the_case_in_flight_and_begins_no_other(stage: Stage) -> None:
    said = stage.spec.folder / "worker-1/results.jsonl"
    begun = lambda: said.exists() and '"start"' in said.read_text()  # noqa: E731
    results = stage.play("sleeps", "passes", stop=begun)
    assert {name: result.outcome.ending for name, result in results.items()} == {"sleeps": Ending.CANCELLED}


def test_closing_the_iterator_kills_the_worker(stage: Stage) -> None:
    results = run_cases(stage.spec, [planted("passes"), planted("sleeps")], LIMITS)
    pid = next(results).measures["pid"]
    results.close()  # type: ignore[attr-defined]
    assert gone(pid, seconds=0.5)


def test_a_result_carries_the_memory_of_its_worker(stage: Stage) -> None:
    assert stage.play("passes", "aborts")["passes"].peak_memory > 1 << 20


@posix
def test_a_worker_of_another_environment_is_not_listened_to(stage: Stage) -> None:
    stage.spec = replace(stage.spec, python=stand_in(stage.spec.folder / "env"))
    outcome = stage.ends("passes")
    assert outcome.ending is Ending.NOT_STARTED
    assert f"the worker runs in '{sys.prefix}', not in the environment" in outcome.error_message


def stand_in(environment: Path) -> Path:
    """Make a Python that is in a folder but not of it; return its path."""
    python = environment / "bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return python


def test_what_would_not_die_is_said_and_nothing_is_started_beside_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = Process._kill_all
    monkeypatch.setattr(Process, "_kill_all", lambda process: kill(process) or (4711,))
    results = stage.play("passes", "sleeps", "raises", limits=QUICK)
    assert [(r.outcome.ending, r.outcome.error_type, r.undead) for r in results.values()] == [
        (Ending.COMPLETED, "", ""),
        (Ending.TIMEOUT, UNDEAD, "would not die: 4711"),
        (Ending.NOT_STARTED, UNDEAD, "would not die: 4711"),
    ]
    assert stage.workers == ["worker-1"]


def test_a_result_that_came_before_its_worker_would_not_die_stands_and_says_so(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Process, "_kill_all", lambda process: (4711,))
    result = stage.play("raises")["raises"]
    assert (result.outcome.error_type, result.undead) == ("ValueError", "would not die: 4711")


def test_after_three_workers_that_do_not_start_the_rest_is_given_up(stage: Stage) -> None:
    (stage.spec.folder / "broken/suites").mkdir(parents=True)
    script = stage.spec.folder / "broken/suites/worker.py"
    script.write_text("print('no good'); raise SystemExit(5)")
    stage.spec = replace(stage.spec, suites=stage.spec.folder / "broken")
    results = stage.play("passes", "raises")
    assert [(r.outcome.ending, r.outcome.exit_code, r.log) for r in results.values()] == [
        (Ending.NOT_STARTED, 5, "no good\n")
    ] * 2
    assert len(stage.workers) == 3


def test_a_worker_that_says_nothing_is_given_up(stage: Stage) -> None:
    (stage.spec.folder / "mute/suites").mkdir(parents=True)
    (stage.spec.folder / "mute/suites/worker.py").write_text("import time; time.sleep(600)")
    stage.spec = replace(stage.spec, suites=stage.spec.folder / "mute")
    outcome = stage.ends("passes", limits=replace(LIMITS, start_timeout=0.3))
    assert (outcome.ending, outcome.error_message) == (Ending.NOT_STARTED, "no greeting within 0.3 s")


def test_a_python_that_is_not_there_is_told(stage: Stage) -> None:
    stage.spec = replace(stage.spec, python=Path("/no/such/python"))
    outcome = stage.ends("passes")
    assert outcome.ending is Ending.NOT_STARTED
    assert outcome.error_message


def test_many_small_cases_share_one_worker_and_never_wait_for_their_logs(stage: Stage) -> None:
    cases = [planted("passes", f"number{n}") for n in range(200)]
    before = time.monotonic()
    results = stage.play(*cases)
    assert time.monotonic() - before < len(cases) * MARK_PATIENCE / 2, "each waited in vain for a mark"
    assert stage.workers == ["worker-1"] and {r.log for r in results.values()} == {"out of a passing case\n"}


WHERE = "'uv python list' and ~/.pyenv/versions"


@cache
def pythons() -> dict[tuple[int, ...], str]:
    """Return the interpreters of this machine by their version."""
    command = ["uv", "python", "list", "--only-installed", "--output-format", "json", "--no-python-downloads"]
    try:
        listed = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        listed = []
    found = {tuple(map(int, item["version"].split(".")[:2])): item["path"] for item in listed}
    for path in Path.home().glob(".pyenv/versions/3.*/bin/python3"):
        found[tuple(map(int, path.parts[-3].split(".")[:2]))] = str(path)
    return found


@pytest.mark.parametrize("version", [(3, minor) for minor in range(8, 13)], ids=lambda v: f"3.{v[1]}")
def test_the_worker_runs_on_every_python_that_a_build_needs(stage: Stage, version: tuple[int, int]) -> None:
    if version not in pythons():
        pytest.skip(f"no Python 3.{version[1]} among those of {WHERE}")
    stage.spec = replace(stage.spec, python=Path(pythons()[version]))
    results = stage.play("passes", "raises", "warns", "returns_nonfinite", "exits", "closes_the_streams")
    endings = [result.outcome.ending.value for result in results.values()]
    assert endings == ["completed", "exception", "completed", "completed", "exception", "completed"]


@pytest.mark.parametrize("path", sorted((ROOT / "suites").rglob("*.py")), ids=lambda p: p.stem)
def test_every_file_of_the_suites_is_in_the_words_of_python_3_8(path: Path) -> None:
    ast.parse(path.read_text("utf-8"), str(path), feature_version=(3, 8))


# A tracker that dies


@posix
def test_a_worker_and_what_it_started_die_with_the_tracker(stage: Stage) -> None:
    code = f"""
        from pathlib import Path
        from tracker.matrix import Case
        from tracker.workers import *
        cases = [Case("planted/passes", "planted", "passes"),
                 Case("planted/hang", "planted", "leaves_a_grandchild", {{"hang": True}})]
        folders = map(Path, {[sys.executable, str(stage.spec.suites), str(stage.spec.folder)]!r})
        spec = WorkerSpec(*folders, {NO_BUILD!r}, "absent", {ENV!r})
        for result in run_cases(spec, cases, WorkerLimits()):
            pass
    """
    tracker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    note = stage.spec.folder / "worker-1/scratch/grandchild"
    try:
        assert eventually(lambda: note.exists() and note.read_text())
        worker = psutil.Process(tracker.pid).children()[-1].pid
    finally:
        tracker.kill()
        tracker.wait()
    assert gone(worker)
    assert gone(int(note.read_text()))
    assert [(r.case, r.outcome.ending) for r in salvage(stage.spec.folder)] == [
        ("planted/passes", Ending.COMPLETED),
        ("planted/hang", Ending.CANCELLED),
    ]


def test_finished_cases_are_salvaged_with_their_measures(stage: Stage) -> None:
    stage.play("passes", "exits_at_once", "raises")
    saved = {result.case: result for result in salvage(stage.spec.folder)}
    endings = {case: result.outcome.ending for case, result in saved.items()}
    assert endings == {
        "planted/passes": Ending.COMPLETED,
        "planted/exits_at_once": Ending.CANCELLED,
        "planted/raises": Ending.EXCEPTION,
    }
    assert saved["planted/passes"].measures["value"] == 1.0
    assert saved["planted/raises"].worker == "worker-2"


def test_nothing_is_salvaged_from_ruins(tmp_path: Path) -> None:
    for number, text in enumerate(["", "[]", '{"nonce": 1, "cases": 3}', '{"nonce": "a", "cases": []}']):
        (tmp_path / f"worker-{number + 1}").mkdir()
        (tmp_path / f"worker-{number + 1}/request.json").write_text(text)
    (tmp_path / "worker-4/results.jsonl").write_bytes(b"\xff\n")
    assert salvage(tmp_path) == []
