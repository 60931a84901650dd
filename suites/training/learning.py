"""One learner: a model with its optimizer on one device, its steps, epochs and evaluations.

Every learner of a case sees the same pictures in the same order. Results are read back before a clock stops.
"""

from __future__ import annotations

import copy
from time import perf_counter
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import numpy
import torch
from torch import nn
from torch.nn import functional

from suites.comparing import brief, nested
from suites.training import memory
from suites.training.pictures import Pictures
from suites.training.recipes import Recipe

Batch = Tuple[torch.Tensor, torch.Tensor]
Curve = Dict[str, List[float]]
_EVALUATED_AT_ONCE = 64


class State(NamedTuple):
    """All that a learner has learned, on the CPU: ``state_dict`` of the model and of the optimizer."""

    model: dict[str, torch.Tensor]
    optimizer: dict[str, Any]


class Learner:
    """A model and its optimizer on a device.

    ``state`` goes on from where another learner was; ``jitter`` multiplies each weight by 1 +- jitter, from
    ``jitter_seed``; ``double`` computes in float64.
    """

    def __init__(
        self,
        recipe: Recipe,
        device: Any = "cpu",
        state: State | None = None,
        jitter: float = 0.0,
        jitter_seed: int = 0,
        double: bool = False,
    ) -> None:
        self.device = device
        model = recipe.make_model()
        if state is not None:
            model.load_state_dict(state.model)
        if jitter:
            _shake(model, jitter, jitter_seed)
        self.model: nn.Module = (model.double() if double else model).to(device)
        self.double = double
        self.optimizer = recipe.make_optimizer(self.model)
        if state is not None:
            self.optimizer.load_state_dict(copy.deepcopy(state.optimizer))
        self.seconds: list[float] = []
        self.memory: list[int] = []

    def step(self, batch: Batch) -> tuple[float, int]:
        """Do one step of training; return the loss and how many of the batch were right."""
        self.model.train()
        started = perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        images, labels = self._here(batch)
        logits = self.model(images)
        loss = functional.cross_entropy(logits, labels)
        if loss.requires_grad:  # else the graph was lost: recorded by whoever watches the step
            loss.backward()
        self.optimizer.step()
        value = float(loss.detach().cpu())
        _read_back(self.model)
        self.seconds.append(perf_counter() - started)
        self.memory.append(memory.resident())
        return value, int((logits.detach().cpu().argmax(1) == batch[1]).sum())

    def _here(self, batch: Batch) -> Batch:
        images = batch[0].double() if self.double else batch[0]
        return images.to(self.device), batch[1].to(self.device)

    def logits(self, images: torch.Tensor, batch_statistics: bool = False) -> torch.Tensor:
        """Return the logits of evaluation mode on the CPU, [n, 10].

        With ``batch_statistics`` the BatchNorm layers use those of the batch in place of what they have gathered
        (on a copy, so that nothing is gathered); other layers as in evaluation.
        """
        model = copy.deepcopy(self.model) if batch_statistics else self.model
        model.eval()
        if batch_statistics:
            for module in model.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.train()
        found = []
        with torch.no_grad():
            for part in images.split(_EVALUATED_AT_ONCE):
                given = part.double() if self.double else part
                found.append(model(given.to(self.device)).cpu())
        return torch.cat(found)

    def snapshot(self) -> State:
        """Return a copy of all that was learned, on the CPU."""
        return State(
            nested(_home, dict(self.model.state_dict())), nested(_home, dict(self.optimizer.state_dict()))
        )


def _home(value: Any) -> Any:
    return value.detach().cpu().clone()


def _read_back(model: nn.Module) -> None:
    """Wait until the last of the step's work is done: calls are asynchronous."""
    last = list(model.parameters())[-1]
    last.detach().reshape(-1)[:1].cpu()


def _shake(model: nn.Module, jitter: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1 + jitter * (2 * torch.rand(weight.shape, generator=generator) - 1))


def batches(pictures: Pictures, seed: int, batch: int, epochs: int) -> list[list[Batch]]:
    """Return the batches of each epoch, in an order that only the seed decides; a short last one is left out."""
    random = numpy.random.RandomState(seed)
    images, labels = pictures.train
    result = []
    for _ in range(epochs):
        order = torch.tensor(random.permutation(len(labels)).astype("int64"))
        whole = [part for part in order.split(batch) if len(part) == batch]
        result.append([(images[part], labels[part]) for part in whole])
    return result


Watch = Callable[[int, Batch], Tuple[float, int]]


def train(
    learner: Learner, epochs: list[list[Batch]], pictures: Pictures, watch: Watch | None = None
) -> Curve:
    """Train and return the curves; ``watch`` does the steps where it is given, with their numbers from 0.

    ``steps``: loss of each step. ``train_loss``, ``train_accuracy``: means over an epoch's steps, in training mode.
    ``test_loss``, ``test_accuracy``: in evaluation mode, before the first epoch and after each.
    """
    curve: Curve = {
        key: [] for key in ("steps", "train_loss", "train_accuracy", "test_loss", "test_accuracy")
    }
    _test(curve, learner, pictures)
    for epoch in epochs:
        losses, right = [], 0
        for batch in epoch:
            number = len(curve["steps"])
            loss, good = watch(number, batch) if watch else learner.step(batch)
            losses.append(loss)
            curve["steps"].append(brief(loss))
            right += good
        curve["train_loss"].append(brief(sum(losses) / len(losses)))
        curve["train_accuracy"].append(brief(right / sum(len(batch[1]) for batch in epoch)))
        _test(curve, learner, pictures)
    return curve


def _test(curve: Curve, learner: Learner, pictures: Pictures) -> None:
    found = score(learner.logits(pictures.test[0]), pictures.test[1])
    curve["test_loss"].append(found["loss"])
    curve["test_accuracy"].append(found["accuracy"])


def score(logits: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    """Return mean loss and accuracy of logits [n, 10], computed on the CPU in float64."""
    loss = functional.cross_entropy(logits.double(), labels)
    return {
        "loss": brief(float(loss)),
        "accuracy": brief(float((logits.argmax(1) == labels).double().mean())),
    }
