"""Reports about dtypes: mixed ones and their promotion, float16, bfloat16, and float64 where a GPU has none."""

from __future__ import annotations

import torch

from suites.bugs.common_b import Measures, Trials, claim, named, normal, printed, skip, uniform
from suites.comparing import check, on_cpu
from suites.context import Context

# --- promotion -------------------------------------------------------------------------------------------


def float_times_bool(context: Context) -> Measures:
    """Floats times a mask of bools gave bools: dtype and values of both orders, float32 and float16."""
    trials = Trials(context)
    mask = torch.tensor([True, False, True, True])
    for dtype in (torch.float32, torch.float16):
        numbers = normal(4).to(dtype)
        trials.compare(f"{named(dtype)} * bool", torch.mul, numbers, mask)
        trials.compare(f"bool * {named(dtype)}", torch.mul, mask, numbers)
    return trials.measures()


def cat_half_with_float(context: Context) -> Measures:
    """``cat`` of a float16 with a float32 tensor raised: the result must be float32 with both values."""
    trials = Trials(context)
    halves, floats = normal(1).half(), normal(1, seed=1)
    trials.compare("cat", lambda first, second: torch.cat([first, second]), halves, floats, exact=True)
    return trials.measures()


def half_times_mask(context: Context) -> Measures:
    """A float16 latent times a float32 mask plus float32 broke inpainting: dtype and values of the mixture."""
    trials = Trials(context)
    latent, mask, added = normal(1, 4, 8, 8).half(), uniform(1, 4, 8, 8, seed=1), normal(1, 4, 8, 8, seed=2)
    trials.compare("latent * mask + float", lambda one, two, three: one * two + three, latent, mask, added)
    return trials.measures()


def autocast_float16(context: Context) -> Measures:
    """``autocast`` did not reach the device: in it the product of float32 matrices must be float16.

    On the CPU bfloat16 stands for it, which is what autocast can do there on every torch.
    """
    device = context.device()
    dtype = torch.bfloat16 if device.type == "cpu" else torch.float16
    with on_cpu():
        first, second = normal(8, 16), normal(16, 4, seed=1)
        low, low_second = first.to(dtype), second.to(dtype)
        want, truth = (low.float() @ low_second.float()).to(dtype), low.double() @ low_second.double()
    put, put_second = first.to(device), second.to(device)
    with torch.autocast(device_type=device.type, dtype=dtype):
        got = torch.mm(put, put_second)
    return {"checks": [check("mm", got, want, truth=truth, device=device.type)]}


# --- low precision ---------------------------------------------------------------------------------------


def pow_float16(context: Context) -> Measures:
    """float16 ``pow`` differed from the CPU's by an ulp: of 1000 pairs none may be off by more than two.

    The right value is float64's, rounded to float16; no result is so small that a device may flush it to zero.
    """
    device = context.device()
    with on_cpu():
        bases, exponents = uniform(1000) * 1.9 + 0.1, uniform(1000, seed=1) * 3.0
        bases[0], exponents[0] = 0.6094, 0.5024
        bases, exponents = bases.half(), exponents.half()
        right = (bases.double() ** exponents.double()).half()
    got = (bases.to(device) ** exponents.to(device)).cpu()
    # All are positive, so their bits are in the order of their values.
    ulps = (got.half().view(torch.int16).int() - right.view(torch.int16).int()).abs()
    return {
        "claims": [
            claim("dtype", named(got.dtype), "float16"),
            claim("elements off by more than 2 ulp", int((ulps > 2).sum()), 0),
        ],
        "facts": {"largest_ulps": int(ulps.max()), "inexact": int((ulps > 0).sum()), "first": float(got[0])},
    }


def bfloat16_operators(context: Context) -> Measures:
    """bfloat16 had to be switched off by hand: copy, add, mm and conv2d, each whatever became of the others."""
    trials = Trials(context)
    first, second = normal(4, 8).bfloat16(), normal(4, 8, seed=1).bfloat16()
    square = normal(8, 4, seed=2).bfloat16()
    pictures, kernels = normal(1, 3, 8, 8).bfloat16(), normal(4, 3, 3, 3, seed=1).bfloat16()
    trials.compare("copy", lambda tensor: tensor.clone(), first, exact=True)
    trials.compare("add", torch.add, first, second)
    trials.compare("mm", torch.mm, first, square)
    trials.compare("conv2d", torch.nn.functional.conv2d, pictures, kernels)
    return trials.measures()


def cast_chain(context: Context) -> Measures:
    """Casts to float16 and back between two products made all rows but the first zero: every row is compared."""
    device = context.device()
    with on_cpu():
        rows, first, second = (
            normal(257, 202, 384),
            normal(384, 384, seed=1) / 20,
            normal(384, 32, seed=2) / 20,
        )
        want = _through_half(rows, first, second)
        # Rounding is the CPU's own error here, so that a value which rounds the other way is none of the device's.
        truth = rows.double() @ first.double() @ second.double()
    got = _through_half(rows.to(device), first.to(device), second.to(device))
    zero_rows = int((got.cpu() == 0).all(dim=-1).sum())
    return {
        "checks": [check("rows", got, want, truth=truth, device=device.type)],
        "claims": [claim("rows that are all zero", zero_rows, int((want == 0).all(dim=-1).sum()))],
    }


def _through_half(rows: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    return (rows @ first).half().float() @ second


# --- float64 ---------------------------------------------------------------------------------------------


def float64_operators(context: Context) -> Measures:
    """float64 was said to be for moving and casting only: add, mm and sin must be right or clearly refused."""
    trials = Trials(context)
    first, second = normal(4, 4).double(), normal(4, 4, seed=1).double()
    trials.compare("add", torch.add, first, second)
    trials.compare("mm", torch.mm, first, second)
    trials.compare("sin", torch.sin, first)
    return trials.measures(raises=False, clear=True)


def pow_float64(context: Context) -> Measures:
    """float64 powers, in place and not, had to be computed on the CPU: they must be right or clearly refused."""
    trials = Trials(context)
    numbers = uniform(8).double() + 0.5
    trials.compare("pow_(2)", lambda tensor: tensor.pow_(2), numbers)
    trials.compare("** 0.5", lambda tensor: tensor**0.5, numbers)
    return trials.measures(raises=False, clear=True)


def printing(context: Context) -> Measures:
    """Printing a tensor raised on a GPU without float64: the text must be the CPU's but for the device."""
    device = _without_float64(context)
    claims = []
    for dtype in (torch.float32, torch.float16):
        with on_cpu():
            want = printed(torch.ones(4, 4, dtype=dtype))
        got = printed(torch.ones(4, 4, dtype=dtype, device=device))
        claims.append(claim(f"repr of {named(dtype)}", got, want))
    return {"claims": claims}


def python_scalars(context: Context) -> Measures:
    """float32 tensors with Python numbers asked for float64 in BERT's mask on a GPU that has none."""
    _without_float64(context)
    trials = Trials(context)
    mask, hidden = (uniform(2, 1, 1, 8) > 0.3).float(), normal(2, 4, 8)
    trials.compare("mask", lambda tensor: (1.0 - tensor) * torch.finfo(torch.float32).min, mask)
    trials.compare("add", lambda tensor: tensor.add(tensor), hidden)
    trials.compare("scores", lambda tensor: tensor / 8.0, hidden)
    return trials.measures()


def _without_float64(context: Context) -> torch.device:
    """Return the device; a DirectX device that computes float64 cannot show these reports."""
    device = context.device()
    supported = getattr(context.build(), "has_float64_support", None)
    if supported is not None and supported(device.index or 0):
        raise skip("has-float64", "this adapter computes float64, so it never meets the refusal")
    return device
