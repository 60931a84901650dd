"""Reports about writing to a part of a tensor, and about gathering and scattering."""

from __future__ import annotations

import torch

from suites.bugs.common_b import Measures, Trials, claim, normal, uniform
from suites.comparing import check, on_cpu
from suites.context import Context

_RUNS = 100


def fill_column(context: Context) -> Measures:
    """Writing a number to a column of an int64 tensor hung, then ended the process."""
    device = context.device()
    with on_cpu():
        want = torch.zeros(5, 10, dtype=torch.int64)
        want[:, 0] = 2
    got = torch.zeros(5, 10, dtype=torch.int64, device=device)
    got[:, 0] = 2
    return {"checks": [check("t[:, 0] = 2", got, want, device=device.type)]}


def paste_tiles(context: Context) -> Measures:
    """RealESRGAN pastes the middles of padded tiles into a picture; parts of it stayed zero."""
    trials = Trials(context)
    pad, size = 10, 64
    padded = [normal(1, 3, size + 2 * pad, size + 2 * pad, seed=number) for number in range(16)]

    def picture(*tiles: torch.Tensor) -> torch.Tensor:
        whole = torch.zeros(1, 3, 4 * size, 4 * size, device=tiles[0].device)
        for number, tile in enumerate(tiles):
            top, left = size * (number // 4), size * (number % 4)
            middle = tile[:, :, pad : pad + size, pad : pad + size]
            whole[:, :, top : top + size, left : left + size] = middle
        return whole

    trials.compare("picture", picture, *padded, exact=True)
    return trials.measures()


def merge_tokens(context: Context) -> Measures:
    """Token merging gathers a half of the tokens and scatters their mean into the others; NaN came now and then.

    100 runs of the same input, each read back; NaN is counted, and how far one run is off is a fact.
    """
    device = context.device()
    with on_cpu():
        tokens = normal(2, 1024, 320)
        sources = uniform(2, 512, 1, seed=1).argsort(dim=1).expand(2, 512, 320)
        targets = (uniform(2, 512, 1, seed=2) * 512).long().expand(2, 512, 320)
        want = _merged(tokens, sources, targets)
    put = [tensor.to(device) for tensor in (tokens, sources.contiguous(), targets.contiguous())]
    bad = sum(bool(torch.isnan(_merged(*put).cpu()).any()) for _ in range(_RUNS))
    off = (_merged(*put).cpu() - want).abs().max()
    return {"claims": [claim(f"runs of {_RUNS} with NaN", bad, 0)], "facts": {"largest_error": float(off)}}


def _merged(tokens: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    given, kept = tokens[:, ::2], tokens[:, 1::2]
    return kept.scatter_reduce(1, targets, given.gather(1, sources), reduce="mean")
