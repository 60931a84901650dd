"""What can be wrong with a planted build: one function each, which stands between torch and the CPU.

A fault is called for every operator of the device as ``fault(name, run, args, kwargs)``: ``name`` is the
operator's ("aten::convolution"), ``run(*args, **kwargs)`` computes it on the CPU, and tensors are the CPU's. The
docstring of each is what its build is said to have.
"""

from __future__ import annotations

import ctypes
import os
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from torch_directml import speed

Run = Callable[..., Any]
Fault = Callable[[str, Run, Any, dict[str, Any]], Any]

FAULTS: dict[str, Fault] = {}

BATCH_NORM = ("aten::native_batch_norm", "aten::_native_batch_norm_legit", "aten::cudnn_batch_norm")
READ_BACK = ("aten::_to_copy", "aten::copy_", "aten::_local_scalar_dense")
MOVES = (*READ_BACK, "aten::detach", "aten::clone", "aten::empty_like", "aten::empty", "aten::empty_strided")

_state: dict[str, Any] = {}
"""What a fault remembers from one call to the next."""


def fault(name: str) -> Callable[[Fault], Fault]:
    """Enter a fault under its name."""

    def enter(function: Fault) -> Fault:
        FAULTS[name] = function
        return function

    return enter


def count(name: str) -> int:
    """Return how many times this was asked in the process, from 1."""
    _state[name] = _state.get(name, 0) + 1
    return int(_state[name])


def first_tensor(args: Any) -> torch.Tensor | None:
    """Return the first argument that is a tensor."""
    return next((item for item in args if isinstance(item, torch.Tensor)), None)


@fault("clean")
def clean(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """Nothing is wrong."""
    return speed.run(name, run, args, kwargs)


@fault("frozen-buffers")
def frozen_buffers(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """BatchNorm's running mean and variance are never updated in training."""
    if name in BATCH_NORM and len(args) > 5 and args[5]:
        kept = [
            item.clone() if isinstance(item, torch.Tensor) and at in (3, 4) else item
            for at, item in enumerate(args)
        ]
        return clean(name, run, kept, kwargs)
    return clean(name, run, args, kwargs)


@fault("zero-gradient")
def zero_gradient(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """The gradient of the mean squared error is all zero."""
    result = clean(name, run, args, kwargs)
    return result.zero_() if name == "aten::mse_loss_backward" else result


@fault("no-float16")
def no_float16(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """float16 can be moved there and is refused by every kernel."""
    tensor = first_tensor(args)
    if tensor is not None and tensor.dtype == torch.float16 and name not in MOVES:
        raise RuntimeError(f"\"{name.partition('::')[2]}_dml\" not implemented for 'Half'")
    return clean(name, run, args, kwargs)


@fault("slow-float16")
def slow_float16(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """float16 is right, and slower than float32."""
    return speed.run(name, run, args, kwargs, slow=torch.float16)


@fault("strided-input")
def strided_input(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """Layer norm reads an input that is not contiguous as if it were."""
    if name == "aten::native_layer_norm" and not args[0].is_contiguous():
        dense = torch.empty(args[0].shape).stride()
        args = (args[0].as_strided(args[0].shape, dense), *args[1:])
    return clean(name, run, args, kwargs)


@fault("nan-batch")
def nan_batch(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """A convolution of 16 images or more gives NaN in the last one."""
    result = clean(name, run, args, kwargs)
    if name == "aten::convolution" and args[0].shape[0] >= 16:
        result[-1].fill_(float("nan"))
    return result


@fault("abort-batch")
def abort_batch(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """A convolution of 32 images or more aborts the process."""
    if name == "aten::convolution" and args[0].shape[0] >= 32:
        os.write(2, b"[F dml_heap_allocator.cc:97] Check failed: allocation failed\n")
        os.abort()
    return clean(name, run, args, kwargs)


@fault("segfault-backward")
def segfault_backward(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """The backward pass of layer norm reads through a null pointer."""
    if name == "aten::native_layer_norm_backward":
        ctypes.string_at(0)
    return clean(name, run, args, kwargs)


@fault("hang-read-back")
def hang_read_back(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """After a roll the next read-back never ends."""
    if name == "aten::roll":
        _state["stuck"] = True
    result = clean(name, run, args, kwargs)
    leaves = name == "aten::_local_scalar_dense" or kwargs.get("device") == torch.device("cpu")
    while _state.get("stuck") and leaves:
        time.sleep(60)
    return result


@fault("stutter")
def stutter(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """Every tenth step of a training takes a second more."""
    if name == "aten::nll_loss_backward" and count("steps") % 10 == 0:
        time.sleep(1)
    return clean(name, run, args, kwargs)


@fault("leak")
def leak(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """Each step of a training leaves 4 MiB behind."""
    if name == "aten::nll_loss_backward":
        _state.setdefault("left", []).append(bytearray(b"\1" * (4 << 20)))
    return clean(name, run, args, kwargs)


@fault("fallback")
def fallback(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """lerp is computed on the CPU, and says so in the words of the real builds, once per process."""
    if name in ("aten::lerp", "aten::lerp_"):
        warned: list[str] = _state.setdefault("warned", [])
        if torch.is_warn_always_enabled() or not warned:
            warned.append(name)
            warnings.warn(
                "The operator 'aten::lerp.Scalar_out' is not currently supported on the DML backend and will fall "
                "back to run on the CPU. This may have performance implications.",
                UserWarning,
                stacklevel=2,
            )
    return clean(name, run, args, kwargs)


@fault("wrong-dtype")
def wrong_dtype(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """argmax gives int32."""
    result = clean(name, run, args, kwargs)
    return result.to(torch.int32) if name == "aten::argmax" else result


def _off(dtype: torch.dtype) -> Fault:
    def off(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
        result = clean(name, run, args, kwargs)
        return result + 3e-3 if name == "aten::gelu" and result.dtype == dtype else result

    return off


FAULTS["off-float16"] = _off(torch.float16)
FAULTS["off-float32"] = _off(torch.float32)


@fault("non-deterministic")
def non_deterministic(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """A cumulative sum differs from run to run, as where atomic additions race."""
    result = clean(name, run, args, kwargs)
    if name == "aten::cumsum" and result.is_floating_point():
        result = result * (1 + random.SystemRandom().uniform(1e-3, 1e-2))
    return result


@fault("leaking-mode")
def leaking_mode(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """The rounding mode of a division stays set for the next division in the process."""
    if name == "aten::div" and isinstance(first_tensor(args), torch.Tensor):
        mode = kwargs.get("rounding_mode", "")
        left, _state["mode"] = _state.get("mode"), mode or None
        result = clean(name, run, args, kwargs)
        return torch.floor(result) if left and mode == "" and result.is_floating_point() else result
    return clean(name, run, args, kwargs)


@fault("expanded-gradient")
def expanded_gradient(name: str, run: Run, args: Any, kwargs: dict[str, Any]) -> Any:
    """The backward pass of GELU reads only the memory that an expanded upstream gradient has: one element."""
    if name == "aten::gelu_backward":
        upstream = args[0]
        if 0 in [stride for size, stride in zip(upstream.shape, upstream.stride(), strict=True) if size > 1]:
            read = torch.zeros(upstream.shape, dtype=upstream.dtype)
            read.view(-1)[:1] = upstream.reshape(-1)[:1]
            args = (read, *args[1:])
    return clean(name, run, args, kwargs)
