"""The planted device is a device as torch sees one, and computes what the CPU does."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tests.suites.torches import ROOT, Torch, Wanted
from tracker.model import State

pytestmark = [pytest.mark.torch, pytest.mark.timeout(1200)]

LOOKS = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, torch_directml
from torch import nn

device = torch_directml.device()
assert torch_directml.device_name(0) == "Planted adapter\\0" and torch_directml.device_count() == 1
here = torch.randn(2, 3)
there = here.to(device)
assert there.device.type == "privateuseone" and type(there.cpu()) is torch.Tensor
assert torch.equal(there.cpu(), here) and there.tolist() == here.tolist() and "privateuseone" in repr(there)
assert torch.zeros(2, device=device).device == torch.tensor([1.0], device=device).device == device
for mixed in (lambda: there + here, lambda: torch.mm(there, here.t())):
    try:
        mixed()
    except RuntimeError as error:
        assert "to be on the same device" in str(error)
    else:
        raise AssertionError("tensors of two devices were mixed")
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
losses = []
for _ in range(5):
    images, labels = torch.ones(4, 3, 8, 8).to(device), torch.tensor([1, 2, 3, 4]).to(device)
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0] and model[0].weight.grad.device == device
assert model.half()(images.half()).dtype == torch.float16
view = torch.arange(6.0, device=device)
view[1:3].mul_(10)
assert view.tolist() == [0, 10, 20, 3, 4, 5] and view.resize_(2, 2).shape == (2, 2)
print("as a device")
"""

LEFT_OUT = ("sparse", "tensor_split", "tril_indices", "triu_indices", "as_strided", "empty")
"""What this device has not: sparse tensors and factories of indices; and what has no defined result."""


def test_it_looks_like_a_device(real_torch: Torch) -> None:
    command = [str(real_torch.python), "-I", "-c", LOOKS, str(ROOT / "tests" / "planted_device")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "as a device\n", done.stderr


def rows(name: str, step: int) -> list[dict[str, str]]:
    """Return every ``step``-th operator that the suite lists."""
    listed = json.loads((ROOT / "suites" / "operators" / name).read_text("utf-8"))
    wanted: list[dict[str, str]] = [row for row in listed if not any(word in row["op"] for word in LEFT_OUT)]
    return wanted[::step]


@pytest.mark.parametrize(("listed", "step"), [("forward", 8), ("core-forward", 4), ("backward", 8)])
def test_operators_on_it_are_right(real_torch: Torch, listed: str, step: int) -> None:
    function = listed.removeprefix("core-")
    wanted = [Wanted("operators", function, row) for row in rows(f"{listed}.json", step)]
    ran = real_torch.run(wanted, fault="clean", options={"samples": 2}, timeout=1000)
    assert len(ran) == len(wanted) >= 80
    found = [(case.params, one.finding) for case, one in zip(wanted, ran, strict=True)]
    wrong = [
        (params, finding.state, finding.reason, finding.message)
        for params, finding in found
        if finding.state not in (State.PASS, State.SKIPPED, State.NO_REFERENCE)
        # The CPU that stands in has no such kernel, and says so.
        and not (
            finding.state is State.UNSUPPORTED and re.search("not implemented for '?Half", finding.message)
        )
    ]
    assert not wrong
