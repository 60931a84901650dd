"""The training suite on real torch: right on the CPU, and each planted fault is blamed on the part that has it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.suites.torches import ROOT, Torch, Wanted
from tracker.matrix import Case, load_suites
from tracker.model import State
from tracker.training import diagnose

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

TINY = {"size": "small", "train": 64, "test": 64, "batch": 16, "epochs": 2}
RESNET = Wanted("training", "train", {"model": "resnet18", "optimizer": "sgd", **TINY})
VIT = Wanted("training", "train", {"model": "vit_tiny", "optimizer": "adamw", **TINY})


def small_cases(part: str) -> list[Case]:
    found = load_suites(ROOT / "suites", "small")
    return [case for suite in found if suite.name == "training" for case in suite.cases if part in case.id]


def run(torch: Torch, cases: list[Case], **how: Any) -> dict[str, Any]:
    wanted = [Wanted(case.suite, case.function, case.params) for case in cases]
    return dict(zip([case.id for case in cases], torch.run(wanted, **how), strict=True))


@pytest.mark.parametrize("part", ["/sgd", "/adam@", "/adamw", "/loss/", "/ladder/"])
def test_the_cpu_is_right_by_its_own_measure(real_torch: Torch, part: str) -> None:
    found = run(real_torch, small_cases(part), timeout=500.0)
    assert {name: one.finding for name, one in found.items() if one.finding.state is not State.PASS} == {}
    assert [diagnose(one.measures.get("training", {})) for one in found.values()] == [None] * len(found)


@pytest.mark.parametrize("wanted", [RESNET, VIT])
def test_a_clean_device_trains_as_the_cpu_does(real_torch: Torch, wanted: Wanted) -> None:
    (ran,) = real_torch.run([wanted], fault="clean")
    measures = ran.measures
    assert diagnose(measures["training"]) is None
    assert {check["role"] for check in measures["checks"]} >= {"loss", "gradient", "optimizer", "output"}
    assert len(measures["training"]["curves"]["controls"]) >= 3
    assert measures["facts"]["data"] == "drawn"


def test_buffers_that_stay_are_named(real_torch: Torch) -> None:
    (ran,) = real_torch.run([RESNET], fault="frozen-buffers")
    found = diagnose(ran.measures["training"])
    assert found is not None
    assert found[0] is State.WRONG
    assert "buffers" in found[1]
    assert "bn1.running_mean" in found[2]


def test_a_loss_whose_gradient_is_zero_is_told_from_those_that_train(real_torch: Torch) -> None:
    wanted = [Wanted("training", "losses:measure", {"loss": loss}) for loss in ("mse", "smooth_l1")]
    bad, good = real_torch.run(wanted, fault="zero-gradient")
    assert (bad.finding.state, bad.finding.reason) == (State.WRONG, "gradient-zero")
    assert good.finding.state is State.PASS
