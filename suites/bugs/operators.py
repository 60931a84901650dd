"""Reports about single operators that were missing, fell back to the CPU, or gave wrong values."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional as F

from suites.bugs.common_b import Measures, Trials, claim, named, normal, uniform
from suites.comparing import check, checks, on_cpu
from suites.context import Context

# --- factories and out= ----------------------------------------------------------------------------------

_FACTORIES: dict[str, Callable[..., torch.Tensor]] = {
    "arange": lambda where: torch.arange(5, device=where),
    "linspace": lambda where: torch.linspace(0, 1, 5, device=where),
    "logspace": lambda where: torch.logspace(0, 1, 5, device=where),
    "full": lambda where: torch.full((3,), 2.0, device=where),
    "zeros": lambda where: torch.zeros(3, device=where),
    "ones": lambda where: torch.ones(3, device=where),
    "rand": lambda where: torch.rand(3, device=where),
    "randn": lambda where: torch.randn(3, device=where),
    "randint": lambda where: torch.randint(9, (3,), device=where),
    "randperm": lambda where: torch.randperm(5, device=where),
    "hann_window": lambda where: torch.hann_window(5, device=where),
    "tril_indices": lambda where: torch.tril_indices(3, 3, device=where),
    "triu_indices": lambda where: torch.triu_indices(3, 3, device=where),
    "eye, out": lambda where: torch.eye(3, out=torch.empty(0, device=where)),
    "arange, out": lambda where: torch.arange(5, out=torch.empty(0, device=where)),
    "linspace, out": lambda where: torch.linspace(0, 1, 5, out=torch.empty(0, device=where)),
    "cat, out": lambda where: torch.cat([torch.zeros(3, device=where)], out=torch.empty(0, device=where)),
}


def eye(context: Context) -> Measures:
    """``torch.eye`` on the device warned of a fallback and gave an empty tensor.

    Its values are compared; of the other functions that make a tensor, or fill ``out``, only that there is data, for
    what else may be wrong with them is not this report's.
    """
    trials = Trials(context)
    for size in ((3,), (3, 5)):
        with on_cpu():
            want = torch.eye(*size)
        got = trials.attempt(f"eye{size}", lambda size=size: torch.eye(*size, device=trials.device))
        if got is not None:
            trials.checks.append(check(f"eye{size}", got, want, device=trials.device.type))
    others: dict[str, str] = {}
    for name, make in _FACTORIES.items():
        with on_cpu():
            elements = make(torch.device("cpu")).numel()
        try:
            trials.claims.append(claim(f"elements of {name}", make(trials.device).cpu().numel(), elements))
        except Exception as error:
            others[name] = f"{type(error).__name__}: {error}"[:200]
    return trials.measures(others_refused=others)


# --- sums of products ------------------------------------------------------------------------------------


def beta_zero(context: Context) -> Measures:
    """With beta=0 the input must be ignored, even where it is NaN: baddbmm, addbmm, addmm and addmv."""
    trials = Trials(context)
    left, right = normal(2, 4, 8), normal(2, 8, 4, seed=1)
    vector = normal(8, seed=2)
    for name, size, factors in (
        ("baddbmm", (2, 4, 4), (left, right)),
        ("addbmm", (4, 4), (left, right)),
        ("addmm", (4, 4), (left[0], right[0])),
        ("addmv", (4,), (left[0], vector)),
    ):
        nan = torch.full(size, float("nan"))
        work = getattr(torch, name)
        trials.compare(
            name, lambda given, one, two, work=work: work(given, one, two, beta=0, alpha=0.5), nan, *factors
        )
    return trials.measures()


def scalar_from_cpu(context: Context) -> Measures:
    """A tensor of the device with a CPU tensor without dimensions failed: ``*``, ``-`` and ``/``, and reversed."""
    trials = Trials(context)
    scalar = torch.tensor(0.5)
    for name, work in {
        "x * t": lambda tensor: tensor * scalar,
        "x - t": lambda tensor: tensor - scalar,
        "x / t": lambda tensor: tensor / scalar,
        "t * x": lambda tensor: scalar * tensor,
    }.items():
        trials.compare(name, work, normal(3))
    return trials.measures()


def lerp(context: Context) -> Measures:
    """``lerp`` could not be used: by a number and by a tensor, float32 and float16."""
    trials = Trials(context)
    for dtype in (torch.float32, torch.float16):
        start, end, weight = (normal(4, 8, seed=seed).to(dtype) for seed in range(3))
        name = named(dtype)
        trials.compare(f"{name}, 0.3", lambda one, two: torch.lerp(one, two, 0.3), start, end, rounded=dtype)
        trials.compare(f"{name}, tensor", torch.lerp, start, end, weight, rounded=dtype)
    return trials.measures()


# --- dropout ---------------------------------------------------------------------------------------------


def dropout(context: Context) -> Measures:
    """Dropout of a half fell back: about a half of the values must be kept, and these doubled."""
    device = context.device()
    with on_cpu():
        numbers = normal(64, 64)
    got = F.dropout(numbers.to(device), p=0.5, training=True)
    kept = got.cpu() != 0
    return {
        "checks": [
            check("kept values", got, torch.where(kept, numbers * 2.0, 0.0 * numbers), device=device.type)
        ],
        "statistics": [_statistic("kept", kept.float(), 0.5, 0.5)],
    }


def dropout_backward(context: Context) -> Measures:
    """The backward of dropout fell back: the gradient must be let through, doubled, where the value was."""
    device = context.device()
    with on_cpu():
        numbers, upstream = normal(64, 64), normal(64, 64, seed=1)
    given = numbers.to(device).requires_grad_()
    result = nn.Dropout(0.5)(given)
    result.backward(upstream.to(device))
    kept = result.detach().cpu() != 0
    want = torch.where(kept, upstream * 2.0, 0.0 * upstream)
    return {"checks": [check("input", given.grad, want, role="gradient", device=device.type)]}


# --- functions -------------------------------------------------------------------------------------------


def softplus(context: Context) -> Measures:
    """``softplus`` fell back and gave wrong values, so that a spline's discriminant became negative.

    The values, also beyond the threshold, and the discriminant of a rational quadratic spline as VITS computes it,
    which names the last dimension -1 to ``gather``; what comes of naming it 1 is told beside it.
    """
    trials = Trials(context)
    numbers = torch.cat([normal(64) * 4.0, torch.tensor([-30.0, 0.0, 19.0, 21.0, 40.0])])
    trials.compare("softplus", F.softplus, numbers)
    trials.compare("softplus, beta 2", lambda tensor: F.softplus(tensor, beta=2.0), numbers)
    inputs = tuple(
        item.to(trials.device) for item in (uniform(64), normal(64, 10, seed=1), normal(64, 11, seed=2))
    )
    negative = {}
    for dim in (-1, 1):
        got = trials.attempt(f"discriminant, dim {dim}", lambda dim=dim: _discriminant(*inputs, dim=dim))
        if got is not None:
            negative[dim] = int((~(got.cpu() >= 0)).sum())
    if -1 in negative:
        trials.claims.append(claim("discriminants that are not 0 or more", negative[-1], 0))
    return trials.measures(negative_by_dim={str(dim): many for dim, many in negative.items()})


def _discriminant(
    places: torch.Tensor, heights: torch.Tensor, slopes: torch.Tensor, dim: int
) -> torch.Tensor:
    """Return the discriminant with which a spline of 10 bins is inverted at ``places`` (64,), from 0 to 1.

    ``dim`` is how the last dimension is named to ``gather``.
    """
    heights = 1e-3 + (1 - 1e-3 * 10) * F.softmax(heights, dim=-1)
    slopes = 1e-3 + F.softplus(slopes)
    tops = heights.cumsum(-1)
    bins = (places[:, None] >= tops[:, :-1]).sum(-1, keepdim=True)
    height, top = heights.gather(dim, bins)[:, 0], tops.gather(dim, bins)[:, 0]
    low, high = slopes.gather(dim, bins)[:, 0], slopes.gather(dim, bins + 1)[:, 0]
    above, delta = places - (top - height), height * 10.0
    bend = low + high - 2 * delta
    a = above * bend + height * (delta - low)
    b = height * low - above * bend
    return b.pow(2) - 4 * a * (-delta * above)


def embedding_bag(context: Context) -> Measures:
    """``EmbeddingBag`` was missing, later it fell back: sums and means of bags of several sizes."""
    trials = Trials(context)
    weight = normal(100, 16)
    indices = torch.randint(100, (12,), generator=torch.Generator().manual_seed(1))
    offsets = torch.tensor([0, 3, 4, 9])
    for mode in ("sum", "mean"):

        def bags(table: torch.Tensor, at: torch.Tensor, starts: torch.Tensor, mode: str = mode) -> Any:
            return nn.EmbeddingBag(100, 16, mode=mode, _weight=table)(at, starts).detach()

        trials.compare(mode, bags, weight, indices, offsets)
    return trials.measures()


def unique(context: Context) -> Measures:
    """``unique`` with counts was missing: values, counts and the places of each in the result."""
    trials = Trials(context)
    numbers = torch.tensor([1, 2, 2, 3])
    trials.compare("counts", lambda tensor: tensor.unique(return_counts=True), numbers)
    trials.compare("inverse", lambda tensor: tensor.unique(return_inverse=True), numbers)
    trials.compare("float", lambda tensor: tensor.unique(return_counts=True), numbers.float())
    return trials.measures()


def cumsum(context: Context) -> Measures:
    """``cumsum`` was missing: int64, both dimensions."""
    trials = Trials(context)
    numbers = torch.arange(12).reshape(3, 4) - 3
    for dim in (0, 1):
        trials.compare(f"dim {dim}", lambda tensor, dim=dim: torch.cumsum(tensor, dim), numbers)
    return trials.measures()


def argmax(context: Context) -> Measures:
    """``argmax`` was missing: each row's, and of equal elements the first, as torch promises."""
    trials = Trials(context)
    trials.compare("rows", lambda tensor: torch.argmax(tensor, dim=1), normal(10, 10))
    tied = torch.tensor([[0.0, 2.0, 2.0, 1.0], [3.0, 3.0, 3.0, 3.0], [-1.0, -2.0, -1.0, -3.0]])
    trials.compare("ties", lambda tensor: torch.argmax(tensor, dim=1), tied)
    return trials.measures()


# --- random numbers --------------------------------------------------------------------------------------


def multinomial(context: Context) -> Measures:
    """``multinomial`` fell back: nothing of probability 0 may be drawn, the rest as often as it should.

    One draw per row as nanoGPT does it, from 5000 copies of each of two rows; then how often each of five groups of
    13 came.
    """
    device = context.device()
    with on_cpu():
        rows = uniform(2, 65)
        rows[:, ::7] = 0.0
        rows /= rows.sum(dim=1, keepdim=True)
    single = torch.multinomial(rows.to(device), 1)
    drawn = torch.multinomial(rows.repeat_interleave(5000, dim=0).to(device), 1).cpu().reshape(2, 5000)
    found: Measures = {"claims": [], "statistics": []}
    shape = [list(single.shape), named(single.dtype), single.device.type]
    found["claims"].append(claim("shape, dtype and device", shape, [[2, 1], "int64", device.type]))
    for row in range(2):
        valid = (drawn[row] >= 0) & (drawn[row] < 65)
        impossible = int((~valid).sum()) + int((rows[row][drawn[row][valid]] == 0).sum())
        found["claims"].append(claim(f"drawn without a chance, row {row}", impossible, 0))
        for group in range(5):
            share = float(rows[row, group * 13 : group * 13 + 13].sum())
            hits = ((drawn[row] // 13) == group).float()
            found["statistics"].append(
                _statistic(f"group {group} of row {row}", hits, share, (share * (1 - share)) ** 0.5)
            )
    return found


def normal_by_tensors(context: Context) -> Measures:
    """``normal(mean, std)`` of tensors fell back: mean and spread, once each is taken out again."""
    device = context.device()
    with on_cpu():
        mean, std = normal(1000) * 3.0, uniform(1000, seed=1) + 0.5
    got = torch.normal(mean.to(device), std.to(device))
    claims = [claim("shape and device", [list(got.shape), got.device.type], [[1000], device.type])]
    return {"claims": claims, "statistics": [_statistic("normal", (got.cpu() - mean) / std, 0.0, 1.0)]}


def randn_like(context: Context) -> Measures:
    """``randn_like`` was missing: mean and spread of 1000 numbers."""
    device = context.device()
    got = torch.randn_like(torch.zeros(1000).to(device))
    claims = [claim("shape and device", [list(got.shape), got.device.type], [[1000], device.type])]
    return {"claims": claims, "statistics": [_statistic("randn_like", got.cpu(), 0.0, 1.0)]}


def rrelu(context: Context) -> Measures:
    """``rrelu`` was missing: its fixed slope in eval mode, and random slopes between 1/8 and 1/3 in training."""
    trials = Trials(context)
    numbers = normal(64, 64)
    trials.compare("eval", lambda tensor: F.rrelu(tensor, training=False), numbers)
    got = trials.attempt("train", lambda: F.rrelu(numbers.to(trials.device), training=True))
    if got is None:
        return trials.measures()
    low, high = 1 / 8, 1 / 3
    slopes = (got.cpu() / numbers)[numbers < 0]
    outside = int((~((slopes > low - 1e-5) & (slopes < high + 1e-5))).sum())
    trials.claims.append(claim("slopes outside of 1/8 to 1/3", outside, 0))
    positive = numbers.clamp(min=0)
    trials.checks += checks("train, positive", got.cpu().clamp(min=0), positive)
    spread = (high - low) / 12**0.5
    return dict(trials.measures(), statistics=[_statistic("slopes", slopes, (low + high) / 2, spread)])


def _statistic(name: str, got: torch.Tensor, mean: float, std: float) -> dict[str, Any]:
    """Return mean and spread of CPU numbers for the judge, with what they must be."""
    wide = got.double()
    return {
        "name": name,
        "dtype": named(got.dtype),
        "count": wide.numel(),
        "mean": float(wide.mean()),
        "std": float(wide.std(unbiased=False)),
        "want": {"mean": mean, "std": std},
    }
