"""Reports about LSTM: a fused cell that is missing, and memory that a long sequence takes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from suites.bugs.common import Measures, carrying, compared, drawn, memory_used, seeded, whole
from suites.comparing import check, on_cpu, to_double
from suites.context import Context


class _Sequence(nn.Module):
    """A recurrent layer of which the result is what it gives for every step."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.layer = kind(8, 16, num_layers=2, batch_first=True)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(given)[0]
        return result


def lstm_cell(context: Context) -> Measures:
    """LSTM raised for want of its fused cell: forward and backward of two layers; GRU beside it as a control.

    What the control does stands in the facts, whether LSTM raises or not.
    """
    device = context.device()
    given = drawn(4, 12, 8)
    facts: dict[str, Any] = {"GRU": "no error"}
    try:
        # Backward too: the fused cell of GRU has a derivative of its own.
        compared("GRU", seeded(lambda: _Sequence(nn.GRU)), [given], device)
    except Exception as error:  # a control: no verdict hangs on it
        facts["GRU"] = f"{type(error).__name__}: {error}"[:200]
    try:
        checks = compared("LSTM", seeded(lambda: _Sequence(nn.LSTM)), [given], device)
    except Exception as error:
        raise carrying(error, {"facts": facts}) from None
    return {"checks": checks, "facts": facts}


class _Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 16)
        self.layer = nn.LSTM(16, 24, batch_first=True)
        self.head = nn.Linear(24, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.layer(self.words(words))[0][:, -1])
        return result


def lstm_training(context: Context) -> Measures:
    """Training an LSTM died at its first step: one step of RMSprop with embedding and LSTM, loss as on the CPU."""
    device = context.device()
    model = seeded(_Classifier)
    words, labels = whole(0, 40, 6, 10, seed=1), whole(0, 4, 6, seed=2)
    with on_cpu():
        truth = _step(to_double(model), words, labels)
        want = _step(to_double(model).float(), words, labels)
    got = _step(model.to(device), words.to(device), labels.to(device))
    return {"checks": [check("loss", got, want, truth=truth, role="loss", device=device.type)], "facts": {}}


def _step(model: nn.Module, words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    loss = functional.cross_entropy(model(words), labels)
    loss.backward()
    optimizer.step()
    for item in model.parameters():
        item.detach().cpu()  # the step is done when its weights can be read
    return loss.detach()


_STEPS = 24
"""Steps of which the memory is sampled: growth is judged from 20 on."""


def lstm_memory(context: Context) -> Measures:
    """An LSTM's training filled 16 GB: memory of 24 steps over a long sequence, which must not grow.

    256 long, batch 16 and 64 wide, where the report has 8000, 32 and 128: those take too long on a software adapter.
    So the report's other rule, a peak below four times the CPU's, is not measured: a pool hides it at this size.
    """
    device = context.device()
    model = seeded(lambda: nn.LSTM(4, 64)).to(device)
    given = drawn(256, 16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    used: list[int] = []
    for _ in range(_STEPS):
        optimizer.zero_grad()
        model(given)[0].pow(2).mean().backward()
        optimizer.step()
        next(model.parameters()).detach().cpu()
        used.append(memory_used(context))
    return {"memory": used, "facts": {"first": used[0], "last": used[-1], "peak": max(used)}}
