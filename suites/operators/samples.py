"""The inputs of an operator's case: torch's own samples, the most different of them, and some derived from them."""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any, Callable, Iterator

import torch

from suites import comparing
from suites.operators import choosing, moving

MOST_ELEMENTS = 1_000_000
"""Elements of one sample's tensors together; a larger one says nothing more and takes long."""
MOST_LISTED = 400
"""Samples that are looked at before some are chosen; a few operators have thousands."""


@dataclasses.dataclass(frozen=True)
class Sample:
    """One call of an operator, with its tensors on the CPU. ``inputs`` is (input, args, kwargs)."""

    name: str
    inputs: tuple[Any, tuple[Any, ...], dict[str, Any]]
    process: Callable[[Any], Any]
    """Torch's own: turns a result that is not unique into one that is, for gradients."""
    broadcasts: bool = False


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The samples of a case and how many were looked at; ``ended`` says what ended that early: samples, seconds."""

    samples: list[Sample]
    of: int
    ended: str
    made_as: str


def choose(
    operator: Any, dtype: torch.dtype, most: int, *, gradient: bool, seed: int, seconds: float
) -> Chosen:
    """Return at most ``most`` samples of the operator, as different as they can be.

    Where this torch cannot make them in ``dtype`` (float16 on older ones), they are made in float32 and rounded.
    """
    made_as = dtype
    try:
        found, ended = _listed(operator, dtype, gradient, seed, seconds)
    except Exception:
        if dtype != torch.float16:
            raise
        made_as = torch.float32
        found, ended = _listed(operator, made_as, gradient, seed, seconds)
    small = [(at, sample) for at, sample in enumerate(found) if elements(sample) <= MOST_ELEMENTS]
    features = [
        choosing.described(sample.input, sample.args, sample.kwargs, _shape_of) for _, sample in small
    ]
    picked = choosing.varied(features, [elements(sample) for _, sample in small], most)
    samples = [_sample(*small[at]) for at in picked]
    if made_as != dtype:
        samples = [dataclasses.replace(one, inputs=rounded(one.inputs, dtype)) for one in samples]
    return Chosen(samples, len(found), ended, str(made_as)[6:])


def _listed(
    operator: Any, dtype: torch.dtype, gradient: bool, seed: int, seconds: float
) -> tuple[list[Any], str]:
    torch.manual_seed(seed)
    random.seed(seed)
    _seed_numpy(seed)
    until = time.perf_counter() + seconds
    found: list[Any] = []
    for sample in operator.sample_inputs("cpu", dtype, requires_grad=gradient):
        found.append(sample)
        if time.perf_counter() > until:
            return found, "seconds"
        if len(found) >= MOST_LISTED:
            return found, "samples"
    return found, ""


def _seed_numpy(seed: int) -> None:
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed)


def _sample(at: int, sample: Any) -> Sample:
    inputs = (sample.input, tuple(sample.args), dict(sample.kwargs))
    return Sample(f"sample{at}", inputs, sample.output_process_fn_grad, bool(sample.broadcasts_input))


def rounded(inputs: Any, dtype: torch.dtype) -> Any:
    """Return the inputs with every float32 tensor in ``dtype``, and float32 as an argument as well."""

    def narrow(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.dtype == torch.float32 else tensor

    return recast(moving.moved(inputs, torch.device("cpu"), narrow), torch.float32, dtype)


def recast(value: Any, old: torch.dtype, new: torch.dtype) -> Any:
    """Return the nest with a dtype that is given as an argument replaced."""
    if isinstance(value, dict):
        return {key: recast(item, old, new) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(recast(item, old, new) for item in value)
    return new if value is old else value


def elements(sample: Any) -> int:
    """Return how many elements the tensors of a sample have."""
    total = 0

    def count(item: Any) -> Any:
        nonlocal total
        total += item.numel() if isinstance(item, torch.Tensor) else 0
        return item

    comparing.nested(count, (sample.input, sample.args, sample.kwargs))
    return total


def _shape_of(value: Any) -> tuple[int, int, bool, str] | None:
    if not isinstance(value, torch.Tensor):
        return None
    contiguous = value.layout != torch.strided or value.is_contiguous()
    return value.dim(), value.numel(), contiguous, str(value.dtype)


def relaid(sample: Sample) -> Iterator[Sample]:
    """Yield the sample with its first tensor laid out otherwise in memory: strided, and behind an offset."""
    first = sample.inputs[0]
    if not isinstance(first, torch.Tensor) or first.layout != torch.strided or first.numel() < 2:
        return
    makers: list[tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = [
        ("strided", moving.transposed),
        ("offset", lambda tensor: moving.behind(tensor, 3)),
    ]
    for name, make in makers:
        with torch.no_grad():
            changed = make(first.detach())
        changed.requires_grad_(first.requires_grad)
        yield dataclasses.replace(sample, name=name, inputs=(changed, *sample.inputs[1:]))
