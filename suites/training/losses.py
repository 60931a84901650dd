"""Loss functions one by one: a small linear model's loss and gradients for each, beside the CPU's.

A loss whose gradient is silently zero, or gone, trains nothing while its value looks fine.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional

from suites.comparing import check, missing, on_cpu, to_double
from suites.context import Context

_ROWS, _IN, _OUT = 12, 6, 5

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _classes(function: Loss) -> Loss:
    """Give the function the place of the largest target as class."""
    return lambda given, target: function(given, target.argmax(1))


def _shares(target: torch.Tensor) -> torch.Tensor:
    return torch.softmax(target, 1)


LOSSES: dict[str, Loss] = {
    "cross_entropy": _classes(functional.cross_entropy),
    "cross_entropy_smooth": _classes(lambda x, y: functional.cross_entropy(x, y, label_smoothing=0.1)),
    "nll": _classes(lambda x, y: functional.nll_loss(torch.log_softmax(x, 1), y)),
    "multi_margin": _classes(functional.multi_margin_loss),
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
    "smooth_l1": functional.smooth_l1_loss,
    "huber": functional.huber_loss,
    "bce": lambda x, y: functional.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(y)),
    "bce_with_logits": lambda x, y: functional.binary_cross_entropy_with_logits(x, torch.sigmoid(y)),
    "soft_margin": lambda x, y: functional.soft_margin_loss(x, torch.sign(y)),
    "kl_div": lambda x, y: functional.kl_div(torch.log_softmax(x, 1), _shares(y), reduction="batchmean"),
    "poisson_nll": lambda x, y: functional.poisson_nll_loss(x, y.abs()),
    "gaussian_nll": lambda x, y: functional.gaussian_nll_loss(x, y, functional.softplus(y) + 0.1),
    "cosine_embedding": lambda x, y: functional.cosine_embedding_loss(x, y, torch.sign(y[:, 0])),
}


def measure(context: Context, loss: str, seed: int = 0) -> dict[str, Any]:
    """Compare a loss and the gradients that it gives."""
    device = context.device()
    with on_cpu():
        model, images, target = _given(seed)
        want = _run(loss, model, images, target)
        truth = _run(loss, to_double(model), images.double(), target.double())
    model, images, target = _given(seed)
    got = _run(loss, model.to(device), images.to(device), target.to(device))
    kind = device.type
    checks = [
        check(loss, got.pop("loss"), want.pop("loss"), truth=truth.pop("loss"), role="loss", device=kind)
    ]
    for name, item in want.items():
        if got[name] is None:
            checks.append(missing("gradient", "grad is None", part=f"{loss} {name}"))
        else:
            more = {"role": "gradient", "part": f"{loss} {name}", "device": kind}
            checks.append(check("gradient", got[name], item, truth=truth[name], **more))
    return {"checks": checks, "facts": {"weights": "seeded", "data": "drawn"}}


def _given(seed: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a linear model, what it is given [12, 6] and what it shall give [12, 5]."""
    torch.manual_seed(seed)
    model = nn.Linear(_IN, _OUT)
    return model, torch.randn(_ROWS, _IN), torch.randn(_ROWS, _OUT)


def _run(loss: str, model: nn.Module, images: torch.Tensor, target: torch.Tensor) -> dict[str, Any]:
    """Return the loss and the gradients of the model's weights and of what it was given."""
    images = images.detach().clone().requires_grad_()
    value = LOSSES[loss](model(images), target)
    if value.requires_grad:
        value.backward()
    found = {"loss": value.detach(), "input": images.grad}
    return {**found, **{name: item.grad for name, item in model.named_parameters()}}
