"""Reports about running out of memory."""

from __future__ import annotations

import torch

from suites.bugs.common_b import Measures, claim, usable
from suites.context import Context

_SIZES = tuple(1 << bits for bits in range(34, 58, 4))
"""Bytes, from 16 GiB up to what no machine has."""


def recovery(context: Context) -> Measures:
    """Weights larger than the memory could not be allocated: it must be a RuntimeError, and the device must go on.

    The sizes grow sixteenfold until one is refused, and nothing is written to them: filling the memory piece by
    piece would take a machine with shared memory down before the adapter refuses.
    """
    device = context.device()
    asked, raised = 0, "nothing"
    for asked in _SIZES:
        try:
            torch.empty(asked, dtype=torch.uint8, device=device)
        except Exception as error:
            raised = type(error).__name__ if not isinstance(error, RuntimeError) else "RuntimeError"
            break
    return {
        "checks": [usable(device)],
        "claims": [claim("asking for too much raises", raised, "RuntimeError")],
        "facts": {"refused_bytes": asked},
    }
