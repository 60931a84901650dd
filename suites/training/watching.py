"""One step of training watched closely, and compared with the same step on the CPU.

The CPU starts from what the *device* had learned by then, so nothing here is chaotic, at whichever step. The
optimizer is compared apart from the rest: the CPU's is given the device's own gradients.

Gradients are uncertain by more than rounding: a ReLU or a pooling layer that is a rounding error away from a kink
decides otherwise, and all gradients before it move. Hence the noise of a gradient is the most that the CPU moves
when its weights are shaken by a few rounding errors, and it is shared by the gradients of one step in proportion
to their size. On the CPU alone one such decision has been seen to move a gradient of ResNet-18 by a tenth.
"""

from __future__ import annotations

import math
from typing import Any, Dict, NamedTuple

import torch

from suites.comparing import Check, brief, check, missing, on_cpu
from suites.training.learning import Batch, Learner, State
from suites.training.recipes import Recipe

Tensors = Dict[str, Any]

_JITTERS = (1e-7, 1e-6, 1e-6, 3e-6)
_KINK = 1e-4
"""Share of a gradient's size that no rounding moves it by: a kink does."""
_KINKS = 0.25
"""What counts of that as noise: a kink's effect is as large as it is, and eight times it would let anything pass."""
_AWAY, _PLACES = 1e-4, 4
"""How far the weights are shaken to compare gradients at another place, and how many such places are tried."""
_SENT = 2
"""Checks sent per role and step, the worst first; those that lack something come on top."""
_NAMES = 5
_NOTHING = 1e-5
"""Share of the largest gradient under which one is nothing but rounding, as of what a normalisation takes away."""
_ODD = ("missing", "zeros", "nan", "inf", "want", "mismatched")


class Seen(NamedTuple):
    """What one step left behind, all on the CPU.

    ``gradients`` has None where there is none; ``graph`` says of each module's result whether it can be
    differentiated, in the order of computing; ``devices`` are those of the gradients.
    """

    loss: float
    gradients: Tensors
    weights: Tensors
    buffers: Tensors
    optimizer: Tensors
    graph: dict[str, bool]
    devices: dict[str, str]


def watch(learner: Learner, batch: Batch) -> tuple[tuple[float, int], Seen]:
    """Do one step; return what ``Learner.step`` returns and what was seen."""
    graph: dict[str, bool] = {}
    hooks = [
        module.register_forward_hook(_note(graph, name)) for name, module in learner.model.named_modules()
    ]
    try:
        result = learner.step(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return result, _seen(learner, result[0], graph)


def _note(graph: dict[str, bool], name: str) -> Any:
    def hook(module: Any, given: Any, result: Any) -> None:
        if isinstance(result, torch.Tensor):
            graph[name or "the model"] = bool(result.requires_grad)

    return hook


def _seen(learner: Learner, loss: float, graph: dict[str, bool]) -> Seen:
    parameters = dict(learner.model.named_parameters())
    return Seen(
        loss,
        {name: None if item.grad is None else _host(item.grad) for name, item in parameters.items()},
        {name: _host(item) for name, item in parameters.items()},
        {name: _host(item) for name, item in learner.model.named_buffers()},
        _optimizer_state(learner),
        graph,
        {name: item.grad.device.type for name, item in parameters.items() if item.grad is not None},
    )


def _host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().clone()


def _optimizer_state(learner: Learner) -> Tensors:
    return {
        f"{name}.{key}": _host(value) if isinstance(value, torch.Tensor) else value
        for name, item in learner.model.named_parameters()
        for key, value in learner.optimizer.state.get(item, {}).items()
        if isinstance(value, (torch.Tensor, int, float))
    }


class Comparison(NamedTuple):
    """Checks for the judge, and what the diagnosis of a training needs to know of the step."""

    checks: list[Check]
    summary: dict[str, Any]


class Cpu(NamedTuple):
    """The CPU's runs of one step: at this precision, the same again, in float64, and all to take noise from."""

    reference: Seen
    again: Seen
    truth: Seen
    runs: list[Seen]


def _on_cpu(recipe: Recipe, before: State, batch: Batch) -> Cpu:
    def seen(**how: Any) -> Seen:
        return watch(Learner(recipe, state=before, **how), batch)[1]

    with on_cpu():
        truth = seen(double=True)
        shaken = [seen(jitter=jitter, jitter_seed=seed) for seed, jitter in enumerate(_JITTERS)]
        return Cpu(seen(), seen(), truth, [truth, *shaken])


def compare(recipe: Recipe, number: int, before: State, batch: Batch, seen: Seen, device: Any) -> Comparison:
    """Return how the device's step ``number`` (from 1) went beside the CPU's, both from ``before``."""
    cpu = _on_cpu(recipe, before, batch)
    gradients, elsewhere = _without_kinks(recipe, before, batch, device, _gradients(seen, cpu, device))
    with on_cpu():
        found = {
            "loss": [_loss(seen, cpu)],
            "gradient": gradients,
            "buffer": _each(
                "buffer", seen.buffers, cpu.reference.buffers, cpu.truth.buffers, _runs(cpu, "buffers"), 1e-3
            ),
            "optimizer": _optimizer(recipe, before, seen),
        }
        followed = _followed(recipe, before, seen, False).weights
    for checks in found.values():
        for item in checks:
            item["name"] = f"step {number}: {item['name']}"
    summary = {
        "step": number,
        "worst": {role: in_short(max(checks, key=_excess)) for role, checks in found.items() if checks},
        "tensors": {role: len(checks) for role, checks in found.items()},
        "frozen_buffers": _frozen(before.model, seen.buffers, cpu.reference.buffers),
        "frozen_weights": _frozen(before.model, seen.weights, followed),
        "gradient_places": 1 + elsewhere,
        **_silent(seen, cpu.reference),
    }
    return Comparison([item for checks in found.values() for item in _sent(checks)], summary)


def _without_kinks(
    recipe: Recipe, before: State, batch: Batch, device: Any, found: list[Check]
) -> tuple[list[Check], int]:
    """Return the checks of the gradients where they agree best, and how many other places were tried.

    A kink that the device alone falls to the other side of is not met again by both when their weights are shaken
    alike; a gradient that is wrong is wrong there too. Every place is held to the noise of the quietest, lest a
    kink that the CPU meets there hides what is wrong.
    """
    best, tried = found, 0
    quiet = {item["part"]: item.get("noise", 0.0) for item in found}
    while 1 < _worst(best) < math.inf and tried < _PLACES:
        tried += 1
        with on_cpu():
            other = Learner(recipe, state=before, jitter=_AWAY, jitter_seed=100 + tried).snapshot()
            cpu = _on_cpu(recipe, other, batch)
        there = _gradients(watch(Learner(recipe, device, state=other), batch)[1], cpu, device)
        for item in there:
            quiet[item["part"]] = min(quiet.get(item["part"], math.inf), item.get("noise", 0.0))
        places = [[dict(item, noise=quiet[item["part"]]) for item in place] for place in (best, there)]
        best = min(places, key=_worst)
    return best, tried


def _worst(checks: list[Check]) -> float:
    return max(map(_excess, checks), default=0.0)


def _runs(cpu: Cpu, field: str) -> list[Tensors]:
    return [getattr(run, field) for run in cpu.runs]


def _loss(seen: Seen, cpu: Cpu) -> Check:
    noise = max(_apart(run.loss, cpu.reference.loss) for run in cpu.runs)
    return check("loss", seen.loss, cpu.reference.loss, truth=cpu.truth.loss, noise=noise, role="loss")


def _apart(one: float, other: float) -> float:
    gap = abs(one - other)
    return gap if math.isfinite(gap) else 0.0


def _gradients(seen: Seen, cpu: Cpu, device: Any) -> list[Check]:
    want = {name: item for name, item in cpu.reference.gradients.items() if item is not None}
    got = {name: seen.gradients.get(name) for name in want}
    largest = max((_size(item) for item in want.values()), default=0.0)
    noise = _noise(want, _runs(cpu, "gradients"))
    shared = max(
        (noise[name] / _size(item) for name, item in want.items() if _size(item) > largest * 1e-3),
        default=0.0,
    )
    noise = {
        name: _tempered(max(noise[name], shared * _size(item)), _size(item)) for name, item in want.items()
    }
    why = dict.fromkeys(want, "grad is None")
    found = _each("gradient", got, want, cpu.truth.gradients, noise, largest * 1e-4, cpu.again.gradients, why)
    right = torch.device(device).type
    for item in found:
        here = seen.devices.get(item["part"], right)
        if here != right:
            item.update(device=here, want=dict(item.get("want", {}), device=right))
        elif "device" in item:
            item["device"] = here
        if item.get("zeros") and _size(want[item["part"]]) <= largest * _NOTHING:
            del item["zeros"]
    return found


def _tempered(noise: float, size: float) -> float:
    return max(noise * _KINKS, _KINK * size) if noise > _KINK * size else noise


def _noise(want: Tensors, runs: list[Tensors]) -> dict[str, float]:
    """Return, per tensor, the most that any run of the CPU is away from the reference."""
    return {
        name: max((_gap(run.get(name), item) for run in runs), default=0.0) for name, item in want.items()
    }


def _gap(one: Any, other: Any) -> float:
    if one is None or not _is_float(other) or not other.numel():
        return 0.0
    gap = (one.double() - other.double()).abs()
    gap = gap[torch.isfinite(gap)]
    return float(gap.max()) if gap.numel() else 0.0


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _size(tensor: torch.Tensor) -> float:
    finite = tensor[torch.isfinite(tensor)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _each(
    role: str,
    got: Tensors,
    want: Tensors,
    truth: Tensors,
    noise: Any,
    floor: float,
    again: Tensors | None = None,
    why: dict[str, str] | None = None,
) -> list[Check]:
    """Return a check per tensor of ``want``. ``noise``: by name, or runs of the CPU to take it from.

    Floats are compared in a unit of their own, the power of two under their largest value (at least ``floor``),
    which changes no digit: a limit meant for values about 1 would let any error of a gradient of 1e-6 pass.
    """
    noise = noise if isinstance(noise, dict) else _noise(want, noise)
    found = []
    for name, item in want.items():
        if got.get(name) is None:
            found.append(missing(role, (why or {}).get(name, "not there"), role=role, part=name))
            continue
        power = _power(item, floor)
        others = {} if again is None else {"reference_again": _scaled(again[name], power)}
        found.append(
            check(
                role,
                _scaled(got[name], power),
                _scaled(item, power),
                truth=_scaled(truth.get(name), power),
                noise=noise[name] * 2.0**power,
                role=role,
                part=name,
                **others,
            )
        )
    return found


def _power(tensor: Any, floor: float) -> int:
    if not _is_float(tensor):
        return 0
    size = max(_size(tensor), floor)
    return max(-100, min(100, -math.floor(math.log2(size)))) if size > 0 else 0


def _scaled(value: Any, power: int) -> Any:
    return value * 2.0**power if power and _is_float(value) else value


def _optimizer(recipe: Recipe, before: State, seen: Seen) -> list[Check]:
    """Compare the optimizer's state and the updates of the weights with the CPU's for the same gradients."""
    reference, truth = _followed(recipe, before, seen, False), _followed(recipe, before, seen, True)
    found = _each("optimizer", seen.optimizer, reference.optimizer, truth.optimizer, [truth.optimizer], 1e-30)
    updates = [_updates(before, weights) for weights in (seen.weights, reference.weights, truth.weights)]
    moved = _each("optimizer", *updates, [updates[2]], recipe.rate() * 1e-3)
    for item in moved:
        item["name"] = "update"
    return found + moved


def _updates(before: State, weights: Tensors) -> Tensors:
    """Return how far each weight was moved, at the precision of the weights."""
    return {name: item - before.model[name].to(item.dtype) for name, item in weights.items()}


def _followed(recipe: Recipe, before: State, seen: Seen, double: bool) -> Seen:
    """Return what the CPU's optimizer makes of the device's gradients."""
    learner = Learner(recipe, state=before, double=double)
    for name, item in learner.model.named_parameters():
        gradient = seen.gradients.get(name)
        if gradient is not None and gradient.shape == item.shape:
            item.grad = gradient.to(item.dtype)
    learner.optimizer.step()
    return _seen(learner, 0.0, {})


def _frozen(before: Tensors, got: Tensors, want: Tensors) -> dict[str, Any]:
    """Say how many tensors stayed as they were where the CPU's moved, of how many that moved."""
    moved = [name for name, item in want.items() if not torch.equal(item, before[name])]
    stayed = [name for name in moved if name in got and torch.equal(got[name], before[name])]
    return {"count": len(stayed), "of": len(moved), "names": stayed[:_NAMES]}


def _silent(seen: Seen, reference: Seen) -> dict[str, Any]:
    """Say which gradients are absent or all zero where the CPU's are not, and whose result lost its graph."""
    there = {name: item for name, item in reference.gradients.items() if item is not None}
    absent = [name for name in there if seen.gradients.get(name) is None]
    largest = max((_size(item) for item in there.values()), default=0.0)
    zero = [
        name
        for name, item in there.items()
        if name not in absent and not seen.gradients[name].any() and _size(item) > largest * _NOTHING
    ]
    lost = [name for name, kept in reference.graph.items() if kept and not seen.graph.get(name, True)]
    return {
        "missing": {"count": len(absent), "of": len(there), "names": absent[:_NAMES]},
        "zero": {"count": len(zero), "of": len(there), "names": zero[:_NAMES]},
        "lost_graph": lost[:_NAMES],
    }


# --- what is sent ----------------------------------------------------------------------------------------


def _excess(item: Check) -> float:
    """Return how far a check is from agreement, to choose the worst by; what is wrong is not decided here."""
    if any(key in item for key in _ODD):
        return math.inf
    noise = item.get("noise", 0.0)
    return max(
        (error / (1e-5 + 1.3e-6 * size + 8 * noise) for size, error in item.get("worst", [])), default=0.0
    )


def _sent(checks: list[Check]) -> list[Check]:
    ranked = sorted(checks, key=_excess, reverse=True)
    odd = [item for item in ranked if _excess(item) == math.inf]
    return ranked[: max(_SENT, min(len(odd), _NAMES))]


def in_short(item: Check) -> dict[str, Any]:
    """Return whose check it is, and that point of it that is furthest away."""
    noise = item.get("noise", 0.0)
    size, error = max(
        item.get("worst") or [[0.0, 0.0]], key=lambda at: at[1] / (1e-5 + 1.3e-6 * at[0] + 8 * noise)
    )
    found = {"name": item["name"], "part": item.get("part", ""), "size": size, "error": error}
    return dict(found, noise=brief(noise), odd=[key for key in _ODD if key in item])
