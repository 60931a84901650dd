"""Writes through views that begin somewhere in their memory: real builds have lost them at some offsets.

Such a fault lies below the operators and shows with each, so a few ways of writing stand for all, and the
operators' own cases write at the beginning of their memory.
"""

from __future__ import annotations

from typing import Any, Callable

import torch

from suites import comparing
from suites.telling import excess

OFFSETS = (0, 1, 2, 3, 4, 8, 15, 16, 64, 1000)
"""Elements before the view."""
LENGTHS = (4, 24, 512)
"""Elements of the view; a shorter one can be written by another path than a longer one."""
BEHIND = 7
"""Elements behind the view, which must stay."""

MOST_CHECKS = 12
"""Checks of one case that are sent."""

Form = Callable[[torch.Tensor, int, int], torch.Tensor]
Way = Callable[[torch.Tensor, torch.Tensor], Any]

WAYS: dict[str, Way] = {
    "copy_": lambda view, other: view.copy_(other),
    "fill_": lambda view, other: view.fill_(3),
    "zero_": lambda view, other: view.zero_(),
    "add_": lambda view, other: view.add_(other),
    "mul_": lambda view, other: view.mul_(2),
    "neg_": lambda view, other: view.neg_(),
    "clamp_": lambda view, other: view.clamp_(2, 20),
    "relu_": lambda view, other: view.relu_(),
    "masked_fill_": lambda view, other: view.masked_fill_(other > 1, 9),
    "index_fill_": lambda view, other: view.index_fill_(0, torch.tensor([0, 1], device=view.device), 9),
    "out": lambda view, other: torch.mul(other, 2, out=view),
}


FORMS: dict[str, Form] = {
    "slice": lambda memory, offset, length: memory[offset : offset + length],
    "view": lambda memory, offset, length: memory[offset : offset + length].view(length),
    "rows": lambda memory, offset, length: memory[offset : offset + length].view(length // 2, 2),
    "as_strided": lambda memory, offset, length: memory.as_strided((length,), (1,), offset),
}
"""How the view is made of the memory; real builds have lost writes through the view of a slice alone."""


def lost(context: Any, form: str, way: str, dtype: str) -> dict[str, Any]:
    """Write through a view at each offset and compare the whole memory; ``offset8/length24`` is one check.

    The fact ``differ`` has the offsets at which the memory is not as it must be.
    """
    kind = getattr(torch, dtype)
    places = [(offset, length) for length in LENGTHS for offset in OFFSETS]
    with comparing.on_cpu():
        wanted = [_written(WAYS[way], kind, form, *place) for place in places]
    device = context.device()
    checks, differ = [], set()
    for (offset, length), want in zip(places, wanted):
        got = _written(WAYS[way], kind, form, offset, length, device)
        checks.append(comparing.check(f"offset{offset}/length{length}", got, want, device=device.type))
        if excess(checks[-1]) > 0:
            differ.add(offset)
    wrong = [check for check in checks if excess(check) > 0]
    facts = {"checked": len(checks), "differ": sorted(differ)}
    return {"checks": wrong[:MOST_CHECKS] or checks[:1], "facts": facts}


def _written(
    write: Way, kind: torch.dtype, form: str, offset: int, length: int, device: Any = "cpu"
) -> torch.Tensor:
    """Return the memory after the write, on the device; small whole numbers, exact in any dtype."""
    memory = (torch.arange(offset + length + BEHIND) % 13 - 2).to(kind).to(device)
    view = FORMS[form](memory, offset, length)
    other = (torch.arange(length) % 5).to(kind).view(view.shape).to(device)
    write(view, other)
    return memory
