"""What float16 costs on a CPU, also where the CPU refuses it: every operator's result rounded to float16.

The work is done in float32 and rounded as a device does that accumulates in float32, so the rounding of stored
results is in it and the rounding inside a sum is not. Many CPUs refuse float16 or take minutes for it.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from suites import timing

_PROBE = (1, 16, 32, 32)  # images for the question whether this CPU is able to do float16
_TOO_SLOW = 20.0  # times float32's


class Rounding(TorchDispatchMode):
    """While open, every float32 result of an operator is rounded to the nearest float16, in place."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not _is_view(func):
            for tensor in result if isinstance(result, (tuple, list)) else (result,):
                if isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float32:
                    tensor.copy_(tensor.half())
        return result


def _is_view(func: Any) -> bool:
    """Whether the operator only gives its input another shape: that was rounded when it was made."""
    aliases = [place.alias_info for place in func._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


def emulated(net: nn.Module, given: torch.Tensor) -> torch.Tensor:
    """Return the result, float16, of a net whose weights, input and every step are rounded to float16."""
    rounded = copy.deepcopy(net).half().float()
    with torch.no_grad(), Rounding():
        return rounded(given.half().float()).half()


def by_cpu(net: nn.Module, given: torch.Tensor) -> tuple[torch.Tensor | None, str]:
    """Return the result of the CPU's own float16 and an empty text, or None and why there is none."""
    why = _refusal()
    if why:
        return None, why
    try:
        with torch.no_grad():
            return copy.deepcopy(net).half()(given.half()), ""
    except Exception as error:  # a net may need what the probe did not ask for
        return None, f"{type(error).__name__}: {error}"[:200]


def _refusal() -> str:
    """Say why this CPU does no float16 convolution or product, or nothing where it does."""
    layer = nn.Conv2d(_PROBE[1], _PROBE[1], 3)
    given = torch.ones(_PROBE)
    try:
        with torch.no_grad():
            plain = min(timing.repeats(lambda: layer(given), 5, 0.2, 2))
            layer.half()
            half = min(timing.repeats(lambda: layer(given.half()), 5, 0.2, 2))
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"[:200]
    return f"{half / plain:.0f} times slower than float32" if half > _TOO_SLOW * plain else ""
