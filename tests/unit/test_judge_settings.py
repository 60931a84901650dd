"""One verdict of many findings: in which setting each was made tells a fault of order from one of chance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.judge import ALONE, ORDER_DEPENDENT, REORDERED, ROUNDS, find, verdict
from tracker.model import Confidence, Ending, Finding, Outcome, State

PASS = Finding(State.PASS, "pass")
WRONG = Finding(State.WRONG, "values", "logits: error of about 1e-2, allowed is 1e-5")
CRASH = Finding(State.CRASH, "sigsegv")
SLOW = Finding(State.SLOW, "stutter")
INFRA = Finding(State.INFRA, "not-started")


def test_the_same_in_every_setting_is_observed() -> None:
    word = verdict([WRONG, WRONG], attempts=[1, ALONE])
    assert (word.reason, word.confidence, word.observations) == ("values", Confidence.OBSERVED, 2)


def test_what_is_wrong_among_others_and_right_alone_depends_on_order() -> None:
    word = verdict([WRONG, PASS], attempts=[1, ALONE])
    assert (word.state, word.reason, word.confidence) == (State.WRONG, ORDER_DEPENDENT, Confidence.OBSERVED)
    assert word.message == (
        "values in a process with other cases, pass alone in a fresh process:"
        " logits: error of about 1e-2, allowed is 1e-5"
    )


def test_what_is_right_among_others_and_wrong_in_another_order_depends_on_order() -> None:
    word = verdict([PASS, CRASH], attempts=[1, REORDERED])
    assert (word.state, word.reason) == (State.CRASH, ORDER_DEPENDENT)
    assert word.message == "pass in a process with other cases, sigsegv in another order"


def test_two_reasons_in_two_settings_depend_on_order() -> None:
    assert verdict([WRONG, CRASH], attempts=[1, ALONE]).reason == ORDER_DEPENDENT


def test_a_mixture_within_one_setting_is_flaky() -> None:
    word = verdict([WRONG, PASS, PASS], attempts=[1, 1, ALONE])
    assert (word.state, word.reason, word.confidence) == (State.WRONG, "values", Confidence.FLAKY)


def test_repeated_settings_that_agree_still_depend_on_order() -> None:
    assert verdict([WRONG, PASS], [3, 2], [1, ALONE]).reason == ORDER_DEPENDENT


def test_what_is_only_slow_in_one_setting_is_flaky() -> None:
    word = verdict([SLOW, PASS], attempts=[1, ALONE])
    assert (word.reason, word.confidence) == ("stutter", Confidence.FLAKY)


def test_an_inconclusive_setting_does_not_count() -> None:
    word = verdict([INFRA, PASS], attempts=[1, ALONE])
    assert (word.state, word.reason, word.observations) == (State.PASS, "pass", 1)


def test_rounds_of_a_speed_comparison_count_towards_no_verdict() -> None:
    assert verdict([PASS, CRASH], [1, 9], [1, ROUNDS]) == verdict([PASS])
    assert verdict([CRASH], attempts=[ROUNDS + 3]).state is State.NOT_RUN


findings = st.sampled_from([PASS, WRONG, CRASH, SLOW, INFRA])


@given(st.lists(st.tuples(findings, st.integers(1, 3), st.integers(1, 3)), max_size=6))
def test_folded_findings_mean_the_same_as_each_by_itself(runs: list[tuple[Finding, int, int]]) -> None:
    each = [(finding, attempt) for finding, times, attempt in runs for _ in range(times)]
    folded = verdict([run[0] for run in runs], [run[1] for run in runs], [run[2] for run in runs])
    assert folded == verdict([finding for finding, _ in each], attempts=[attempt for _, attempt in each])


@given(st.lists(st.tuples(findings, st.integers(1, 3)), min_size=1, max_size=6))
def test_the_setting_changes_the_reason_and_never_the_state(runs: list[tuple[Finding, int]]) -> None:
    seen = [finding for finding, _ in runs]
    assert verdict(seen, attempts=[attempt for _, attempt in runs]).state is verdict(seen).state


# --- one result with several things to say ---------------------------------------------------------------

FELL_BACK = "The operator 'aten::a' is not currently supported on the DML backend and will fall back to run"
WRONG_CHECK = {"name": "x", "dtype": "float32", "worst": [[1.0, 9.0]]}
RESTLESS = {"name": "x", "dtype": "float32", "repeat_reference": 1.0}
LEAK = {"memory": [step << 20 for step in range(40)]}


def found(measures: dict[str, Any], *warnings: str, code: int | None = None) -> Finding:
    return find(Outcome(Ending.COMPLETED, code, warnings=warnings), measures)


def test_wrong_goes_before_all_else() -> None:
    everything = found({"checks": [RESTLESS, WRONG_CHECK], **LEAK}, FELL_BACK)
    assert (everything.state, everything.reason) == (State.WRONG, "values")


def test_without_a_reference_nothing_is_called_right() -> None:
    assert found({"checks": [RESTLESS], **LEAK}, FELL_BACK).state is State.NO_REFERENCE


def test_a_fallback_goes_before_slow_and_tells_both() -> None:
    word = found(LEAK, FELL_BACK)
    assert (word.state, word.reason, word.message) == (
        State.FALLBACK,
        "cpu-fallback",
        "aten::a; also memory-grows",
    )


ASTRAY = {"watched": [{"step": 1, "missing": {"count": 1, "of": 20, "names": ["fc.weight"]}}]}


def test_a_training_that_goes_astray_tells_why_before_its_numbers_are_told() -> None:
    word = found({"training": ASTRAY, "checks": [WRONG_CHECK]})
    assert (word.state, word.reason) == (State.WRONG, "gradient-missing")


def test_wrong_numbers_are_wrong_in_a_training_that_looks_fine() -> None:
    assert found({"training": {"watched": []}, "checks": [WRONG_CHECK]}).reason == "values"


@pytest.mark.parametrize("key", ["training", "transcript"])
def test_a_training_or_transcript_that_is_none_is_garbage(key: str) -> None:
    assert found({key: "all fine"}).state is State.INFRA


def test_slow_goes_before_pass() -> None:
    assert (found(LEAK).state, found(LEAK).reason) == (State.SLOW, "memory-grows")


def test_garbage_beside_a_fallback_is_garbage() -> None:
    assert found({"steps": "many"}, FELL_BACK).state is State.INFRA


def test_a_death_after_the_result_is_told_with_whatever_was_found() -> None:
    word = found({"checks": [WRONG_CHECK]}, code=-11)
    assert word.state is State.WRONG
    assert word.message.endswith("; ended with code -11 after the result")


def test_measures_that_mean_nothing_to_the_judge_pass() -> None:
    assert found({"kernels": {"PrivateUse1": []}, "timing": {"each": [1.0]}}).state is State.PASS


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
KEYS = (
    "checks",
    "statistics",
    "steps",
    "memory",
    "speedup",
    "training",
    "transcript",
    "device",
    "facts",
    "top1",
    "timing",
)


@given(st.dictionaries(st.sampled_from(KEYS), json))
def test_whatever_a_worker_sends_has_a_finding(measures: dict[str, Any]) -> None:
    assert found(measures).judge


def test_what_was_wrong_before_a_case_raised_is_not_hidden_by_it() -> None:
    raised = Outcome(Ending.EXCEPTION, error_type="NotImplementedError", error_message="no kernel")
    assert find(raised, {}).state is State.UNSUPPORTED
    both = find(raised, {"checks": [WRONG_CHECK]})
    assert (both.state, both.reason) == (State.WRONG, "values")
    assert "then unsupported, not-implemented" in both.message
    assert find(raised, {"checks": []}).state is State.UNSUPPORTED


def test_a_suite_that_compared_nothing_gives_no_pass() -> None:
    assert found({"checks": []}).state is State.INFRA
    assert found({"checks": [], "statistics": [], "facts": {}}).reason == "nothing-compared"
    assert found({}).state is State.PASS  # the census compares nothing by its nature


def test_a_reference_that_is_all_noise_is_none() -> None:
    blurred = {"name": "x", "dtype": "float32", "scale": 1.0, "noise": 50.0, "worst": [[1.0, 300.0]]}
    assert found({"checks": [blurred]}).state is State.NO_REFERENCE
    near_zero = {"name": "x", "dtype": "float32", "scale": 1e-8, "noise": 2e-8, "worst": [[1e-8, 3e-8]]}
    assert found({"checks": [near_zero]}).state is State.PASS
