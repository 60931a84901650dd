"""The census: what a build is and registers, told by its import alone, on a machine with or without a GPU.

Only ``adapters`` asks about devices, and no case ever makes one: without a usable adapter that ends the
process.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Dict

from suites import devices
from suites.census import api as listing
from suites.census import dispatcher
from suites.context import Context

Measures = Dict[str, Any]


def import_build(context: Context) -> Measures:
    """Say which module and which torch were imported, and how long the build's own import took."""
    module = context.build()
    torch = importlib.import_module("torch")
    return {
        "module": getattr(module, "__file__", None),
        "version": _installed(context.track["package"]),
        "torch": {"version": str(torch.__version__), "path": torch.__file__},
        "numpy": _installed("numpy"),
        "seconds": context.import_seconds,
    }


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def kernels(context: Context) -> Measures:
    """List the kernels per dispatch key that the build brought; what torch has by itself is only counted."""
    context.build()
    after = dispatcher.census(context.track["dispatch_keys"])
    before = {key: context.before.get(key) or [] for key in after}
    return {
        "keys": {key: _minus(names, before[key]) for key, names in after.items() if names is not None},
        "absent": sorted(key for key, names in after.items() if names is None),
        "torch_registered": {key: len(before[key]) for key, names in after.items() if names is not None},
    }


def _minus(names: list[str], taken: list[str]) -> list[str]:
    return sorted(set(names) - set(taken))


def api(context: Context) -> Measures:
    """List the public Python names of the build's module."""
    module = context.build()
    return {"api": listing.entries(module) if module is not None else []}


def adapters(context: Context) -> Measures:
    """List the adapters by name, in the order of this build's own index. Never makes a device.

    The fork of 2021 has one device and cannot list it; that bears the name of its kind.
    """
    if context.device_kind in ("cpu", "cuda"):
        return _of_torch(context.device_kind)
    if context.directx != "real":
        raise RuntimeError(f"not asked: DirectX is {context.directx} here, and asking may end the process")
    module: Any = context.build()
    if not hasattr(module, "device_count"):  # the fork of 2021
        return _listing(
            context.device_kind, None, [{"index": 0, "name": context.device_kind, "float64": None}]
        )
    count = int(module.device_count())
    return {
        **_listing(
            context.device_kind,
            bool(module.is_available()),
            [
                {"index": index, "name": name, "float64": _float64(module, index)}
                for index, name in enumerate(devices.listed_names(module, count))
            ],
        ),
        "default": int(module.default_device()),
    }


def _listing(kind: str, available: bool | None, adapters: list[Measures]) -> Measures:
    count = None if available is None else len(adapters)
    return {"kind": kind, "available": available, "count": count, "default": None, "adapters": adapters}


def _of_torch(kind: str) -> Measures:
    torch = importlib.import_module("torch")
    names = ["cpu"] if kind == "cpu" else devices.cuda_names(torch)
    listed = [{"index": index, "name": name, "float64": True} for index, name in enumerate(names)]
    return dict(_listing(kind, bool(names), listed), default=0 if names else None)


def _float64(module: Any, index: int) -> bool | None:
    return bool(module.has_float64_support(index)) if hasattr(module, "has_float64_support") else None
