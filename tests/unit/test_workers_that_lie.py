"""Cases that forge results or take the channels away, and what a worker gets to see of the host."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.systems import posix
from tests.unit.test_workers import Stage, planted, stage, suites
from tracker.model import Ending, Outcome
from tracker.process import clean_environment

__all__ = ["stage", "suites"]

# Workers that lie


@pytest.mark.parametrize(
    "text",
    [
        "not a message\n",
        '"not a table"\n',
        '{"m": "fnord"}\n',
        '{"m": "start", "case": "planted/passes", "at": 1}\n',
        '{"m": "result", "case": "planted/no such", "seconds": 1, "measures": {}}\n',
        '{"m": "result", "case": "planted/writes_results", "seconds": NaN, "measures": {}}\n',
        '{"m": "result", "case": "planted/writes_results", "seconds": 1, "measures": []}\n',
        '{"m": "done"}\n',
        "[" * 100_000 + "\n",
    ],
    ids=lambda text: str(text)[:30].strip(),
)
def test_nonsense_in_the_results_is_charged_to_the_case_in_flight(stage: Stage, text: str) -> None:
    results = stage.play(planted("writes_results", text=text), "passes")
    assert results["writes_results"].outcome.ending is Ending.GARBLED
    assert results["writes_results"].outcome.error_message
    assert results["passes"].outcome == Outcome(Ending.COMPLETED)


def test_bytes_that_are_not_text_are_nonsense(stage: Stage) -> None:
    case = planted("writes_results", text='{"m": "caf\xe9"}\n', encoding="latin-1")
    assert stage.play(case)["writes_results"].outcome.ending is Ending.GARBLED


def test_a_line_without_end_is_nonsense(stage: Stage) -> None:
    case = planted("writes_results", text="x" * (1 << 20), repeat=10)
    assert "the limit is 8388608" in stage.play(case)["writes_results"].outcome.error_message


def test_a_results_file_that_shrinks_is_nonsense(stage: Stage) -> None:
    assert stage.ends("truncates_results").error_message == "the results file has become shorter"


def test_a_forged_result_is_not_believed(stage: Stage) -> None:
    result = stage.play(planted("forges_its_result", "forges"))["forges"]
    assert (result.outcome.ending, result.measures) == (Ending.GARBLED, {})


@posix
@pytest.mark.parametrize("case", ["closes_everything", "closes_the_streams", "opens_too_many"])
def test_a_case_can_not_take_the_results_channel_away(stage: Stage, case: str) -> None:
    results = stage.play(case, "passes")
    assert {result.outcome.ending for result in results.values()} == {Ending.COMPLETED}
    assert len({result.worker for result in results.values()}) == 1


@posix
def test_output_is_back_after_a_case_that_closed_the_streams(stage: Stage) -> None:
    assert stage.play("closes_the_streams", "passes")["passes"].log == "out of a passing case\n"


def test_a_case_can_not_end_its_section_of_the_log(stage: Stage) -> None:
    results = stage.play("prints_marks", planted("passes", "after"))
    assert results["after"].log == "out of a passing case\n"
    assert results["prints_marks"].log.count("\x1e") == 52


# What a worker gets to see


def test_no_token_reaches_a_case(stage: Stage) -> None:
    source = {**os.environ, "GITHUB_TOKEN": "secret", "HF_TOKEN": "secret", "PYTHONPATH": "/elsewhere"}
    stage.spec = replace(stage.spec, env=clean_environment({"EXTRA": "1"}, source))
    names = stage.play("shows_environment")["shows_environment"].measures["names"]
    assert "EXTRA" in names
    assert not {"GITHUB_TOKEN", "HF_TOKEN", "PYTHONPATH"} & set(names)


def test_a_case_finds_stdin_empty(stage: Stage) -> None:
    assert stage.play("reads_stdin")["reads_stdin"].measures == {"stdin": ""}


def test_a_case_starts_in_a_scratch_folder_that_is_deleted(stage: Stage) -> None:
    results = stage.play("changes_folder", "shows_folder")
    folder = Path(results["shows_folder"].measures["folder"])
    assert folder.parent == stage.spec.folder / results["shows_folder"].worker
    assert not folder.exists()
