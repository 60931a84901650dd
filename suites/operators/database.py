"""torch's OpInfo database, loaded once per process, and the names that its operators have in our ids."""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import sys
import time
from typing import Any, Iterator

DATABASE = "torch.testing._internal.common_methods_invocations"
_UNSAFE = re.compile(r"[^\w.+-]")

LEFT_OUT = re.compile(r"jiterator_")
"""Operators that are not torch's own: kernels compiled by CUDA at run time."""

load_seconds = 0.0
"""How long the import of the database took in this process."""


def name_of(operator: Any) -> str:
    """Return the operator's name with its variant, as ids need it: ``max.reduction_with_dim``."""
    name = operator.name + (f".{operator.variant_test_name}" if operator.variant_test_name else "")
    return _UNSAFE.sub("-", name)


@functools.lru_cache(maxsize=None)
def operators() -> dict[str, Any]:
    """Return every OpInfo of this torch by its name. The first call imports for some seconds."""
    global load_seconds
    started = time.perf_counter()
    backends = importlib.import_module("torch.backends")
    flag = "__allow_nonbracketed_mutation_flag"
    before = getattr(backends, flag, None)
    with _without("scipy"):
        found = importlib.import_module(DATABASE).op_db
    if before is not None:
        # The import forbids every later case of the process to set torch.backends.cudnn and the like.
        setattr(backends, flag, before)
    _leave_seeds_alone()
    load_seconds = time.perf_counter() - started
    return {name_of(operator): operator for operator in found if not LEFT_OUT.match(operator.name)}


@contextlib.contextmanager
def _without(name: str) -> Iterator[None]:
    """Hide a package that torch imports where it is there: its references use it, at a third of the time."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def _leave_seeds_alone() -> None:
    """Take the fixed seed out of the random operators: it hides that they are random, and their distribution."""
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.testing._internal") and hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = _called  # type: ignore[attr-defined]


def _called(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def forward_dtypes(operator: Any) -> set[Any]:
    """Return the torch dtypes that the operator has somewhere: float16 also where only CUDA has it."""
    return set(operator.dtypes) | _half(operator.dtypesIfCUDA)


def backward_dtypes(operator: Any) -> set[Any]:
    """Return the torch dtypes for which the operator has a gradient; empty where it has none."""
    if not operator.supports_autograd:
        return set()
    return (set(operator.backward_dtypes) | _half(operator.backward_dtypesIfCUDA)) & forward_dtypes(operator)


def _half(dtypes: Any) -> set[Any]:
    return {dtype for dtype in dtypes or () if str(dtype) == "torch.float16"}
