"""The pair table is total, antisymmetric, and silent about what was not measured."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from tracker.changes import OPPOSITE, ChangeKind, compare, obstacle
from tracker.model import Cell, Confidence, State, Verdict

WORDS = [Verdict(state, "r", "", confidence, 1) for state, confidence in product(State, Confidence)]
PAIRS = list(product([None, *WORDS], repeat=2))


def word(state: State) -> Verdict:
    return Verdict(state, "r", "", Confidence.OBSERVED, 1)


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_every_pair_has_a_kind_and_trading_places_gives_its_opposite(
    old: Verdict | None, new: Verdict | None
) -> None:
    assert compare(new, old) is OPPOSITE[compare(old, new)]


@pytest.mark.parametrize(("old", "new"), PAIRS)
def test_inconclusive_on_either_side_is_never_a_change_of_the_build(
    old: Verdict | None, new: Verdict | None
) -> None:
    if (old and not old.state.conclusive) or (new and not new.state.conclusive):
        silent = {ChangeKind.INCONCLUSIVE, ChangeKind.FLAKY, ChangeKind.NEW, ChangeKind.GONE}
        assert compare(old, new) in silent


@pytest.mark.parametrize(("old", "new"), list(product(WORDS, repeat=2)))
def test_flaky_on_either_side_is_flaky(old: Verdict, new: Verdict) -> None:
    flaky = Confidence.FLAKY in (old.confidence, new.confidence)
    assert (compare(old, new) is ChangeKind.FLAKY) == flaky


def test_an_opposite_has_itself_as_its_opposite() -> None:
    assert all(OPPOSITE[OPPOSITE[kind]] is kind for kind in ChangeKind)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (State.PASS, State.CRASH, ChangeKind.REGRESSED),
        (State.SLOW, State.WRONG, ChangeKind.REGRESSED),
        (State.FALLBACK, State.ERROR, ChangeKind.REGRESSED),
        (State.PASS, State.IMPORT_FAILED, ChangeKind.REGRESSED),
        (State.CRASH, State.PASS, ChangeKind.FIXED),
        (State.HANG, State.FALLBACK, ChangeKind.FIXED),
        (State.ERROR, State.CRASH, ChangeKind.WORSE_KIND),
        (State.CRASH, State.UNSUPPORTED, ChangeKind.BETTER_KIND),
        (State.PASS, State.FALLBACK, ChangeKind.FALLBACK_GAINED),
        (State.SLOW, State.FALLBACK, ChangeKind.FALLBACK_GAINED),
        (State.FALLBACK, State.PASS, ChangeKind.FALLBACK_LOST),
        (State.UNSUPPORTED, State.PASS, ChangeKind.NEWLY_SUPPORTED),
        (State.UNSUPPORTED, State.FALLBACK, ChangeKind.NEWLY_SUPPORTED),
        (State.PASS, State.UNSUPPORTED, ChangeKind.NEWLY_UNSUPPORTED),
        (State.PASS, State.SLOW, ChangeKind.SLOWER),
        (State.SLOW, State.PASS, ChangeKind.FASTER),
        (State.CRASH, State.CRASH, ChangeKind.STILL_FAILING),
        (State.UNSUPPORTED, State.UNSUPPORTED, ChangeKind.STILL_FAILING),
        (State.PASS, State.PASS, ChangeKind.STILL_PASSING),
        (State.FALLBACK, State.FALLBACK, ChangeKind.STILL_PASSING),
        (State.PASS, State.INFRA, ChangeKind.INCONCLUSIVE),
        (State.NO_DEVICE, State.CRASH, ChangeKind.INCONCLUSIVE),
    ],
)
def test_a_pair_of_states_has_the_kind_of_the_table(old: State, new: State, kind: ChangeKind) -> None:
    assert compare(word(old), word(new)) is kind


def test_a_cell_on_one_side_only_is_new_or_gone() -> None:
    assert compare(None, word(State.PASS)) is ChangeKind.NEW
    assert compare(word(State.PASS), None) is ChangeKind.GONE


CELL = Cell("torch-directml", "1", "census", "census/api", "none", "box", "d")


def test_cells_of_two_builds_may_be_compared() -> None:
    assert obstacle(CELL, replace(CELL, version="2")) is None


@pytest.mark.parametrize("name", ["suite", "case", "adapter", "machine", "suite_digest"])
def test_anything_else_that_differs_is_an_obstacle_that_says_what(name: str) -> None:
    reason = obstacle(CELL, replace(CELL, **{name: "other"}))
    assert reason is not None
    assert "other" in reason
