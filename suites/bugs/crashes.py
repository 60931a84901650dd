"""Reports about operators that ended the process: a refusal that can be caught is right in most of them."""

from __future__ import annotations

import sys

import torch

from suites.bugs.common_b import Measures, Trials, normal, skip
from suites.context import Context

HIGHEST_RANK = 8
"""Dimensions that the report's rule asks for; above them a clear error is right."""


def complex_numbers(context: Context) -> Measures:
    """``torch.complex`` ended the process: it must be right or refuse, and the device goes on."""
    trials = Trials(context)
    trials.compare("complex", torch.complex, normal(2), normal(2, seed=1), exact=True)
    return trials.measures(raises=False)


def fourier(context: Context) -> Measures:
    """``stft``, even without a complex result, ended the process: both its modes, and ``rfft``."""
    trials = Trials(context)
    sound = normal(16000)
    trials.compare("stft", lambda tensor: torch.stft(tensor, n_fft=512, return_complex=True), sound)
    trials.compare("stft, real", lambda tensor: torch.stft(tensor, n_fft=512, return_complex=False), sound)
    trials.compare("rfft", torch.fft.rfft, sound)
    return trials.measures(raises=False)


def high_ranks(context: Context) -> Measures:
    """Tensors of many dimensions ended the process: a product and a permutation of 5 to 8, and of 9 if it can be."""
    low, high = Trials(context), Trials(context)
    for rank in range(5, HIGHEST_RANK + 2):
        trials = low if rank <= HIGHEST_RANK else high
        cube = normal(*([2] * (rank - 1)), 3, seed=rank)
        trials.compare(f"product of rank {rank}", lambda tensor: tensor * tensor + tensor, cube)
        trials.compare(f"permutation of rank {rank}", _reversed, cube, exact=True)
    found, more = low.measures(), high.measures(raises=False)
    return {
        "checks": found["checks"] + more["checks"],
        "claims": found["claims"] + more["claims"],
        "facts": more["facts"],
    }


def _reversed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.permute(*reversed(range(tensor.dim()))).contiguous()


def first_copy_on_linux(context: Context) -> Measures:
    """The first copy to the device ended the process on Linux: it must work, or say clearly why not."""
    if not sys.platform.startswith("linux"):
        raise skip("not-linux", "the report is about Linux")
    trials = Trials(context)
    trials.compare("copy", lambda tensor: tensor.clone(), torch.tensor([1]))
    return {"checks": trials.checks, "claims": [trials.silent()], "facts": {"refused": trials.refused}}
