"""Reports about training: gradients of zeros, backward passes that raise, losses and optimizers that fall back."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional

from suites.bugs.common import Claim, Measures, claim, compared, drawn, relative, seeded, whole, within
from suites.comparing import Check, check, on_cpu, to_double
from suites.context import Context

Loss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def _unreduced(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (functional.cross_entropy(logits, target, reduction="none") * weight).sum() / weight.sum()


def _mean(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits, target, reduction="mean")


def _by_hand(logits: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    picked = torch.log_softmax(logits, 1).gather(1, target[:, None])[:, 0]
    return -(picked * weight).sum() / weight.sum()


def cross_entropy_none(context: Context) -> Measures:
    """The unreduced cross entropy had a right value and a gradient of zeros: compare it, within the report's 1e-5.

    Two controls stand in the facts: with the mean taken by the loss itself, and written by hand. Where these are
    right, it is the kernel's fault and not that of automatic differentiation.
    """
    device = context.device()
    given = (drawn(8, 32), whole(0, 32, 8, seed=1), drawn(8, seed=2).abs() + 0.5)
    losses: dict[str, Loss] = {"none": _unreduced, "mean": _mean, "by hand": _by_hand}
    with on_cpu():
        want = {name: _gradient(loss, given) for name, loss in losses.items()}
    moved = tuple(item.to(device) for item in given)
    got = _gradient(_unreduced, moved)  # type: ignore[arg-type]
    claims = [
        within("gradient", got, want["none"], 1e-5, role="gradient"),
        claim("gradient is all zero", not got.any(), not want["none"].any(), role="gradient"),
    ]
    facts: dict[str, Any] = {"off": {"none": relative(got, want["none"])}}
    for name in ("mean", "by hand"):
        try:
            control = _gradient(losses[name], moved)  # type: ignore[arg-type]
            facts["off"][name] = relative(control, want[name])
        except Exception as error:  # a control that raises is no verdict on what is asked
            facts["off"][name] = f"{type(error).__name__}: {error}"
    return {"claims": claims, "facts": facts}


def _gradient(loss: Loss, given: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> torch.Tensor:
    logits = given[0].clone().requires_grad_()
    loss(logits, *given[1:]).backward()
    return torch.zeros(0) if logits.grad is None else logits.grad.cpu()


def blur_pool(context: Context) -> Measures:
    """The backward pass of BlurPool raised: a fixed depthwise convolution of a padded picture, and a slice of it.

    Padded by zeros and by reflection, 224 x 224, and the gradient of a sum, as in the report.
    """
    device = context.device()
    kernel = torch.tensor([1.0, 2.0, 1.0])
    kernel = (kernel[:, None] * kernel / 16).expand(3, 1, 3, 3).contiguous()
    image = drawn(1, 3, 224, 224)
    checks: list[Check] = []
    for mode in ("constant", "reflect"):
        with on_cpu():
            want = _blurred(image, kernel, mode)
            truth = _blurred(image.double(), kernel.double(), mode)
        got = _blurred(image.to(device), kernel.to(device), mode)
        more: dict[str, Any] = {"truth": truth, "role": "gradient", "device": device.type}
        checks.append(check(f"gradient, padded by {mode}", got, want, **more))
    return {"checks": checks, "facts": {}}


def _blurred(image: torch.Tensor, kernel: torch.Tensor, mode: str) -> Any:
    image = image.clone().requires_grad_()
    blurred = functional.conv2d(functional.pad(image, (1, 1, 1, 1), mode=mode), kernel, stride=2, groups=3)
    blurred[:, :, 1:, :-1].sum().backward()
    return image.grad


def int32_targets(context: Context) -> Measures:
    """Cross entropy of int32 classes raised without a word: int64 must work, and int32 be refused in words.

    So does the CPU. A build that takes int32 all the same, and gives the gradient of int64, has not the report's
    fault either.
    """
    device = context.device()
    logits, target = drawn(4, 10), whole(0, 10, 4, seed=1)
    checks = compared(
        "loss", lambda given: functional.cross_entropy(given, target.to(given.device)), [logits], device
    )
    with on_cpu():
        want = _gradient(_mean, (logits, target, logits))
        clear = _refusal(logits, target.int())
    try:
        taken = _gradient(_mean, (logits.to(device), target.int().to(device), logits))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        said = str(error).strip()
        return {
            "checks": checks,
            "claims": [claim("the refusal of int32 has a text", said != "", clear != "")],
            "facts": {"device": f"{type(error).__name__}: {said[:300]}", "cpu": clear[:300]},
        }
    checks.append(check("gradient for int32", taken, want, role="gradient"))
    return {"checks": checks, "facts": {"device": "takes int32", "cpu": clear[:300]}}


def _refusal(logits: torch.Tensor, target: torch.Tensor) -> str:
    """Return what is said of classes of a dtype that is refused; "taken" where it is not."""
    try:
        _gradient(_mean, (logits, target, logits))
    except RuntimeError as error:
        return str(error).strip()
    return "taken"


def device_queue(context: Context) -> Measures:
    """Every backward pass failed in an assertion about the device's queue: that of one linear layer.

    Each adapter is measured by itself, so this is about the device under test only.
    """
    device = context.device()
    layer, given = nn.Linear(4, 1).to(device), drawn(2, 4).to(device)
    layer(given).sum().backward()
    there = {name: item.grad is not None for name, item in layer.named_parameters()}
    for item in layer.parameters():
        if item.grad is not None:
            item.grad.cpu()  # wait for it
    claims = [claim(f"{name} has a gradient", has, True, role="gradient") for name, has in there.items()]
    return {"claims": claims, "facts": {"index": device.index}}


def docs_samples(context: Context) -> Measures:
    """The samples of Microsoft's documentation failed in backward: two steps each of the linear and the CNN one.

    That they finish is what is asked, with losses that are finite.
    """
    device = context.device()
    claims: list[Claim] = []
    facts = {}
    for name, (make, shape) in _SAMPLES.items():
        model = seeded(make).to(device)
        images, labels = drawn(8, *shape).to(device), whole(0, 10, 8).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
        losses = []
        for _ in range(2):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        weights = [bool(torch.isfinite(item.detach().cpu()).all()) for item in model.parameters()]
        finite = sum(map(math.isfinite, losses))
        claims += [
            claim(f"{name}: finite losses", finite, 2),
            claim(f"{name}: finite weights", all(weights), True),
        ]
        facts[name] = losses
    return {"claims": claims, "facts": facts}


def _linear_sample() -> nn.Module:
    hidden = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(512, 10))


def _cnn_sample() -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 12), (12, 12), (0, 0), (12, 24), (24, 24)):
        if not inputs:
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers += [nn.Conv2d(inputs, outputs, 5, stride=1, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(24 * 10 * 10, 10))


_SAMPLES: dict[str, Any] = {"linear": (_linear_sample, (1, 28, 28)), "CNN": (_cnn_sample, (3, 32, 32))}


# --- operators that were missing or fall back ------------------------------------------------------------


def softmax_backward(context: Context) -> Measures:
    """The backward pass of softmax had no kernel: the gradient of the sum of its squares."""
    device = context.device()

    def squares(given: torch.Tensor) -> torch.Tensor:
        return torch.softmax(given, 1).pow(2).sum()

    return {"checks": compared("sum of squares", squares, [drawn(6, 10)], device), "facts": {}}


def binary_cross_entropy(context: Context) -> Measures:
    """Binary cross entropy fell back to the CPU: BCELoss and BCEWithLogitsLoss of (16, 1), and their gradients."""
    device = context.device()
    target = whole(0, 2, 16, 1, seed=1).float()

    def loss_of(kind: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        # A sigmoid before BCELoss would bring a kernel of its own: its input is a probability by itself.
        return lambda given: kind(given, target.to(given.device, given.dtype))

    chances = drawn(16, 1).sigmoid()
    checks = compared("BCELoss", loss_of(nn.BCELoss()), [chances], device)
    checks += compared("BCEWithLogitsLoss", loss_of(nn.BCEWithLogitsLoss()), [drawn(16, 1)], device)
    return {"checks": checks, "facts": {}}


def prelu(context: Context) -> Measures:
    """PReLU was listed and missing: forward and backward of the layer with its one slope."""
    device = context.device()
    return {"checks": compared("PReLU", nn.PReLU(), [drawn(2, 4, 6, 6)], device), "facts": {}}


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda weights, **how: torch.optim.SGD(weights, lr=0.1, **how),
    "SGD with momentum": lambda weights, **how: torch.optim.SGD(weights, lr=0.1, momentum=0.9, **how),
    "Adam": lambda weights, **how: torch.optim.Adam(weights, lr=0.1, **how),
    "AdamW": lambda weights, **how: torch.optim.AdamW(weights, lr=0.1, **how),
    "RMSprop": lambda weights, **how: torch.optim.RMSprop(weights, lr=0.1, **how),
}


def optimizers(context: Context) -> Measures:
    """Optimizers that step all weights at once fell back to the CPU: one step of each on three weights.

    Once as torch chooses by itself, once with ``foreach=False``.
    """
    device = context.device()
    weights = [drawn(*shape, seed=at) for at, shape in enumerate(((4, 3), (5,), (2, 3, 4)))]
    checks: list[Check] = []
    for name in OPTIMIZERS:
        for foreach in (None, False):
            with on_cpu():
                want = _stepped(name, foreach, weights)
                truth = _stepped(name, foreach, to_double(weights))
            got = _stepped(name, foreach, [item.to(device) for item in weights])
            way = "by default" if foreach is None else "foreach=False"
            checks += [
                check(
                    f"{name} {way}: weight {at}",
                    here,
                    there,
                    truth=exact,
                    role="optimizer",
                    device=device.type,
                )
                for at, (here, there, exact) in enumerate(zip(got, want, truth))
            ]
    return {"checks": checks, "facts": {}}


def _stepped(name: str, foreach: Any, weights: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the weights after one step with gradients from a seed."""
    moved = [item.detach().clone().requires_grad_() for item in weights]
    for at, item in enumerate(moved):
        item.grad = drawn(*item.shape, seed=10 + at).to(item.dtype).to(item.device)
    how = {} if foreach is None else {"foreach": foreach}
    OPTIMIZERS[name](moved, **how).step()
    return [item.detach() for item in moved]
