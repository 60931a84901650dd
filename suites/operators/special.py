"""Operators of whose result only a part is determined, and what of it can be compared; each with its reason.

Everything else is compared as it is. Names are those of the ids. Random operators are not
listed: the CPU shows which they are by another seed.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import torch

Inputs = Tuple[Any, Tuple[Any, ...], Dict[str, Any]]
Parts = Callable[[Any, Inputs], Dict[str, Any]]

_UNINITIALISED = "its memory is uninitialised"
_RANDOMISED = "a randomised algorithm"

SHAPE_ONLY: dict[str, str] = {
    "empty": _UNINITIALISED,
    "empty_like": _UNINITIALISED,
    "empty_permuted": _UNINITIALISED,
    "empty_strided": _UNINITIALISED,
    "new_empty": _UNINITIALISED,
    "new_empty_strided": _UNINITIALISED,
    "resize_": _UNINITIALISED,
    "resize_as_": _UNINITIALISED,
    "pca_lowrank": _RANDOMISED,
    "svd_lowrank": _RANDOMISED,
}
"""Only shape, dtype and device are compared, for this reason."""

NO_TRUTH: dict[str, str] = {
    "nan_to_num": "the largest finite number is another one in float64",
    "nextafter": "the neighbour is another one in float64",
}
"""Compared with the CPU at the same dtype alone: in float64 another answer is right, for this reason."""

BROKEN_GRADIENTS: dict[str, tuple[tuple[int, int], str, str]] = {
    "as_strided_scatter": (
        (2, 0),
        "torch-issue-88105",
        "the CPU's gradient is masked by uninitialised memory (pytorch/pytorch#88105)",
    ),
}
"""Operators whose gradient is wrong on the CPU before a version of torch: version, reason slug, reason."""


def broken_gradient(name: str, version: str) -> tuple[str, str] | None:
    """Return slug and text of why this torch is no reference for the operator's gradient, or None."""
    before, slug, why = BROKEN_GRADIENTS.get(name, ((0, 0), "", ""))
    major, minor = (int(part) for part in version.split(".")[:2])
    return (slug, why) if (major, minor) < before else None


def _pointed(place: int, only_indices: bool = False) -> Parts:
    """Values with indices: where values are equal any of their indices is right, so what they point at counts.

    ``place`` is where ``dim`` stands among the arguments. Without a dim some give the value alone.
    """

    def parts(result: Any, inputs: Inputs) -> dict[str, Any]:
        if isinstance(result, torch.Tensor) and not only_indices:
            return {"values": result}
        values, indices = (None, result) if only_indices else (result[0], result[1])
        source, args, kwargs = inputs
        found = args[place] if len(args) > place else kwargs.get("dim", -1)
        dim = found if isinstance(found, int) and not isinstance(found, bool) else -1
        pointed = _gather(source.detach(), indices, dim)
        return {"pointed": pointed} if values is None else {"values": values, "pointed": pointed}

    return parts


def _gather(source: torch.Tensor, indices: torch.Tensor, dim: int) -> torch.Tensor:
    if not source.dim():
        return source.expand(indices.shape)
    full = indices if indices.dim() == source.dim() else indices.unsqueeze(dim)
    return source.gather(dim, full).reshape(indices.shape)


def _singular(adjoint: bool) -> Parts:
    """U, S and V (``adjoint``: V^H): singular values, and the matrix that the three make."""

    def parts(result: Any, inputs: Inputs) -> dict[str, Any]:
        left, values, right = (_wide(item) for item in result)
        if not left.numel() or not right.numel() or inputs[2].get("compute_uv") is False:
            return {"values": result[1]}
        count = values.shape[-1]
        right = right if adjoint else right.transpose(-1, -2).conj()
        made = (left[..., :count] * values.unsqueeze(-2)) @ right[..., :count, :]
        return {"values": result[1], "matrix": made.to(result[0].dtype)}

    return parts


def _hermitian(result: Any, inputs: Inputs) -> dict[str, Any]:
    """Eigenvalues, and the matrix that they make with their vectors, whose signs are free."""
    values, vectors = (_wide(item) for item in result)
    made = (vectors * values.unsqueeze(-2)) @ vectors.transpose(-1, -2).conj()
    return {"values": result[0], "matrix": made.to(result[1].dtype)}


def _eigen(result: Any, inputs: Inputs) -> dict[str, Any]:
    """Eigenvalues, and what the matrix makes of their vectors: A V = V w, where signs and lengths are free."""
    values, vectors = (_wide(item) for item in result)
    lengths = vectors.abs().pow(2).sum(-2)
    made = vectors * values.unsqueeze(-2) @ torch.linalg.pinv(vectors) if vectors.numel() else vectors
    return {
        "values": result[0],
        "lengths": lengths.to(result[0].real.dtype),
        "matrix": made.to(result[1].dtype),
    }


def _orthogonal(result: Any, inputs: Inputs) -> dict[str, Any]:
    """Q and R: their product and the sizes of R's elements; signs are free."""
    first, second = (_wide(item) for item in result)
    sizes = second.abs().to(result[1].real.dtype if result[1].is_complex() else result[1].dtype)
    if not first.numel():
        return {"sizes": sizes}
    return {"sizes": sizes, "matrix": (first @ second).to(result[0].dtype)}


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128) if tensor.is_complex() else tensor.double()


DETERMINED: dict[str, Parts] = {
    "argsort": _pointed(0, only_indices=True),
    "sort": _pointed(0),
    "cummax": _pointed(0),
    "cummin": _pointed(0),
    "median": _pointed(0),
    "nanmedian": _pointed(0),
    "mode": _pointed(0),
    "kthvalue": _pointed(1),
    "topk": _pointed(1),
    "svd": _singular(adjoint=False),
    "linalg.svd": _singular(adjoint=True),
    "linalg.eigh": _hermitian,
    "linalg.eig": _eigen,
    "qr": _orthogonal,
    "linalg.qr": _orthogonal,
}
"""What is determined of a result, computed on the CPU from the result brought home and the sample's inputs."""
