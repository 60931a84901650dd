"""The planted builds, in the order of their versions, and the cases that find what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass

KERNELS = ("add.Tensor", "argmax", "convolution", "lerp.Scalar", "native_batch_norm", "native_layer_norm")


@dataclass(frozen=True)
class Build:
    """A build with one fault of ``tests/planted_device/torch_directml/faults.py``; the version carries its name."""

    number: int
    fault: str
    kernels: tuple[str, ...] = KERNELS

    @property
    def version(self) -> str:
        """Such as ``1.3+no.float16``."""
        return f"1.{self.number}+{self.fault.replace('-', '.')}"


COSTLY = (
    "clean",
    "frozen-buffers",
    "stutter",
    "leak",
    "abort-batch",
    "nan-batch",
    "no-float16",
    "slow-float16",
)
"""Faults that are found by whole nets, neighbours in the order of versions."""
QUICK = (
    "zero-gradient",
    "strided-input",
    "segfault-backward",
    "hang-read-back",
    "fallback",
    "clean",
    "wrong-dtype",
    "off-float16",
    "off-float32",
    "non-deterministic",
    "leaking-mode",
    "expanded-gradient",
    "clean",
)
"""Faults that are found by pieces and operators."""
HARMLESS = ("clean", "off-float16")
"""What must not be found: 3e-3 are less than what float16 itself loses."""

BUILDS = tuple(
    # What a build has no kernel for it computes on the CPU.
    Build(number, fault, tuple(name for name in KERNELS if fault != "fallback" or name != "lerp.Scalar"))
    for number, fault in enumerate((*COSTLY, "clean", *QUICK))
)
WITH_NETS = BUILDS[: len(COSTLY) + 1]

CASES = (
    "census/*",
    "vit/piece/layer_norm/contiguous",
    "vit/piece/layer_norm/permuted",
    "vit/piece/gelu/none",
    "operators/argmax/float32/forward",
    "operators/roll/float32/forward",
    "operators/cumsum/float32/forward",
    "operators/div.floor_rounding/float32/forward",
    "operators/div.no_rounding_mode/float32/forward",
    "operators/lerp/float32/forward",
    "operators/nn.functional.gelu/float16/forward",
    "operators/nn.functional.gelu/float32/*",
    "operators/nn.functional.mse_loss/float32/backward",
)
"""What is run in every build."""
NETS = (
    "inference/resnet18/batch8@small",
    "inference/resnet18/batch16@small",
    "fp16/resnet18/half/batch8@small",
    "training/resnet18/sgd@small",
    "training/ladder/resnet18/batch32@small",
    "operators/argmax/float32/forward",  # it has run; with its suite the environments are those made before
)
"""What is run in ``WITH_NETS`` only: these take most of the time."""
