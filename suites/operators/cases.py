"""The cases of the operators: forward, backward, and the gates of what a backend may refuse."""

from __future__ import annotations

from typing import Any

import torch

from suites import comparing
from suites.operators.run import BackwardRun, ForwardRun


def forward(context: Any, op: str, dtype: str) -> dict[str, Any]:
    """Compute one operator of the OpInfo database in one dtype: results, other layouts, and in place."""
    return ForwardRun(context, op, dtype).measures()


def backward(context: Any, op: str, dtype: str) -> dict[str, Any]:
    """Compute the gradients of one operator of the OpInfo database for several upstream gradients."""
    return BackwardRun(context, op, dtype).measures()


def complex_results(context: Any) -> dict[str, Any]:
    """Make complex numbers of real ones on the device: operators that do this end the process in some builds."""
    torch.manual_seed(0)
    first, second = torch.randn(8), torch.randn(8)
    with comparing.on_cpu():
        made, turned = torch.complex(first, second), torch.fft.fft(first)
        wide = torch.fft.fft(first.double())
    device = context.device()
    here, there = first.to(device), second.to(device)
    return {
        "checks": [
            comparing.check("complex", torch.complex(here, there), made, device=device.type),
            comparing.check("fft", torch.fft.fft(here), turned, truth=wide, device=device.type),
        ]
    }


def gate(context: Any, dtype: str) -> dict[str, Any]:
    """Move values of one dtype to the device and back, add, multiply matrices: what every operator builds on.

    A backend that ends the process on a dtype does so here, once, and not in hundreds of operators.
    """
    kind = getattr(torch, dtype)
    torch.manual_seed(0)
    first, second = (torch.randn(8, 8).to(kind) for _ in range(2))
    with comparing.on_cpu():
        total, product = first + second, first @ second
        wide = [comparing.to_double(item) for item in (first, second)]
    device = context.device()
    here, there = first.to(device), second.to(device)
    return {
        "checks": [
            comparing.check("moved", here, first, device=device.type),
            comparing.check("add", here + there, total, truth=wide[0] + wide[1], device=device.type),
            comparing.check("matmul", here @ there, product, truth=wide[0] @ wide[1], device=device.type),
        ]
    }
