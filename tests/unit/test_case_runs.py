"""A changelog says of a change that it is confirmed when the runs on record say so, and asks for few of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.builders import view
from tests.unit.store_records import CELL, DONE, SEGV, home_with, observation
from tracker.case_runs import FEWEST_CLEAN, FEWEST_FAILING, case_runs, with_confidence
from tracker.changelog import Changelog, Measured, changelog
from tracker.confirming import THOROUGH
from tracker.judge import ALONE, REORDERED, ROUNDS
from tracker.model import Cell, Confidence, Event, Finding, Outcome, State, Verdict
from tracker.publish.changelogs import as_markdown, as_text
from tracker.store import Store

CLEAN, FAILING = THOROUGH.clean, THOROUGH.failing


def runs(version: str, outcome: Outcome, times: int, attempt: int = ALONE) -> list[Event]:
    seen = observation(outcome, {"facts": {"a": 1}} if outcome is DONE else None, version=version)
    if outcome is DONE:
        seen = replace(seen, finding=Finding(State.PASS, "pass", "", seen.finding.judge))
    return [replace(seen, attempt=attempt)] * times


def log_of(store: Store) -> Changelog:
    """Return the changelog from build 1 to build 2 as their verdicts say it."""
    sides: dict[str, Any] = {}
    for version in ("1", "2"):
        [row] = store.query("verdicts", track=CELL.track, version=version)
        told = (State(row["state"]), row["reason"], row["message"], Confidence(row["confidence"]))
        cell: Cell = replace(CELL, version=version)
        verdict = Verdict(*told, row["observations"])
        measured = Measured(verdicts={(cell.case, cell.adapter): (cell, verdict)})
        sides[version] = view(version, track=CELL.track, measured={"box": measured})
    return changelog(sides["1"], sides["2"])


def told(home: Path, *events: Event) -> tuple[str, Confidence]:
    store = home_with(home, *events)
    [change] = with_confidence(store, log_of(store)).verdicts
    return change.kind, change.confidence


def fix(clean: int, failing: int, last: int = 1) -> Iterator[Event]:
    """Yield a change that was seen, and then so many runs of each build, ``last`` of the old one at the end."""
    yield from runs("1", SEGV, 1) + runs("2", DONE, 1)
    yield from runs("1", SEGV, failing - last) + runs("2", DONE, clean) + runs("1", SEGV, last)


@pytest.mark.parametrize(
    ("clean", "failing", "last", "confidence"),
    [
        (CLEAN, FAILING, 1, Confidence.CONFIRMED),
        (CLEAN + 5, FAILING + 5, 3, Confidence.CONFIRMED),
        (CLEAN - 1, FAILING, 1, Confidence.OBSERVED),
        (CLEAN, FAILING - 1, 1, Confidence.OBSERVED),
        (CLEAN, FAILING, 0, Confidence.OBSERVED),
        (1, 1, 1, Confidence.OBSERVED),
    ],
)
def test_a_fix_is_confirmed_by_the_runs_since_it_was_seen(
    tmp_path: Path, clean: int, failing: int, last: int, confidence: Confidence
) -> None:
    assert told(tmp_path, *fix(clean, failing, last)) == ("fixed", confidence)


def test_runs_before_the_change_was_seen_confirm_nothing(tmp_path: Path) -> None:
    before = runs("1", SEGV, 2 * FAILING)
    assert told(tmp_path, *before, *runs("2", DONE, 2 * CLEAN)) == ("fixed", Confidence.OBSERVED)


def test_runs_beside_other_cases_confirm_nothing(tmp_path: Path) -> None:
    events = [*fix(1, 2), *runs("2", DONE, 2 * CLEAN, REORDERED), *runs("1", SEGV, 2 * FAILING, REORDERED)]
    assert told(tmp_path, *events) == ("fixed", Confidence.OBSERVED)


def test_one_run_to_the_contrary_makes_it_flaky(tmp_path: Path) -> None:
    assert told(tmp_path, *fix(CLEAN, FAILING), *runs("2", SEGV, 1)) == ("flaky", Confidence.FLAKY)


def test_the_text_has_it_behind_the_kind_only_where_it_is_not_just_observed(tmp_path: Path) -> None:
    store = home_with(tmp_path, *fix(CLEAN, FAILING))
    log = log_of(store)
    assert "fixed                  census/kernels: crash" in as_text(log)
    sure = with_confidence(store, log)
    assert "fixed, confirmed       census/kernels: crash" in as_text(sure)
    assert "**fixed, confirmed**" in as_markdown(sure)


def test_nothing_is_asked_of_changes_that_no_rule_can_confirm() -> None:
    assert (THOROUGH.clean + 1, THOROUGH.failing + 1) == (FEWEST_CLEAN, FEWEST_FAILING)


def test_builds_with_few_runs_alone_are_not_even_read(tmp_path: Path) -> None:
    store = home_with(
        tmp_path, *runs("1", SEGV, 3), *runs("2", DONE, 9, REORDERED), *runs("2", DONE, 2, ROUNDS)
    )
    asked = (store, CELL.track, "box", [CELL.case])
    assert {version: len(own) for version, own in case_runs(*asked)[CELL.case, "none"].items()} == {
        "1": 3,
        "2": 9,
    }
    assert list(case_runs(*asked, alone=3)[CELL.case, "none"]) == ["1"]
    assert case_runs(*asked, versions=("2",), alone=1) == {}
