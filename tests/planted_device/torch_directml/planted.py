"""Which build this is; written anew for each wheel."""

from __future__ import annotations

FAULT = "clean"
KERNELS: tuple[str, ...] = ("add.Tensor", "convolution", "lerp.Scalar", "native_batch_norm")
