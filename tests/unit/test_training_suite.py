"""The training suite's manifest: which cases there are, in both sizes, and how the batch ladder is climbed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracker.matrix import Case, load_suites

SUITES = Path(__file__).resolve().parents[2] / "suites"
BATCHES = (16, 32, 64, 128)
MODELS = ("resnet18", "vit_tiny")


def cases(size: str) -> dict[str, Case]:
    return {
        case.id: case
        for suite in load_suites(SUITES, size)
        if suite.name == "training"
        for case in suite.cases
    }


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_every_model_is_trained_by_every_optimizer(model: str, optimizer: str) -> None:
    assert f"training/{model}/{optimizer}" in cases("full")
    small = cases("small")[f"training/{model}/{optimizer}@small"]
    assert small.params["size"] == "small"


@pytest.mark.parametrize(("size", "suffix"), [("full", ""), ("small", "@small")])
@pytest.mark.parametrize("model", MODELS)
def test_each_rung_is_alone_and_stands_on_the_one_below(model: str, size: str, suffix: str) -> None:
    found = cases(size)
    rungs = [found[f"training/ladder/{model}/batch{batch}{suffix}"] for batch in BATCHES]
    assert all(rung.isolate for rung in rungs)
    assert [rung.params["batch"] for rung in rungs] == list(BATCHES)
    assert [rung.after for rung in rungs] == [None, *(rung.id for rung in rungs[:-1])]


def test_the_full_ladder_is_long_enough_to_tell_a_stutter() -> None:
    rungs = [case for name, case in cases("full").items() if "/ladder/" in name]
    assert min(rung.params["steps"] for rung in rungs) >= 20


def test_everything_needs_the_device() -> None:
    assert {case.needs for case in cases("full").values()} == {"device"}
