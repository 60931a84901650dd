"""The operators suite on real torch: right on the CPU, and blind to none of these faults."""

from __future__ import annotations

from typing import Any

import pytest

from tests.suites.torches import Ran, Torch, Wanted
from tracker.model import State

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]


def forward(op: str, dtype: str = "float32") -> Wanted:
    return Wanted("operators", "forward", {"op": op, "dtype": dtype})


def backward(op: str, dtype: str = "float32") -> Wanted:
    return Wanted("operators", "backward", {"op": op, "dtype": dtype})


PLAIN = [
    forward("add"),
    forward("nn.functional.conv2d"),
    forward("matmul", "float16"),
    forward("floor_divide", "int64"),
    forward("logical_not", "bool"),
    forward("max.reduction_with_dim"),
    forward("topk"),
    forward("linalg.svd"),
    forward("empty_like"),
    forward("eye"),
    forward("nn.functional.triplet_margin_with_distance_loss"),
    backward("nn.functional.layer_norm"),
    backward("linalg.eigh"),
    backward("matmul", "float16"),
    Wanted("operators", "gate", {"dtype": "bfloat16"}),
    Wanted("operators", "complex_results"),
    Wanted("operators", "views:lost", {"form": "rows", "way": "add_", "dtype": "int64"}),
    backward("nn.functional.dropout"),
]
RANDOM = [
    forward(op)
    for op in ("bernoulli", "cauchy", "nn.functional.dropout3d", "randn_like", "nn.functional.alpha_dropout")
]


SKIPPED = [
    (forward("no_such_operator"), "not-in-this-torch"),
    (forward("conj_physical", "uint16"), "not-for-this-dtype"),
    (forward("broadcast_shapes"), "never-on-device"),
]


def one(torch: Torch, case: Wanted, **how: Any) -> Ran:
    return torch.run([case], **how)[0]


def said(found: list[Ran]) -> list[tuple[State, str]]:
    return [(ran.finding.state, ran.finding.message) for ran in found]


@pytest.fixture(scope="module")
def on_cpu(real_torch: Torch) -> dict[int, Ran]:
    """All of the above in one process: the database takes long to import."""
    cases = [*PLAIN, *RANDOM, *(case for case, _ in SKIPPED)]
    return {id(case): ran for case, ran in zip(cases, real_torch.run(cases, timeout=500.0), strict=True)}


def test_the_cpu_is_right_by_its_own_measure(on_cpu: dict[int, Ran]) -> None:
    found = [on_cpu[id(case)] for case in (*PLAIN, *RANDOM)]
    assert said(found) == [(State.PASS, "")] * len(found)
    assert all(ran.measures["checks"] for ran in found)


def test_a_gradient_through_a_random_mask_is_left_out(on_cpu: dict[int, Ran]) -> None:
    assert on_cpu[id(PLAIN[-1])].measures["facts"]["random"] >= 1


def test_what_was_looked_at_is_said(on_cpu: dict[int, Ran]) -> None:
    facts = on_cpu[id(PLAIN[0])].measures["facts"]
    assert facts["samples"] == 8 < facts["of"]
    assert facts["capped_by"] == "samples"


def test_random_operators_are_measured_by_their_distribution(on_cpu: dict[int, Ran]) -> None:
    for case in RANDOM:
        found = on_cpu[id(case)].measures["statistics"]
        assert found
        assert all(item["distinct"] for item in found if item["count"] > 20)


@pytest.mark.parametrize(("case", "reason"), SKIPPED, ids=[reason for _, reason in SKIPPED])
def test_what_can_not_be_compared_is_skipped(on_cpu: dict[int, Ran], case: Wanted, reason: str) -> None:
    found = on_cpu[id(case)].finding
    assert (found.state, found.reason) == (State.SKIPPED, reason)


def test_no_time_still_leaves_the_first_sample(real_torch: Torch) -> None:
    found = one(real_torch, forward("add"), options={"operator_seconds": 1e-6})
    assert found.measures["facts"]["steps"] == 1
    assert found.measures["facts"]["capped_by"] == "seconds"


def test_a_build_without_a_fault_is_right(real_torch: Torch) -> None:
    found = real_torch.run(PLAIN, fault="clean", timeout=500.0)
    assert said(found) == [(State.PASS, "")] * len(found)


def test_a_fault_of_strided_input_is_named_by_the_check(real_torch: Torch) -> None:
    cases = [forward("nn.functional.layer_norm"), forward("softmax")]
    norm, softmax = (ran.finding for ran in real_torch.run(cases, fault="strided-input"))
    assert (norm.state, norm.reason) == (State.WRONG, "values")
    assert "strided" in norm.message
    assert softmax.state is State.PASS


def test_a_wrong_dtype_is_seen_before_any_value(real_torch: Torch) -> None:
    found = one(real_torch, forward("argmax"), fault="wrong-dtype").finding
    assert (found.state, found.reason) == (State.WRONG, "dtype")


def test_a_result_that_differs_from_run_to_run(real_torch: Torch) -> None:
    found = one(real_torch, forward("cumsum"), fault="non-deterministic").finding
    assert (found.state, found.reason) == (State.WRONG, "non-deterministic")


def test_a_gradient_that_is_wrong_only_when_expanded(real_torch: Torch) -> None:
    found = one(real_torch, backward("nn.functional.gelu"), fault="expanded-gradient").finding
    assert (found.state, found.reason) == (State.WRONG, "gradient-values")
    assert "/expanded" in found.message


def test_a_second_case_is_told_of_a_fallback_too(real_torch: Torch) -> None:
    found = real_torch.run([forward("lerp"), forward("lerp", "float16")], fault="fallback")
    assert [ran.finding.state for ran in found] == [State.FALLBACK] * 2
