"""Forward passes of image nets: logits and classes beside the CPU's, images per second, time to first result."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict

import torch
from torch import nn

from suites import comparing, models, timing
from suites.context import Context

Measures = Dict[str, Any]

_TRUTH = 2
"""Most images that are also computed in float64: their error stands for the batch, to bound the time."""


def infer(
    context: Context,
    model: str,
    batch: int,
    image: int,
    repeats: int,
    seconds: float,
    mode: str = "no_grad",
    seed: int = 0,
) -> Measures:
    """Compare the logits (batch, 1000) of a net on seeded images; ``seconds`` bounds each series of repeats.

    ``first`` is the time from moving the net to having its first logits back; repeats have their images on the
    device already. ``mode``: no_grad, inference_mode, or channels_last (no_grad in that memory format).
    """
    device = context.device()
    with comparing.on_cpu():
        net, facts = models.build(model, image, seed, context.options.get("weights", ""))
        given = models.images(batch, image, seed)
        reference = cpu_logits(net, given, repeats, seconds)
    with guard(mode):
        started, moved, put = on_device(net, given, device, mode)
        second, again = timing.timed(lambda: moved(put))
        each = timing.repeats(lambda: moved(put), repeats, max(0.0, seconds - second))
    first, got = started
    return {
        "checks": [
            comparing.check(
                "logits",
                got,
                reference["logits"],
                noise=reference["noise"],
                again=again,
                reference_again=reference["again"],
                device=device.type,
            )
        ],
        "timing": {"first": first, "each": each, "items": batch, "cpu_each": reference["each"]},
        "top1": agreement(got, reference["logits"]),
        "facts": dict(facts, mode=mode, float64_images=min(batch, _TRUTH)),
    }


def cpu_logits(net: nn.Module, given: torch.Tensor, repeats: int, seconds: float) -> dict[str, Any]:
    """Return the CPU's ``logits``, the same ``again``, times ``each``, and ``noise`` from float64 on few images."""
    with torch.no_grad():
        _, logits = timing.timed(lambda: net(given))  # also the warm-up
        took, again = timing.timed(lambda: net(given))
        each = [took, *timing.repeats(lambda: net(given), repeats - 1, seconds - took, least=0)]
        few = given[:_TRUTH]
        truth = comparing.to_double(net)(few.double())
    noise = float((logits[:_TRUTH].double() - truth).abs().max())
    return {"logits": logits, "again": again, "each": each, "noise": noise}


def guard(mode: str) -> Any:
    """Return the context manager under which the forward pass runs."""
    return torch.inference_mode() if mode == "inference_mode" else torch.no_grad()


def on_device(
    net: nn.Module, given: torch.Tensor, device: torch.device, mode: str = "no_grad"
) -> tuple[tuple[float, torch.Tensor], Callable[[torch.Tensor], torch.Tensor], torch.Tensor]:
    """Move a copy of the net and the images; return (seconds to the first result, result), the net, the images."""
    kept: list[Any] = []

    def begin() -> torch.Tensor:
        moved, put = copy.deepcopy(net).to(device), given.to(device)
        if mode == "channels_last":
            moved = moved.to(memory_format=torch.channels_last)
            put = put.contiguous(memory_format=torch.channels_last)
        kept.extend((moved, put))
        result: torch.Tensor = moved(put)
        return result

    started = timing.timed(begin)
    return started, kept[0], kept[1]


def agreement(got: torch.Tensor, want: torch.Tensor) -> dict[str, int]:
    """Return how many rows have the same largest element; the search is done on the CPU for both."""
    here, there = got.detach().cpu().float(), want.detach().cpu().float()
    return {"agree": int((here.argmax(-1) == there.argmax(-1)).sum()), "of": int(there.shape[0])}
