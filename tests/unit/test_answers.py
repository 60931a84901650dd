"""The history of an operator is told as it was measured, with gaps named as gaps."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tracker.answers import Presence, matching, operator_history, sentence, spans

BUILDS = ["1", "2", "3", "4", "5"]


def history(native: str, measured: str = "12345") -> str:
    return sentence(operator_history("aten::x", "PrivateUse1", BUILDS, set(measured), set(native)))


def test_native_from_the_first_build_on_is_said_shortly() -> None:
    assert history("12345") == "native in all 5 builds"


def test_the_build_since_which_it_is_native_is_named() -> None:
    assert history("345") == "absent from 1 to 2, native since 3"


def test_coming_and_going_is_told_as_it_was() -> None:
    assert history("125") == "native from 1 to 2, absent from 3 to 4, native since 5"


def test_a_change_inside_a_gap_is_told_as_a_range() -> None:
    assert (
        history("45", measured="1245")
        == "absent from 1 to 2, not measured in 3, native (changed after 2) since 4"
    )


def test_without_any_census_nothing_is_claimed() -> None:
    assert history("", measured="") == "unknown: no build was measured yet"


def test_since_is_the_start_of_the_last_unbroken_stretch() -> None:
    assert operator_history("x", "k", BUILDS, set("12345"), set("1245")).since == "4"
    assert operator_history("x", "k", BUILDS, set("12345"), set("123")).since is None


@given(st.lists(st.sampled_from(list(Presence)), min_size=1, max_size=30))
def test_spans_cover_every_build_once_and_neighbours_differ(row: list[Presence]) -> None:
    parts = spans([(str(i), presence) for i, presence in enumerate(row)])
    assert sum(span.builds for span in parts) == len(row)
    assert all(a.presence is not b.presence for a, b in pairwise(parts))


OPERATORS = ["aten::add", "aten::add.out", "aten::addmm", "aten::native_layer_norm", "torchvision::nms"]


def test_a_bare_name_means_the_operator_and_its_overloads() -> None:
    assert matching("add", OPERATORS) == ["aten::add", "aten::add.out"]


def test_a_name_with_overload_means_that_one() -> None:
    assert matching("add.out", OPERATORS) == ["aten::add.out"]


def test_a_namespace_is_kept() -> None:
    assert matching("torchvision::nms", OPERATORS) == ["torchvision::nms"]


def test_a_part_of_a_name_finds_what_contains_it() -> None:
    assert matching("layer_norm", OPERATORS) == ["aten::native_layer_norm"]


def test_an_unknown_name_finds_nothing() -> None:
    assert matching("nope", OPERATORS) == matching("", OPERATORS) == []
