"""The backward pass of one sample, with several upstream gradients.

A gradient can be right for a dense upstream gradient and wrong for an expanded one (what ``.sum().backward()``
sends) or for one whose first elements are zero.
"""

from __future__ import annotations

from typing import Any, Callable, Dict

import torch

from suites import comparing
from suites.operators import reference

KINDS = ("dense", "expanded", "zero-first")
Upstream = Dict[str, Dict[str, torch.Tensor]]
"""{kind: {place of the output: gradient}}."""


def differentiable(result: Any) -> dict[str, torch.Tensor]:
    """Return the outputs that have a graph, by their places."""
    return {
        place: leaf
        for place, leaf in comparing.leaves(result)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    }


def wanted(inputs: Any) -> list[tuple[str, torch.Tensor]]:
    """Return the inputs that need a gradient, with their places."""
    first, args, kwargs = inputs
    return [
        (place, leaf)
        for place, leaf in comparing.leaves({"input": first, "args": args, **kwargs})
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]


def upstreams(outputs: dict[str, torch.Tensor], seed: int) -> Upstream:
    """Return the upstream gradients for outputs like these, made on the CPU from the seed.

    A kind that would be no other than the dense one, or nothing but zeros, is left out.
    """
    torch.manual_seed(seed)
    found: Upstream = {kind: {} for kind in KINDS}
    for place, output in outputs.items():
        dense = _random(output)
        found["dense"][place] = dense
        if output.numel() > 1:
            found["expanded"][place] = torch.ones((), dtype=output.dtype).expand(output.shape)
            late = dense.clone()
            late.view(-1)[: (output.numel() + 1) // 2] = 0
            found["zero-first"][place] = late
    return {kind: given for kind, given in found.items() if given}


def _random(like: torch.Tensor) -> torch.Tensor:
    wide = torch.complex64 if like.is_complex() else torch.float32
    values = torch.randn(tuple(like.shape), dtype=wide)
    return values.to(like.dtype)


def backward(
    operator: Callable[..., Any], process: Callable[[Any], Any]
) -> Callable[[tuple[Any, Upstream]], dict[str, Any]]:
    """Return the call that gives ``{kind: {place of the input: gradient}, "lost": {place: why}}``.

    A gradient that is None is not among them. ``lost`` has the outputs that should have a graph and have none.
    """

    def call(bundle: tuple[Any, Upstream]) -> dict[str, Any]:
        (first, args, kwargs), upstream = bundle
        needing = wanted((first, args, kwargs))
        with torch.enable_grad():
            outputs = dict(comparing.leaves(process(operator(first, *args, **kwargs))))
        places = {place for given in upstream.values() for place in given}
        lost = {place: _why_lost(outputs.get(place)) for place in sorted(places)}
        lost = {place: why for place, why in lost.items() if why}
        found: dict[str, Any] = {"lost": lost}
        for kind, given in upstream.items():
            alive = [place for place in given if place not in lost]
            found[kind] = _one(alive, outputs, given, needing) if alive else {}
        return found

    return call


def _why_lost(output: Any) -> str:
    if not isinstance(output, torch.Tensor):
        return "no tensor"
    if not output.requires_grad:
        return "requires_grad is False"
    return "" if output.grad_fn is not None or output.is_leaf else "no graph"


def _one(
    alive: list[str],
    outputs: dict[str, torch.Tensor],
    given: dict[str, torch.Tensor],
    needing: list[tuple[str, torch.Tensor]],
) -> dict[str, torch.Tensor]:
    gradients = torch.autograd.grad(
        [outputs[place] for place in alive],
        [leaf for _, leaf in needing],
        [given[place] for place in alive],
        retain_graph=True,
        allow_unused=True,
    )
    return {
        place: gradient.detach() for (place, _), gradient in zip(needing, gradients) if gradient is not None
    }


def probe(call: Callable[[Any], Any], inputs: Any, dtype: torch.dtype, seed: int) -> dict[str, torch.Tensor]:
    """Return the outputs on the CPU that have a graph, rounded where the CPU refuses the dtype."""
    run, rounded = reference.at_dtype(call, inputs, dtype, seed, narrow=False)
    outputs = differentiable(run(seed))
    return {place: _like(leaf, rounded) for place, leaf in outputs.items()}


def _like(leaf: torch.Tensor, rounded: bool) -> torch.Tensor:
    return reference.narrowed(leaf) if rounded else leaf.detach()
