"""Training cases: how a build trains beside the CPU, step by step and over epochs; and the batch ladder.

``tracker/training.py`` makes a diagnosis of what ``train`` sends as ``training``.
"""

from __future__ import annotations

from typing import Any, Dict

import torch

from suites.comparing import Check, brief, check, on_cpu
from suites.context import Context
from suites.training import learning, pictures, watching
from suites.training.learning import Learner, State
from suites.training.recipes import Recipe

Measures = Dict[str, Any]

_JITTERS = (1e-6, 1e-6, 1e-5)
"""How far the weights of each control run are shaken at its start, relatively."""
_WARM_UP = 3
"""First steps that are not in the times: they compile."""


def train(
    context: Context,
    model: str,
    optimizer: str,
    size: str = "full",
    seed: int = 0,
    train: int = 512,
    test: int = 256,
    batch: int = 32,
    epochs: int = 3,
) -> Measures:
    """Train on the device, on the CPU and on the CPU with shaken weights, and say where they part."""
    device = context.device()
    recipe = Recipe(model, size, optimizer, seed)
    data = pictures.choose(context.options, seed, train, test)
    order = learning.batches(data, seed, batch, epochs)
    with on_cpu():
        cpu = Learner(recipe)
        curves: Measures = {"cpu": learning.train(cpu, order, data)}
        curves["controls"] = [
            learning.train(Learner(recipe, jitter=jitter, jitter_seed=at), order, data)
            for at, jitter in enumerate(_JITTERS)
        ]
    learner = Learner(recipe, device)
    notes = _Notes(learner, {0, 1, sum(map(len, order)) - 1})
    curves["device"] = learning.train(learner, order, data, notes.step)
    checks, summaries = notes.compared(recipe, device)
    evaluation = _evaluations(recipe, device, learner, cpu, data)
    return {
        "checks": checks + evaluation.pop("checks"),
        "training": {"watched": summaries, "curves": curves, "evaluation": evaluation},
        "steps": [brief(seconds) for seconds in notes.unwatched(learner.seconds)],
        "memory": learner.memory[_WARM_UP:],
        "facts": {
            "data": data.source,
            "weights": "seeded",
            "pictures": [len(data.train[1]), len(data.test[1])],
            "controls": list(_JITTERS),
            "cpu_steps": [brief(seconds) for seconds in cpu.seconds[_WARM_UP:]],
        },
    }


class _Notes:
    """Takes notes of some steps of a learner, to be compared when the training is over."""

    def __init__(self, learner: Learner, steps: set[int]) -> None:
        self._learner = learner
        self._steps = steps
        self._taken: list[tuple[int, State, learning.Batch, watching.Seen]] = []

    def step(self, number: int, batch: learning.Batch) -> tuple[float, int]:
        """Do a step, with a note where it is one of those to be watched."""
        if number not in self._steps:
            return self._learner.step(batch)
        before = self._learner.snapshot()
        result, seen = watching.watch(self._learner, batch)
        self._taken.append((number + 1, before, batch, seen))
        return result

    def unwatched(self, seconds: list[float]) -> list[float]:
        """Return the times of those steps that nobody watched, without the first."""
        return [item for at, item in enumerate(seconds) if at >= _WARM_UP and at not in self._steps]

    def compared(self, recipe: Recipe, device: Any) -> tuple[list[Check], list[Measures]]:
        """Return the checks and the summaries of the watched steps."""
        found = [
            watching.compare(recipe, number, before, batch, seen, device)
            for number, before, batch, seen in self._taken
        ]
        return [item for step in found for item in step.checks], [step.summary for step in found]


def _evaluations(
    recipe: Recipe, device: Any, learner: Learner, cpu: Learner, data: pictures.Pictures
) -> Measures:
    """Evaluate the device's weights on the CPU and the CPU's on the device, buffers included."""
    mine, theirs = learner.snapshot(), cpu.snapshot()
    of_device = _evaluated(recipe, mine, learner, data, "the device's weights")
    moved = Learner(recipe, device, state=State(theirs.model, Learner(recipe).snapshot().optimizer))
    of_cpu = _evaluated(recipe, theirs, moved, data, "the CPU's weights")
    checks = [of_device.pop("check"), of_cpu.pop("check")]
    return {"checks": checks, "device_weights": of_device, "cpu_weights": of_cpu}


def _evaluated(recipe: Recipe, state: State, there: Learner, data: pictures.Pictures, whose: str) -> Measures:
    """Return the same weights' test loss and accuracy on the device, on the CPU, and with batch statistics.

    The last is computed on the CPU: where it alone is good, the buffers are to blame.
    """
    images, labels = data.test
    got = there.logits(images)
    with on_cpu():
        bare = State(state.model, Learner(recipe).snapshot().optimizer)
        here = Learner(recipe, state=bare)
        want, truth = here.logits(images), Learner(recipe, state=bare, double=True).logits(images)
        batch = here.logits(images, batch_statistics=True)
        found = check(f"evaluation of {whose}", got, want, truth=truth, part="evaluation")
        return {
            "check": found,
            "device": learning.score(got, labels),
            "cpu": learning.score(want, labels),
            "batch_statistics": learning.score(batch, labels),
            "worst": watching.in_short(found),
        }


def ladder(
    context: Context,
    model: str,
    batch: int,
    size: str = "full",
    seed: int = 0,
    steps: int = 24,
    image: int = 32,
) -> Measures:
    """Train a few steps with one batch size: whether it survives, how fast and how smoothly.

    The learning rate is too small to diverge by; the first loss is checked against the CPU's.
    """
    device = context.device()
    recipe = Recipe(model, size, "sgd", seed, image)
    data = pictures.drawn(seed, batch, 1)
    given = (torch.nn.functional.interpolate(data.train[0], size=image), data.train[1])
    with on_cpu():
        want, truth = (_first_loss(Learner(recipe, double=double), given) for double in (False, True))
    learner = Learner(recipe, device)
    for group in learner.optimizer.param_groups:
        group["lr"] = 1e-3
    losses = [learner.step(given)[0] for _ in range(steps + _WARM_UP)]
    seconds = [brief(item) for item in learner.seconds]
    return {
        "checks": [check("first loss", losses[0], want, truth=truth, role="loss")],
        "training": {"losses": [brief(loss) for loss in losses]},
        "timing": {"first": seconds[0], "each": seconds[_WARM_UP:], "items": batch},
        "steps": seconds[_WARM_UP:],
        "memory": learner.memory[_WARM_UP:],
        "facts": {"batch": batch, "image": image, "data": data.source, "weights": "seeded"},
    }


def _first_loss(learner: Learner, batch: learning.Batch) -> float:
    return learner.step(batch)[0]
