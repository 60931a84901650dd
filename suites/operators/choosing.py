"""Choose few samples of many so that they differ as much as they can. Pure: knows samples by their features."""

from __future__ import annotations

from typing import Any, FrozenSet, Sequence

Features = FrozenSet[str]


def varied(features: Sequence[Features], sizes: Sequence[int], most: int) -> list[int]:
    """Return at most ``most`` positions, in order: the first, the largest, then whatever shows most that is new.

    ``sizes``: elements per sample. The first is the plainest use of the operator; the largest is where a sum or
    an index goes wrong.
    """
    left = list(range(len(features)))
    chosen: list[int] = []
    seen: set[str] = set()

    def take(at: int) -> None:
        left.remove(at)
        chosen.append(at)
        seen.update(features[at])

    if left and most > 0:
        take(next((at for at in left if sizes[at]), left[0]))
    if left and most > 1:
        take(max(left, key=lambda at: (sizes[at], -at)))
    while left and len(chosen) < most:
        take(max(left, key=lambda at: (len(features[at] - seen), -at)))
    return sorted(chosen)


def described(input: Any, args: Sequence[Any], kwargs: dict[str, Any], shape_of: Any) -> Features:
    """Return what is particular about one sample.

    ``shape_of(value)`` gives (dims, elements, contiguous, dtype) of a tensor and None of anything else.
    """
    found = {f"args:{len(args)}"}
    first = shape_of(input)
    for place, value in [("input", input), *enumerate(args), *kwargs.items()]:
        shape = shape_of(value)
        if shape is None:
            found.add(f"{place}={_word(value)}")
            continue
        dims, elements, contiguous, dtype = shape
        found.add(f"{place}:{min(dims, 4)}d:{dtype}")
        if not elements:
            found.add("empty")
        if not contiguous:
            found.add(f"{place}:strided")
        if first is not None and place != "input" and dims != first[0]:
            found.add("broadcast")
    return frozenset(found)


def _word(value: Any) -> str:
    """Return a coarse word for an argument: options count by value, numbers by sign and whether they are whole."""
    if value is None or isinstance(value, (bool, str)):
        return repr(value)
    if isinstance(value, (int, float)):
        return "0" if value == 0 else type(value).__name__ + ("-" if value < 0 else "+") + _kind(value)
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}{min(len(value), 4)}"
    return type(value).__name__


def _kind(value: float) -> str:
    """Return what a probability of a half is and one of 1 is not."""
    return "" if value in (float("inf"), float("-inf")) or value == round(value) else "part"
