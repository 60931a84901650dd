"""The diagnosis of a training names the part to blame, says nothing of chaos, and reads any rubbish."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracker.model import State
from tracker.texts import slug
from tracker.training import diagnose

FALLING = [2.3, 1.9, 1.2]


def curve(train: list[Any], test: list[Any]) -> dict[str, Any]:
    return {"steps": train, "train_loss": train, "test_loss": test}


def point(error: Any = 0.0, **more: Any) -> dict[str, Any]:
    return {"part": "bn1.running_mean", "size": 1.0, "error": error, "noise": 1e-7, "odd": [], **more}


def named(count: int, *names: str) -> dict[str, Any]:
    return {"count": count, "of": 20, "names": list(names)}


def training(
    test: list[Any] = FALLING, train: list[Any] = FALLING, scores: Any = None, **step: Any
) -> dict[str, Any]:
    right = [curve(FALLING, [loss + shift for loss in FALLING]) for shift in (0.0, 0.01, -0.02)]
    return {
        "watched": [{"step": 1, **step}],
        "curves": {"device": curve(train, test), "cpu": curve(FALLING, FALLING), "controls": right},
        "evaluation": scores or {},
    }


def reason(measured: Any) -> str | None:
    found = diagnose(measured)
    return found[1] if found else None


def evaluated(gathered: Any, batch: float) -> dict[str, Any]:
    mine = {"device": {"loss": gathered}, "cpu": {"loss": gathered}, "batch_statistics": {"loss": batch}}
    theirs = {"cpu": {"loss": 1.2}, "batch_statistics": {"loss": 1.2}}
    return {"device_weights": mine, "cpu_weights": theirs}


def test_a_training_like_the_cpus_shows_nothing() -> None:
    assert diagnose(training(worst={"gradient": point(1e-6)})) is None


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"missing": named(2, "a")}, "gradient-missing"),
        ({"lost_graph": ["layer1"]}, "gradient-missing"),
        ({"zero": named(1, "a")}, "gradient-zero"),
        ({"worst": {"loss": point(1e-3)}}, "loss-values"),
        ({"worst": {"gradient": point(1e-3)}}, "gradient-values"),
        ({"worst": {"buffer": point(1e-3)}}, "buffer-values"),
        ({"worst": {"buffer": point(1e-3)}, "frozen_buffers": named(1, "a")}, "buffers-not-updated"),
        ({"worst": {"optimizer": point(1e-3)}}, "optimizer-values"),
        ({"worst": {"optimizer": point(1e-3)}, "frozen_weights": named(1, "a")}, "weights-not-updated"),
        ({"worst": {"optimizer": point(0.0, odd=["nan"])}}, "optimizer-values"),
        ({"worst": {"gradient": point("nan")}}, "gradient-values"),
    ],
)
def test_a_fault_counts_although_the_curves_look_fine(step: dict[str, Any], expected: str) -> None:
    found = diagnose(training(**step))
    assert found is not None
    assert found[:2] == (State.WRONG, expected)
    assert found[2].startswith("step 1: ")


def test_what_a_step_brings_about_does_not_hide_its_cause() -> None:
    both = {"buffer": point(1.0), "loss": point(1.0), "gradient": point(1.0)}
    assert reason(training(worst=both)) == "loss-values"
    assert reason(training(worst=both, zero=named(1))) == "gradient-zero"


def test_a_tensor_that_stays_by_rounding_is_no_fault() -> None:
    assert diagnose(training(worst={"buffer": point(1e-9)}, frozen_buffers=named(1, "a"))) is None


@pytest.mark.parametrize(
    ("role", "part"),
    [
        ("buffer", "buffers"),
        ("gradient", "gradient"),
        ("optimizer", "optimizer"),
        ("loss", "forward"),
        ("none", "unexplained"),
    ],
)
def test_a_flat_test_loss_joins_the_part_to_blame(role: str, part: str) -> None:
    assert reason(training(test=[2.3, 2.2, 2.25], worst={role: point(1.0)})) == f"test-loss-flat-{part}"


def test_a_flat_training_loss_goes_before_the_test_loss() -> None:
    assert reason(training(test=[2.3, 2.3, 2.3], train=[2.3, 2.3, 2.3])) == "training-loss-flat-unexplained"


def test_weights_that_do_well_with_the_batchs_statistics_blame_the_buffers() -> None:
    flat = [2.3, 2.2, 2.25]
    assert reason(training(test=flat, scores=evaluated(2.25, 1.3))) == "test-loss-flat-buffers"
    assert reason(training(test=flat, scores=evaluated(2.25, 2.2))) == "test-loss-flat-unexplained"
    assert reason(training(test=FALLING, scores=evaluated(2.25, 1.3))) is None


@pytest.mark.parametrize("whose", ["device_weights", "cpu_weights"])
def test_the_same_weights_evaluated_otherwise_blame_the_evaluation(whose: str) -> None:
    scores = {whose: {"device": {"loss": 9.0}, "cpu": {"loss": 1.2}, "worst": point(1.0)}}
    assert reason(training(scores=scores)) == "evaluation-values"
    assert reason(training(test=[2.3, 2.3, 9.0], scores=scores)) == "test-loss-flat-evaluation"


def test_a_loss_that_is_no_number_is_told_where_the_cpus_is_one() -> None:
    assert reason(training(train=[2.3, "nan", "nan"])) == "training-loss-nan-unexplained"
    assert reason(training(test=[2.3, "inf", 2.0])) == "test-loss-nan-unexplained"
    assert reason({"losses": [2.3, 2.2, "nan"]}) == "training-loss-nan-unexplained"
    measured = training(train=[2.3, "nan", "nan"])
    measured["curves"]["cpu"]["steps"] = [2.3, 2.0, "inf"]
    assert diagnose(measured) is None


def test_nothing_is_said_of_a_loss_that_the_cpu_does_not_bring_down_either() -> None:
    measured = training(test=[2.3, 2.3, 2.3])
    measured["curves"]["controls"][1]["test_loss"] = [2.3, 2.2, 2.29]
    assert diagnose(measured) is None


def test_nothing_is_said_of_curves_without_a_control_run() -> None:
    measured = training(test=[2.3, 2.3, 2.3])
    del measured["curves"]["controls"]
    assert diagnose(measured) is None


losses = st.floats(0.5, 3.0)


@given(st.lists(losses, min_size=3, max_size=6))
def test_a_run_within_the_band_of_the_others_is_never_wrong(ends: list[float]) -> None:
    """Chaos: whatever the CPU runs end with, the device may end with the worst of it."""
    runs = [curve([3.1, end], [3.1, end]) for end in ends]
    device = curve([3.1, max(ends)], [3.1, max(ends)])
    assert diagnose({"curves": {"device": device, "cpu": runs[0], "controls": runs[1:]}}) is None


@given(st.floats(0, 1e3), st.floats(0, 1.0), st.floats(0, 8.0))
def test_an_error_within_eight_times_the_cpus_noise_is_never_wrong(
    size: float, noise: float, times: float
) -> None:
    worst = {"gradient": point(noise * times, size=size, noise=noise)}
    assert diagnose(training(worst=worst)) is None


KEYS = [
    "watched",
    "curves",
    "evaluation",
    "losses",
    "step",
    "worst",
    "missing",
    "zero",
    "lost_graph",
    "frozen_buffers",
    "frozen_weights",
    "device",
    "cpu",
    "controls",
    "steps",
    "train_loss",
    "test_loss",
    "device_weights",
    "cpu_weights",
    "batch_statistics",
    "loss",
    "accuracy",
    "count",
    "of",
    "names",
    "size",
    "error",
    "noise",
    "odd",
    "part",
    "gradient",
    "buffer",
    "optimizer",
]
scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["nan", "inf", "-inf", "x", ""])
)
rubbish = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


def checked(measured: Any) -> None:
    found = diagnose(measured)
    assert found is None or (found[0] is State.WRONG and found[1] == slug(found[1]) and found[2])


@settings(suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
@given(st.dictionaries(st.sampled_from(KEYS), rubbish, max_size=5))
def test_whatever_is_sent_has_a_diagnosis_or_none(measured: dict[str, Any]) -> None:
    checked(measured)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return (
        [path, *(place for key, item in inner for place in places(item, (*path, key)))]
        if path
        else [place for key, item in inner for place in places(item, (key,))]
    )


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_one_thing_may_be_rubbish(data: st.DataObject) -> None:
    scores = evaluated(2.25, 1.3)
    scores["cpu_weights"]["worst"] = point(1.0)
    worst = {role: point(1.0) for role in ("loss", "gradient", "buffer", "optimizer")}
    measured = training([2.3, 2.2, 2.3], scores=scores, worst=worst, frozen_buffers=named(1, "a"))
    measured = copy.deepcopy(measured)
    *above, last = data.draw(st.sampled_from(places(measured)))
    holder: Any = measured
    for key in above:
        holder = holder[key]
    holder[last] = data.draw(rubbish)
    checked(measured)


def test_messages_say_numbers_in_short() -> None:
    found = diagnose(training(test=[2.3, 2.2, 2.2512345], worst={"buffer": point(0.123456)}))
    assert found is not None
    assert found[2] == (
        "the test loss goes from 2.3 to 2.25, on the CPU from 2.3 to 1.2; "
        "step 1: buffer of bn1.running_mean is off by 0.123 at 1"
    )
