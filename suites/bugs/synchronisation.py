"""Reports about reading before the device has written: single elements, copies that do not wait, casts on the way."""

from __future__ import annotations

import torch

from suites.bugs.common_b import Measures, claim, differing, normal, uniform
from suites.comparing import check, on_cpu
from suites.context import Context

_REPEATS = 20
_STEPS = 25
"""500 elements in all, as a sampler's 20 pictures of 25 steps would read."""

_COPIES = 50


def scalars_by_index(context: Context) -> Measures:
    """Samplers that read one element and made a tensor of it hung or took wrong steps.

    20 times 25 steps, each with work in flight: an element by its index, a tensor filled with it, a product. The
    factor is a power of two, so the product is exact. Where a GPU without float64 refuses ``full``, which is another
    report's, the filled tensor is made on the CPU.
    """
    device = context.device()
    with on_cpu():
        alphas, matrix = uniform(1000), normal(128, 128) / 12
    put, busy = alphas.to(device), matrix.to(device)
    wrong = wrong_items = 0
    for repeat in range(_REPEATS):
        made = []
        for step in range(_STEPS):
            busy = (busy @ busy).clamp(-1.0, 1.0)
            made.append(_filled(put[repeat * _STEPS + step], device) * 2.0)
        want = alphas[repeat * _STEPS : (repeat + 1) * _STEPS] * 2.0
        wrong += differing(torch.stack(made).reshape(-1), want)
        busy = (busy @ busy).clamp(-1.0, 1.0)
        wrong_items += put[repeat].item() != alphas[repeat].item()
    return {
        "claims": [
            claim("filled tensors that differ", wrong, 0, "500 of them, each from one element"),
            claim("items that differ", wrong_items, 0, "20 of them, read with work in flight"),
        ]
    }


def _filled(element: torch.Tensor, device: torch.device) -> torch.Tensor:
    try:
        return torch.full((1, 1, 1, 1), element, device=device)
    except RuntimeError:
        return torch.full((1, 1, 1, 1), element.item()).to(device)


def item_after_products(context: Context) -> Measures:
    """``sigmas[0].item()`` froze the process while a long queue of products was in flight."""
    device = context.device()
    with on_cpu():
        sigmas, matrix = uniform(15), normal(512, 512) / 24
    put, busy = sigmas.to(device), matrix.to(device)
    for _ in range(40):
        busy = busy @ busy.t() / 24.0
    return {"claims": [claim("sigmas[0].item()", put[0].item(), sigmas[0].item())]}


def cast_while_copying(context: Context) -> Measures:
    """``to("cpu", torch.uint8)`` in one call gave a wrong picture; casting first, then copying, a right one."""
    device = context.device()
    with on_cpu():
        picture = uniform(64, 64) * 255.0
        want = picture.to(torch.uint8)
    put = picture.to(device)
    both, first = put.to("cpu", torch.uint8), put.to(torch.uint8).cpu()
    return {
        "checks": [check("in one call", both, want), check("cast first", first, want)],
        "facts": {"calls_differ": differing(both, first)},
    }


def copies_that_do_not_wait(context: Context) -> Measures:
    """Copies with non_blocking=True had to be switched off: 50 of them each way, read at once.

    Each copy has other values, so that what an earlier one left in the memory is never right.
    """
    device = context.device()
    with on_cpu():
        matrix = normal(512, 512) / 24
    put = matrix.to(device)
    home, away = 0, 0
    for number in range(_COPIES):
        product = (put + float(number)) @ put
        early = product.to("cpu", non_blocking=True).clone()
        home += bool(differing(early, product.cpu()))
        sent = (matrix + float(number)).to(device, non_blocking=True)
        away += bool(differing(sent, matrix + float(number)))
    return {
        "claims": [
            claim(f"copies of {_COPIES} to the CPU that differ", home, 0),
            claim(f"copies of {_COPIES} to the device that differ", away, 0),
        ]
    }
