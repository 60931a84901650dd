"""Reports about interpolation: a wrong picture, and modes that fall back to the CPU."""

from __future__ import annotations

import torch
from torch.nn import functional

from suites.bugs.common import Measures, compared, drawn, within
from suites.comparing import Check, on_cpu
from suites.context import Context


def bilinear(context: Context) -> Measures:
    """Bilinear interpolation gave a wrong picture: twice the size, both alignments, a small and a large picture.

    The report's limit is 1e-5. The large one is smooth, because aligned corners of 512 pixels lie at places that
    float32 has to 3e-5 of a pixel only: with noise for a picture a right device would be off by more.
    """
    device = context.device()
    claims = []
    for size, image in (("small", drawn(1, 1, 4, 4)), ("large", _smooth(32, 512))):
        for aligned in (False, True):
            with on_cpu():
                want = _doubled(image, aligned)
            got = _doubled(image.to(device), aligned).cpu()
            claims.append(within(f"{size}, align_corners={aligned}", got, want, 1e-5))
    return {"claims": claims, "facts": {}}


def _smooth(channels: int, size: int) -> torch.Tensor:
    """Return waves of 64 to 128 pixels, each channel another, (1, channels, size, size)."""
    places = torch.arange(size, dtype=torch.float32)
    pace = 0.05 * (1 + torch.arange(channels, dtype=torch.float32) / channels).view(-1, 1)
    return (torch.sin(places * pace)[:, :, None] * torch.cos(places * pace + 1)[:, None, :])[None]


def _doubled(image: torch.Tensor, aligned: bool) -> torch.Tensor:
    return functional.interpolate(image, scale_factor=2, mode="bilinear", align_corners=aligned)


def bicubic(context: Context) -> Measures:
    """Bicubic interpolation fell back and gave another size: values and shape, both alignments."""
    device = context.device()
    checks: list[Check] = []
    for aligned in (False, True):

        def resized(image: torch.Tensor, aligned: bool | None = aligned) -> torch.Tensor:
            return functional.interpolate(image, size=(37, 41), mode="bicubic", align_corners=aligned)

        checks += compared(f"align_corners={aligned}", resized, [drawn(1, 3, 24, 24)], device, backward=False)
    return {"checks": checks, "facts": {}}


def nearest_1d(context: Context) -> Measures:
    """Nearest interpolation of one dimension fell back to the CPU."""
    device = context.device()

    def doubled(sound: torch.Tensor) -> torch.Tensor:
        return functional.interpolate(sound, scale_factor=2, mode="nearest")

    return {"checks": compared("nearest", doubled, [drawn(1, 4, 10)], device, backward=False), "facts": {}}
