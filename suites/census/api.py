"""Lists the public names of a module with their signatures, the same text on every run and machine."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any, Iterator, Tuple

Entry = Tuple[str, str]

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


def entries(module: ModuleType) -> list[dict[str, str]]:
    """Return every public name, sorted, with its signature (empty where it can not be called)."""
    found = dict(_entries(module))
    return [{"name": name, "signature": found[name]} for name in sorted(found)]


def _entries(module: ModuleType) -> Iterator[Entry]:
    listed = getattr(module, "__all__", None)
    for name in listed if listed is not None else dir(module):
        value = getattr(module, name, None)
        if not hasattr(module, name) or inspect.ismodule(value):
            continue
        if listed is not None or (not name.startswith("_") and _belongs(module, value)):
            yield name, signature(value)
            if inspect.isclass(value):
                yield from _methods(name, value)


def _belongs(module: ModuleType, value: Any) -> bool:
    """Whether a function or class comes from the module's own package or that package's native half."""
    home = getattr(value, "__module__", None)
    if not callable(value) or not isinstance(home, str):
        return True
    own, root = module.__name__.split(".")[0], home.split(".")[0]
    return root == own or root.startswith(own + "_")


def _methods(name: str, kind: type) -> Iterator[Entry]:
    for method, value in inspect.getmembers(kind):
        if not method.startswith("_") and callable(value):
            yield f"{name}.{method}", signature(value)


def signature(value: Any) -> str:
    """Return the signature as text without memory addresses; ``(...)`` where Python can not tell it."""
    if not callable(value):
        return ""
    try:
        return _ADDRESS.sub("", str(inspect.signature(value)))
    except Exception:  # a default's repr may raise anything
        return "(...)"
