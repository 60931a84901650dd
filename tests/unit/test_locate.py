"""Builds are found by version, tail or word, and are ordered as versions, never as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import build
from tracker.errors import UsageError
from tracker.locate import locate, ordered, predecessor, select

VERSIONS = [
    "0.1.13.dev221206",
    "0.1.13.dev221216",
    "0.1.13.1.dev230119",
    "0.2.4.dev240815",
    "0.2.4.dev240913",
    "0.2.5.dev240914",
]
BUILDS = [build(version) for version in VERSIONS]


def test_order_is_by_version_and_not_by_text() -> None:
    assert sorted(VERSIONS) != VERSIONS
    assert [b.version for b in ordered(reversed(BUILDS))] == VERSIONS


@given(st.permutations(BUILDS))
def test_order_does_not_depend_on_how_the_index_lists_builds(row: list) -> None:  # type: ignore[type-arg]
    assert [b.version for b in ordered(row)] == VERSIONS


def test_equal_versions_are_ordered_by_upload_time() -> None:
    early = build("1.0", uploaded=datetime(2024, 1, 1, tzinfo=UTC))
    late = build("1.0.0", uploaded=early.uploaded + timedelta(days=1))
    assert ordered([late, early]) == [early, late]


@pytest.mark.parametrize("text", ["0.2.5.dev240914", "dev240914", "240914", "0.2.5.DEV240914", "newest"])
def test_a_build_is_found_by_any_spelling_of_its_name(text: str) -> None:
    assert locate(text, BUILDS).version == "0.2.5.dev240914"


def test_an_exact_version_wins_over_longer_ones_that_end_alike() -> None:
    builds = [build("1.0"), build("11.0")]
    assert locate("1.0", builds).version == "1.0"


def test_a_text_that_fits_several_builds_lists_them() -> None:
    with pytest.raises(UsageError, match=r"fits 2 builds: 1\.0\.dev1, 2\.0\.dev1"):
        locate("dev1", [build("1.0.dev1"), build("2.0.dev1")])


def test_an_unknown_build_is_one_clear_error_with_what_is_known() -> None:
    with pytest.raises(UsageError) as caught:
        locate("9.9", BUILDS)
    assert caught.value.message == "there is no build '9.9'"
    assert "0.2.5.dev240914" in str(caught.value.hint)


def test_of_two_spellings_of_a_version_the_one_that_was_typed_is_meant() -> None:
    builds = [build("1.0"), build("1.0.0")]
    assert [locate(text, builds).version for text in ("1.0", "1.0.0")] == ["1.0", "1.0.0"]


def test_an_empty_text_fits_nothing() -> None:
    with pytest.raises(UsageError):
        locate("", BUILDS)


def test_no_wish_means_the_newest_build_and_the_one_before() -> None:
    assert [b.version for b in select([], BUILDS)] == VERSIONS[-2:]


def test_a_build_asked_for_twice_is_taken_once() -> None:
    assert select(["240914", "all"], BUILDS) == BUILDS


def test_withdrawn_builds_are_left_out_unless_named() -> None:
    builds = [*BUILDS, build("0.3.0", yanked="broken")]
    assert select(["all"], builds) == BUILDS
    assert select(["0.3.0"], builds)[0].version == "0.3.0"
    assert len(select(["all"], builds, withdrawn=True)) == 7


def test_the_first_build_has_no_predecessor() -> None:
    assert predecessor(BUILDS[0], BUILDS) is None
    assert predecessor(BUILDS[2], BUILDS) is BUILDS[1]
