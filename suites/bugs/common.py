"""What reproducers share: seeded tensors, a computation on the CPU and on the device, and claims within a limit.

A *subject* is a module or a function of tensors. It is computed on the CPU, in float64, and on the device, and what
each gave is a dict from role and name to tensor.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import torch
from torch import nn

from suites.comparing import Check, brief, check, leaves, on_cpu, to_double
from suites.context import Context, Inconclusive
from suites.training import memory

Measures = Dict[str, Any]
Claim = Dict[str, Any]
Found = Dict[Tuple[str, str], Optional[torch.Tensor]]

_UPSTREAM_SEED = 99


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normal numbers on the CPU from a seed; float16 ones are the float32 ones rounded."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def whole(low: int, high: int, *shape: int, seed: int = 0) -> torch.Tensor:
    """Return int64 numbers from ``low`` up to below ``high`` on the CPU, from a seed."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def seeded(make: Callable[[], Any], seed: int = 0) -> Any:
    """Return what ``make`` makes (a module on the CPU) with torch's generator set to the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


# --- a subject on both sides -----------------------------------------------------------------------------


def compared(
    name: str,
    subject: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    device: torch.device,
    *,
    backward: bool = True,
) -> list[Check]:
    """Return the checks of a subject's result, gradients and buffers against the CPU and float64.

    The gradients are those of a dense upstream gradient.
    """
    with on_cpu():
        want = run(copy.deepcopy(subject), inputs, backward)
        exact = to_double(subject) if isinstance(subject, nn.Module) else subject
        truth = run(exact, to_double(list(inputs)), backward)
    moved = copy.deepcopy(subject).to(device) if isinstance(subject, nn.Module) else subject
    got = run(moved, [item.to(device) for item in inputs], backward)
    return checks_of(name, got, want, truth, device)


def run(subject: Callable[..., Any], inputs: Sequence[torch.Tensor], backward: bool = True) -> Found:
    """Return the result, the gradients of floats and parameters, and the buffers, where the inputs are."""
    given = [_leaf(item, backward) for item in inputs]
    result = subject(*given)
    found: Found = {("output", place): item for place, item in leaves(result)}
    if backward:
        result.backward(upstream(result))
        for at, item in enumerate(given):
            if item.is_floating_point():
                found["gradient", f"input {at}"] = item.grad
    if isinstance(subject, nn.Module):
        if backward:
            found.update({("gradient", name): item.grad for name, item in subject.named_parameters()})
        found.update({("buffer", name): item for name, item in subject.named_buffers()})
    return found


def _leaf(item: torch.Tensor, backward: bool) -> torch.Tensor:
    """Return a copy that is a leaf of its own, and wants a gradient if it can have one."""
    return item.detach().clone().requires_grad_(backward and item.is_floating_point())


def upstream(result: torch.Tensor) -> torch.Tensor:
    """Return a dense gradient for the result from a seed, on its device and in its dtype."""
    return drawn(*result.shape, seed=_UPSTREAM_SEED).to(result.dtype).to(result.device)


def checks_of(name: str, got: Found, want: Found, truth: Found, device: torch.device) -> list[Check]:
    """Return a check of each tensor that the CPU has."""
    return [
        check(
            f"{name} {what}" if role != "output" else name,
            got.get((role, what)),
            item,
            truth=truth.get((role, what)),
            role=role,
            device=device.type,
        )
        for (role, what), item in want.items()
        if item is not None
    ]


def each(parts: dict[str, Callable[[], list[dict[str, Any]]]], kind: str = "checks") -> Measures:
    """Measure every part, also after one has raised; raise the first exception then, with all that was measured.

    So one operator that is missing does not hide what the others give. ``kind``: "checks" or "claims".
    """
    measures: Measures = {kind: [], "facts": {"raised": {}}}
    first: Exception | None = None
    for name, part in parts.items():
        try:
            measures[kind] += part()
        except Inconclusive:
            raise
        except Exception as error:
            first = first or error
            measures["facts"]["raised"][name] = f"{type(error).__name__}: {error}"[:200]
    if first is not None:
        raise carrying(first, measures)
    return measures


def carrying(error: Exception, measures: Measures) -> Exception:
    """Return the exception with what was measured before it, which the worker sends along."""
    error.measures = measures  # type: ignore[attr-defined]
    return error


# --- claims ----------------------------------------------------------------------------------------------


def claim(name: str, got: Any, want: Any, **more: Any) -> Claim:
    """Return a fact that is no tensor, and what it must be; ``more`` is for a reader (``why``, ``error``)."""
    return {"name": name, "got": got, "want": want, **more}


def within(
    name: str, got: Any, want: torch.Tensor, atol: float, rtol: float = 0.0, *, role: str = "output"
) -> Claim:
    """Return the claim that every element is within the limit of a report's own rule.

    It is yes or no, since equal faults must have equal texts; ``error`` and ``off`` have the numbers. A shape or a
    dtype that differs is not within, and elements that are infinite or NaN on both sides are.
    """
    label = f"{name} within {atol:g}" + (f" + {rtol:g} relative" if rtol else "")
    if got is None or got.shape != want.shape or got.dtype != want.dtype:
        seen = "nothing" if got is None else f"{got.dtype} {tuple(got.shape)}"
        return claim(label, False, True, role=role, why=f"{seen} instead of {want.dtype} {tuple(want.shape)}")
    here, there = got.detach().cpu().double(), want.detach().cpu().double()
    error = (here - there).abs()
    same = (here == there) | (torch.isnan(here) & torch.isnan(there))
    off = int((~(same | (error <= atol + rtol * there.abs()))).sum())
    finite = error[torch.isfinite(error)]
    largest = brief(float(finite.max())) if finite.numel() else 0.0
    return claim(label, off == 0, True, role=role, error=largest, off=off)


def relative(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return the norm of the difference over the norm of what is wanted; infinite where one is not finite."""
    here, there = got.detach().cpu().double(), want.detach().cpu().double()
    if here.shape != there.shape or not (torch.isfinite(here).all() and torch.isfinite(there).all()):
        return float("inf")
    gap, size = float((here - there).norm()), float(there.norm())
    return brief(gap / size) if size else (0.0 if gap == 0 else float("inf"))


# --- memory ----------------------------------------------------------------------------------------------


def memory_used(context: Context) -> int:
    """Return the bytes that the process holds: those of the host, and of the device where the build can say it.

    ``gpu_memory`` gives the share in use of each tile of a million bytes; a build that uses no tiles gives none.
    """
    module, device = context.build(), context.device()
    tiles: Sequence[float] = ()
    if hasattr(module, "gpu_memory"):
        tiles = module.gpu_memory(device.index or 0, 1)
    return memory.resident() + int(sum(tiles) * 1e6)
