"""Does a build fix a bug: the word, the range and the exit follow from what was seen, and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import DAY
from tracker.bugs import Bug
from tracker.fixes import Agreement, Lane, Seen, Sight, Word, answer, claims, history, sight
from tracker.model import Confidence, State

BUG = Bug("maker/library#1", "it breaks", "it", topic="t")
LANE = Lane("GPU", "box", "d" * 16)
BUILDS = [f"1.{number}" for number in range(6)]


def seen(version: str, state: State, good: int | None = None, bad: int | None = None) -> Seen:
    right = state in BUG.good
    return Seen(
        version,
        state,
        "because",
        "",
        Confidence.OBSERVED,
        (1 if right else 0) if good is None else good,
        (0 if right else 2) if bad is None else bad,
        DAY,
        DAY,
    )


STATES = {
    "b": State.WRONG,
    "c": State.CRASH,
    "g": State.PASS,
    "f": State.FALLBACK,
    "u": State.UNINSTALLABLE,
}


def of(text: str) -> dict[str, Seen]:
    """Return a history of one letter a build: b and c are bad, g good, f computed on the CPU, u and . unknown."""
    return {
        version: seen(version, STATES[letter])
        for version, letter in zip(BUILDS, text, strict=False)
        if letter != "."
    }


def word(text: str, build: str = "") -> tuple[Word, str, str]:
    found = answer(BUG, LANE, BUILDS[: len(text)], of(text), build)
    return found.word, found.low, found.high


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bbggg", (Word.FIXED, "1.1", "1.2")),
        ("bb..g", (Word.FIXED, "1.1", "1.4")),
        ("ggggg", (Word.NEVER, "", "")),
        ("..g..", (Word.NEVER, "", "")),
        ("bbbbb", (Word.PRESENT, "", "")),
        ("bgggb", (Word.AGAIN, "1.3", "1.4")),
        ("ggbb", (Word.PRESENT, "1.1", "1.2")),
        ("bbgu", (Word.FIXED, "1.1", "1.2")),
        ("bbf", (Word.UNKNOWN, "1.1", "1.2")),
        ("bcg", (Word.FIXED, "1.1", "1.2")),
        (".....", (Word.UNKNOWN, "", "")),
        ("uuuuu", (Word.UNKNOWN, "", "")),
    ],
)
def test_the_word_and_the_range_follow_from_the_history(text: str, expected: tuple[Word, str, str]) -> None:
    found = word(text)
    if expected[0] in (Word.NEVER, Word.UNKNOWN) and not expected[1]:
        assert found[0] is expected[0]
    else:
        assert found[:2] == expected[:2] and (found[2] == expected[2] or not expected[2])


def test_what_was_not_run_at_the_build_in_question_is_unknown_there() -> None:
    assert word("bg...", "1.3")[0] is Word.UNKNOWN
    assert word("bgg", "1.0")[0] is Word.PRESENT
    assert word("bgb", "1.1")[0] is Word.FIXED


def test_builds_between_that_were_not_run_are_named() -> None:
    found = answer(BUG, LANE, BUILDS, of("b.ug.."))
    assert (found.low, found.high, found.between) == ("1.0", "1.3", ("1.1", "1.2"))


def test_a_fault_seen_now_and_then_is_not_fixed_by_one_good_run() -> None:
    flaky = {"1.0": seen("1.0", State.WRONG, good=40, bad=10), "1.1": seen("1.1", State.PASS, good=1)}
    assert answer(BUG, LANE, BUILDS, flaky).word is Word.UNKNOWN
    flaky["1.1"] = seen("1.1", State.PASS, good=200)
    assert answer(BUG, LANE, BUILDS, flaky).word is Word.FIXED


def test_a_state_that_the_report_calls_right_is_right() -> None:
    lenient = replace(BUG, good=(State.PASS, State.UNSUPPORTED))
    assert sight(lenient, seen("1", State.UNSUPPORTED)) is Sight.GOOD
    assert sight(BUG, seen("1", State.UNSUPPORTED)) is Sight.BAD
    assert sight(BUG, seen("1", State.FALLBACK)) is Sight.PARTIAL


def test_a_report_of_a_fallback_is_seen_where_the_cpu_computes_it() -> None:
    about = replace(BUG, fault="fallback")
    assert sight(about, seen("1", State.FALLBACK)) is Sight.BAD
    falls = {"1.0": seen("1.0", State.FALLBACK), "1.1": seen("1.1", State.PASS)}
    assert answer(about, LANE, BUILDS, falls, "1.0").word is Word.PRESENT
    assert answer(about, LANE, BUILDS, falls).word is Word.FIXED


def test_a_build_that_can_not_be_imported_says_nothing_of_what_comes_after() -> None:
    broken = seen("1", State.IMPORT_FAILED)
    assert sight(BUG, broken) is Sight.UNKNOWN
    assert sight(replace(BUG, fault="install"), broken) is Sight.BAD


histories = st.text("bcgfu.", min_size=1, max_size=6)


@given(histories)
def test_fixed_needs_a_good_run_there_and_a_bad_one_before(text: str) -> None:
    found = answer(BUG, LANE, BUILDS[: len(text)], of(text))
    if found.word is Word.FIXED:
        place = BUILDS.index(found.build)
        assert text[place] == "g" and set(text[:place]) & set("bc")
        assert text[BUILDS.index(found.low)] in "bcf" and text[BUILDS.index(found.high)] == "g"
    if found.word in (Word.PRESENT, Word.AGAIN):
        assert text[BUILDS.index(found.build)] in "bc"
    if found.word is Word.NEVER:
        assert not set(text) & set("bc")


@given(histories)
def test_a_history_is_told_whole_and_without_neighbours_alike(text: str) -> None:
    rows = history(BUG, BUILDS[: len(text)], of(text))
    assert sum(row.builds for row in rows) == len(text)
    assert all(one.sight is not two.sight for one, two in pairwise(rows))


@given(histories, st.integers(0, 5), st.sampled_from("u."))
def test_what_says_nothing_moves_no_answer(text: str, place: int, letter: str) -> None:
    more = text[:place] + letter + text[place:]
    builds = [f"1.{number}" for number in range(len(more))]
    states = {v: STATES[c] for v, c in zip(builds, more, strict=True) if c != "."}
    before = word(text)[0]
    after = answer(BUG, LANE, builds, {v: seen(v, state) for v, state in states.items()}).word
    assert after is before


def agreements(bug: Bug, text: str) -> Sequence[tuple[str, Agreement]]:
    return [(claim.says, claim.agreement) for claim in claims(bug, BUILDS, of(text))]


def test_claims_stand_beside_the_measurement() -> None:
    bug = replace(BUG, affected=("1.0", "some old build"), fixed_in="1.2", fixed_by="maintainer")
    assert agreements(bug, "b.g") == [
        ("1.0 has it", Agreement.AGREES),
        ("1.2 fixed it (maintainer)", Agreement.AGREES),
    ]
    assert agreements(bug, "g.b") == [
        ("1.0 has it", Agreement.DISAGREES),
        ("1.2 fixed it (maintainer)", Agreement.DISAGREES),
    ]
    assert {found for _, found in agreements(bug, "u.f")} == {Agreement.UNTOLD}


def test_what_a_report_expects_of_builds_is_a_claim_too() -> None:
    bug = replace(BUG, expected={"1.0": "fail", "1.1": "pass", "1.2": "odd"})
    assert agreements(bug, "bb") == [
        ("1.0 has it", Agreement.AGREES),
        ("1.1 is without it", Agreement.DISAGREES),
    ]
