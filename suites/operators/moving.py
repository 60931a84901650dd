"""Bring the inputs of a sample to a device as they are: strides, offsets, shared memory, gradients wanted.

``tensor.to(device)`` packs a strided tensor densely, so that faults of kernels with strided inputs would never
be seen. Here the memory behind a tensor is moved, and the view is made anew on the device.
"""

from __future__ import annotations

import copy
from typing import Any, Callable

import torch

from suites import comparing

_SPARE = 4
"""Most elements of memory that are moved per element of the view; beyond it the tensor is packed."""

Change = Callable[[Any], Any]


def moved(value: Any, device: Any, widen: Change | None = None) -> Any:
    """Return a copy of nested inputs on the device; ``widen`` changes each flat piece of memory on the way.

    A tensor that occurs twice is one tensor again. The device "cpu", by name or object, becomes ``device``.
    """
    known: dict[int, Any] = {}

    def change(item: Any) -> Any:
        if id(item) not in known:
            known[id(item)] = _tensor(item, device, widen)
        return known[id(item)]

    return replaced(comparing.nested(change, value), device)


def replaced(value: Any, device: Any) -> Any:
    """Return the nest with the CPU, named as a device, replaced; tensors stay."""
    if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
        return device if str(value) == "cpu" else value
    if isinstance(value, dict):
        return {key: replaced(item, device) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(replaced(item, device) for item in value)
    return value


def _tensor(tensor: Any, device: Any, widen: Change | None) -> Any:
    if isinstance(tensor, torch.nn.Module):  # a distance, given as an argument
        return copy.deepcopy(tensor).to(device)
    source = tensor.detach()
    if source.layout != torch.strided or source.is_quantized:
        copied = source.clone()
        result = (widen(copied) if widen else copied).to(device)
    else:
        result = _strided(source, device, widen)
    return result.requires_grad_(True) if tensor.requires_grad and not result.requires_grad else result


def _strided(source: torch.Tensor, device: Any, widen: Change | None) -> torch.Tensor:
    if source.is_complex() and source.is_conj():
        source = source.resolve_conj()
    if hasattr(source, "is_neg") and source.is_neg():
        source = source.resolve_neg()
    place = layout(source)
    if place is None or not source.numel() or (source.is_contiguous() and not source.storage_offset()):
        packed = source.clone(memory_format=torch.contiguous_format)
        return (widen(packed) if widen else packed).to(device)
    size, stride, offset, extent = place
    memory = source.as_strided((extent,), (1,), 0).clone()
    memory = (widen(memory) if widen else memory).to(device)
    return memory.as_strided(size, stride, offset)


def layout(tensor: torch.Tensor) -> tuple[Any, Any, int, int] | None:
    """Return size, stride, offset and extent (elements of memory up to the last); None where it is mostly gaps."""
    size, stride, offset = tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()
    extent = offset + sum((length - 1) * step for length, step in zip(size, stride)) + 1
    return (size, stride, offset, extent) if extent <= _SPARE * tensor.numel() + 64 else None


def on_device(value: Any, device: Any) -> bool:
    """Whether any tensor, or a device named as an argument, is on the device."""
    found = []

    def look(item: Any) -> Any:
        found.append(isinstance(item, torch.Tensor) and item.device.type == device.type)
        return item

    comparing.nested(look, value)
    return any(found) or _names(value, device)


def _names(value: Any, device: Any) -> bool:
    if isinstance(value, dict):
        return any(_names(item, device) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_names(item, device) for item in value)
    return isinstance(value, torch.device) and value.type == device.type


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values in memory of another order: transposed, or every second element."""
    if tensor.dim() > 1:
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    return torch.stack((tensor, tensor), dim=-1).reshape(-1)[::2] if tensor.dim() else tensor


def behind(tensor: torch.Tensor, offset: int) -> torch.Tensor:
    """Return the same values as a view that begins ``offset`` elements into its memory."""
    flat = tensor.reshape(-1)
    return torch.cat((flat.new_ones(offset), flat))[offset:].view(tensor.shape)
