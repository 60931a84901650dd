"""The operators suite without torch: which samples are chosen, how the lists are made, what the manifest gives."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest

from suites.operators import choosing, listing
from tracker.matrix import load_suites

FOLDER = Path(listing.__file__).parent


def features(*texts: str) -> list[frozenset[str]]:
    """Return the features of samples, each written as words."""
    return [frozenset(text.split()) for text in texts]


class TestVaried:
    def test_the_first_and_the_largest_are_always_taken(self) -> None:
        same = features(*["a"] * 10)
        assert choosing.varied(same, [4, 1, 1, 1, 1, 1, 9, 1, 1, 1], 2) == [0, 6]

    def test_an_empty_first_sample_does_not_stand_for_the_plain_use(self) -> None:
        assert choosing.varied(features("empty", "a", "a"), [0, 5, 5], 1) == [1]

    def test_what_shows_most_that_is_new_comes_next(self) -> None:
        found = choosing.varied(features("a", "a b", "a b", "c d e", "b"), [9, 1, 1, 1, 1], 3)
        assert found == [0, 1, 3]

    def test_every_feature_is_seen_when_there_is_room(self) -> None:
        given = features("a", "a", "b", "a", "c", "a b", "d")
        found = choosing.varied(given, [1] * 7, 5)
        assert frozenset().union(*(given[at] for at in found)) == set("abcd")

    @pytest.mark.parametrize("most", [0, 1, 3, 50])
    def test_no_position_comes_twice_and_no_more_than_asked(self, most: int) -> None:
        found = choosing.varied(features("a", "b", "a b", "c"), [1, 2, 3, 4], most)
        assert found == sorted(set(found))
        assert len(found) == min(most, 4)

    def test_nothing_of_nothing(self) -> None:
        assert choosing.varied([], [], 8) == []


Shape = tuple[int, int, bool, str]


def shape_of(value: Any) -> Shape | None:
    """Stand in for tensors: a tuple of four is one."""
    return value if isinstance(value, tuple) and len(value) == 4 else None


class TestDescribed:
    PLAIN: Shape = (2, 6, True, "f")

    def test_layout_emptiness_and_other_dims_are_told(self) -> None:
        found = choosing.described((2, 0, False, "f"), [(1, 3, True, "f")], {}, shape_of)
        assert {"input:strided", "empty", "broadcast", "args:1"} <= found

    def test_options_count_by_value_and_numbers_by_sign(self) -> None:
        def told(**kwargs: Any) -> frozenset[str]:
            return choosing.described(self.PLAIN, [], kwargs, shape_of)

        assert told(keepdim=True) != told(keepdim=False)
        assert told(dim=1) == told(dim=2) != told(dim=-1)
        assert told(mode="a") != told(mode="b")
        assert len({told(p=0.0), told(p=0.5), told(p=1.0), told(p=float("inf"))}) == 3

    def test_a_plain_sample_is_not_called_broadcast(self) -> None:
        assert "broadcast" not in choosing.described(self.PLAIN, [self.PLAIN], {}, shape_of)


class TestListing:
    OLD: ClassVar[listing.Listing] = {
        "add": {"forward": ["float32"], "backward": ["float32"]},
        "gone": {"forward": ["bool"], "backward": []},
    }
    NEW: ClassVar[listing.Listing] = {"add": {"forward": ["bfloat16", "float16"], "backward": []}}

    def test_the_union_holds_what_any_torch_has(self) -> None:
        found = listing.merged([self.OLD, self.NEW])
        assert found["core-forward.json"] == [
            {"op": "add", "dtype": "float32"},
            {"op": "add", "dtype": "float16"},
        ]
        assert found["core-backward.json"] == [{"op": "add", "dtype": "float32"}]
        assert found["forward.json"] == [{"op": "gone", "dtype": "bool"}]
        assert found["refusals.json"] == [{"op": "add", "dtype": "bfloat16"}]

    def test_the_order_of_the_listings_does_not_matter(self) -> None:
        assert listing.merged([self.OLD, self.NEW]) == listing.merged([self.NEW, self.OLD])

    def test_a_file_has_one_row_per_line(self) -> None:
        text = listing.written([{"op": "a", "dtype": "b"}, {"op": "c", "dtype": "d"}])
        assert json.loads(text) == [{"op": "a", "dtype": "b"}, {"op": "c", "dtype": "d"}]
        assert text.count("\n") == 4

    @pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.name)
    def test_the_files_are_as_they_would_be_written(self, path: Path) -> None:
        assert listing.written(json.loads(path.read_text("utf-8"))) == path.read_text("utf-8")


class TestManifest:
    CASES = next(suite.cases for suite in load_suites(FOLDER.parent) if suite.name == "operators")

    def test_every_operator_dtype_and_pass_is_a_case(self) -> None:
        counts = Counter(case.function for case in self.CASES)
        assert counts["gate"] == 3
        assert counts["forward"] > 3900
        assert counts["backward"] > 900

    def test_what_may_be_refused_comes_after_its_gate(self) -> None:
        for case in self.CASES:
            refused = case.function == "forward" and case.params["dtype"] in listing.REFUSALS
            expected = f"operators/dtype/{case.params['dtype']}" if refused else None
            if not refused and listing.MAKES_COMPLEX.match(case.params.get("op", "")):
                expected = "operators/dtype/complex-results"
            assert case.after == expected, case.id

    def test_a_small_run_has_the_operators_of_models_only(self) -> None:
        small = next(
            suite.cases for suite in load_suites(FOLDER.parent, "small") if suite.name == "operators"
        )
        assert {case.params["op"] for case in small if "op" in case.params} <= set(listing.CORE)
        assert 400 < len(small) < 800

    def test_all_need_the_device(self) -> None:
        assert {case.needs for case in self.CASES} == {"device"}
