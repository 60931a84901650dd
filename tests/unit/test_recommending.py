"""The build that does most of what is needed comes first, and what is not known is no merit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tracker.fixes import Sight
from tracker.recommending import Choice, Need, recommend

BUILDS = ["1", "2", "3", "4"]
GOOD, BAD, PART = Sight.GOOD, Sight.BAD, Sight.PARTIAL


def bug(name: str, **seen: Sight) -> Need:
    return Need(name, {version.strip("b"): {f"bugs/{name}": sight} for version, sight in seen.items()})


def order(*needs: Need) -> list[str]:
    return [choice.version for choice in recommend(BUILDS, needs)]


def test_the_newest_of_those_that_meet_every_need_comes_first() -> None:
    assert order(bug("x", b1=BAD, b2=GOOD, b3=GOOD, b4=BAD)) == ["3", "2", "4", "1"]


def test_what_is_not_known_comes_after_what_is_good_and_what_is_bad_after_that() -> None:
    needs = (bug("x", b1=GOOD, b2=GOOD, b3=BAD), bug("y", b1=GOOD, b3=GOOD))
    assert order(*needs) == ["1", "2", "3", "4"], "of 4 nothing is known, so it is no choice at all"


def test_what_only_the_cpu_computes_costs_something() -> None:
    [first, second, *_] = recommend(BUILDS, [bug("x", b1=GOOD, b2=PART)])
    assert (first.version, first.met) == ("1", ("x",))
    assert second.costs[0].partial == ("bugs/x",)


def test_a_few_cases_of_a_large_suite_weigh_less_than_a_bug() -> None:
    right = {f"vit/{number}": GOOD for number in range(9)}
    suite = Need("vit", {"1": {**right, "vit/0": BAD, "vit/1": BAD}, "2": right})
    assert [choice.version for choice in recommend(BUILDS[:2], [suite, bug("x", b1=GOOD, b2=BAD)])] == [
        "1",
        "2",
    ]


def test_a_case_that_only_another_build_ran_is_not_known() -> None:
    need = Need("vit", {"1": {"vit/a": GOOD, "vit/b": GOOD}, "2": {"vit/a": GOOD}})
    choices = {choice.version: choice for choice in recommend(BUILDS[:2], [need])}
    assert choices["1"].met == ("vit",) and choices["2"].costs[0].unknown == 1


sights = st.sampled_from([GOOD, BAD, PART, None])


@given(st.lists(st.lists(sights, min_size=4, max_size=4), min_size=1, max_size=4))
def test_no_build_stands_behind_one_that_is_worse_in_every_need(rows: list[list[Sight | None]]) -> None:
    needs = [
        Need(str(at), {v: {"c": found} for v, found in zip(BUILDS, row, strict=True) if found})
        for at, row in enumerate(rows)
    ]
    rank = {GOOD: 0, PART: 1, None: 2, BAD: 3}
    found: list[Choice] = recommend(BUILDS, needs)
    columns = {v: [rank[row[at]] for row in rows] for at, v in enumerate(BUILDS)}
    for place, choice in enumerate(found):
        for later in found[place + 1 :]:
            here, there = columns[choice.version], columns[later.version]
            better = all(a <= b for a, b in zip(there, here, strict=True)) and there != here
            known = any(value != 2 for value in there)
            if better and known and 1 not in here + there:
                raise AssertionError((choice.version, here, later.version, there))
