"""Which build this is; written anew for each wheel."""

from __future__ import annotations

FAULT = "clean"
KERNELS: tuple[str, ...] = ("add.Tensor", "convolution", "lerp.Scalar", "native_batch_norm")
COUNTERS, VERSION = "", ""  # a folder for what comes and goes, and the build's version
