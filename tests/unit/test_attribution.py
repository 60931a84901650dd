"""A change is put down to the backend only where nothing else explains it, and what is not known is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.builders import verdict
from tracker.attribution import Attribution, Cause, Sides, attribute
from tracker.changes import ChangeKind
from tracker.model import Cell, Confidence, State, Verdict

CELL = Cell("torch-directml", "1", "vit", "vit/x", "GPU", "box", "d" * 16)
NEXT = replace(CELL, version="2")
PASS, WRONG = verdict(State.PASS), verdict(State.WRONG)
SAME = Sides(torch=("2.4.1", "2.4.1"), native=("a", "b"))
OTHER = Sides(torch=("2.3.1", "2.4.1"), native=("a", "b"))


def cause(
    sides: Sides, baseline: tuple[Verdict | None, Verdict | None] = (None, None), new: Cell = NEXT
) -> Attribution:
    return attribute(ChangeKind.REGRESSED, (CELL, new), (PASS, WRONG), sides, baseline)


def test_with_one_torch_another_binary_is_to_blame() -> None:
    assert cause(SAME) == Attribution(Cause.BACKEND)


def test_the_same_binary_with_the_same_torch_can_not_have_changed() -> None:
    one = replace(SAME, native=("a", "a"))
    assert cause(one).cause is Cause.NOISE
    assert cause(replace(one, packages=("numpy",))).cause is Cause.ENVIRONMENT
    assert cause(replace(OTHER, native=("a", "a"))).cause is Cause.TORCH


def test_binaries_that_were_not_read_are_not_the_same() -> None:
    assert cause(replace(SAME, native=("", ""))).cause is Cause.BACKEND


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ((PASS, PASS), Cause.BACKEND),
        ((WRONG, WRONG), Cause.BACKEND),
        ((PASS, WRONG), Cause.TORCH),
        ((verdict(State.INFRA), WRONG), Cause.BACKEND),
        ((None, PASS), Cause.BACKEND),
    ],
)
def test_what_the_cpu_did_decides_where_torch_changed(
    baseline: tuple[Verdict | None, Verdict | None], expected: Cause
) -> None:
    found = cause(OTHER, baseline)
    assert found.cause is expected
    assert found.why, "that torch changed too is never left out"


def test_other_conditions_go_before_everything() -> None:
    assert cause(SAME, new=replace(NEXT, suite_digest="e" * 16)).cause is Cause.SUITE
    assert cause(SAME, new=replace(NEXT, adapter="GPU (driver 2)")).cause is Cause.ENVIRONMENT


def test_what_is_flaky_is_noise() -> None:
    flaky = verdict(State.WRONG, confidence=Confidence.FLAKY)
    assert attribute(ChangeKind.FLAKY, (CELL, NEXT), (PASS, flaky), SAME).cause is Cause.NOISE
