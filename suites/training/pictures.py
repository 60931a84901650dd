"""A small learnable set of pictures, 3x32x32 in ten classes, made from a seed; and CIFAR-10 where it is at hand.

A class is a colour and a shape: classes 0 to 9 have ten colours, and the shapes disc, square, cross, bars and
columns in turn. Place, size, exact colour, background and noise are drawn for each picture, for the training and
the test set apart, so that what is learned must carry over. All is integer arithmetic on ``RandomState``, whose
stream NumPy has promised never to change: the pictures are the same in every environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch

SIZE = 32
CLASSES = 10

_COLOURS = (
    (200, 60, 60),
    (60, 200, 60),
    (60, 60, 200),
    (200, 200, 60),
    (200, 60, 200),
    (60, 200, 200),
    (220, 140, 60),
    (140, 60, 220),
    (60, 140, 90),
    (210, 210, 210),
)
_COLOUR_JITTER = 45
_NOISE = 40
_TEST = 7919  # what the seed of the test set is further on


class Pictures(NamedTuple):
    """A training and a test set. Images are float32 [n, 3, 32, 32] around zero, labels int64 [n]."""

    train: tuple[torch.Tensor, torch.Tensor]
    test: tuple[torch.Tensor, torch.Tensor]
    source: str


def choose(options: dict[str, Any], seed: int, train: int, test: int) -> Pictures:
    """Return CIFAR-10 where the options give its folder or allow its download, else drawn pictures.

    ``options["data"]`` is a folder as torchvision wants it; ``options["download"]`` must be set for it to be fetched.
    """
    folder = str(options.get("data") or "")
    if folder:
        try:
            return _cifar(folder, bool(options.get("download")), seed, train, test)
        except Exception as error:  # torchvision raises what its parts raise
            return drawn(seed, train, test, f"drawn (no CIFAR-10: {type(error).__name__})")
    return drawn(seed, train, test)


def drawn(seed: int, train: int, test: int, source: str = "drawn") -> Pictures:
    """Return the set that this module draws."""
    return Pictures(_tensors(*_draw(seed, train)), _tensors(*_draw(seed + _TEST, test)), source)


def _cifar(folder: str, download: bool, seed: int, train: int, test: int) -> Pictures:
    from torchvision.datasets import CIFAR10

    parts = []
    for is_train, count in ((True, train), (False, test)):
        part = CIFAR10(str(Path(folder)), train=is_train, download=download)
        order = numpy.random.RandomState(seed).permutation(len(part.targets))[:count]
        images = numpy.asarray(part.data)[order].transpose(0, 3, 1, 2)
        parts.append(_tensors(images, numpy.asarray(part.targets)[order]))
    return Pictures(parts[0], parts[1], "CIFAR-10")


def _tensors(images: Any, labels: Any) -> tuple[torch.Tensor, torch.Tensor]:
    values = torch.tensor(images.astype("float32")) / 255.0
    return (values - 0.5) / 0.25, torch.tensor(labels.astype("int64"))


def _draw(seed: int, count: int) -> tuple[Any, Any]:
    """Return images uint8 [count, 3, 32, 32] and labels int64 [count], every class equally often."""
    random = numpy.random.RandomState(seed)
    labels = random.permutation(numpy.arange(count) % CLASSES)
    return numpy.stack([_picture(random, int(label)) for label in labels]), labels


def _picture(random: Any, label: int) -> Any:
    background = random.randint(60, 160, size=3)
    colour = numpy.array(_COLOURS[label]) + random.randint(-_COLOUR_JITTER, _COLOUR_JITTER + 1, size=3)
    inside = _shape(random, label % 5)
    picture = numpy.where(inside[None], colour[:, None, None], background[:, None, None])
    picture = picture + random.randint(-_NOISE, _NOISE + 1, size=(3, SIZE, SIZE))
    return numpy.clip(picture, 0, 255).astype("uint8")


def _shape(random: Any, kind: int) -> Any:
    """Return which pixels belong to the shape, bool [32, 32]."""
    radius = int(random.randint(7, 13))
    x, y = random.randint(radius, SIZE - radius, size=2)
    down, right = numpy.mgrid[0:SIZE, 0:SIZE]
    down, right = down - int(y), right - int(x)
    box = (abs(down) <= radius) & (abs(right) <= radius)
    if kind == 0:
        return down * down + right * right <= radius * radius
    if kind == 1:
        return box
    if kind == 2:
        return box & ((abs(down) <= 2) | (abs(right) <= 2))
    return box & ((down if kind == 3 else right) % 6 < 3)
