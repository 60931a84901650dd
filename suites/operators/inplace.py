"""An operator in place, on memory of its own and through a strided view: what it must write, and leave alone.

The whole memory is compared, so a write that is lost and one that goes astray are both seen. What happens at
other offsets has cases of its own (``views.py``), because there a fault is that of every operator at once.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Iterator

import torch

from suites.operators.samples import Sample

STRIDE = 3
"""Elements of memory per element of the view."""


def variants(operator: Any, sample: Sample) -> Iterator[tuple[Sample, Callable[[Any], Any]]]:
    """Yield the sample with its first tensor as memory, and the call that writes and gives the whole memory."""
    first, function = sample.inputs[0], operator.get_inplace()
    if function is None or sample.broadcasts or not isinstance(first, torch.Tensor):
        return
    if first.layout != torch.strided or not first.dim() or first.numel() < 2:
        return
    memory = torch.ones((*first.shape, STRIDE), dtype=first.dtype)
    memory[..., 1] = first.detach()
    for name, start, whole in (("inplace", first.detach(), True), ("inplace-column", memory, False)):
        yield _on(sample, name, start), _writing(function, whole)


def _on(sample: Sample, name: str, memory: torch.Tensor) -> Sample:
    return dataclasses.replace(sample, name=name, inputs=(memory, *sample.inputs[1:]))


def _writing(function: Callable[..., Any], whole: bool) -> Callable[[Any], Any]:
    def call(inputs: Any) -> Any:
        memory, args, kwargs = inputs
        function(memory if whole else memory[..., 1], *args, **kwargs)
        return memory

    return call
