"""Reports about tensors of whole numbers and bools."""

from __future__ import annotations

import torch

from suites.bugs.common_b import Measures, Trials, claim, lacks_float64, named, printed
from suites.comparing import check, on_cpu
from suites.context import Context


def true_division(context: Context) -> Measures:
    """Division by 3 gave truncated or huge values: it must be float32 and right to 1e-6."""
    device = context.device()
    found: Measures = {"checks": [], "claims": []}
    for dtype in (torch.int32, torch.int64):
        with on_cpu():
            whole = torch.tensor([-1, -2, 3, 4, 5], dtype=dtype)
            want, truth = torch.div(whole, 3), whole.double() / 3
        got = torch.div(whole.to(device), 3)
        name = f"{named(dtype)} / 3"
        found["checks"].append(check(name, got, want, truth=truth, device=device.type))
        near = (got.cpu().double() - truth).abs() <= 1e-6
        found["claims"].append(claim(f"{name}: elements off by more than 1e-6", int((~near).sum()), 0))
    return found


def truncating_division(context: Context) -> Measures:
    """``div`` with rounding_mode="trunc" raised for int64; what becomes of ``fmod`` is told beside it."""
    trials = Trials(context)
    whole = torch.tensor([1, 2, 3])

    def remainder(tensor: torch.Tensor) -> torch.Tensor:
        return tensor - torch.div(tensor, 2, rounding_mode="trunc") * 2

    trials.compare("a - trunc(a / 2) * 2", remainder, whole)
    try:
        fmod = torch.fmod(whole.to(trials.device), 2).cpu().tolist()
    except Exception as error:
        fmod = f"{type(error).__name__}: {error}"[:300]
    return trials.measures(fmod=fmod)


def cumsum_of_bools(context: Context) -> Measures:
    """``cumsum`` raised for bools: it must count them as int64."""
    trials = Trials(context)
    trials.compare("cumsum", lambda bools: bools.cumsum(dim=0), torch.tensor([False, True, False, True]))
    return trials.measures()


def int64_to_float32(context: Context) -> Measures:
    """Converting an int64 tensor to float32, and printing either, raised an error without a text.

    A GPU without float64 refuses to print at all, which is another report's: that is a fact here.
    """
    device = context.device()
    with on_cpu():
        whole = torch.tensor(1)
    put = torch.tensor(1, device=device)
    converted = put.to(torch.float32)
    claims, refused = [], {}
    for got, want in ((put, whole), (converted, whole.float())):
        name = f"repr of {named(want.dtype)}"
        try:
            claims.append(claim(name, printed(got), printed(want)))
        except RuntimeError as error:
            if not lacks_float64(error):
                raise
            refused[name] = str(error)[:300]
    found = check("to(float32)", converted, whole.float(), device=device.type)
    return {"checks": [found], "claims": claims, "facts": {"refused": refused}}


def powers_of_integers(context: Context) -> Measures:
    """``pow``, ``sqrt`` and ``exp`` failed on int64."""
    trials = Trials(context)
    whole = torch.arange(10)
    trials.compare("** 2", lambda tensor: tensor**2, whole)
    # to_double leaves whole numbers as they are: float64 has to be asked for.
    for name in ("sqrt", "exp"):
        with on_cpu():
            want, truth = getattr(torch, name)(whole), getattr(torch, name)(whole.double())
        got = trials.attempt(name, lambda name=name: getattr(torch, name)(whole.to(trials.device)))
        if name not in trials.refused:
            trials.checks.append(check(name, got, want, truth=truth, device=trials.device.type))
    return trials.measures()


def comparisons(context: Context) -> Measures:
    """Comparing, logical operators, ``isnan`` and ``masked_select`` failed: each on floats with NaN, and integers."""
    trials = Trials(context)
    inputs = {
        "float32": (
            torch.tensor([1.0, float("nan"), 0.0, -2.0]),
            torch.tensor([1.0, 1.0, float("nan"), 3.0]),
        ),
        "int64": (torch.tensor([1, 0, 3, -2]), torch.tensor([1, 2, 0, -3])),
        "int32": (torch.tensor([1, 0, 3, -2]).int(), torch.tensor([1, 2, 0, -3]).int()),
    }
    mask = torch.tensor([True, False, True, True])
    for kind, (first, second) in inputs.items():
        for name in ("ge", "le", "gt", "lt", "eq", "ne", "logical_and", "logical_or"):
            trials.compare(f"{name} of {kind}", getattr(torch, name), first, second)
        trials.compare(f"isnan of {kind}", torch.isnan, first)
        trials.compare(f"masked_select of {kind}", torch.masked_select, second, mask)
    return trials.measures()
