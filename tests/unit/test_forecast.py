"""The time that is left follows what cases take, not how many they are."""

from __future__ import annotations

import pytest

from tests.builders import build
from tracker.forecast import Forecast
from tracker.matrix import Case
from tracker.plan import BuildPlan, Plan


def case(name: str, timeout: float | None = None) -> Case:
    return Case(name, name.partition("/")[0], "f", timeout=timeout)


def planned(*versions: str, cases: tuple[Case, ...]) -> Plan:
    return Plan(tuple(BuildPlan(build(version), cases) for version in versions), (), 0)


def test_what_cases_took_before_tells_what_is_left() -> None:
    plan = planned("1", "2", cases=(case("train/a"), case("ops/b"), case("ops/c")))
    forecast = Forecast(plan, {"train/a": 98.0, "ops/b": 1.0, "ops/c": 1.0})
    forecast.begin("1")
    assert forecast.left(0.0) is None
    forecast.count("train/a")
    assert forecast.left(196.0) == pytest.approx(2 * (2 + 100)), "this run is half as fast"
    forecast.end()
    assert forecast.left(100.0) == pytest.approx(100.0)
    forecast.begin("2")
    forecast.end()  # it could not be installed
    assert forecast.left(100.0) is None


def test_a_case_nobody_timed_is_taken_for_its_suite_or_by_its_limit() -> None:
    cases = (case("ops/known"), case("ops/new"), case("train/new", timeout=1200.0))
    forecast = Forecast(planned("1", cases=cases), {"ops/known": 2.0})
    forecast.begin("1")
    forecast.count("ops/known")
    assert forecast.left(2.0) == pytest.approx(2.0 + 20.0)


def test_what_was_not_planned_changes_nothing() -> None:
    forecast = Forecast(planned("1", cases=(case("a/b"),)), {})
    forecast.begin("1")
    forecast.count("census/adapters")
    assert forecast.left(5.0) is None
