"""Reports about attention: long sequences, the backend's own operator, and masks that hang or come out wrong."""

from __future__ import annotations

import itertools

import torch
from torch.nn import functional

from suites import timing
from suites.bugs.common import Claim, Measures, carrying, drawn, within
from suites.comparing import check, on_cpu
from suites.context import Context, Inconclusive
from suites.telling import telling

_LENGTHS = (256, 1024, 4096, 9216)
"""The last two are latents of pictures of 512 x 512 and 768 x 768; the others tell how long those will take."""
_LONGEST = 10.0
"""Seconds that one call may be expected to take."""


def long_attention(context: Context) -> Measures:
    """Attention raised above 4096 tokens with a text that was no UTF-8: which length is the first to fail?

    Both dtypes, with and without a mask, within the report's 1e-3, of results below 1: of larger ones float16 has not
    as much. The scores of the longest take 5 GB in float32: where a length would take too long, that is told instead
    of a verdict, unless a shorter one is wrong.
    """
    device = context.device()
    if not hasattr(functional, "scaled_dot_product_attention"):
        raise Inconclusive("skipped", "not-in-this-torch", f"torch {torch.__version__} has no such function")
    if device.type == "cpu":
        raise Inconclusive(
            "skipped", "too-slow-here", "the lengths of the report take minutes and 11 GB on a CPU"
        )
    claims: list[Claim] = []
    took: dict[tuple[torch.dtype, bool], float] = {}
    before = _LENGTHS[0]
    for length in _LENGTHS:
        for dtype, masked in itertools.product((torch.float32, torch.float16), (False, True)):
            name = f"length {length}, {str(dtype)[6:]}, {'with' if masked else 'without'} mask"
            expected = took.get((dtype, masked), 0.0) * (length / before) ** 2
            if expected > _LONGEST:
                why = f"{name} is expected to take {expected:.0f} s here"
                facts = {"not tried from": name}
                raise carrying(
                    Inconclusive("skipped", "too-slow-here", why), {"claims": claims, "facts": facts}
                )
            try:
                took[dtype, masked], found = _attend(device, length, dtype, masked)
            except Exception as error:
                facts = {"first to fail": name, **_native(error)}
                raise carrying(error, {"claims": claims, "facts": facts}) from None
            claims.append(within(name, *found, 1e-3))
        before = length
    return {"claims": claims, "facts": {"seconds": max(took.values())}}


def _native(error: Exception) -> dict[str, str]:
    """Return the backend's own words that were no UTF-8, as Windows has them in the user's language."""
    if not isinstance(error, UnicodeDecodeError):
        return {}
    return {"native": error.object.decode("utf-8", "backslashreplace")[:300]}


def _attend(
    device: torch.device, length: int, dtype: torch.dtype, masked: bool
) -> tuple[float, tuple[torch.Tensor, torch.Tensor]]:
    """Return the seconds, and 16 rows of what the device gives and of what is right: each row is by itself."""
    given = [drawn(2, 8, length, 40, seed=seed) * scale for seed, scale in enumerate((1, 1, 0.25))]
    given = [item.to(dtype) for item in given]
    mask = torch.ones(length, length, dtype=torch.bool).tril() if masked else None
    moved = [item.to(device) for item in given]
    moved_mask = None if mask is None else mask.to(device)

    def work() -> torch.Tensor:
        return functional.scaled_dot_product_attention(*moved, attn_mask=moved_mask)

    if length == _LENGTHS[0]:
        timing.timed(work)  # compiles
    seconds, result = timing.timed(work)
    rows = torch.arange(length // 32, length, length // 16)
    with on_cpu():
        query, key, value = (item.float() for item in given)
        scores = query[:, :, rows] @ key.transpose(-1, -2) / 40**0.5
        if mask is not None:
            scores = scores.masked_fill(~mask[rows], float("-inf"))
        want = (scores.softmax(-1) @ value).to(dtype)
    return seconds, (result.cpu()[:, :, rows], want)


def dml_attention(context: Context) -> Measures:
    """Whisper failed with float16 and the backend's own attention: that, with and without past keys and values.

    As Whisper's decoder asks it: 6 heads of 64. Within the report's 1e-2.
    """
    device, module = context.device(), context.build()
    if not hasattr(module, "multi_head_attention"):
        raise Inconclusive("skipped", "not-in-this-build", "the build has no multi_head_attention")
    heads, wide, past = 6, 64, 5
    claims: list[Claim] = []
    for with_past, length in itertools.product((False, True), (12, 1)):
        given = [drawn(1, length, heads * wide, seed=seed, dtype=torch.float16) for seed in range(3)]
        kept = [drawn(1, heads, past, wide, seed=seed, dtype=torch.float16) for seed in (3, 4)]
        moved = [item.to(device) for item in kept] if with_past else [None, None]
        with on_cpu():
            want = _attention(given, kept if with_past else None, heads)
        inputs = [item.to(device) for item in given]
        got = module.multi_head_attention(*inputs, heads * wide, heads, *moved, None)  # type: ignore[union-attr]
        name = f"{length} tokens {'after' if with_past else 'without'} past"
        for what, here, there in zip(("result", "keys", "values"), got, want):
            claims.append(within(f"{name}: {what}", here, there, 1e-2))
    return {"claims": claims, "facts": {}}


def _attention(given: list[torch.Tensor], kept: list[torch.Tensor] | None, heads: int) -> list[torch.Tensor]:
    """Return the result [1, tokens, wide], and keys and values [1, heads, tokens, wide of one]; float16."""
    query, key, value = (item.float().unflatten(2, (heads, -1)).transpose(1, 2) for item in given)
    if kept is not None:
        key, value = (torch.cat([old.float(), new], 2) for old, new in zip(kept, (key, value)))
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    result = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    return [item.half() for item in (result, key, value)]


# --- masks -----------------------------------------------------------------------------------------------


def causal_fill(context: Context) -> Measures:
    """CLIP's causal mask hung where it is filled from a number on the device: make it as CLIP does."""
    device = context.device()
    checks, facts = [], {}
    for name, how in (("dtype given", {"dtype": torch.float32}), ("no dtype", {})):
        with on_cpu():
            want = _clip_mask(torch.device("cpu"), how)
        try:
            checks.append(check(f"mask, {name}", _clip_mask(device, how), want, device=device.type))
        except RuntimeError as error:
            # Without a dtype the number goes through float64. That not every GPU has it is a report of its own.
            if how or "does not support Double" not in str(error):
                raise
            facts[name] = str(error)
    return {"checks": checks, "facts": facts}


def _clip_mask(device: torch.device, how: dict[str, torch.dtype]) -> torch.Tensor:
    lowest = torch.tensor(torch.finfo(torch.float32).min, device=device)
    mask = torch.full((77, 77), lowest, device=device, **how)  # type: ignore[arg-type]
    places = torch.arange(77, device=device)
    return mask.masked_fill_(places < (places + 1).view(77, 1), 0)


_REPEATS = 5


def triangle_fill(context: Context) -> Measures:
    """A causal mask made by empty, fill_ and triu_ was wrong, and one by full was not: compare both ways.

    The memory that ``empty`` may get is filled with NaN before, and each is made five times: a lucky one would hide
    the fault.
    """
    device = context.device()
    checks = []
    for dtype, infinite, way in itertools.product((torch.float32, torch.float16), (False, True), _WAYS):
        value = float("-inf") if infinite else -torch.finfo(dtype).max
        with on_cpu():  # in float32, which has all that float16 has
            want = torch.full((77, 77), value).triu_(1).to(dtype)
        for number in range(_REPEATS):
            torch.full((77, 77), float("nan"), dtype=dtype, device=device).cpu()
            name = f"{way} {str(dtype)[6:]} {value:.4g}, time {number + 1}"
            checks.append(check(name, _WAYS[way](value, dtype, device), want, device=device.type))
    kept, left_out = telling(checks)
    return {"checks": kept, "facts": {"left_out": left_out}}


def _by_empty(value: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.empty(77, 77, dtype=dtype, device=device).fill_(value).triu_(1)


def _by_full(value: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.full((77, 77), value, dtype=dtype, device=device).triu_(1)


_WAYS = {"empty": _by_empty, "full": _by_full}
