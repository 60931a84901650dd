"""The image nets in float16, by ``.half()`` and by autocast: the error, and whether it is any faster.

The truth is the CPU's float32. What a right float16 may be off by is measured, too: the CPU's float16, emulated
by rounding every step (``rounding.py``), and the CPU's own where it is able to.
"""

from __future__ import annotations

import copy
from typing import Any, Dict

import torch
from torch import nn

from suites import comparing, models, timing
from suites.context import Context, Inconclusive
from suites.fp16 import rounding

Measures = Dict[str, Any]

_LEAST_ROUNDS = 5
"""Fewer say nothing of a speed-up; on the CPU, where float16 is for the net's sake only, two will do."""

_OWN = 1
"""Images that the CPU's own float16 computes; it may be slow."""


def infer(
    context: Context, model: str, way: str, batch: int, image: int, rounds: int, seconds: float, seed: int = 0
) -> Measures:
    """Compare the float16 logits (batch, 1000) of a net; ``way`` is half or autocast.

    Weights and images are rounded to float16 on the CPU, so both sides compute from the same numbers.
    ``seconds`` bounds the interleaved rounds of float32 and float16, which end with a read-back.
    """
    device = context.device()
    if way == "autocast":
        ask_for_autocast(device)
    with comparing.on_cpu():
        net, facts = models.build(model, image, seed, context.options.get("weights", ""))
        given = models.images(batch, image, seed)
        reference = cpu_half(net, given)
    whole, put = copy.deepcopy(net).to(device), given.to(device)
    if way == "half":
        half, put_half = copy.deepcopy(net).half().to(device), given.half().to(device)
    else:
        half, put_half = Autocast(whole, device), put
    with torch.no_grad():
        first, got = timing.timed(lambda: half(put_half))
        _, again = timing.timed(lambda: half(put_half))
        _, single = timing.timed(lambda: whole(put))  # warm-up of the other side
        speedup = timing.interleaved(
            {"float32": lambda: whole(put), "float16": lambda: half(put_half)},
            rounds,
            seconds,
            least=2 if context.device_kind == "cpu" else _LEAST_ROUNDS,
        )
    logits = comparing.check(
        "logits",
        got,
        reference["half"],
        truth=reference["single"],
        noise=reference["noise"],
        again=again,
        device=device.type,
    )
    facts.update(reference["facts"], way=way, float32_error=_gap(single, reference["single"]))
    facts["error"] = _gap(got, reference["single"])
    return {
        "checks": [logits],
        "timing": {"first": first, "each": speedup["float16"], "items": batch},
        "speedup": speedup,
        "top1": agreement(got, reference["single"]),
        "facts": facts,
    }


def cpu_half(net: nn.Module, given: torch.Tensor) -> dict[str, Any]:
    """Return the CPU's float32 logits ``single``, the float16 ones ``half``, and ``noise``, the latter's error."""
    with torch.no_grad():
        single = net(given)
    half = rounding.emulated(net, given)
    errors = {"emulated": _gap(half, single)}
    own, why = rounding.by_cpu(net, given[:_OWN])
    if own is None:
        ran = why
    else:
        errors["own"] = _gap(own, single[:_OWN])
        ran = "ran"
    facts = {"cpu_float16": ran, "cpu_float16_error": errors}
    return {"single": single, "half": half, "noise": max(errors.values()), "facts": facts}


def _gap(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return the largest finite difference: an infinite one would excuse everything."""
    gap = (got.cpu().double() - want.double()).abs()
    gap = gap[torch.isfinite(gap)]
    return comparing.brief(float(gap.max())) if gap.numel() else 0.0


def agreement(got: torch.Tensor, want: torch.Tensor) -> dict[str, int]:
    """Return how many rows name the same class; the search is done on the CPU for both."""
    same = got.cpu().float().argmax(-1) == want.argmax(-1)
    return {"agree": int(same.sum()), "of": int(want.shape[0])}


class Autocast(nn.Module):
    """A net that runs under autocast to float16."""

    def __init__(self, net: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.net = net
        self.kind = device.type

    def forward(self, given: torch.Tensor) -> Any:
        """Return the net's result."""
        with torch.autocast(device_type=self.kind, dtype=torch.float16):
            return self.net(given)


def ask_for_autocast(device: torch.device) -> None:
    """Raise Inconclusive where autocast is refused for the device, or changes nothing there.

    Told by a product of float32 matrices, which autocast makes float16 wherever it works.
    """
    made, why = _product_under_autocast(device)
    if made != torch.float16:
        raise Inconclusive("skipped", "no-autocast", why or f"a product is {made} under autocast")


def _product_under_autocast(device: torch.device) -> tuple[Any, str]:
    ones = torch.ones(4, 4).to(device)
    try:
        with torch.no_grad(), torch.autocast(device_type=device.type, dtype=torch.float16):
            return torch.mm(ones, ones).dtype, ""
    except (RuntimeError, AssertionError, ValueError, AttributeError) as error:
        return None, f"{type(error).__name__}: {error}"
