"""Random results: mean and spread of many calls on the device, beside those of more calls on the CPU."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any, Callable

import torch

from suites import comparing

ROUNDS = 16
"""Calls on the device with other seeds, whose results are put together."""
REFERENCE_ROUNDS = 8 * ROUNDS
"""Likewise on the CPU: so many that its own chance hardly counts."""
_HEAVY = 8.0
"""Values further than so many standard deviations from the mean tell of a distribution without moments."""


def compared(
    name: str, device_run: Callable[[int], Any], cpu_run: Callable[[int], Any], seed: int
) -> list[dict[str, Any]]:
    """Return per output ``{"name", "dtype", "count", "mean", "std", "want": {"mean", "std"}, ...}``.

    ``count`` is how many independent elements the device's results are worth: where whole channels are dropped
    together, the means of the CPU's rounds vary more than single elements would make them. ``of`` is "atan"
    where that of the values was taken, because the values themselves have no moments. ``distinct`` is how many
    of the results differ from the first, on either side: a generator that stands still gives 0. ``alike`` is the
    chance that as many results of the CPU as the device gave are all the same.
    """
    here = _collected(device_run, range(seed + 1000, seed + 1000 + ROUNDS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        there = _collected(cpu_run, range(seed + 2000, seed + 2000 + REFERENCE_ROUNDS))
    found = []
    for place, results in here.items():
        if there.get(place):
            label = name if place == "result" else f"{name}.{place}"
            dtype = str(results[0].dtype)[6:]
            said = one(
                [result.double().reshape(-1) for result in results],
                [result.double().reshape(-1) for result in there[place]],
            )
            if said:
                found.append({"name": label, "dtype": dtype, **said})
    return found


def _collected(run: Callable[[int], Any], seeds: Any) -> dict[str, list[torch.Tensor]]:
    found: dict[str, list[torch.Tensor]] = {}
    for seed in seeds:
        for place, leaf in comparing.leaves(run(seed)):
            if isinstance(leaf, torch.Tensor) and not leaf.is_complex():
                found.setdefault(place, []).append(leaf.detach().cpu())
    return found


def one(here: list[torch.Tensor], there: list[torch.Tensor]) -> dict[str, Any]:
    """Return the statistic of one output; empty where it has no finite element. All are flat and float64."""
    distinct, must_differ, alike = _distinct(here), _distinct(there), _alike(there, len(here))
    reference = torch.cat(there)
    if not reference.numel() or not torch.cat(here).numel():
        return {}
    heavy = bool((reference - reference.mean()).abs().max() > _HEAVY * reference.std(unbiased=False))
    if heavy or not bool(torch.isfinite(reference).all()):
        here, there = [torch.atan(item) for item in here], [torch.atan(item) for item in there]
    values, reference = torch.cat(here), torch.cat(there)
    want = {"mean": float(reference.mean()), "std": float(reference.std(unbiased=False))}
    want.update(distinct=must_differ, alike=alike)
    found: dict[str, Any] = {
        "count": _worth(values.numel(), want["std"], there),
        "mean": comparing.brief(float(values.mean())),
        "std": comparing.brief(float(values.std(unbiased=False))),
        "want": {key: comparing.brief(value) for key, value in want.items()},
        "distinct": distinct,
    }
    return dict(found, of="atan") if heavy else found


def _distinct(results: list[torch.Tensor]) -> int:
    """Return how many of the results differ from the first."""
    return sum(not torch.equal(results[0], other) for other in results[1:])


def _alike(results: list[torch.Tensor], draws: int) -> float:
    """Return the chance that so many draws from the results all give the same one."""
    counts = Counter(result.numpy().tobytes() for result in results)
    return float(sum((count / len(results)) ** draws for count in counts.values()))


def _worth(count: int, std: float, there: list[torch.Tensor]) -> int:
    """Return how many independent elements have the mean's scatter that rounds on the CPU show."""
    means = torch.stack([result.mean() for result in there])
    scatter = float(means.var(unbiased=True)) / ROUNDS
    return count if scatter * count <= std**2 else max(1, int(std**2 / scatter))
