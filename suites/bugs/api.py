"""Reports about torch's interface on the device: new, inference_mode, load and save, sparse tensors."""

from __future__ import annotations

import io
from typing import Any

import torch
from torch import nn

from suites.bugs.common_b import Measures, Trials, claim, normal
from suites.comparing import check, on_cpu
from suites.context import Context


def tensor_new(context: Context) -> Measures:
    """``Tensor.new`` could not be dispatched: of values, of a size, and ``new_zeros``."""
    trials = Trials(context)
    with on_cpu():
        numbers = normal(4)
    trials.compare("new([2, 3])", lambda tensor: tensor.new([2, 3]), numbers, exact=True)
    trials.compare("new_zeros(3)", lambda tensor: tensor.new_zeros(3), numbers, exact=True)
    empty = trials.attempt("new(3)", lambda: numbers.to(trials.device).new(3))
    if empty is not None:  # its values are whatever was in the memory
        facts = [list(empty.shape), str(empty.dtype), empty.device.type]
        want = numbers.new(3)
        trials.claims.append(
            claim(
                "new(3)",
                facts,
                [list(want.shape), str(want.dtype), trials.device.type],
                "shape, dtype, device",
            )
        )
    return trials.measures()


def inference_mode(context: Context) -> Measures:
    """A copy and a linear layer in ``inference_mode`` failed: "cannot set version_counter"."""
    device = context.device()
    with on_cpu():
        module, rows = _seeded(nn.Linear(3, 128)), torch.zeros(4, 3)
        want, truth = module(rows), module.double()(rows.double())
    module = module.float().to(device)
    with torch.inference_mode():
        got = module(rows.to(device))
        return {"checks": [check("linear", got, want, truth=truth, device=device.type)]}


def load_to_device(context: Context) -> Measures:
    """``torch.load`` with the device as map_location failed: states saved on the CPU and on the device."""
    device = context.device()
    with on_cpu():
        want = _seeded(nn.Linear(3, 4)).state_dict()
    there = {name: tensor.to(device) for name, tensor in want.items()}
    found: Measures = {"checks": []}
    for place, state in (("CPU", want), ("device", there)):
        loaded = torch.load(_saved(state), map_location=device)
        found["checks"] += _compared(f"saved on the {place}", loaded, want, device.type)
    return found


def load_what_was_on_the_device(context: Context) -> Measures:
    """``torch.load`` of a state that was saved on the device failed: as it comes, onto the device, onto the CPU."""
    trials = Trials(context)
    with on_cpu():
        want = _seeded(nn.Linear(3, 4)).state_dict()
    there = {name: tensor.to(trials.device) for name, tensor in want.items()}
    for name, place in (("as it comes", None), ("onto the device", trials.device), ("onto the CPU", "cpu")):
        loaded = trials.attempt(name, lambda place=place: torch.load(_saved(there), map_location=place))
        if loaded is not None:
            kind = "cpu" if place == "cpu" else trials.device.type
            trials.checks += _compared(name, loaded, want, kind)
    return trials.measures()


def _seeded(module: nn.Linear) -> nn.Linear:
    with torch.no_grad():
        module.weight.copy_(normal(*module.weight.shape))
        module.bias.copy_(normal(*module.bias.shape, seed=1))
    return module


def _saved(state: Any) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file


def _compared(name: str, loaded: dict[str, Any], want: dict[str, Any], device: str) -> Any:
    return [
        check(f"{key}, {name}", loaded.get(key), tensor, role="buffer", device=device)
        for key, tensor in want.items()
    ]


def sparse_buffer(context: Context) -> Measures:
    """Whisper could not be moved because of one sparse buffer.

    With the buffer dense the model must compute what the CPU does; the encoder's first layers, which are the same
    in every size of Whisper, stand for it.
    """
    trials = Trials(context)
    with on_cpu(), torch.no_grad():
        heads = torch.eye(4).to_sparse()
        model = _Listener()
        heard = normal(1, 8, 40)
        want, truth = model(heard), model.double()(heard.double())
        model = model.float()
    moved = trials.attempt("sparse", lambda: heads.to(trials.device))
    if moved is not None:
        trials.checks.append(check("sparse", moved, torch.eye(4), device=trials.device.type))
    with torch.no_grad():
        got = model.to(trials.device)(heard.to(trials.device))
    trials.checks.append(check("encoded", got, want, truth=truth, device=trials.device.type))
    return trials.measures()


class _Listener(nn.Module):
    """Two convolutions, a norm and a linear layer, with the buffer that Whisper keeps, made dense."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(8, 16, 3, padding=1)
        self.second = nn.Conv1d(16, 16, 3, stride=2, padding=1)
        self.norm, self.last = nn.LayerNorm(16), nn.Linear(16, 16)
        self.register_buffer("alignment_heads", torch.eye(4))
        for place, weight in enumerate(self.parameters()):
            weight.copy_(normal(*weight.shape, seed=place))

    def forward(self, heard: torch.Tensor) -> torch.Tensor:
        heard = nn.functional.gelu(self.first(heard))
        heard = nn.functional.gelu(self.second(heard)).permute(0, 2, 1)
        result: torch.Tensor = self.last(self.norm(heard))
        return result
