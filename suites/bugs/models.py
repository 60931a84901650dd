"""Reports about whole models: generation, classification, samples that end the device, memory, drift, speed."""

from __future__ import annotations

import copy
import gc
import math
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from suites import timing
from suites.bugs import tiny
from suites.bugs.common import (
    Claim,
    Measures,
    claim,
    drawn,
    each,
    memory_used,
    relative,
    seeded,
    whole,
    within,
)
from suites.comparing import Check, check, on_cpu, to_double
from suites.context import Context, Inconclusive

# --- transformers ----------------------------------------------------------------------------------------


def generate(context: Context) -> Measures:
    """How are models of transformers used here: a tiny GPT-2 says 20 words, the likeliest each, as the CPU."""
    device = context.device()
    model, words = seeded(lambda: tiny.enlarged(tiny.GPT2())), whole(1, tiny.WORDS, 1, 6)
    with on_cpu():
        want = tiny.generated(model, words, 20)
        if want != tiny.generated(to_double(model), words, 20):
            raise Inconclusive("no-reference", "close-call", "float64 says other words")
    got = tiny.generated(model.to(device), words.to(device), 20)
    return {"claims": [claim("words", got, want)], "facts": {"different": len(set(want))}}


def distilbert(context: Context) -> Measures:
    """DistilBERT's forward pass failed in an assertion: logits of a tiny one within 1e-3, one of two rows short."""
    device = context.device()
    model, words = seeded(lambda: tiny.enlarged(tiny.DistilBert())), whole(1, tiny.WORDS, 2, 9)
    seen = torch.ones_like(words)
    seen[1, 6:] = 0
    with torch.no_grad():
        with on_cpu():
            want = model(words, seen)
        got = model.to(device)(words.to(device), seen.to(device))
    return {"claims": [within("logits", got, want, 1e-3)], "facts": {}}


def clip_text(context: Context) -> Measures:
    """CLIP's text model crashed with newer versions of transformers: a tiny one, with either's attention.

    The versions themselves are not installed; what differs between them here is how attention is computed.
    """
    device = context.device()
    claims: list[Claim] = []
    words = torch.cat([whole(1, tiny.WORDS - 1, 2, 76), torch.full((2, 1), tiny.WORDS - 1)], 1)
    for way in ("by hand", "fused"):
        if way == "fused" and not hasattr(functional, "scaled_dot_product_attention"):
            continue
        model = seeded(lambda way=way: tiny.enlarged(tiny.Clip(way == "fused")))  # type: ignore[misc]
        with torch.no_grad():
            with on_cpu():
                want = model(words)
            got = model.to(device)(words.to(device))
        for name, here, there in zip(("hidden", "pooled"), got, want):
            claims.append(within(f"{name}, attention {way}", here, there, 1e-3))
    return {"claims": claims, "facts": {"ways": len(claims) // 2}}


# --- what programs do again and again --------------------------------------------------------------------


def memory_of_blocks(context: Context) -> Measures:
    """Stable Diffusion filled the memory and gave none back: 100 blocks of changing sizes, nothing is kept."""
    device = context.device()
    model = seeded(lambda: tiny.UNetBlock(norms=False)).to(device)
    used: list[int] = []
    with torch.no_grad():
        for at in range(100):
            size = 12 + 2 * (5 * at % 9)  # each size comes again after nine
            result = model(drawn(1, 16, size, size).to(device))
            result.cpu()
            del result
            gc.collect()
            used.append(memory_used(context))
    return {"memory": used, "facts": {"first": used[0], "tenth": used[9], "last": used[-1]}}


_REPEATS = 200


def repeated_block(context: Context) -> Measures:
    """After some pictures all were white: the same block of a UNet 200 times, bit for bit what it was at first."""
    device = context.device()
    model = seeded(lambda: tiny.UNetBlock(norms=True))
    image = drawn(1, 16, 16, 16)
    with torch.no_grad():
        with on_cpu():
            want = model(image)
        model, image = model.to(device), image.to(device)
        first = model(image).cpu()
        off = [at for at in range(1, _REPEATS) if not _same_bits(model(image).cpu(), first)]
    facts = {"differ": len(off), "first to differ": off[0] if off else None, "off": relative(first, want)}
    return {"claims": [claim(f"all {_REPEATS} are equal", not off, True)], "facts": facts}


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two float32 tensors are equal bit for bit: NaN too."""
    return torch.equal(one.view(torch.int32), other.view(torch.int32))


def long_audio(context: Context) -> Measures:
    """Only long audio came out distorted: the phase of a voice added up, its sine, and a transposed convolution.

    1000 and 200 000 samples, within the report's 1e-2: so many are added up, and so many the convolution gives. What
    the sum alone is off stands in the facts.
    """
    device = context.device()
    layer = seeded(lambda: nn.ConvTranspose1d(16, 8, 16, stride=8, padding=4))
    claims: list[Claim] = []
    facts: dict[str, float] = {}
    for length in (1_000, 200_000):
        given = (_phase_steps(length), drawn(1, 16, length // 8))
        with torch.no_grad():
            with on_cpu():
                want = _voiced(layer, *given)
            got = _voiced(copy.deepcopy(layer).to(device), *(item.to(device) for item in given))
        for name in ("sine", "transposed convolution"):
            claims.append(within(f"{name} of {length}", got[name].cpu(), want[name], 1e-2))
        facts[f"sum of {length}"] = relative(got["sum"], want["sum"])
    return {"claims": claims, "facts": facts}


def _phase_steps(length: int) -> torch.Tensor:
    """Return the turns per sample of a voice that goes between 110 and 330 Hz, at 40 kHz; (1, length)."""
    return ((220 + 110 * torch.sin(torch.arange(length) / 5_000)) / 40_000)[None]


def _voiced(layer: nn.Module, steps: torch.Tensor, hidden: torch.Tensor) -> dict[str, torch.Tensor]:
    phase = torch.cumsum(steps, 1)
    return {"sum": phase, "sine": torch.sin(2 * math.pi * phase), "transposed convolution": layer(hidden)}


def scatter_counts(context: Context) -> Measures:
    """YOLO's training raised where scatter_add_ has an index smaller than the tensor: three dtypes."""
    device = context.device()
    index, dtypes = (
        whole(0, 8400, 2, 3, 1),
        {"int8": torch.int8, "int32": torch.int32, "float32": torch.float32},
    )

    def part(name: str) -> list[Check]:
        with on_cpu():
            want = _counted(index, dtypes[name])
        return [check(name, _counted(index.to(device), dtypes[name]), want, device=device.type)]

    return each({name: lambda name=name: part(name) for name in dtypes})  # type: ignore[misc]


def _counted(index: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    zeros = torch.zeros(2, 3, 8400, dtype=dtype, device=index.device)
    return zeros.scatter_add_(-1, index, torch.ones_like(index, dtype=dtype))


def half_embedding(context: Context) -> Measures:
    """Training an embedding failed in float16: words and one trained word put together, and the backward pass.

    It must not raise, and gradients must be there and finite; that is all the report asks.
    """
    device = context.device()
    words = seeded(lambda: nn.Embedding(40, 16)).half().to(device)
    trained = drawn(2, 1, 16, dtype=torch.float16).to(device).requires_grad_()
    spoken = words(whole(0, 40, 2, 9).to(device))
    together = torch.cat([spoken[:, :1], trained, spoken[:, 2:]], 1)
    together.backward(drawn(2, 9, 16, seed=1, dtype=torch.float16).to(device))
    claims = []
    for name, item in (("words", words.weight), ("trained word", trained)):
        finite = item.grad is not None and bool(torch.isfinite(item.grad.cpu().float()).all())
        claims.append(claim(f"gradient of {name} is finite", finite, True, role="gradient"))
    return {"claims": claims, "facts": {}}


# --- large work ------------------------------------------------------------------------------------------


_LONGEST = 15.0
"""Seconds that a step of training may be expected to take."""


def resnet50_step(context: Context) -> Measures:
    """The ResNet-50 sample ended the device at its first step: a step of training of 32 pictures, then of 8.

    Two smaller pictures tell how long that will take; where it is too long, nothing is said.
    """
    device = context.device()
    if device.type == "cpu":
        raise Inconclusive(
            "skipped", "too-slow-here", "a step of the report takes a CPU half a minute and 4 GB"
        )
    import torchvision

    model = seeded(lambda: torchvision.models.resnet50(num_classes=10)).to(device)
    for _ in range(2):  # the first compiles
        small, _loss = timing.timed(lambda: _train_step(model, drawn(2, 3, 112, 112).to(device)))
        if small > 2 * _LONGEST:
            break
    if small * 64 > _LONGEST:
        raise Inconclusive(
            "skipped", "too-slow-here", f"the step is expected to take {small * 64:.0f} s here"
        )
    claims, seconds = [], {}
    for batch in (32, 8):
        images = drawn(batch, 3, 224, 224).to(device)
        seconds[str(batch)], loss = timing.timed(lambda images=images: _train_step(model, images))  # type: ignore[misc]
        claims.append(
            claim(f"loss of {batch} is finite", math.isfinite(float(loss.cpu())), True, role="loss")
        )
    return {"claims": claims, "facts": {"seconds": seconds, "small": small}}


def _train_step(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    optimizer.zero_grad()
    labels = (torch.arange(len(images)) % 10).to(images.device)
    loss = functional.cross_entropy(model.train()(images), labels)
    loss.backward()
    optimizer.step()
    next(iter(model.parameters())).detach()[:1].cpu()  # the step is done when a weight can be read
    return loss.detach()


_SOFTWARE = ("basic render", "llvmpipe", "lavapipe", "swiftshader", "software")
"""What adapters are called that compute on the CPU: no report is about their speed."""


def matmul_speed(context: Context) -> Measures:
    """The GPU seemed unused: 20 products of 4096 x 4096 must be faster than the CPU's.

    Of the CPU's there are two, because 20 take a minute. What is no discrete GPU can not be told by its name, unless
    it is software.
    """
    device = context.device()
    name = str((context.device_facts or {}).get("name", ""))
    if device.type == "cpu" or any(word in name.lower() for word in _SOFTWARE):
        raise Inconclusive("skipped", "no-gpu", f"{name} computes on the CPU")
    times: dict[str, list[float]] = {}
    for place, count in ((torch.device("cpu"), 2), (device, 20)):
        one, other = (drawn(4096, 4096, seed=seed).to(place) for seed in range(2))
        timing.timed(lambda: one @ other)  # noqa: B023 (called at once); compiles
        times[place.type] = [timing.timed(lambda: one @ other)[0] for _ in range(count)]  # noqa: B023
    ours, cpu = times[device.type], times["cpu"]
    return {
        "claims": [claim("faster than the CPU", median(ours) < median(cpu), True)],
        "timing": {"first": ours[0], "each": ours, "items": 1, "cpu_each": cpu},
        "facts": {"adapter": name},
    }


def resnet50_throughput(context: Context) -> Measures:
    """Every operator has an overhead: one inference of ResNet-50 and one small step of its training, timed together.

    The times are compared with those of other builds. The result of the inference is compared with the CPU's.
    """
    import torchvision

    device = context.device()
    model = seeded(lambda: torchvision.models.resnet50(num_classes=10)).eval()
    image, batch = drawn(1, 3, 224, 224), drawn(4, 3, 64, 64)
    with on_cpu(), torch.no_grad():
        want, truth = model(image), to_double(model)(image.double())
    model, image, batch = model.to(device), image.to(device), batch.to(device)
    trained = copy.deepcopy(model)

    def work() -> tuple[Any, Any]:
        with torch.no_grad():
            logits = model(image)
        return logits, _train_step(trained, batch)

    first, (got, _) = timing.timed(work)
    times = timing.repeats(work, most=10, seconds=8.0)
    return {
        "checks": [check("logits", got, want, truth=truth, device=device.type)],
        "timing": {"first": first, "each": times, "items": 1, "cpu_each": []},
        "facts": {"weights": "seeded"},
    }
