"""Numbers are judged by one table of limits: any JSON gets a word, and a larger error never a better one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suites import telling
from tracker import numbers
from tracker.model import Finding, State
from tracker.numbers import FAULTS, NOISE_FACTOR, ROLES, TOLERANCES, diagnose, power
from tracker.texts import slug

Check = dict[str, Any]


def check(**changes: Any) -> Check:
    """Return a check with nothing against it."""
    plain = {
        "name": "logits",
        "role": "output",
        "shape": [8, 10],
        "dtype": "float32",
        "device": "privateuseone",
    }
    return {**plain, "count": 80, "scale": 4.0, **changes}


def said(*checks: Any, **more: Any) -> tuple[State, str] | None:
    found = diagnose({"checks": list(checks), **more})
    return (found.state, found.reason) if found else None


def message(*checks: Check) -> str:
    found = diagnose({"checks": list(checks)})
    assert found is not None
    return found.message


def test_exact_values_have_nothing_against_them() -> None:
    assert said(check()) is None
    assert said() is None
    assert diagnose({}) is None


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("reference", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_an_error_is_right_up_to_its_limit(dtype: str, reference: float, noise: float) -> None:
    rtol, atol = TOLERANCES[dtype]
    limit = atol + rtol * reference + NOISE_FACTOR * noise
    assert said(check(dtype=dtype, noise=noise, worst=[[reference, limit]])) is None
    assert said(check(dtype=dtype, noise=noise, worst=[[reference, limit * 1.001]])) == (
        State.WRONG,
        "values",
    )


def test_an_error_that_float16_is_allowed_is_wrong_in_float32() -> None:
    worst = [[4.0, 3e-3]]
    assert said(check(dtype="float16", worst=worst)) is None
    assert said(check(dtype="float32", worst=worst)) == (State.WRONG, "values")


def test_any_point_beyond_its_limit_is_enough() -> None:
    assert said(check(worst=[[0.0, 1e-6], [100.0, 1e-4], [200.0, 1e-2]])) == (State.WRONG, "values")


def test_the_message_names_the_check_its_part_and_powers_of_ten() -> None:
    wrong = check(role="gradient", name="step 1", part="layer1.0.bn1", worst=[[1.0, 0.034]])
    assert message(wrong) == "step 1 of layer1.0.bn1: error of about 1e-2, allowed is 1e-5"


def test_errors_of_one_size_have_one_message() -> None:
    assert message(check(worst=[[1.0, 0.034]])) == message(check(worst=[[1.1, 0.029]]))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"want": {"shape": [8, 11]}}, "shape"),
        ({"want": {"dtype": "float16"}}, "dtype"),
        ({"want": {"device": "cpu"}}, "device"),
        ({"want": {"dtype": "float16", "shape": [1]}, "worst": [[1.0, 9.0]]}, "shape"),
        ({"nan": [3, 0]}, "nan"),
        ({"nan": [0, 3], "worst": [[1.0, 9.0]]}, "nan"),
        ({"inf": [1, 0], "worst": [[1.0, 9.0]]}, "inf"),
        ({"nan": [1, 0], "inf": [1, 0]}, "nan"),
        ({"worst": [[1.0, "inf"]]}, "values"),
        ({"repeat_device": 1e-3, "worst": [[1.0, 9.0]]}, "non-deterministic"),
        ({"repeat_device": "inf"}, "non-deterministic"),
        ({"dtype": "int64", "mismatched": 2}, "values"),
        ({"dtype": "bool", "repeat_device": 1}, "non-deterministic"),
        ({"missing": "no tensor"}, "missing"),
    ],
)
def test_a_fault_has_its_own_reason_and_the_first_in_order_speaks(changes: Check, reason: str) -> None:
    assert said(check(**changes)) == (State.WRONG, reason)


@pytest.mark.parametrize(("role", "prefix"), ROLES.items())
def test_the_role_is_told_by_the_reason(role: str, prefix: str) -> None:
    assert said(check(role=role, worst=[[1.0, 9.0]])) == (State.WRONG, f"{prefix}values")


def test_a_missing_gradient_needs_no_tensor_to_be_told() -> None:
    gone = {"name": "fc.weight", "role": "gradient", "missing": "grad is None"}
    assert said(gone) == (State.WRONG, "gradient-missing")
    assert message(gone) == "fc.weight: grad is None"


def test_a_gradient_that_vanished_is_told_though_it_is_smaller_than_any_limit() -> None:
    gone = check(role="gradient", zeros=True, scale=1e-6, noise=1e-12, worst=[[1e-6, 1e-6]])
    assert said(gone) == (State.WRONG, "gradient-zero")


@pytest.mark.parametrize(
    "changes",
    [
        {"scale": 1e-17, "noise": 1e-9},  # the CPU's own is nothing but noise
        {"scale": 1e-6},  # the noise is not known
        {"scale": 1e-6, "noise": 1e-9, "dtype": "float16"},  # below the smallest normal number
        {"scale": 1e-6, "noise": 1e-12, "role": "output"},
    ],
)
def test_a_result_that_may_round_to_zero_may_be_zero(changes: Check) -> None:
    assert said(check(**{"role": "gradient", "zeros": True, **changes})) is None


def test_a_result_that_is_all_zero_and_off_says_so() -> None:
    gone = check(role="buffer", zeros=True, worst=[[4.0, 4.0]])
    assert said(gone) == (State.WRONG, "buffer-values")
    assert "all zero" in message(gone)


@pytest.mark.parametrize(
    "changes",
    [
        {"repeat_reference": 1e-3},
        {"noise": "inf"},
        {"scale": "inf"},
        {"dtype": "int64", "repeat_reference": 1},
    ],
)
def test_a_reference_that_disagrees_with_itself_convicts_nobody(changes: Check) -> None:
    restless = check(**{"nan": [1, 0], **changes})
    assert said(restless) == (State.NO_REFERENCE, "reference-differs")


def test_what_needs_no_values_is_wrong_whatever_the_reference_does() -> None:
    assert said(check(repeat_reference=1.0, want={"dtype": "float16"})) == (State.WRONG, "dtype")


def test_a_repeat_within_the_floor_is_the_same() -> None:
    assert said(check(repeat_reference=1e-6, repeat_device=1e-6)) is None


def test_wrong_goes_before_no_reference_and_unreadable() -> None:
    wrong, restless = check(worst=[[1.0, 9.0]]), check(repeat_reference=1.0)
    assert said(restless, {}, wrong) == (State.WRONG, "values")
    assert said(restless, {}) == (State.INFRA, numbers.UNREADABLE)


def test_the_earliest_role_speaks_and_says_that_it_is_not_alone() -> None:
    late = [check(role=role, nan=[1, 0]) for role in ("optimizer", "buffer", "gradient")]
    assert said(*late) == (State.WRONG, "gradient-nan")
    assert message(*late).endswith(" (and others)")


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        {},
        [],
        "check",
        check(name=None),
        check(name=""),
        check(part=3),
        check(role="opinion"),
        check(role=["output"]),
        check(dtype=None),
        check(dtype="float8", worst=[[1.0, 1.0]]),
        check(worst="nan"),
        check(worst=[1.0]),
        check(worst=[[1.0, "nan"]]),
        check(worst=[[1.0, -1.0]]),
        check(worst=[["inf", 1.0]]),
        check(worst=[[1.0, True]]),
        check(worst=[[1.0, 10**400]]),
        check(noise="much"),
        check(noise="nan"),
        check(nan=1),
        check(inf=[1]),
        check(mismatched="many"),
        check(want=[]),
        check(want={"colour": "red"}),
        check(want={"dtype": 3}),
        check(want={"shape": "big"}),
        check(missing=1),
    ],
)
def test_garbage_is_our_trouble_and_no_pass(garbage: Any) -> None:
    assert said(garbage) == (State.INFRA, numbers.UNREADABLE)


@pytest.mark.parametrize("garbage", ["all fine", 3, {"a": 1}])
def test_a_list_that_is_none_is_garbage(garbage: Any) -> None:
    assert diagnose({"checks": garbage}) == Finding(State.INFRA, numbers.UNREADABLE, "checks is not a list")


def statistic(**changes: Any) -> Check:
    return {
        "name": "normal_",
        "dtype": "float32",
        "count": 10_000,
        "mean": 0.01,
        "std": 1.01,
        "want": {"mean": 0.0, "std": 1.0},
        **changes,
    }


@pytest.mark.parametrize("changes", [{}, {"mean": 0.059}, {"std": 0.93}])
def test_random_numbers_may_differ_by_chance(changes: Check) -> None:
    assert diagnose({"statistics": [statistic(**changes)]}) is None


@pytest.mark.parametrize("changes", [{"mean": 0.07}, {"std": 0.9}, {"mean": "nan"}, {"std": 0.0}])
def test_random_numbers_that_can_not_be_by_chance_are_wrong(changes: Check) -> None:
    found = diagnose({"statistics": [statistic(**changes)]})
    assert found is not None
    assert (found.state, found.reason) == (State.WRONG, "statistics")


@pytest.mark.parametrize(
    "changes", [{"count": 0}, {"want": 1}, {"mean": None}, {"want": {"mean": 0, "std": "inf"}}]
)
def test_statistics_that_can_not_be_read_are_no_pass(changes: Check) -> None:
    found = diagnose({"statistics": [statistic(**changes)]})
    assert found is not None
    assert found.state is State.INFRA


def test_a_constant_fill_has_no_spread() -> None:
    ones = statistic(mean=1.0, std=0.0, want={"mean": 1.0, "std": 0.0})
    assert diagnose({"statistics": [ones]}) is None


@pytest.mark.parametrize(("value", "text"), [(0.0, "0"), (1e-5, "1e-5"), (9.9e-3, "1e-3"), (1000.0, "1e3")])
def test_a_size_is_told_as_a_power_of_ten(value: float, text: str) -> None:
    assert power(value) == text


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["nan", "inf", "-inf", "x", ""]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
near_checks = st.fixed_dictionaries(
    {"name": st.just("x"), "dtype": st.sampled_from([*TOLERANCES, "int64"])},
    optional={
        "role": st.sampled_from([*ROLES]) | json,
        "want": st.dictionaries(st.sampled_from(["shape", "dtype", "device"]), json, max_size=2) | json,
        "worst": st.lists(st.tuples(st.floats(), st.floats()).map(list), max_size=3) | json,
        **{
            key: st.floats() | json
            for key in ("noise", "scale", "repeat_reference", "repeat_device", "mismatched")
        },
        **{key: st.tuples(st.integers(), st.integers()).map(list) | json for key in ("nan", "inf")},
        **dict.fromkeys(("missing", "zeros", "shape", "part"), json),
    },
)


@given(st.lists(near_checks | json, max_size=3) | json, st.lists(json, max_size=2) | json)
def test_any_json_has_a_word(checks: Any, statistics: Any) -> None:
    found = diagnose({"checks": checks, "statistics": statistics, "claims": statistics})
    assert found is None or found.state in (State.WRONG, State.INFRA, State.NO_REFERENCE)
    if found:
        assert found.reason == slug(found.reason)


sizes = st.floats(0, 1e6)


@given(
    st.sampled_from([*TOLERANCES]), st.lists(st.tuples(sizes, sizes), min_size=1), sizes, st.floats(1, 1e6)
)
def test_a_larger_error_is_never_better(
    dtype: str, points: list[tuple[float, float]], noise: float, factor: float
) -> None:
    worse = [[here, error * factor] for here, error in points]
    less = said(check(dtype=dtype, noise=noise, worst=[list(point) for point in points]))
    if less is not None:
        assert said(check(dtype=dtype, noise=noise, worst=worse)) == less


@given(st.sampled_from([*TOLERANCES]), st.lists(st.tuples(sizes, sizes)), sizes, st.floats(1, 1e6), sizes)
def test_a_wider_limit_never_convicts(
    dtype: str, points: list[tuple[float, float]], noise: float, factor: float, again: float
) -> None:
    item = check(dtype=dtype, noise=noise, worst=[list(point) for point in points], repeat_device=again)
    narrow = said(item)
    rtol, atol = TOLERANCES[dtype]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TOLERANCES, dtype, (rtol * factor, atol * factor))
        wide = said(item)
    assert wide is None or narrow is not None


@given(st.lists(st.tuples(sizes, sizes), min_size=1), st.floats(1, 1e3))
def test_values_far_above_the_absolute_limit_are_judged_by_their_ratio(
    points: list[tuple[float, float]], factor: float
) -> None:
    scaled = [[here * factor, error * factor] for here, error in points]
    # Scaling up can only bring an error out from under the absolute limit.
    if said(check(worst=[list(point) for point in points])) is not None:
        assert said(check(worst=scaled)) is not None


def test_every_fault_is_in_the_order() -> None:
    assert len(set(FAULTS)) == len(FAULTS)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["float16", "float32", "float64"]),
            st.floats(1e-3, 1e3),
            st.floats(0, 1e-2),
            st.floats(0, 1e-6),
        ),
        max_size=60,
    )
)
def test_what_a_suite_leaves_out_would_not_have_changed_the_word(
    drawn: list[tuple[str, float, float, float]],
) -> None:
    checks = [
        {"name": "x", "role": "output", "dtype": dtype, "worst": [[size, error]], "noise": noise}
        for dtype, size, error, noise in drawn
    ]
    kept, left_out = telling.telling(checks, 4)
    assert len(kept) + left_out == len(checks)
    before, after = diagnose({"checks": checks}), diagnose({"checks": kept})
    assert (before is None) == (after is None)


def test_a_suite_keeps_checks_by_the_judges_limits() -> None:
    assert dict(numbers.TOLERANCES) == telling.TOLERANCES
    assert telling.NOISE_FACTOR == numbers.NOISE_FACTOR


def test_a_generator_that_stands_still_is_wrong_only_where_it_must_move() -> None:
    one = {"name": "dropout", "dtype": "float32", "count": 100, "mean": 0.0, "std": 1.0, "distinct": 0}
    moves = {"statistics": [{**one, "want": {"mean": 0.0, "std": 1.0, "distinct": 3}}]}
    rests = {"statistics": [{**one, "want": {"mean": 0.0, "std": 1.0, "distinct": 0}}]}
    found = diagnose(moves)
    assert found is not None and (found.state, found.reason) == (State.WRONG, "statistics")
    assert diagnose(rests) is None
    # Whose results are nearly always the same may well give the same a few times.
    lucky = {**one, "want": {"mean": 0.0, "std": 1.0, "distinct": 9, "alike": 0.3}}
    assert diagnose({"statistics": [lucky]}) is None
    stuck = {**one, "want": {"mean": 0.0, "std": 1.0, "distinct": 127, "alike": 1e-30}}
    assert diagnose({"statistics": [stuck]}) is not None


def claimed(got: Any, want: Any) -> tuple[State, str] | None:
    found = diagnose({"claims": [{"name": "raises", "got": got, "want": want}]})
    return (found.state, found.reason) if found else None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(json_values)
def test_a_claim_that_holds_has_nothing_against_it(value: Any) -> None:
    assert claimed(value, value) is None


@pytest.mark.parametrize(("got", "want"), [(1, True), (0, False), (1, 1.0), (None, ""), ([], {}), ("1", 1)])
def test_a_claim_that_does_not_hold_is_wrong_however_alike_python_finds_it(got: Any, want: Any) -> None:
    assert claimed(got, want) == (State.WRONG, "claim")


def test_a_claim_without_its_two_sides_is_our_trouble() -> None:
    found = diagnose({"claims": [{"name": "raises", "got": None}]})
    assert found is not None and found.state is State.INFRA
    assert diagnose({"claims": 3}) is not None
