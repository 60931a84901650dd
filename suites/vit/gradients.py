"""Gradients beside the CPU's for several upstream gradients: a build may be right for one and wrong for another.

A *subject* is a module and its inputs (float tensors that need a gradient, or others). Its result is one tensor.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import torch
from torch import nn

from suites import comparing
from suites.comparing import Check

UPSTREAM = ("sum", "dense", "rows", "partly_zero")
"""``sum``: of ``.sum().backward()``, one number expanded; ``rows``: one row expanded; the others as they say."""


Gradients = List[Tuple[str, Optional[torch.Tensor], str]]  # place, gradient, why there is none


class Subject(NamedTuple):
    """What is computed: ``module(*inputs)``."""

    module: nn.Module
    inputs: tuple[Any, ...]


def sides(subject: Subject, device: torch.device) -> tuple[Subject, Subject, Callable[[], Subject]]:
    """Return the CPU's subject, the one in float64, and what moves a copy to the device.

    The device is touched only by that call, so that the CPU can be asked first.
    """
    truth = Subject(comparing.to_double(subject.module), comparing.to_double(subject.inputs))

    def moved() -> Subject:
        inputs = comparing.nested(lambda given: leaf_like(given, device), list(subject.inputs))
        return Subject(copy.deepcopy(subject.module).to(device), tuple(inputs))

    return subject, truth, moved


def leaf_like(given: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a copy on the device that is a leaf of its own."""
    return given.detach().to(device).clone().requires_grad_(given.requires_grad)


def upstream(kind: str, result: torch.Tensor, seed: int = 0) -> torch.Tensor:
    """Return a gradient for the result on its device and in its dtype, made on the CPU from a seed.

    An expanded one is expanded on the device, for a copy would make it dense.
    """
    source = torch.Generator().manual_seed(seed)
    shape = tuple(result.shape)
    made = torch.randn(shape, generator=source, dtype=torch.float32)
    if kind == "rows":
        first = made[(slice(0, 1),) * (len(shape) - 1)]
        return first.to(result.dtype).to(result.device).expand(shape)
    if kind == "partly_zero":
        made.reshape(-1)[: made.numel() // 2] = 0.0
    return made.to(result.dtype).to(result.device)


def gradients(subject: Subject, kind: str) -> tuple[torch.Tensor, Gradients]:
    """Return the result and each gradient on the device of the subject, in the order of parameters, then inputs."""
    leaves = _leaves(subject)
    for _, leaf in leaves:
        leaf.grad = None
    result: torch.Tensor = subject.module(*subject.inputs)
    if not result.requires_grad:
        return result, [(place, None, "no graph") for place, _ in leaves]
    if kind == "sum":
        result.sum().backward()
    else:
        result.backward(upstream(kind, result))
    found = [(place, leaf.grad, _why(leaf)) for place, leaf in leaves]
    return result.detach(), found


def held(subject: Subject, kind: str) -> Gradients:
    """Return the gradients alone."""
    return gradients(subject, kind)[1]


def _why(leaf: torch.Tensor) -> str:
    if leaf.grad is not None:
        return ""
    return "grad is None" if leaf.requires_grad else "requires_grad is False"


def _leaves(subject: Subject) -> list[tuple[str, torch.Tensor]]:
    places = [(name, parameter) for name, parameter in subject.module.named_parameters()]
    given = [
        (f"input{at}", tensor)
        for at, tensor in enumerate(subject.inputs)
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point()
    ]
    return places + given


def compared(
    got: Gradients, want: Gradients, truth: Gradients, kind: str, device: torch.device
) -> list[Check]:
    """Return a check of every gradient that the CPU has, named ``<upstream>/<place>``, its module as the part."""
    have = {place: (tensor, why) for place, tensor, why in got}
    exact = {place: tensor for place, tensor, _ in truth}
    found: list[Check] = []
    for place, reference, _ in want:
        if reference is None:
            continue
        tensor, why = have[place]
        part = place.rpartition(".")[0]
        if tensor is None:
            found.append(comparing.missing(f"{kind}/{place}", why, role="gradient", part=part))
            continue
        name = f"{kind}/{place}"
        found.append(
            comparing.check(
                name, tensor, reference, truth=exact[place], role="gradient", part=part, device=device.type
            )
        )
    return found
