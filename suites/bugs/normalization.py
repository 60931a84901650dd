"""Reports about normalization layers: frozen statistics, training that goes astray with them, refusals."""

from __future__ import annotations

import copy
import math
from typing import Any, Callable, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from suites.bugs.common import (
    Claim,
    Measures,
    claim,
    compared,
    drawn,
    each,
    relative,
    seeded,
    whole,
    within,
)
from suites.comparing import Check, brief, on_cpu, to_double
from suites.context import Context, Inconclusive


def batch_norm_buffers(context: Context) -> Measures:
    """The running mean and variance stayed 0 and 1 in training: compare them after each of two passes.

    Then the output in evaluation mode, which is what they are for. The report's limit is 1e-4.
    """
    device = context.device()
    batches = [2 * drawn(8, 4, 16, 16, seed=seed) + 3 for seed in range(3)]
    with on_cpu():
        want = _passes(nn.BatchNorm2d(4), batches)
    got = _passes(nn.BatchNorm2d(4).to(device), [batch.to(device) for batch in batches])
    claims = []
    for number in range(2):
        for name in ("running_mean", "running_var"):
            here, there = got[number][name], want[number][name]
            label = f"{name} after pass {number + 1}"
            claims.append(within(label, here, there, 1e-4, role="buffer"))
            fresh = float(name == "running_var")  # what a new layer has
            stuck = [bool((item.cpu() == fresh).all()) for item in (here, there)]
            claims.append(claim(f"{label} is still {fresh:g}", *stuck, role="buffer"))
        counts = [int(side[number]["num_batches_tracked"]) for side in (got, want)]
        claims.append(claim(f"num_batches_tracked after pass {number + 1}", *counts, role="buffer"))
    claims.append(within("eval output", got[2]["output"], want[2]["output"], 1e-4))
    return {"claims": claims, "facts": {}}


def _passes(layer: nn.BatchNorm2d, batches: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """Return the buffers after a pass of each batch but the last, then the output for that in evaluation."""
    found = []
    for batch in batches[:-1]:
        layer(batch)
        found.append({name: item.detach().clone() for name, item in layer.named_buffers()})
    return [*found, {"output": layer.eval()(batches[-1]).detach()}]


# --- trainings -------------------------------------------------------------------------------------------


class _Trained(NamedTuple):
    losses: list[float]
    output: torch.Tensor  # of the trained model in evaluation mode, on the CPU


_STEPS = 100


def cnn_accuracy(context: Context) -> Measures:
    """Training looked fine and evaluation was near chance: train a CNN 100 steps, and evaluate on the same batch.

    Three layers of convolution, BatchNorm and ReLU, 8 channels wide, learn 40 fixed pictures of 10 classes by heart.
    The report has 300 steps, which take a software adapter a minute; the statistics have settled after 50.
    """
    device = context.device()
    images, labels = drawn(40, 3, 32, 32), torch.arange(40) % 10
    model = seeded(_cnn)
    with on_cpu():
        want = _train(copy.deepcopy(model), images, labels, functional.cross_entropy, _STEPS)
        right = _accuracy(want.output, labels)
        if right < 0.9 or want.losses[-1] > want.losses[0] / 2:
            raise Inconclusive("no-reference", "cpu-does-not-learn", f"the CPU's accuracy is {right}")
    got = _train(model.to(device), images.to(device), labels.to(device), functional.cross_entropy, _STEPS)
    accuracy = _accuracy(got.output, labels)
    claims = [
        claim("training loss halves", got.losses[-1] <= got.losses[0] / 2, True, role="loss"),
        claim("eval accuracy within 2 points of the CPU's", abs(accuracy - right) <= 0.02, True),
    ]
    facts = {
        "accuracy": {"device": accuracy, "cpu": right},
        "losses": {"device": got.losses[::10], "cpu": want.losses[::10]},
    }
    return {"claims": claims, "facts": facts}


def _cnn() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs in (3, 8, 8):
        layers += [nn.Conv2d(inputs, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*layers, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32, 10))


def _accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    return brief(float((logits.argmax(1) == labels).double().mean()))


def _train(
    model: nn.Module, given: torch.Tensor, target: torch.Tensor, loss_of: Callable[..., Any], steps: int
) -> _Trained:
    """Train with SGD on one batch; return the loss of each step and what it gives in evaluation mode."""
    return _learn(model, given, target, loss_of, steps, torch.optim.SGD(model.parameters(), lr=0.1))


def _learn(
    model: nn.Module,
    given: torch.Tensor,
    target: torch.Tensor,
    loss_of: Callable[..., Any],
    steps: int,
    optimizer: torch.optim.Optimizer,
) -> _Trained:
    losses = []
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model(given), target)
        loss.backward()
        optimizer.step()
        losses.append(brief(loss.item()))
    with torch.no_grad():
        output = model.eval()(given).cpu()
    return _Trained(losses, output)


NORMS: dict[str, Callable[[], nn.Module]] = {
    "InstanceNorm2d": lambda: nn.InstanceNorm2d(64),
    "GroupNorm": lambda: nn.GroupNorm(4, 64),
    "LayerNorm": lambda: nn.LayerNorm([64, 16, 16]),
    "BatchNorm2d": lambda: nn.BatchNorm2d(64),
}


def norm_layers(context: Context) -> Measures:
    """Networks with a norm layer were wrong after training: 50 steps of Adam per kind of norm, then evaluation.

    Final loss and output within 1e-2, relative. The picture is 32 x 32 where the report has 128 x 128, which takes
    too long on a software adapter; a norm of which the CPU's own float64 says something else is no reference.
    """
    device = context.device()
    given, target = drawn(1, 3, 32, 32, seed=1), 3 * drawn(1, 10, seed=2)
    gaps: dict[str, Any] = {}

    def part(name: str) -> list[Claim]:
        model = seeded(lambda: _after_norm(NORMS[name]()))
        with on_cpu():
            want = _adam(copy.deepcopy(model), given, target)
            exact = _adam(to_double(model), given.double(), target.double())
        noise = _apart(want, exact)
        if max(noise.values()) > 2e-3:
            raise Inconclusive("no-reference", "training-is-chaotic", f"{name}: float64 differs by {noise}")
        got = _adam(model.to(device), given.to(device), target.to(device))
        gaps[name] = {"device": _apart(got, want), "cpu": noise}
        return [
            claim(f"{name}: {what} within 1e-2 of the CPU's", gap <= 1e-2, True)
            for what, gap in gaps[name]["device"].items()
        ]

    measures = each({name: lambda name=name: part(name) for name in NORMS}, "claims")  # type: ignore[misc]
    measures["facts"]["gaps"] = gaps
    return measures


def _after_norm(norm: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),  # under a norm its gradient is noise
        norm,
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
        nn.AvgPool2d(8),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def _adam(model: nn.Module, given: torch.Tensor, target: torch.Tensor) -> _Trained:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return _learn(model, given, target, functional.l1_loss, 50, optimizer)


def _apart(one: _Trained, other: _Trained) -> dict[str, float]:
    last, right = one.losses[-1], other.losses[-1]
    gap = abs(last - right) / abs(right) if math.isfinite(last) else math.inf
    return {"final loss": brief(gap), "eval output": relative(one.output, other.output)}


def resnet_gradients(context: Context) -> Measures:
    """A ResNet did not converge and gradients were None: compare those of resnet18, then train it.

    Each parameter's gradient within 1e-2, relative, and the loss lower after 5 steps of SGD. Four pictures of 48 x 48
    where the report has 16 of 64 x 64, and 5 steps where it has 100: more takes too long on a software adapter.
    """
    import torchvision

    device = context.device()
    images, labels = drawn(4, 3, 48, 48), torch.arange(4)
    model = seeded(lambda: torchvision.models.resnet18(num_classes=10))
    with on_cpu():
        want = _gradients(copy.deepcopy(model), images, labels)
    model = model.to(device)
    images, labels = images.to(device), labels.to(device)
    got = _gradients(copy.deepcopy(model), images, labels)
    none = [name for name in want if got[name] is None]
    zero = [name for name in want if name not in none and not got[name].any() and want[name].any()]
    gaps = {name: relative(got[name], want[name]) for name in want if name not in none}
    off = [name for name, gap in gaps.items() if not gap <= 1e-2 and name not in zero]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = _learn(model, images, labels, functional.cross_entropy, 5, optimizer).losses
    claims = [
        claim("parameters without a gradient", none, [], role="gradient"),
        claim("parameters with a gradient of zeros", zero, [], role="gradient"),
        claim("parameters with a gradient off by more than 1e-2", off, [], role="gradient"),
        claim("loss decreases", losses[-1] < losses[0], True, role="loss"),
    ]
    worst = max(gaps, key=lambda name: gaps[name], default="")
    return {"claims": claims, "facts": {"losses": losses, "worst": worst, "gap": gaps.get(worst)}}


def _gradients(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
    functional.cross_entropy(model.train()(images), labels).backward()
    return {
        name: None if item.grad is None else item.grad.detach().cpu()
        for name, item in model.named_parameters()
    }


# --- refusals and fallbacks ------------------------------------------------------------------------------


def batch_norm_1d(context: Context) -> Measures:
    """BatchNorm1d raised: forward, backward, buffers and evaluation of Linear, BatchNorm1d and ReLU."""
    device = context.device()
    model = seeded(lambda: nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU()))
    given = drawn(32, 8)
    checks = compared("training", model, [given], device)
    with on_cpu():
        model(given)  # so that the statistics are not those of a new layer
    return {"checks": checks + compared("evaluation", model.eval(), [given], device), "facts": {}}


def printed_output(context: Context) -> Measures:
    """Printing what Linear and BatchNorm1d give raised: compare the printed text and the values.

    The numbers of Linear are eighths, so that every device has them exactly and prints the same digits.
    """
    device = context.device()
    linear = nn.Linear(8, 1)
    with torch.no_grad():
        linear.weight.copy_(whole(-8, 9, 1, 8, seed=1) / 8)
        linear.bias.copy_(torch.tensor([0.5]))
    given, pairs = whole(-8, 9, 3, 8, seed=2) / 8, drawn(2, 2)
    with on_cpu():
        want = _numbers(repr(linear(given).detach()))
        repr(nn.BatchNorm1d(2)(pairs))
    moved = copy.deepcopy(linear).to(device)(given.to(device))
    text = _numbers(repr(moved.detach()).replace(f", device='{moved.device}'", ""))
    repr(nn.BatchNorm1d(2).to(device)(pairs.to(device)))  # it is enough that it can be printed
    checks = compared("Linear", linear, [given], device, backward=False)
    checks += compared("BatchNorm1d", nn.BatchNorm1d(2), [pairs], device, backward=False)
    return {"checks": checks, "claims": [claim("printed", text, want)], "facts": {}}


def _numbers(text: str) -> str:
    """Return what is printed in the brackets: the name of the type before them decides how lines are indented."""
    return " ".join(text[text.index("(") :].split())


def batch_norm_shapes(context: Context) -> Measures:
    """A graph network with BatchNorm aborted: BatchNorm1d of pairs (N, C) and of sequences (N, C, L)."""
    device = context.device()
    checks: list[Check] = []
    for shape in ((12, 6), (4, 6, 10)):
        norm = nn.BatchNorm1d(6)
        checks += compared(f"BatchNorm1d of {list(shape)}", norm, [drawn(*shape)], device)
    return {"checks": checks, "facts": {}}


def embedding_layer_norm(context: Context) -> Measures:
    """Embedding and LayerNorm were missing: forward and backward of Embedding(50, 16) and LayerNorm(16)."""
    device = context.device()
    model = seeded(lambda: nn.Sequential(nn.Embedding(50, 16), nn.LayerNorm(16)))
    checks = compared("Embedding and LayerNorm", model, [whole(0, 50, 4, 7)], device)
    return {"checks": checks, "facts": {}}


def group_norm_backward(context: Context) -> Measures:
    """The backward pass of GroupNorm fell back to the CPU: gradients of input, weight and bias."""
    device = context.device()
    norm = nn.GroupNorm(4, 16)
    with torch.no_grad():  # else neither weight nor bias would show in what is passed on
        norm.weight.copy_(drawn(16, seed=1))
        norm.bias.copy_(drawn(16, seed=2))
    return {"checks": compared("GroupNorm", norm, [drawn(2, 16, 8, 8)], device), "facts": {}}
