"""The pieces of a vision transformer, each alone: forward, and backward for several upstream gradients."""

from __future__ import annotations

from typing import Any, Dict

import torch

from suites import comparing, models
from suites.context import Context, Inconclusive
from suites.telling import telling
from suites.vit import gradients, parts
from suites.vit.gradients import Subject

Measures = Dict[str, Any]


def measure(context: Context, piece: str, seed: int = 0) -> Measures:
    """Compare the result of a piece and the gradients of its parameters and inputs, per upstream gradient."""
    return _measured(context, _maker(piece), seed)


def embed_patches(context: Context, patch: int, seed: int = 0) -> Measures:
    """Compare the patch embedding likewise; ``patch`` is the patch's height and width in pixels."""
    return _measured(context, lambda: parts.embedded(patch), seed)


def _measured(context: Context, maker: parts.Maker, seed: int) -> Measures:
    device = context.device()
    cpu, truth, moved = _sides(maker, device, seed)
    cpu.module.train()
    truth.module.train()
    with comparing.on_cpu():
        wanted = {kind: gradients.gradients(cpu, kind) for kind in gradients.UPSTREAM}
        exact = {kind: gradients.gradients(truth, kind) for kind in gradients.UPSTREAM}
    subject = moved()
    found: list[comparing.Check] = []
    results = []
    for kind in gradients.UPSTREAM:
        result, got = gradients.gradients(subject, kind)
        results.append(result)
        found += gradients.compared(got, wanted[kind][1], exact[kind][1], kind, device)
    kept, left_out = telling(found)
    output = comparing.check(
        "result",
        results[0],
        wanted["sum"][0],
        truth=exact["sum"][0],
        again=results[1],
        reference_again=wanted["dense"][0],
        device=device.type,
    )
    return {"checks": [output, *kept], "facts": {"gradients": len(found), "left_out": left_out}}


def evaluate(context: Context, piece: str, seed: int = 0) -> Measures:
    """Compare the result of a piece in eval mode without a graph, where torch takes its fused kernels."""
    device = context.device()
    cpu, truth, moved = _sides(_maker(piece), device, seed)
    with torch.no_grad():
        with comparing.on_cpu():
            wanted, again = (cpu.module.eval()(*cpu.inputs) for _ in range(2))
            exact = truth.module.eval()(*truth.inputs)
        subject = moved()
        got, second = (subject.module.eval()(*subject.inputs) for _ in range(2))
    checks = comparing.checks(
        "result", got, wanted, truth=exact, again=second, reference_again=again, device=device.type
    )
    return {"checks": checks, "facts": {}}


def _maker(piece: str) -> parts.Maker:
    if piece.startswith("sdpa/") and not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        raise Inconclusive("skipped", "not-in-this-torch", f"torch {torch.__version__} has no such function")
    return parts.MAKERS[piece]


def _sides(maker: parts.Maker, device: torch.device, seed: int) -> tuple[Subject, Subject, Any]:
    with comparing.on_cpu(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module, inputs = maker()
        models.enliven(module, seed)
        return gradients.sides(Subject(module, inputs), device)
