"""Make the lists of cases: which operators and dtypes torch's OpInfo database has.

In an environment of each torch, then once anywhere, from the folder that holds ``suites``::

    python -m suites.operators.listing > torch-2.4.1.json
    python -m suites.operators.listing merge torch-*.json

The second writes the union to ``forward.json``, ``backward.json`` and ``refusals.json`` beside this file, one
row per case; what a small run also has stands in ``core-forward.json`` and ``core-backward.json`` instead,
and operators that make complex numbers in ``complex-forward.json`` and ``complex-backward.json``. What a
torch lacks of it, a case says when it runs.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, List

FORWARD = ("float32", "float16", "int64", "int32", "bool")
BACKWARD = ("float32", "float16")
REFUSALS = ("bfloat16", "float64", "complex64")
"""Dtypes of which it is asked whether the backend refuses them cleanly; each has a gate."""

CORE = (
    *("add", "sub", "mul", "div.no_rounding_mode", "div.floor_rounding", "pow", "sqrt", "exp", "log", "tanh"),
    *("sigmoid", "erf", "clamp", "where", "eq", "abs", "neg", "sum", "mean", "var", "prod", "amax", "cumsum"),
    *(
        "max.reduction_with_dim",
        "argmax",
        "sort",
        "topk",
        "norm",
        "std",
        "matmul",
        "mm",
        "bmm",
        "addmm",
        "baddbmm",
    ),
    *("einsum", "masked_fill", "index_select", "gather", "scatter", "scatter_add", "index_put", "index_add"),
    *("__getitem__", "cat", "stack", "split", "chunk", "roll", "flip", "repeat", "tril", "triu", "nonzero"),
    *("transpose", "permute", "reshape", "expand", "unfold", "clone", "contiguous", "fill", "zero_", "lerp"),
    *("softmax", "log_softmax", "nn.functional.relu", "nn.functional.gelu", "nn.functional.silu"),
    *("nn.functional.hardswish", "nn.functional.hardsigmoid", "nn.functional.leaky_relu"),
    *("nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv_transpose2d"),
    *("nn.functional.linear", "nn.functional.embedding", "nn.functional.layer_norm"),
    *("nn.functional.batch_norm", "nn.functional.group_norm", "nn.functional.dropout"),
    *("nn.functional.max_pool2d", "nn.functional.avg_pool2d", "nn.functional.adaptive_avg_pool2d"),
    *(
        "nn.functional.interpolate.nearest",
        "nn.functional.interpolate.bilinear",
        "nn.functional.pad.constant",
    ),
    *("nn.functional.cross_entropy", "nn.functional.nll_loss", "nn.functional.mse_loss"),
    *("nn.functional.binary_cross_entropy_with_logits", "nn.functional.scaled_dot_product_attention"),
    *(
        "bernoulli",
        "randn_like",
        "normal",
        "floor_divide",
        "remainder",
        "bitwise_and",
        "logical_not",
        "float",
    ),
)
"""What models are made of, of each kind of operator some: the operators of a small run."""

MAKES_COMPLEX = re.compile(
    r"fft\.(?!i?fftshift)|i?stft$|complex$|polar$|c(float|half|double)$|linalg\.eig(vals)?$|view_as_complex$|view_as_real$|to\.complex$"
)
"""Operators that make complex numbers of real ones on their way: they come after a gate of their own."""

Listing = Dict[str, Dict[str, List[str]]]


def listing() -> Listing:
    """Return {operator: {"forward": [dtype, ...], "backward": [dtype, ...]}} of the torch at hand."""
    from suites.operators import database

    found = {}
    for name, operator in sorted(database.operators().items()):
        forward = {str(dtype)[6:] for dtype in database.forward_dtypes(operator)}
        backward = {str(dtype)[6:] for dtype in database.backward_dtypes(operator)}
        found[name] = {
            "forward": [dtype for dtype in (*FORWARD, *REFUSALS) if dtype in forward],
            "backward": [dtype for dtype in BACKWARD if dtype in backward],
        }
    return found


def merged(listings: Iterable[Listing]) -> dict[str, list[dict[str, str]]]:
    """Return the rows per file name: the union of the listings, by operator and then in our order of dtypes."""
    union: dict[str, dict[str, set[str]]] = {}
    for one in listings:
        for name, passes in one.items():
            for kind, dtypes in passes.items():
                union.setdefault(name, {}).setdefault(kind, set()).update(dtypes)

    def rows(kind: str, order: Iterable[str]) -> list[dict[str, str]]:
        return [
            {"op": name, "dtype": dtype}
            for name in sorted(union)
            for dtype in order
            if dtype in union[name].get(kind, ())
        ]

    found = {"refusals.json": rows("forward", REFUSALS)}
    for kind, order in (("forward", FORWARD), ("backward", BACKWARD)):
        every = rows(kind, order)
        found.update({f"{part}{kind}.json": [] for part in ("core-", "complex-", "")})
        for row in every:
            found[f"{_part(row['op'])}{kind}.json"].append(row)
    return found


def _part(name: str) -> str:
    return "core-" if name in CORE else "complex-" if MAKES_COMPLEX.match(name) else ""


def written(rows: list[Any]) -> str:
    """Return the rows as JSON with one row per line, so that a difference can be read."""
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    return f"[\n{lines}\n]\n"


def main(arguments: list[str]) -> None:
    """Print the listing of this torch, or unite those that are named."""
    if arguments[:1] != ["merge"]:
        print(json.dumps(listing(), indent=0))
        return
    listings = [json.loads(Path(name).read_text("utf-8")) for name in arguments[1:]]
    for name, rows in merged(listings).items():
        Path(__file__).with_name(name).write_bytes(written(rows).encode())
        print(f"{name}: {len(rows)} rows")


if __name__ == "__main__":
    main(sys.argv[1:])
