"""The public functions of the module, named and answering as those of the real builds."""

from __future__ import annotations

import torch

_NAME = "Planted adapter\x00"


def is_available() -> bool:
    """Whether there is an adapter."""
    return device_count() > 0


def device_count() -> int:
    """How many adapters there are."""
    return 1


def default_device() -> int:
    """Index of the adapter that is used when none is asked for."""
    return 0


def device_name(device_id: int) -> str:
    """Name of an adapter; it ends in a NUL character, as those of the real builds do."""
    return _NAME if 0 <= device_id < device_count() else ""


def device(device_id: int | None = None) -> torch.device:
    """The torch device of an adapter."""
    index = default_device() if device_id is None else device_id
    if not 0 <= index < device_count():
        raise Exception(
            f"Invalid device_id argument supplied {index}. device_id must be in range [0, {device_count()})."
        )
    return torch.device("privateuseone", index)


def disable_tiled_resources(is_disabled: bool) -> None:
    """Nothing is tiled here."""


def has_float64_support(device_id: int = 0) -> bool:
    """Whether float64 can be computed."""
    return True
