"""A build whose import ends the process: it is tried twice, and not once per case."""

from __future__ import annotations

import time
from dataclasses import replace

from tests.systems import posix
from tests.unit.test_hostile_builds import plant, stage
from tests.unit.test_workers import LIMITS, Stage, planted
from tracker import judge
from tracker.model import Ending, Outcome, State
from tracker.workers import ImportDeaths, run_cases

__all__ = ["stage"]

HANG = "import time; time.sleep(600)"
QUICK = replace(LIMITS, case_timeout=0.5)


def test_an_import_that_hangs_costs_two_time_limits_for_any_number_of_cases(stage: Stage) -> None:
    plant(stage, HANG)
    began = time.monotonic()
    results = stage.play(*(planted("passes", f"number{n}") for n in range(3000)), limits=QUICK)
    assert time.monotonic() - began < 20 and stage.workers == ["worker-1", "worker-2"]
    assert {result.outcome.ending for result in results.values()} == {Ending.TIMEOUT}
    assert {judge.find(r.outcome, {}).state for r in results.values()} == {State.HANG}


def test_what_was_not_run_says_where_the_import_was_tried(stage: Stage) -> None:
    plant(stage, HANG)
    results = stage.play("passes", "raises", "warns", limits=QUICK)
    said = "no result within 0.5 s while the build was imported"
    assert [result.outcome.error_message for result in results.values()] == [
        said,
        said,
        f"not run, as the import was tried in planted/passes and planted/raises: {said}",
    ]
    assert {result.outcome.error_type for result in results.values()} == {"import:timeout"}
    assert results["warns"].seconds == 0 and results["warns"].worker == results["raises"].worker


@posix
def test_an_import_that_crashes_is_tried_twice_too(stage: Stage) -> None:
    plant(stage, "import os; os.abort()")
    results = stage.play("passes", "raises", "warns")
    assert [result.outcome.exit_code for result in results.values()] == [-6] * 3
    assert len(stage.workers) == 2


def test_a_second_attempt_after_two_deaths_starts_no_process(stage: Stage) -> None:
    plant(stage, HANG)
    deaths, cases = ImportDeaths(), [planted("passes"), planted("raises")]
    first = list(run_cases(stage.spec, cases, QUICK, deaths=deaths))
    again = list(run_cases(stage.spec, cases, QUICK, isolate=True, deaths=deaths))
    assert len(stage.workers) == 2
    assert {judge.find(result.outcome, {}).reason for result in [*first, *again]} == {"timeout"}


def test_an_import_that_dies_once_costs_its_own_case_only(stage: Stage) -> None:
    mark = stage.spec.folder.parent / "tried"
    plant(stage, f"import os, pathlib; mark = pathlib.Path({str(mark)!r})\n"
                 "if not mark.exists():\n    mark.touch()\n    os._exit(7)")  # fmt: skip
    results = stage.play("passes", "raises", planted("passes", "again"))
    assert results["passes"].outcome.exit_code == 7
    assert results["again"].outcome == Outcome(Ending.COMPLETED)
    assert len(stage.workers) == 2


def test_a_death_after_the_import_is_the_cases_own(stage: Stage) -> None:
    plant(stage, "x = 1")
    results = stage.play("exits_at_once", planted("exits_at_once", "again"), "passes")
    assert results["again"].outcome.error_message == "" == results["again"].outcome.error_type
    assert results["passes"].outcome == Outcome(Ending.COMPLETED)


def test_a_stop_during_the_import_leaves_the_other_cases_alone(stage: Stage) -> None:
    plant(stage, HANG)
    said = stage.spec.folder / "worker-1/results.jsonl"
    results = stage.play("passes", "raises", stop=lambda: said.exists() and "importing" in said.read_text())
    assert [result.outcome.ending for result in results.values()] == [Ending.CANCELLED]


def test_a_worker_without_room_for_its_results_names_the_disk(stage: Stage) -> None:
    results = stage.play("passes", "fills_the_disk", "raises")
    found = judge.find(results["fills_the_disk"].outcome, {})
    assert (found.state, found.reason) == (State.INFRA, "disk-full")
    assert "MB are free now" in results["fills_the_disk"].outcome.error_message
    assert results["raises"].outcome.error_type == "ValueError"
