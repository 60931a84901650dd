"""Reports about convolution and padding: wrong groups, three dimensions, mixed devices, modes that are missing."""

from __future__ import annotations

import copy
import itertools
from typing import Callable

import torch
from torch import nn
from torch.nn import functional

from suites.bugs.common import Measures, claim, compared, drawn, each, seeded, within
from suites.comparing import Check, check, on_cpu, to_double
from suites.context import Context, Inconclusive
from suites.telling import telling

_CHANNELS = 8


def grouped(context: Context) -> Measures:
    """Grouped convolutions gave wrong results for some parameters: groups, kernels, strides, dilations, two dtypes.

    float32 within the report's 1e-4; for float16 the report has no limit, and the usual one is taken, against the
    CPU's float32 rounded: not every torch has the convolution in float16 on the CPU.
    """
    device = context.device()
    # The CPU of torch 1.13 has no convolution in float16, and is its own reference anyway.
    dtypes = (torch.float32,) if device.type == "cpu" else (torch.float32, torch.float16)
    off: list[str] = []
    facts, checks = {}, []
    for groups, kernel, stride, dilation in itertools.product((2, 4, _CHANNELS), (1, 3, 5), (1, 2), (1, 2)):
        name = f"groups={groups} kernel={kernel} stride={stride} dilation={dilation}"
        how = {"groups": groups, "stride": stride, "dilation": dilation, "padding": dilation * (kernel // 2)}
        given = [drawn(2, _CHANNELS, 14, 14), drawn(16, _CHANNELS // groups, kernel, kernel, seed=1)]
        for dtype in dtypes:
            rounded = [item.to(dtype) for item in given]
            with on_cpu():
                want = functional.conv2d(*(item.float() for item in rounded), **how).to(dtype)
                truth = functional.conv2d(*(item.double() for item in rounded), **how)
            got = functional.conv2d(*(item.to(device) for item in rounded), **how)
            if dtype == torch.float16:
                checks.append(check(f"float16 {name}", got, want, truth=truth, device=device.type))
                continue
            found = within(name, got, want, 1e-4)
            if not found["got"]:
                off.append(name)
                facts[name] = found.get("error", found.get("why"))
    kept, left_out = telling(checks)
    claims = [claim("float32 parameters off by more than 1e-4", off, [])]
    return {"checks": kept, "claims": claims, "facts": {"errors": facts, "left_out": left_out}}


def circular_padding(context: Context) -> Measures:
    """Conv2d with circular padding raised, and by some accounts with the usual one: compare both."""
    device = context.device()
    checks: list[Check] = []
    for mode in ("circular", "zeros"):
        layer = seeded(lambda mode=mode: nn.Conv2d(3, 8, 3, padding=1, padding_mode=mode))  # type: ignore[misc]
        checks += compared(f"padding_mode={mode}", layer, [drawn(2, 3, 12, 12)], device, backward=False)
    return {"checks": checks, "facts": {}}


def three_dimensions(context: Context) -> Measures:
    """Three-dimensional layers were refused: Conv3d, BatchNorm3d, MaxPool3d, ConvTranspose3d, each by itself."""
    device = context.device()
    layers: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
        "Conv3d": (lambda: nn.Conv3d(1, 8, 3, padding=1), (1, 1, 8, 16, 16)),
        "BatchNorm3d": (lambda: nn.BatchNorm3d(8), (1, 8, 8, 16, 16)),
        "MaxPool3d": (lambda: nn.MaxPool3d(2), (1, 8, 8, 16, 16)),
        "ConvTranspose3d": (lambda: nn.ConvTranspose3d(8, 4, 2, stride=2), (1, 8, 4, 8, 8)),
    }

    def part(name: str) -> list[Check]:
        make, shape = layers[name]
        return compared(name, seeded(make), [drawn(*shape)], device, backward=False)

    return each({name: lambda name=name: part(name) for name in layers})  # type: ignore[misc]


def mixed_devices(context: Context) -> Measures:
    """A convolution on the device of a picture that was left on the CPU killed Python: it must raise RuntimeError.

    A build that computes it all the same, and right, has not the report's fault either.
    """
    device = context.device()
    if device.type == "cpu":
        raise Inconclusive("skipped", "needs-two-devices", "nothing can be left on the CPU when all is there")
    layer, picture = nn.Conv2d(3, 8, 3).to(device), drawn(1, 3, 28, 28)
    with on_cpu():
        want = copy.deepcopy(layer).cpu()(picture)
        truth = to_double(layer)(picture.double())
    try:
        got = layer(picture).cpu()
    except Exception as error:
        # NotImplementedError is one: what counts is that Python is told.
        raised = "RuntimeError" if isinstance(error, RuntimeError) else type(error).__name__
        return {"claims": [claim("raises", raised, "RuntimeError")], "facts": {"text": str(error)[:300]}}
    return {"checks": [check("result", got, want, truth=truth)], "facts": {"text": "nothing is raised"}}


def padding_2d(context: Context) -> Measures:
    """ReflectionPad2d was not supported: that and ReplicationPad2d of a 5 x 5 picture."""
    device = context.device()
    layers = {"ReflectionPad2d": nn.ReflectionPad2d(1), "ReplicationPad2d": nn.ReplicationPad2d(1)}
    given = [drawn(1, 2, 5, 5)]

    def part(name: str) -> list[Check]:
        return compared(name, layers[name], given, device, backward=False)

    return each({name: lambda name=name: part(name) for name in layers})  # type: ignore[misc]


def reflection_1d(context: Context) -> Measures:
    """ReflectionPad1d was missing."""
    device = context.device()
    checks = compared("ReflectionPad1d", nn.ReflectionPad1d(2), [drawn(1, 3, 10)], device, backward=False)
    return {"checks": checks, "facts": {}}
