"""Reports about running out of memory."""

from __future__ import annotations

import torch

from suites.bugs.common_b import Measures, claim, skip, usable
from suites.context import Context
from suites.training.memory import resident

_PIECE, _PIECES = (1 << 31) - (1 << 20), 512
"""Bytes of one piece, less than what 32 bits can say, and how many at the most: 1 TiB."""

_OWN = 1 << 30
"""Bytes that this process may grow by: a software adapter takes them from the machine, which is no GPU's memory."""

_SOFTWARE = ("software", "basic render", "llvmpipe", "lavapipe", "swiftshader")
"""Words in the names of adapters that are no hardware."""

_TOO_MUCH = 1 << 56
"""Bytes of a piece on the CPU, where any system refuses them at once and none is filled up."""


def recovery(context: Context) -> Measures:
    """Weights larger than the memory could not be allocated: it must be a RuntimeError, and the device must go on.

    Pieces are held until one is refused; nothing is written to them. Where the adapter fills the machine's own
    memory, or lends more than there is, the report cannot show, and the machine is not to be brought down.
    """
    device = context.device()
    name = str((context.device_facts or {}).get("name", "")).lower()
    if any(word in name for word in _SOFTWARE):
        raise skip(
            "software-adapter", "its memory is the machine's own, and filling that ends other processes"
        )
    size = _TOO_MUCH if device.type == "cpu" else _PIECE
    pieces, raised, before = [], "", resident()
    while not raised and len(pieces) < _PIECES and resident() - before < _OWN:
        try:
            pieces.append(torch.empty(size, dtype=torch.uint8, device=device))
        except Exception as error:
            raised = "RuntimeError" if isinstance(error, RuntimeError) else type(error).__name__
    held = len(pieces)
    pieces.clear()
    found = usable(device)
    if not raised:
        raise skip("memory-not-exhausted", f"{held} pieces of {size} bytes, and none was refused")
    claims = [claim("asking for too much raises", raised, "RuntimeError")]
    return {"checks": [found], "claims": claims, "facts": {"pieces": held, "bytes_of_a_piece": size}}
