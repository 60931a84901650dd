"""Reads which kernels torch's dispatcher holds for a key, on every torch from 1.8 on; changes nothing."""

from __future__ import annotations

import importlib
import re
from typing import Any, Iterable

_UNKNOWN_KEY = "could not parse dispatch key"
_REGISTRATION = re.compile(
    r"^(?!debug:)(\w+)(?:\[alias\])?: registered at (?:.*/Register(\w+)\.cpp)?", re.MULTILINE
)
_NAMELESS = "UNKNOWN_TENSOR_TYPE_ID"  # how the first builds of the fork print the key that was new in them
_IN_TABLE = re.compile(r"^(\w+): ", re.MULTILINE)
_SAMPLE = "aten::add.Tensor"  # its table names every key that any backend may have


def census(keys: Iterable[str]) -> dict[str, list[str] | None]:
    """Return the sorted operator names that have a kernel for each key; None where torch has no such key."""
    core = importlib.import_module("torch")._C
    if hasattr(core, "_dispatch_get_registrations_for_dispatch_key"):
        return {key: _registered(core, key) for key in keys}
    return _read_dumps(core, list(keys))


def _registered(core: Any, key: str) -> list[str] | None:
    try:
        return sorted(core._dispatch_get_registrations_for_dispatch_key(key))
    except RuntimeError as error:
        if _UNKNOWN_KEY in str(error):
            return None
        raise


def _read_dumps(core: Any, keys: list[str]) -> dict[str, list[str] | None]:
    """Read the text that torch 1.8 writes of each operator, for want of a list per key.

    Its own parser knows only a few of its keys, so a key counts as known when any operator's text names it.
    """
    kernels: dict[str, set[str]] = {
        key: set() for key in _IN_TABLE.findall(core._dispatch_dump_table(_SAMPLE))
    }
    for schema in core._jit_get_all_schemas():
        name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        for key, source in _REGISTRATION.findall(core._dispatch_dump(name)):
            # Its source file says which key it is: .../RegisterDML.cpp.
            kernels.setdefault(source if key == _NAMELESS and source else key, set()).add(name)
    return {key: sorted(kernels[key]) if key in kernels else None for key in keys}
