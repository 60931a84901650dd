"""The suites inference, fp16 and vit on real torch: right on the CPU, and blind to none of these faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.suites.torches import ROOT, Ran, Torch, Wanted
from tracker.matrix import Case, load_suites
from tracker.model import State

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

RESNET = Wanted(
    "inference", "infer", {"model": "resnet18", "batch": 2, "image": 32, "repeats": 2, "seconds": 1.0}
)
HALF = Wanted(
    "fp16",
    "infer",
    {"model": "resnet18", "way": "half", "batch": 2, "image": 32, "rounds": 5, "seconds": 1.0},
)


def small_cases(suite: str) -> list[Case]:
    return [
        case for found in load_suites(ROOT / "suites", "small") if found.name == suite for case in found.cases
    ]


def ran(torch: Torch, cases: list[Case], **how: Any) -> dict[str, Ran]:
    wanted = [Wanted(case.suite, case.function, case.params) for case in cases]
    return dict(zip([case.id for case in cases], torch.run(wanted, **how), strict=True))


@pytest.mark.parametrize("suite", ["inference", "fp16", "vit"])
def test_the_cpu_is_right_by_its_own_measure(real_torch: Torch, suite: str) -> None:
    found = ran(real_torch, small_cases(suite), timeout=500.0)
    right = {State.PASS, State.SLOW, State.SKIPPED, State.FALLBACK}
    odd = {name: one.finding for name, one in found.items() if one.finding.state not in right}
    assert odd == {}


def test_every_piece_of_the_manifest_is_skipped_by_none(real_torch: Torch) -> None:
    pieces = [case for case in small_cases("vit") if case.id.startswith("vit/piece/")]
    assert {one.finding.state for one in ran(real_torch, pieces).values()} == {State.PASS}


@pytest.mark.parametrize(
    ("fault", "piece", "reason"),
    [
        ("strided-input", "layer_norm/permuted", "values"),
        ("off-float32", "gelu/none", "values"),
        ("expanded-gradient", "gelu/none", "gradient-values"),
        ("expanded-gradient", "gelu/tanh", "gradient-values"),
    ],
)
def test_a_piece_shows_its_fault(real_torch: Torch, fault: str, piece: str, reason: str) -> None:
    cases = [Wanted("vit", "pieces:measure", {"piece": name}) for name in ("softmax/last", piece)]
    other, found = (one.finding for one in real_torch.run(cases, fault=fault))
    assert other.state == State.PASS
    assert (found.state, found.reason) == (State.WRONG, reason)


def test_a_half_net_shows_what_half_can_not_do(real_torch: Torch) -> None:
    assert real_torch.run([HALF], fault="no-float16")[0].finding.state == State.UNSUPPORTED
    found = real_torch.run([HALF], fault="slow-float16")[0].finding
    assert (found.state, found.reason) == (State.SLOW, "float16-not-faster")


def test_a_batch_of_sixteen_shows_what_smaller_ones_do_not(real_torch: Torch) -> None:
    large = Wanted("inference", "infer", {**RESNET.params, "batch": 16})
    small, found = (one.finding for one in real_torch.run([RESNET, large], fault="nan-batch"))
    assert small.state == State.PASS
    assert (found.state, found.reason) == (State.WRONG, "nan")


def test_a_seeded_net_tells_images_apart(real_torch: Torch) -> None:
    measures = real_torch.measure(RESNET.suite, RESNET.function, RESNET.params)
    assert measures["facts"]["weights"] == "seeded"
    assert 0.5 < measures["checks"][0]["scale"] < 100
    assert 0 < measures["checks"][0]["noise"] < 1e-4
    assert measures["top1"] == {"agree": 2, "of": 2}
    assert len(measures["timing"]["each"]) >= 1


def test_half_is_measured_against_float32_and_beside_the_cpus_error(real_torch: Torch) -> None:
    measures = real_torch.measure(HALF.suite, HALF.function, HALF.params)
    assert measures["checks"][0]["dtype"] == "float16"
    assert 1e-4 < measures["checks"][0]["noise"] < 0.05
    assert set(measures["facts"]["cpu_float16_error"]) >= {"emulated"}
    assert len(measures["speedup"]["float32"]) == len(measures["speedup"]["float16"])


def test_photos_are_skipped_without_weights_and_without_photos(real_torch: Torch, tmp_path: Path) -> None:
    case = Wanted("inference", "photos:classify", {"model": "resnet18"})
    assert real_torch.run([case])[0].finding.reason == "no-weights"
    (tmp_path / "resnet18-f37072fd.pth").touch()
    found = real_torch.run([case], options={"weights": str(tmp_path), "data": str(tmp_path)})[0].finding
    assert (found.state, found.reason) == (State.SKIPPED, "no-photos")


def test_weights_that_can_not_be_read_say_nothing_of_the_build(real_torch: Torch, tmp_path: Path) -> None:
    (tmp_path / "resnet18.pth").write_bytes(b"not weights")
    found = real_torch.run([RESNET], options={"weights": str(tmp_path)})[0].finding
    assert (found.state, found.reason) == (State.INFRA, "weights-unreadable")
