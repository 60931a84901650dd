"""Take times of work on a device: each with its read-back, in bounded number and time.

Calls on a device are asynchronous and return in microseconds: a time without a read-back says nothing. So a work
is a function that returns the device's result (a tensor or a nest of them), and its time ends when every tensor
of it is in the host's memory. Seconds, with six digits. Standard library only.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, Callable

Work = Callable[[], Any]


def timed(work: Work) -> tuple[float, Any]:
    """Do the work once; return its seconds with read-back, and its result as it is on the device."""
    started = perf_counter()
    result = work()
    read_back(result)
    return float(f"{perf_counter() - started:.6g}"), result


def read_back(result: Any) -> None:
    """Wait until every tensor of the result is in the host's memory."""
    if hasattr(result, "cpu"):
        result.cpu()
    elif isinstance(result, dict):
        read_back(list(result.values()))
    elif isinstance(result, (list, tuple)):
        for item in result:
            read_back(item)


def repeats(work: Work, most: int, seconds: float, least: int = 1) -> list[float]:
    """Return the seconds of each repeat: ``least`` to ``most``, no new one when ``seconds`` are spent.

    The work has been done before: the first call compiles, and belongs to no repeat.
    """
    return interleaved({"": work}, most, seconds, least)[""]


def interleaved(works: dict[str, Work], most: int, seconds: float, least: int = 1) -> dict[str, list[float]]:
    """Return the seconds per work and round; every round does each work once, in turns forward and backward.

    What drifts (clock, heat, another program) then meets all of them alike.
    """
    found: dict[str, list[float]] = {name: [] for name in works}
    names = list(works)
    started = perf_counter()
    for turn in range(max(most, least)):
        if turn >= least and perf_counter() - started >= seconds:
            break
        for name in names if turn % 2 == 0 else names[::-1]:
            found[name].append(timed(works[name])[0])
    return found
