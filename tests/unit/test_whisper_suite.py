"""The parts of the suite whisper that need no torch: its cases, and counting words that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suites.whisper.words import word_errors, words
from tracker.matrix import Case, load_suites

SUITES = Path(__file__).parents[2] / "suites"
TEXTS = st.lists(st.sampled_from(["fail", "again", "better", "it's"]), max_size=6).map(" ".join)


def cases(size: str) -> list[Case]:
    return [case for suite in load_suites(SUITES, size) if suite.name == "whisper" for case in suite.cases]


@pytest.mark.parametrize("size", ["full", "small"])
def test_every_case_needs_a_device(size: str) -> None:
    assert {case.needs for case in cases(size)} == {"device"}


def test_the_sparse_buffer_decides_nothing_but_its_own_verdict() -> None:
    assert [case.id for case in cases("full") if "sparse" in case.id] == ["whisper/sparse-buffer"]
    assert all(not case.after for case in cases("full"))


def test_every_part_is_measured_in_both_precisions() -> None:
    names = {case.id for case in cases("full")}
    for part in ("encoder", "decoder", "decoder/cached", "language", "transcribe", "speech"):
        assert {f"whisper/{part}/float32", f"whisper/{part}/float16"} <= names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<s> He was not an ill disposed young man </s>", "he was not an ill disposed young man"),
        ("It's cold-hearted, isn’t it?", "it's cold hearted isn't it"),
        ("Caf\u00e9 42_x", "caf\u00e9 42 x"),
        (" ... ", ""),
    ],
)
def test_words_are_without_case_and_marks(text: str, expected: str) -> None:
    assert words(text) == expected.split()


@pytest.mark.parametrize(
    ("heard", "said", "errors"),
    [
        ("try again", "try again", 0),
        ("try", "try again", 1),
        ("try it again", "try again", 1),
        ("cry again", "try again", 1),
        ("", "try again", 2),
        ("again try", "try again", 2),
    ],
)
def test_a_word_is_replaced_inserted_or_deleted(heard: str, said: str, errors: int) -> None:
    assert word_errors(heard, said) == errors


@given(TEXTS, TEXTS, TEXTS)
def test_word_errors_are_a_distance(one: str, two: str, three: str) -> None:
    assert (word_errors(one, two) == 0) == (words(one) == words(two))
    assert word_errors(one, two) == word_errors(two, one)
    assert word_errors(one, three) <= word_errors(one, two) + word_errors(two, three)
