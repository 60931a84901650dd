"""What an operator gave at each build is told per dtype, and a name finds the operators that a person means."""

from __future__ import annotations

import pytest

from tracker.model import State
from tracker.operator_runs import Works, nearest, operator_run, search_text, works

BUILDS = ["1", "2", "3", "4"]


def test_builds_that_do_the_same_are_joined_and_those_not_run_are_not_told() -> None:
    states = {"1": State.FALLBACK, "3": State.PASS, "4": State.SLOW}
    run = operator_run("operators/nn.functional.gelu/float16/forward", "GPU", "box", BUILDS, states)
    assert run is not None
    assert (run.operator, run.dtype, run.direction) == ("nn.functional.gelu", "float16", "forward")
    assert run.says == "falls back to the CPU in 1, right from 3 to 4"
    assert [period.works for period in run.periods] == [Works.FALLBACK, Works.UNKNOWN, Works.RIGHT]


@pytest.mark.parametrize("case", ["operators/dtype/float64", "operators/views/slice/out/int64"])
def test_cases_of_no_single_operator_are_left_out(case: str) -> None:
    assert operator_run(case, "GPU", "box", BUILDS, {}) is None


def test_every_state_has_a_word_and_no_inconclusive_one_a_claim() -> None:
    for state in State:
        assert (works(state) is Works.UNKNOWN) is not state.conclusive


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("layer_norm", "layer_norm"),
        ("aten::native_layer_norm.out", "layer_norm"),
        ("aten::_softmax", "softmax"),
        ("nn.functional.gelu", "nn.functional.gelu"),
        ("aten::gelu_backward.grad_input", "gelu"),
        (" ADD ", "add"),
        ("_", "_"),
    ],
)
def test_a_name_of_the_dispatcher_finds_the_tests_of_the_operator(name: str, text: str) -> None:
    assert search_text(name) == text


def test_the_nearest_kind_of_name_is_taken() -> None:
    names = ["add", "addmm", "nn.functional.gelu", "special.log_softmax", "softmax"]
    assert nearest("add", names) == {"add"}
    assert nearest("gelu", names) == {"nn.functional.gelu"}
    assert nearest("soft", ["special.log_softmax", "softmax"]) == {"special.log_softmax", "softmax"}
    assert nearest("x", []) == set()
