"""Whole vision transformers: logits, and the gradient of every parameter and of the images."""

from __future__ import annotations

from typing import Any, Dict

import torch

from suites import comparing, models, timing
from suites.context import Context
from suites.telling import telling
from suites.vit import gradients
from suites.vit.gradients import Subject

Measures = Dict[str, Any]


def whole(
    context: Context,
    model: str,
    direction: str,
    batch: int,
    image: int,
    repeats: int,
    seconds: float,
    seed: int = 0,
    patch: int = 0,
) -> Measures:
    """Compare a net of timm on seeded images; ``seconds`` bounds the repeats. ``direction``: forward, backward."""
    device = context.device()
    with comparing.on_cpu():
        net, facts = models.build(model, image, seed, context.options.get("weights", ""), patch)
        given = models.images(batch, image, seed).requires_grad_(direction == "backward")
        cpu, truth, moved = gradients.sides(Subject(net, (given,)), device)
    measured = _backward if direction == "backward" else _forward
    measures = measured(cpu, truth, moved, device, repeats, seconds)
    measures["timing"]["items"] = batch
    measures["facts"].update(facts)
    return measures


def _forward(
    cpu: Subject, truth: Subject, moved: Any, device: torch.device, repeats: int, seconds: float
) -> Measures:
    with torch.no_grad():
        with comparing.on_cpu():
            _, wanted = timing.timed(lambda: _result(cpu))
            took, again = timing.timed(lambda: _result(cpu))
            exact = _result(truth)
        subject = moved()
        first, got = timing.timed(lambda: _result(subject))
        second, got_again = timing.timed(lambda: _result(subject))
        each = timing.repeats(lambda: _result(subject), repeats, max(0.0, seconds - second))
    logits = comparing.check(
        "logits",
        got,
        wanted,
        truth=exact,
        again=got_again,
        reference_again=again,
        device=device.type,
    )
    return {"checks": [logits], "timing": {"first": first, "each": each, "cpu_each": [took]}, "facts": {}}


def _backward(
    cpu: Subject, truth: Subject, moved: Any, device: torch.device, repeats: int, seconds: float
) -> Measures:
    """Compare the gradients for a dense and for an expanded upstream gradient; a repeat is forward and backward."""
    kinds = ("dense", "sum")
    with comparing.on_cpu():
        wanted = {kind: gradients.held(cpu, kind) for kind in kinds}
        exact = {kind: gradients.held(truth, kind) for kind in kinds}
        took, _ = timing.timed(lambda: _step(cpu))
    subject = moved()
    found: list[comparing.Check] = []
    times = []
    for kind in kinds:
        took_device, got = timing.timed(lambda kind=kind: gradients.held(subject, kind))
        times.append(took_device)
        found += gradients.compared(got, wanted[kind], exact[kind], kind, device)
    each = timing.repeats(lambda: _step(subject), repeats, seconds)
    kept, left_out = telling(found, 12)
    return {
        "checks": kept,
        "timing": {"first": times[0], "each": each, "cpu_each": [took]},
        "facts": {"gradients": len(found), "left_out": left_out},
    }


def _result(subject: Subject) -> torch.Tensor:
    result: torch.Tensor = subject.module(*subject.inputs)
    return result


def _step(subject: Subject) -> list[Any]:
    """Return every gradient of one forward and backward pass, so that reading them back is in its time."""
    return [gradient for _, gradient, _ in gradients.held(subject, "dense") if gradient is not None]
