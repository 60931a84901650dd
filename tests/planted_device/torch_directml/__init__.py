"""Stands in for torch-directml on any machine: the CPU computes, and one thing may be wrong (``planted.py``).

Needs torch 2.4, whose C++ it talks to in ``guard.py``.
"""

from __future__ import annotations

import torch

from torch_directml import guard, planted, tensor
from torch_directml.device import (
    default_device,
    device,
    device_count,
    device_name,
    disable_tiled_resources,
    has_float64_support,
    is_available,
)

__all__ = [
    "default_device",
    "device",
    "device_count",
    "device_name",
    "disable_tiled_resources",
    "has_float64_support",
    "is_available",
]


class PrivateUse1Module:
    """What torch looks for as ``torch.privateuseone``."""

    is_available = staticmethod(is_available)
    device_count = staticmethod(device_count)
    device_name = staticmethod(device_name)
    device = staticmethod(device)


guard.register()
_library = tensor.register(planted.KERNELS)
torch._register_device_module("privateuseone", PrivateUse1Module)
