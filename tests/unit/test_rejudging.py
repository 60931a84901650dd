"""A changed limit gives new verdicts from old observations, and says how many and from what to what."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tracker.cli_rejudge import lines, rejudge_command
from tracker.home import Home
from tracker.journal import Journal
from tracker.judge import ALONE, JUDGE, find
from tracker.model import Cell, Confidence, Ending, Finding, Observation, Outcome, State
from tracker.rejudging import Rejudged, Shift, rejudge

NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
CELL = Cell("torch-directml", "1.0", "inference", "inference/net", "gpu", "box", "d1")
OFF = {"checks": [{"name": "logits", "dtype": "float32", "worst": [[1.0, 2e-5]]}]}
GOOD = {"checks": [{"name": "logits", "dtype": "float32"}]}


def observed(measures: dict[str, Any], old: Finding | None = None, **changes: Any) -> Observation:
    """Return an observation; ``old`` is what another judge said of it."""
    outcome = Outcome(Ending.COMPLETED)
    finding = find(outcome, measures) if old is None else replace(old, judge="before")
    plain = Observation("r", "w", CELL, "env", NOW, 1.5, outcome, finding, measures)
    return replace(plain, **changes)


def journal(folder: Path, *records: Observation) -> Journal:
    with Journal(folder) as written:
        for record in records:
            written.append(record)
    return written


def judged(folder: Path, *records: Observation) -> Rejudged:
    return rejudge(journal(folder, *records).read())


PASS = Finding(State.PASS, "pass")


def test_under_the_same_rules_nothing_changes(tmp_path: Path) -> None:
    found = judged(tmp_path, observed(OFF), observed(GOOD))
    assert (found.observations, found.foreign, found.cells, found.changed, found.turned) == (2, 0, 1, 0, ())


def test_what_passed_under_wider_limits_is_wrong_now(tmp_path: Path) -> None:
    found = judged(tmp_path, observed(OFF, PASS), observed(GOOD, PASS, cell=replace(CELL, version="2.0")))
    assert found.findings == found.verdicts == (Shift("pass", "wrong: values", 1),)
    assert (found.foreign, found.cells) == (2, 2)
    assert [(turn.cell, turn.old.state, turn.new.state) for turn in found.turned] == [
        (CELL, State.PASS, State.WRONG)
    ]


def test_a_finding_of_a_replaced_environment_changes_no_verdict(tmp_path: Path) -> None:
    found = judged(tmp_path, observed(OFF, PASS, environment="old"), observed(GOOD, environment="new"))
    assert (found.changed, found.turned) == (1, ())


def test_a_change_of_confidence_is_a_change_of_the_verdict(tmp_path: Path) -> None:
    wrong = Finding(State.WRONG, "values")
    found = judged(tmp_path, observed(OFF, wrong), observed(OFF, PASS))
    assert [(turn.old.confidence, turn.new.confidence) for turn in found.turned] == [
        (Confidence.FLAKY, Confidence.OBSERVED)
    ]


def test_the_setting_of_an_observation_is_heeded(tmp_path: Path) -> None:
    found = judged(tmp_path, observed(OFF, PASS), observed(GOOD, PASS, attempt=ALONE))
    assert found.verdicts == (Shift("pass", "wrong: order-dependent", 1),)


def test_the_order_of_segments_does_not_matter(tmp_path: Path) -> None:
    entries = list(journal(tmp_path, observed(OFF, PASS), observed(GOOD), observed(OFF, PASS)).read())
    mixed = entries[:]
    random.Random(1).shuffle(mixed)
    assert rejudge(mixed) == rejudge(entries)


def test_the_lines_say_how_many_and_from_what_to_what(tmp_path: Path) -> None:
    assert lines(judged(tmp_path, observed(OFF, PASS))) == [
        "1 observations of 1 cells, 1 judged by other rules before",
        "1 findings mean something else now",
        "       1  pass -> wrong: values",
        "1 verdicts change",
        "       1  pass -> wrong: values",
        "    1.0  inference/net  gpu",
    ]


def test_checking_makes_no_database_and_rejudging_gives_the_new_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal(tmp_path / "journal", observed(OFF, PASS))
    rejudge_command(Home(tmp_path), check=True, json=False)
    assert not (tmp_path / "store").exists()
    home = Home(tmp_path)
    rejudge_command(home, check=False, json=True)
    [row] = home.store.query("verdicts", track="torch-directml", version="1.0")
    assert (row["state"], row["reason"]) == ("wrong", "values")
    assert JUDGE in capsys.readouterr().out


def test_the_verdicts_are_those_of_the_database(tmp_path: Path) -> None:
    """The fold by environment stands in SQL as well: both must come to the same."""
    dice, folder = random.Random(7), tmp_path / "journal"
    records = [
        observed(
            dice.choice([OFF, GOOD]),
            Finding(State.SKIPPED, "cancelled"),
            environment=dice.choice(["", "a", "b"]),
            cell=replace(CELL, case=f"inference/{dice.randrange(8)}"),
        )
        for _ in range(60)
    ]
    found = rejudge(journal(folder, *records).read())
    home = Home(tmp_path)
    rows = home.store.query("verdicts", track="torch-directml", version="1.0")
    assert {turn.cell.case: (str(turn.new.state), str(turn.new.confidence)) for turn in found.turned} == {
        row["case_id"]: (row["state"], row["confidence"]) for row in rows
    }
