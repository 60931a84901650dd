"""What is trained and by what: models and optimizers, always made on the CPU from a seed.

ResNet-18 is torchvision's and ViT-tiny is timm's, both on 32x32 pictures; of size ``small`` they are of the same
kind with a few thousand weights, for machines on which a real one takes seconds per step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

from suites.training.pictures import CLASSES

# By which the CPU's test loss falls within the few steps of a case: BatchNorm's statistics must keep up.
_RATES = {
    ("sgd", "resnet18", "full"): 3e-3,
    ("sgd", "resnet18", "small"): 1e-2,
    ("sgd", "vit_tiny", "full"): 3e-2,
    ("sgd", "vit_tiny", "small"): 5e-2,
    ("adam", "resnet18", "full"): 5e-4,
    ("adam", "resnet18", "small"): 5e-3,
    ("adam", "vit_tiny", "full"): 5e-4,
    ("adam", "vit_tiny", "small"): 5e-3,
}


class Recipe(NamedTuple):
    """One kind of training: model, its size (``full`` or ``small``), optimizer and seed of the weights."""

    model: str
    size: str
    optimizer: str
    seed: int
    image: int = 32

    def make_model(self) -> nn.Module:
        """Return the model with its seeded weights, on the CPU, float32."""
        torch.manual_seed(self.seed)
        return _MODELS[self.model, self.size](self.image)

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return a new optimizer over the model's parameters."""
        if self.optimizer == "sgd":
            return torch.optim.SGD(model.parameters(), lr=self.rate(), momentum=0.9)
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[self.optimizer]
        return kind(model.parameters(), lr=self.rate())

    def rate(self) -> float:
        """Return the learning rate."""
        kind = "adam" if self.optimizer == "adamw" else self.optimizer
        return _RATES[kind, self.model, self.size]


class SmallResidual(nn.Module):
    """Two residual blocks as in ResNet-18 behind a stem, ``width`` channels."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = _block(width, width, 1)
        self.layer2 = _block(width, 2 * width, 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(2 * width, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits [n, 10] of images [n, 3, h, w]."""
        found = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        found = self.avgpool(self.layer2(self.layer1(found)))
        logits: torch.Tensor = self.fc(torch.flatten(found, 1))
        return logits


def _block(width: int, out: int, stride: int) -> nn.Module:
    from torchvision.models.resnet import BasicBlock

    down = None
    if stride != 1 or width != out:
        down = nn.Sequential(nn.Conv2d(width, out, 1, stride, bias=False), nn.BatchNorm2d(out))
    block: nn.Module = BasicBlock(width, out, stride, down)
    return block


def _resnet18(_: int) -> nn.Module:
    from torchvision.models import resnet18

    model: nn.Module = resnet18(weights=None, num_classes=CLASSES)
    return model


def _vit(image: int, **shape: Any) -> nn.Module:
    from timm.models.vision_transformer import VisionTransformer

    model: nn.Module = VisionTransformer(img_size=image, patch_size=8, num_classes=CLASSES, **shape)
    return model


_MODELS: dict[tuple[str, str], Any] = {
    ("resnet18", "full"): _resnet18,
    ("resnet18", "small"): lambda _: SmallResidual(),
    ("vit_tiny", "full"): lambda image: _vit(image, embed_dim=192, depth=12, num_heads=3),
    ("vit_tiny", "small"): lambda image: _vit(image, embed_dim=48, depth=1, num_heads=3),
}
