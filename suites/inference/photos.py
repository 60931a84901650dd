"""Labelled photos with real weights: does the device name the class that a person named.

``labels.py`` says where they lie.
"""

from __future__ import annotations

from pathlib import Path

import torch

from suites import comparing, models, weights
from suites.context import Context, Inconclusive
from suites.inference import labels
from suites.inference.cases import Measures, agreement, cpu_logits, on_device

_TORCHVISION = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_NORMS = {"tf_efficientnet_lite0": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))}
_ALIASES = {"tf_efficientnet_lite0": "efficientnet_lite0"}


def classify(context: Context, model: str) -> Measures:
    """Compare logits and classes with the CPU's, and the classes with the right ones; skipped without files."""
    device = context.device()
    folder = str(context.options.get("weights", ""))
    path = weights.weights_file(folder, model) or weights.weights_file(folder, _ALIASES.get(model, model))
    if path is None:
        raise Inconclusive("skipped", "no-weights", f"no file with weights of {model} (option 'weights')")
    photos, unknown = labels.labelled(str(context.options.get("data", "")), models.classes())
    if not photos:
        raise Inconclusive("skipped", "no-photos", f"no labelled photos; {len(unknown)} unknown labels")
    with comparing.on_cpu():
        net, facts = models.build(model)
        models.load(net, path)
        given = torch.stack([pixels(photo, model) for photo, _ in photos])
        reference = cpu_logits(net, given, 1, 0.0)
    with torch.no_grad():
        (_, got), _, _ = on_device(net, given, device)
    facts.update(weights=path.name, photos=len(photos), unknown_labels=unknown[:5])
    facts["right"] = _right(got, reference["logits"], [number for _, number in photos])
    logits = comparing.check("logits", got, reference["logits"], noise=reference["noise"], device=device.type)
    return {"checks": [logits], "top1": agreement(got, reference["logits"]), "facts": facts}


def _right(got: torch.Tensor, want: torch.Tensor, classes: list[int]) -> dict[str, int]:
    """Return how many photos the device and the CPU named as a person did."""
    right = torch.tensor(classes)
    named = {"device": got.cpu(), "cpu": want}
    found = {name: int((logits.argmax(-1) == right).sum()) for name, logits in named.items()}
    return dict(found, of=len(classes))


def pixels(path: Path, model: str, image: int = 224) -> torch.Tensor:
    """Return a photo as the net wants it: (3, image, image), shorter side 256/224 of it, middle cut out."""
    from PIL import Image
    from torchvision import transforms

    mean, deviation = _NORMS.get(model, _TORCHVISION)
    change = transforms.Compose(
        [
            transforms.Resize(image * 256 // 224),
            transforms.CenterCrop(image),
            transforms.ToTensor(),
            transforms.Normalize(mean, deviation),
        ]
    )
    with Image.open(path) as photo:
        result: torch.Tensor = change(photo.convert("RGB"))
    return result
