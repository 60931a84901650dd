"""What the CPU says of one sample: at the same dtype, a second time, in float64, and with another seed.

Where the CPU refuses float16 (older torch), it computes in float32 and the result is rounded; the noise of that
rounding is measured like any other, against float64.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Callable

import torch

from suites import comparing
from suites.operators import moving, samples

Call = Callable[[Any], Any]
"""Computes something from (input, args, kwargs), nested or not; seeded before."""

CPU = torch.device("cpu")
_TRIES = 8
"""Other seeds before a result that drew random numbers is taken not to depend on them."""


@dataclasses.dataclass(frozen=True)
class Reference:
    """``want`` and ``again`` at the dtype, ``truth`` in float64 or None; ``rounded``: made in float32."""

    want: Any
    again: Any
    truth: Any
    random: bool
    rounded: bool


def refer(call: Call, inputs: Any, dtype: torch.dtype, seed: int, *, truth: bool = True) -> Reference:
    """Return the reference of one call; raise what the CPU raises."""
    with warnings.catch_warnings():
        # What the CPU warns of is not the build's.
        warnings.simplefilter("ignore")
        return _refer(call, inputs, dtype, seed, truth)


def _refer(call: Call, inputs: Any, dtype: torch.dtype, seed: int, truth: bool) -> Reference:
    run, rounded = at_dtype(call, inputs, dtype, seed)
    want = run(seed)
    drew = not torch.equal(torch.get_rng_state(), _state_after(seed))
    again = run(seed)
    # What drew random numbers need not depend on them: a dropout of nothing does not.
    random = drew and any(_differ(want, run(seed + more)) for more in range(1, _TRIES + 1))
    exact = None
    if truth and not random and (dtype.is_floating_point or dtype.is_complex) and dtype != torch.float64:
        exact = _in_double(call, inputs, dtype, seed)
    return Reference(want, again, exact, random, rounded)


def _state_after(seed: int) -> torch.Tensor:
    """Return the state that a seed puts the CPU's generator into; the generator keeps its own."""
    return torch.Generator().manual_seed(seed).get_state()


def at_dtype(
    call: Call, inputs: Any, dtype: torch.dtype, seed: int, *, narrow: bool = True
) -> tuple[Callable[[int], Any], bool]:
    """Return what runs the call on the CPU with a seed, and whether it computes in float32 for float16.

    ``narrow``: round what float32 gave.
    """

    def plain(with_seed: int) -> Any:
        torch.manual_seed(with_seed)
        return call(moving.moved(inputs, CPU))

    def through_float32(with_seed: int) -> Any:
        torch.manual_seed(with_seed)
        result = call(widened(inputs, torch.float16, torch.float32))
        return narrowed(result) if narrow else result

    if dtype != torch.float16:
        return plain, False
    try:
        plain(seed)
    except (RuntimeError, NotImplementedError, TypeError):
        return through_float32, True
    return plain, False


def widened(inputs: Any, old: torch.dtype, new: torch.dtype) -> Any:
    """Return a copy of the inputs with tensors of one dtype in another, and that dtype as an argument too."""

    def widen(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(new) if tensor.dtype == old else tensor

    return samples.recast(moving.moved(inputs, CPU, widen), old, new)


def narrowed(result: Any) -> Any:
    """Return the result with float32 as float16, and its complex likewise."""
    narrow = {torch.float32: torch.float16, torch.complex64: torch.complex32}

    def change(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().to(narrow.get(tensor.dtype, tensor.dtype))

    return comparing.nested(change, result)


def _in_double(call: Call, inputs: Any, dtype: torch.dtype, seed: int) -> Any:
    """Return the result in float64, or None where the CPU cannot."""
    wide = torch.complex128 if dtype.is_complex else torch.float64

    def widen(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_complex():
            return tensor.to(torch.complex128)
        return tensor.double() if tensor.is_floating_point() else tensor

    torch.manual_seed(seed)
    try:
        return call(samples.recast(moving.moved(inputs, CPU, widen), dtype, wide))
    except Exception:
        return None


def _differ(first: Any, second: Any) -> bool:
    """Whether two results on the CPU differ in any element."""
    here, there = dict(comparing.leaves(first)), dict(comparing.leaves(second))
    if here.keys() != there.keys():
        return True
    return any(_unequal(here[name], there[name]) for name in here)


def _unequal(first: Any, second: Any) -> bool:
    if not isinstance(first, torch.Tensor):
        return bool(first != second and first == first)
    if first.shape != second.shape:
        return True
    check = comparing.check("", first, second)
    return any(key in check for key in ("worst", "nan", "inf", "mismatched"))


def usable(truth: Any, want: Any) -> Any:
    """Return the part of the float64 result if it is the same quantity as the CPU's, else None."""
    if not isinstance(truth, torch.Tensor) or not isinstance(want, torch.Tensor):
        return None
    if truth.shape != want.shape or truth.layout != want.layout:
        return None
    same_kind = truth.is_complex() == want.is_complex()
    return truth if same_kind and truth.is_floating_point() == want.is_floating_point() else None
