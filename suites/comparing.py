"""Compare what the device computed with what the CPU computed: numbers in, a *check* out, never an opinion.

A check is a dict for the judge (``tracker/numbers.py`` has the limits)::

    {"name": "logits", "role": "output", "part": "layer1.0.bn1",
     "shape": [8, 1000], "dtype": "float32", "device": "privateuseone",
     "want": {"dtype": "float16"},          # what differs from the reference, and how it must be
     "count": 8000, "scale": 4.1,           # elements; largest finite |reference|
     "worst": [[0.2, 1e-4], [4.0, 2e-4]],   # |reference| and |error| where a limit is passed first; absent: exact
     "noise": 3e-7,                         # largest |CPU at this precision - float64|
     "repeat_reference": 0.0, "repeat_device": 0.0,   # largest difference of two runs
     "nan": [1, 0], "inf": [0, 2],          # elements that only the device has, that only the reference has
     "mismatched": 3,                       # integers and bools that differ
     "missing": "grad is None", "zeros": True}

What is absent is as it should be. Numbers have six digits. Shapes are lists of ints; errors are absolute, and
against float64 where that was computed, else against the CPU at the same precision.
"""

from __future__ import annotations

import copy
import math
import warnings
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch

from suites.context import Inconclusive
from suites.telling import TOLERANCES

Check = Dict[str, Any]
Named = List[Tuple[str, Any]]

_HULL = 12
"""About how many points of ``worst`` are kept."""


def brief(value: float) -> float:
    """Return the number with six significant digits; not-a-number and infinities stay."""
    return float(f"{value:.6g}") if math.isfinite(value) else value


@contextmanager
def on_cpu() -> Iterator[None]:
    """Turn whatever the CPU raises inside into ``no-reference``: it says nothing of the build."""
    try:
        yield
    except (Inconclusive, KeyboardInterrupt):
        raise
    except Exception as error:
        raise Inconclusive("no-reference", "cpu-refused", f"{type(error).__name__}: {error}") from error


def to_double(value: Any) -> Any:
    """Return a copy of tensors, modules and nests of them on the CPU, floats as float64, complex as complex128.

    Leaves that need a gradient need one again.
    """
    return nested(_double, value)


def nested(change: Callable[[Any], Any], value: Any) -> Any:
    """Return the value with every tensor and module in lists, tuples, named tuples and dicts changed."""
    if isinstance(value, (torch.Tensor, torch.nn.Module)):
        return change(value)
    if isinstance(value, dict):
        return {key: nested(change, item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(nested(change, item) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(nested(change, item) for item in value)
    return value


def _double(value: Any) -> Any:
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).cpu().double()
    if value.is_complex():
        wide = value.detach().cpu().to(torch.complex128)
    elif value.is_floating_point():
        wide = value.detach().cpu().double()
    else:
        wide = value.detach().cpu().clone()
    return wide.requires_grad_(value.requires_grad) if value.requires_grad else wide


def leaves(value: Any, name: str = "") -> Named:
    """Return the tensors and plain numbers of a result with their places, ``[("[0].values", tensor), ...]``."""
    if isinstance(value, torch.Tensor) or (isinstance(value, (bool, int, float)) and name):
        return [(name or "result", value)]
    if isinstance(value, (bool, int, float)):
        return [("result", value)]
    if isinstance(value, dict):
        parts = [(f"{name}.{key}" if name else str(key), item) for key, item in value.items()]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        parts = [(f"{name}.{key}" if name else key, getattr(value, key)) for key in value._fields]
    elif isinstance(value, (list, tuple)):
        parts = [(f"{name}[{at}]", item) for at, item in enumerate(value)]
    else:
        return []
    return [leaf for place, item in parts for leaf in leaves(item, place)]


def check(
    name: str,
    got: Any,
    want: Any,
    *,
    truth: Any = None,
    noise: float | None = None,
    again: Any = None,
    reference_again: Any = None,
    role: str = "output",
    part: str = "",
    device: str = "",
) -> Check:
    """Return the check of one tensor.

    ``got``: the device's tensor, or None where it has none. ``want``: the CPU's at the same precision: shape,
    dtype, NaN and infinities must be like its. ``truth``: the CPU's at float64. ``noise``: largest error of the CPU
    itself, taken from ``want`` and ``truth`` when not given. ``again``, ``reference_again``: the same computed a
    second time. ``device``: the device type that ``got`` must be on; empty asks nothing. All have one shape; numbers
    may stand for tensors without dimensions.
    """
    found: Check = {"name": name, "role": role}
    if part:
        found["part"] = part
    want = _tensor(want)
    if got is None:
        return dict(found, missing="no tensor", shape=list(want.shape), dtype=_dtype(want))
    got = _tensor(got)
    found.update(shape=list(got.shape), dtype=_dtype(got), device=got.device.type, count=got.numel())
    wrong = _facts_that_differ(got, want, device)
    if wrong:
        found["want"] = wrong
    if got.shape == want.shape and got.is_complex() == want.is_complex():
        home = _plain(got)
        found.update(_values(home, _plain(want), None if truth is None else _plain(_tensor(truth)), noise))
        found.update(_repeats(home, again, "repeat_device"))
        found.update(_repeats(_plain(want), reference_again, "repeat_reference"))
    return found


def checks(name: str, got: Any, want: Any, **more: Any) -> list[Check]:
    """Return the checks of a result that may be nested; keywords as in ``check``, nested like the result."""
    trees = {key: dict(leaves(more.pop(key))) for key in ("truth", "again", "reference_again") if key in more}
    have, wanted = dict(leaves(got)), leaves(want)
    found = []
    for place, reference in wanted:
        label = name if len(wanted) == 1 else f"{name}{place}"
        others = {key: tree.get(place) for key, tree in trees.items()}
        found.append(check(label, have.get(place), reference, **others, **more))
    return found


def missing(name: str, why: str, *, role: str = "gradient", part: str = "") -> Check:
    """Return the check of a tensor that the device does not have while the CPU has it."""
    found: Check = {"name": name, "role": role, "missing": why}
    return dict(found, part=part) if part else found


def _tensor(value: Any) -> torch.Tensor:
    return value.detach() if isinstance(value, torch.Tensor) else torch.tensor(value)


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).replace("torch.", "")


def _facts_that_differ(got: torch.Tensor, want: torch.Tensor, device: str) -> dict[str, Any]:
    wrong: dict[str, Any] = {}
    if got.shape != want.shape:
        wrong["shape"] = list(want.shape)
    if got.dtype != want.dtype:
        wrong["dtype"] = _dtype(want)
    if device and got.device.type != device:
        wrong["device"] = device
    return wrong


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values as a flat dense tensor on the CPU, floats as float64; complex numbers as their two parts."""
    home = tensor.cpu()
    if home.layout != torch.strided:
        home = home.to_dense()
    if getattr(home, "is_quantized", False):
        home = home.dequantize()
    if home.is_complex():
        home = torch.view_as_real(home.resolve_conj().to(torch.complex128))
    if home.is_floating_point():
        home = home.double()
    return home.reshape(-1)


def _values(got: torch.Tensor, want: torch.Tensor, truth: torch.Tensor | None, noise: float | None) -> Check:
    """Return what the values say; all flat, floats as float64."""
    if not (got.is_floating_point() or want.is_floating_point()):
        wrong = int((got != want).sum())
        return {"mismatched": wrong} if wrong else {}
    got, want = got.double(), want.double()
    found: Check = {}
    for name, test in (("nan", torch.isnan), ("inf", _signed_inf)):
        here, there = test(got), test(want)
        counts = [int(((here != 0) & (here != there)).sum()), int(((there != 0) & (here != there)).sum())]
        if any(counts):
            found[name] = counts
    finite = torch.isfinite(got) & torch.isfinite(want)
    # Where only float64 has no finite value, the CPU's own precision says what is right.
    right = want if truth is None else torch.where(torch.isfinite(truth), truth.double(), want)
    got, want, right = got[finite], want[finite], right[finite]
    if noise is None and truth is not None:
        noise = _largest((want - right).abs())
    if noise:
        found["noise"] = brief(noise)
    size = right.abs()
    found["scale"] = brief(_largest(size))
    worst = _hull(size, (got - right).abs())
    if worst:
        found["worst"] = worst
    # Where the right result is zero but for rounding, as of a gradient of softmax, zeros are right.
    if got.numel() and not got.any() and found["scale"] > 8 * (noise or 0.0):
        found["zeros"] = True
    return found


def _signed_inf(values: torch.Tensor) -> torch.Tensor:
    return torch.isposinf(values).to(torch.int8) - torch.isneginf(values).to(torch.int8)


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _hull(size: torch.Tensor, error: torch.Tensor) -> list[list[float]]:
    """Return the points that a limit ``atol + rtol * size`` passes over last, small sizes first.

    Only the upper left side of the convex hull of (size, error) can be above such a line before any other point
    is. Of a million elements the largest error per eighth of an octave of the size stands for the rest, so another
    rtol is judged to within about a tenth.
    """
    keep = error > 0
    size, error = size[keep], error[keep]
    if not size.numel():
        return []
    if size.numel() > 4096:
        size, error = _thinned(size, error)
    order = torch.argsort(size)
    hull: list[tuple[float, float]] = []
    for point in zip(size[order].tolist(), error[order].tolist()):
        while (len(hull) > 1 and _above(hull[-2], hull[-1], point)) or (hull and hull[-1] == point):
            hull.pop()
        hull.append(point)
    top = max(range(len(hull)), key=lambda at: (hull[at][1], -hull[at][0]))
    # Right of the largest error a point has a larger limit and a smaller error: it never speaks first.
    points = hull[: top + 1]
    if len(points) > _HULL:
        points = _chosen(points)
    return [[brief(here), brief(there)] for here, there in points]


def _chosen(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return some of the points, with those that the limits of today meet first, and the two ends."""
    limits = set(TOLERANCES.values())
    first = {
        max(range(len(points)), key=lambda at: points[at][1] / (a + r * points[at][0])) for r, a in limits
    }
    spread = {round(at * (len(points) - 1) / (_HULL - 1)) for at in range(_HULL)}
    return [points[at] for at in sorted(first | spread)]


def _above(first: tuple[float, float], middle: tuple[float, float], last: tuple[float, float]) -> bool:
    """Whether the middle point lies on or under the line from first to last."""
    turn = (middle[0] - first[0]) * (last[1] - first[1]) - (middle[1] - first[1]) * (last[0] - first[0])
    return turn >= 0


def _thinned(size: torch.Tensor, error: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return one point with the largest error of each eighth of an octave of the size."""
    bins = (torch.log2(size.clamp_min(1e-300)) * 8).floor().long()
    bins -= bins.min()
    largest = torch.zeros(int(bins.max()) + 1, dtype=error.dtype)
    first = torch.full_like(largest, len(bins), dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch 1.13 calls it a beta
        largest.scatter_reduce_(0, bins, error, "amax")
        # Of equal errors, as a constant offset gives, the first place stands for the bin.
        at = (error == largest[bins]).nonzero().reshape(-1)
        first.scatter_reduce_(0, bins[at], at, "amin")
    chosen = first[first < len(bins)]
    return size[chosen], error[chosen]


def _repeats(first: torch.Tensor, again: Any, name: str) -> Check:
    if again is None:
        return {}
    second = _plain(_tensor(again))
    if second.shape != first.shape:
        return {name: math.inf}
    if not first.is_floating_point():
        return {name: float((first != second).sum())} if bool((first != second).any()) else {}
    same = (first == second) | (torch.isnan(first) & torch.isnan(second))
    gap = (first - second.double()).abs()[~same]
    if not gap.numel():
        return {}
    finite = gap[torch.isfinite(gap)]
    return {name: brief(_largest(finite)) if finite.numel() == gap.numel() else math.inf}
