"""How fast the planted device is: float16 is computed as in a GPU's units, from float32, and takes less time.

The CPU's own float16 is many times slower than its float32, which no device's is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_map

HEAVY = ("aten::convolution", "aten::addmm")
LEAST = 0.002
"""Seconds that a heavy operator takes longer in the slow type, at least."""
SHARE = 3.0
"""The same as a share of what the CPU took: much, lest another program on the machine hide it."""


def run(
    name: str,
    operator: Callable[..., Any],
    args: Any,
    kwargs: dict[str, Any],
    slow: torch.dtype = torch.float32,
) -> Any:
    """Compute the operator; a heavy one of the ``slow`` type takes longer, except in training."""
    tensor = args[0] if args else None
    if (
        name not in HEAVY
        or not isinstance(tensor, torch.Tensor)
        or tensor.dtype not in (torch.float16, torch.float32)
    ):
        return operator(*args, **kwargs)
    started = time.perf_counter()
    result = (
        _as_float32(operator, args, kwargs) if tensor.dtype == torch.float16 else operator(*args, **kwargs)
    )
    if tensor.dtype == slow and not torch.is_grad_enabled():
        time.sleep(max(LEAST, SHARE * (time.perf_counter() - started)))
    return result


def _as_float32(operator: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    def wide(value: Any) -> Any:
        return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.float16 else value

    def narrow(value: Any) -> Any:
        return value.half() if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value

    if "out" in kwargs:
        return operator(*args, **kwargs)
    return tree_map(narrow, operator(*tree_map(wide, args), **tree_map(wide, kwargs)))
