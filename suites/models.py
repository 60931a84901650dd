"""The nets that suites measure, by name: seeded, or with the weights of a file where one is at hand.

A seeded net must be able to show a fault: fresh from its initialisation a bias is zero, a scale one, some heads
all zero, and BatchNorm's statistics do not fit, so that logits explode or are equal. So all-zero matrices become
random, scales and biases get a little noise, and the BatchNorm statistics are the cumulative average over two
calibration batches of four random images, taken on the CPU. Everything here happens on the CPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import torch
from torch import nn

from suites.context import Inconclusive
from suites.weights import weights_file

Facts = Dict[str, Any]

_CALIBRATION = (2, 4)  # batches, images in each


def build(
    name: str, image: int = 224, seed: int = 0, weights: str = "", patch: int = 0
) -> tuple[nn.Module, Facts]:
    """Return the net in eval mode, float32 on the CPU, and ``{"net", "image", "weights"}`` about it.

    ``image`` is its input's height and width in pixels; ``weights`` a folder with files like ``resnet18.pth`` or
    ``resnet18-f37072fd.pth``, or empty; ``patch`` a ViT's patch size in pixels, 0 for its own (timm only). The facts
    say ``"seeded"`` or the file's name.
    """
    own_size = not patch and (image == native_size(name) or not _is_vit(name))
    path = weights_file(weights, name) if own_size else None
    net = _made(name, image, seed, patch)
    if path is None:
        enliven(net, seed)
        calibrate(net, image, seed)
    else:
        load(net, path)
    facts: Facts = {"net": name, "image": image, "weights": path.name if path else "seeded"}
    return net.eval(), dict(facts, patch=patch) if patch else facts


def _made(name: str, image: int, seed: int, patch: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _fresh(name, image, patch)


def _fresh(name: str, image: int, patch: int) -> nn.Module:
    """Return a net as its library initialises it. torchvision knows the users' names, timm the rest."""
    import torchvision

    of_torchvision = getattr(torchvision.models, name, None)
    if callable(of_torchvision):
        sizes = {"image_size": image} if _is_vit(name) else {}
        return of_torchvision(weights=None, **sizes)
    import timm

    sizes = {"img_size": image} if _is_vit(name) else {}
    if patch:
        sizes["patch_size"] = patch
    return timm.create_model(name, pretrained=False, **sizes)


def _is_vit(name: str) -> bool:
    """Whether the net's parameters depend on the image size."""
    return name.startswith("vit_")


def native_size(name: str) -> int:
    """Return the image size that the net's public weights are for."""
    return int(name.rsplit("_", 1)[1]) if name.rsplit("_", 1)[-1] in ("224", "384") else 224


def images(batch: int, image: int, seed: int = 0) -> torch.Tensor:
    """Return a batch by ``np.random.rand`` as users' scripts make it: (batch, 3, image, image), float32, 0..1.

    The first images are the same for every batch size.
    """
    made = np.random.RandomState(seed).rand(batch, 3, image, image)
    return torch.from_numpy(made.astype(np.float32))


def enliven(net: nn.Module, seed: int = 0) -> None:
    """Change parameters that hide faults: all-zero matrices, and scales and biases that are exactly 1 or 0."""
    source = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in net.parameters():
            noise = torch.randn(parameter.shape, generator=source)
            if parameter.dim() < 2:
                parameter += 0.05 * noise
            elif not bool(parameter.any()):
                parameter += 0.02 * noise if parameter.dim() > 2 else noise / parameter.shape[1] ** 0.5


def calibrate(net: nn.Module, image: int, seed: int = 0) -> None:
    """Give BatchNorm layers the statistics of seeded images; other layers stay in eval mode (no dropout)."""
    norms = [layer for layer in net.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    net.eval()
    momenta = [layer.momentum for layer in norms]
    for layer in norms:
        layer.reset_running_stats()
        layer.momentum = None  # cumulative average
        layer.train()
    batches, count = _CALIBRATION
    with torch.no_grad():
        for turn in range(batches):
            net(images(count, image, seed + 100 + turn))
    for layer, momentum in zip(norms, momenta):
        layer.momentum = momentum
    net.eval()


def load(net: nn.Module, path: Path) -> None:
    """Load a file of weights; raise Inconclusive where it does not fit.

    Where the names differ, tensors are taken in their order: ports of one architecture agree in it.
    """
    try:
        state = torch.load(str(path), map_location="cpu", weights_only=True)
        state = state.get("state_dict", state)
        net.load_state_dict(_renamed(state, net.state_dict()))
    except Exception as error:
        message = f"{path.name}: {type(error).__name__}: {error}"
        raise Inconclusive("infra", "weights-unreadable", message[:500]) from error


def _renamed(state: dict[str, torch.Tensor], own: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    if set(state) == set(own):
        return state
    counters = "num_batches_tracked"  # some ports have none
    have = [tensor for name, tensor in state.items() if not name.endswith(counters)]
    names = [name for name in own if not name.endswith(counters)]
    if [tensor.shape for tensor in have] != [own[name].shape for name in names]:
        raise ValueError(f"{len(have)} tensors that do not fit the net's {len(names)}")
    return {**own, **dict(zip(names, have))}


def classes() -> list[str]:
    """Return the names of ImageNet's 1000 classes, in order; they come with torchvision."""
    import torchvision

    return list(torchvision.models.ResNet18_Weights.IMAGENET1K_V1.meta["categories"])
