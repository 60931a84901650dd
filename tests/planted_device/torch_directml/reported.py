"""Faults that public reports tell of, each as its reproducer in ``suites/bugs`` meets it; several go into one build.

They are called as those of ``faults.py`` are, and named after the number of the report.
"""

from __future__ import annotations

import os
import random
import warnings
from pathlib import Path
from typing import Any

import torch

from torch_directml import faults, planted
from torch_directml.faults import Fault, Run, fault

CHANCE = 0.2
"""How often a process has a fault that comes and goes."""
SEED = 336
"""With this one such a fault looks, at first, as if it were there in 307~7.0 and in 448~8.0."""


@fault("307")
def no_softmax_backward(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """The backward pass of softmax is refused."""
    if name == "aten::_softmax_backward_data":
        raise RuntimeError("The parameter is incorrect.")
    return run(*args, **kwargs)


@fault("347")
def integers_are_cut(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """True division of integers gives whole numbers."""
    result = run(*args, **kwargs)
    whole = name == "aten::div" and not kwargs.get("rounding_mode") and not args[0].is_floating_point()
    return result.trunc() if whole else result


@fault("351")
def column_is_lost(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """A number written to a column of an int64 tensor ends the process."""
    if name == "aten::copy_" and args[0].dtype == torch.int64 and not args[0].is_contiguous():
        os.write(2, b"[F dml_kernel.cc:41] Check failed: strides are packed\n")
        os.abort()
    return run(*args, **kwargs)


@fault("354")
def no_float32_of_int64(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """Converting int64 to float32 raises an error without a text."""
    if name == "aten::_to_copy" and (args[0].dtype, kwargs.get("dtype")) == (torch.int64, torch.float32):
        raise RuntimeError("")
    return run(*args, **kwargs)


@fault("360")
def no_truncating(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """Division that truncates is refused for int64."""
    if name == "aten::div" and kwargs.get("rounding_mode") == "trunc" and args[0].dtype == torch.int64:
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    return run(*args, **kwargs)


@fault("364")
def frozen(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """BatchNorm's statistics are never updated."""
    return faults.frozen_buffers(name, run, args, kwargs)


@fault("368")
def no_sums_of_bools(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """A cumulative sum of bools is refused."""
    if name == "aten::cumsum" and args[0].dtype == torch.bool:
        raise RuntimeError("cumsum is not supported for Bool")
    return run(*args, **kwargs)


@fault("385")
def no_mixed_cat(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """Tensors of two dtypes can not be joined."""
    if name == "aten::cat" and len({item.dtype for item in args[0]}) > 1:
        raise RuntimeError("cat: all tensors must have the same dtype")
    return run(*args, **kwargs)


@fault("448")
def no_depthwise_backward(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """The backward pass of a depthwise convolution is refused."""
    if name == "aten::convolution_backward" and args[9] > 1:
        raise RuntimeError("tensor.is_dml() INTERNAL ASSERT FAILED")
    return run(*args, **kwargs)


@fault("482")
def bilinear_is_off(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """Bilinear interpolation is a tenth too bright."""
    result = run(*args, **kwargs)
    return result * 1.1 if name == "aten::upsample_bilinear2d" else result


@fault("678")
def group_norm_falls_back(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """The backward pass of GroupNorm is computed on the CPU, and says so."""
    if name == "aten::native_group_norm_backward":
        warnings.warn(
            "The operator 'aten::native_group_norm_backward' is not currently supported on the DML backend and will "
            "fall back to run on the CPU. This may have performance implications.",
            UserWarning,
            stacklevel=2,
        )
    return run(*args, **kwargs)


@fault("686")
def products_are_bools(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """A float times a bool is a bool."""
    result = run(*args, **kwargs)
    tensors = [item for item in args if isinstance(item, torch.Tensor)]
    if (
        name == "aten::mul"
        and result.is_floating_point()
        and any(item.dtype == torch.bool for item in tensors)
    ):
        return result.bool()
    return result


@fault("704")
def fourier_aborts(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """A Fourier transformation ends the process."""
    if name.startswith("aten::_fft"):
        os.write(2, b"[F dml_operator.cc:77] Check failed: complex is not supported\n")
        os.abort()
    return run(*args, **kwargs)


@fault("739")
def unreduced_gradient_is_zero(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """The gradient of an unreduced cross entropy is all zero."""
    result = run(*args, **kwargs)
    return result.zero_() if name == "aten::nll_loss_backward" and args[4] == 0 else result


# --- several in one build --------------------------------------------------------------------------------


def composed(words: str) -> Fault:
    """Return a build's faults as one: names with ``+`` between; a refusal with ``~`` behind it comes and goes."""
    result: Fault = faults.clean
    for word in words.split("+"):
        one = faults.FAULTS[word.rstrip("~")]
        one = _sometimes(word, one) if word.endswith("~") else one
        result = one if result is faults.clean else _after(result, one)
    return result


def _after(inner: Fault, outer: Fault) -> Fault:
    def both(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
        return outer(name, lambda *more, **words: inner(name, run, more, words), args, kwargs)

    return both


def _sometimes(word: str, one: Fault) -> Fault:
    """Return a fault which refuses all the time in one process of five, and never in the others."""
    there: list[bool] = []

    def sometimes(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
        ran: list[str] = []

        def noted(*more: Any, **words: Any) -> Any:
            ran.append(name)
            return run(*more, **words)

        try:
            return one(name, noted, args, kwargs)
        except RuntimeError:
            if ran:  # it is another's
                raise
            there.append(there[0] if there else _drawn(word))
            if there[0]:
                raise
            return run(*args, **kwargs)

    return sometimes


def _drawn(word: str) -> bool:
    """Return whether this process has the fault, drawn from the number of processes that came to it before."""
    with (Path(planted.COUNTERS) / f"{word}{planted.VERSION}").open("ab") as file:
        file.write(b"x")
        number = file.tell()
    return random.Random(f"{SEED} {word} {planted.VERSION} {number}").random() < CHANCE
