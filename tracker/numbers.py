"""Judge compared numbers: the *checks*, *statistics* and *claims* that a suite sends, against the limits below.

Pure, and total over any JSON: what can not be read is a finding of its own (``infra``), never an exception and
never a pass. The format of a check stands in ``suites/comparing.py``. One statistic of random numbers is::

    {"name": "normal_", "dtype": "float32", "count": 10000, "mean": 0.01, "std": 1.02,
     "want": {"mean": 0.0, "std": 1.0}}

A claim is a fact that is no tensor, and what it must be: ``{"name": "raises", "got": null, "want": "RuntimeError"}``.

An error is right up to ``atol + rtol * |reference| + NOISE_FACTOR * noise``, where the noise is what the CPU itself
is off at that precision: a deep computation is allowed more only as far as the CPU needs more. Messages give sizes
as powers of ten, because equal faults must have equal texts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tracker.model import Finding, State

# rtol and atol; those of torch.testing.assert_close (torch/testing/_comparison.py), complex like their parts.
TOLERANCES: Mapping[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
# Smallest normal numbers: below them a device may flush to zero, as DirectX lets it.
SMALLEST: Mapping[str, float] = {
    "float16": 6.2e-5,
    "float64": 2.3e-308,
    "complex32": 6.2e-5,
    "complex128": 2.3e-308,
}
SMALLEST_ELSE = 1.2e-38

NOISE_FACTOR = 8.0
"""How many times the CPU's own error is allowed: other orders of summing are no faults."""

BLURRED = 1000.0
"""A reference whose own error is larger than all that it gives, and than so many times atol, tells nothing."""

Z_LIMIT = 6.0
"""Standard errors that a mean or a spread may be off: of a billion right ones about two."""

LUCK = 2e-9
"""A chance below which nothing that is seen is put down to luck: that of Z_LIMIT standard errors."""

# Where the fault of a step shows first: what comes later in this order follows from what comes before.
ROLES: Mapping[str, str] = {
    "output": "",
    "loss": "loss-",
    "gradient": "gradient-",
    "buffer": "buffer-",
    "optimizer": "optimizer-",
}
# What a check can lack, the worst first: each says that what follows could not be compared, or means less.
FAULTS = (
    "missing",
    "shape",
    "dtype",
    "device",
    "nan",
    "inf",
    "zero",
    "non-deterministic",
    "values",
    "statistics",
    "claim",
)

RULES = (
    TOLERANCES,
    SMALLEST,
    SMALLEST_ELSE,
    NOISE_FACTOR,
    BLURRED,
    Z_LIMIT,
    LUCK,
    tuple(ROLES.items()),
    FAULTS,
)
"""All that a judge's digest must cover."""

UNREADABLE = "measures-unreadable"
_MAX_NAME = 100


class Unreadable(Exception):
    """A measure is not what it should be; the text says which and how, without its value."""


class _Fault(NamedTuple):
    """One thing that is wrong with one check: what, in which role, and in words."""

    state: State
    kind: str
    role: str
    message: str

    @property
    def order(self) -> tuple[int, int, int]:
        kind = FAULTS.index(self.kind) if self.kind in FAULTS else len(FAULTS)
        return _STATES.index(self.state), list(ROLES).index(self.role), kind


# What is proven wrong stays wrong, whatever else can not be read or has no reference.
_STATES = (State.WRONG, State.INFRA, State.NO_REFERENCE)


def diagnose(measures: Mapping[str, Any]) -> Finding | None:
    """Return the worst that the checks and statistics say, or None when there is nothing against them."""
    judges = {"checks": _check, "statistics": _statistic, "claims": _claim}
    faults = [fault for key, judge in judges.items() for fault in _faults(measures, key, judge)]
    if not faults:
        return None
    worst = min(faults, key=lambda fault: fault.order)  # of equals the first
    others = " (and others)" if sum(fault.state is worst.state for fault in faults) > 1 else ""
    reason = worst.kind if worst.state is not State.WRONG else ROLES[worst.role] + worst.kind
    return Finding(worst.state, reason, worst.message + others)


def unreadable(problem: Unreadable) -> Finding:
    """Return the finding for measures that are not what they should be."""
    return Finding(State.INFRA, UNREADABLE, str(problem))


def _faults(measures: Mapping[str, Any], key: str, judge: Any) -> Iterator[_Fault]:
    """Yield the fault of each item of a list of measures that has one."""
    items = measures.get(key)
    if items is None:
        return
    if not isinstance(items, list):
        yield _Fault(State.INFRA, UNREADABLE, "output", f"{key} is not a list")
        return
    for item in items:
        try:
            fault = judge(item)
        except Unreadable as problem:
            fault = _Fault(State.INFRA, UNREADABLE, "output", f"{key}: {problem}")
        if fault is not None:
            yield fault


# --- one check -------------------------------------------------------------------------------------------


def _check(item: Any) -> _Fault | None:
    """Return the first fault of a check in the order of ``FAULTS``, or None."""
    role, label = _role(item), _label(item)
    found = _absent(item) or _facts(item) or _values(item)
    if found is None:
        return None
    kind, text = found
    state = State.NO_REFERENCE if kind == _RESTLESS else State.WRONG
    return _Fault(state, kind, role, f"{label}: {text}")


_RESTLESS = "reference-differs"
_Said = tuple[str, str] | None


def _role(item: Any) -> str:
    if not isinstance(item, dict):
        raise Unreadable("an entry is not an object")
    role = item.get("role", "output")
    if not isinstance(role, str) or role not in ROLES:
        raise Unreadable("an entry has a role that is not known")
    return role


def _label(item: Mapping[str, Any]) -> str:
    name, part = item.get("name"), item.get("part", "")
    if not isinstance(name, str) or not isinstance(part, str) or not name:
        raise Unreadable("an entry has no name")
    return f"{name[:_MAX_NAME]} of {part[:_MAX_NAME]}" if part else name[:_MAX_NAME]


def _absent(item: Mapping[str, Any]) -> _Said:
    why = item.get("missing")
    if why is None:
        return None
    if not isinstance(why, str):
        raise Unreadable("missing is not a text")
    return "missing", why[:_MAX_NAME] or "missing"


def _facts(item: Mapping[str, Any]) -> _Said:
    """Return the first of shape, dtype and device that is not as it must be."""
    want = item.get("want", {})
    if not isinstance(want, dict):
        raise Unreadable("want is not an object")
    if wrong := sorted(want.keys() - {"shape", "dtype", "device"}):
        raise Unreadable(f"want has {wrong[0][:_MAX_NAME]!r}")
    for kind in ("shape", "dtype", "device"):
        if kind in want:
            have, must = (_fact(kind, where.get(kind)) for where in (item, want))
            return kind, f"{kind} {have} instead of {must}"
    return None


def _fact(kind: str, value: Any) -> str:
    if kind != "shape":
        return _text(value, kind)
    if not isinstance(value, list) or not all(isinstance(size, int) for size in value[:_MAX_NAME]):
        raise Unreadable("shape is not a list of sizes")
    return str(value[:_MAX_NAME])


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise Unreadable(f"{what} is not a text")
    return value[:_MAX_NAME]


def _values(item: Mapping[str, Any]) -> _Said:
    """Return what the values say, once shape, dtype and device are right."""
    dtype, scale, noise = _text(item.get("dtype"), "dtype"), _size(item, "scale"), _size(item, "noise")
    nan, inf = _pair(item, "nan"), _pair(item, "inf")
    differ, worst = _size(item, "mismatched"), list(_points(item))
    exact = dtype not in TOLERANCES
    if exact and worst:
        raise Unreadable(f"there is no limit for errors of {dtype}")
    if not math.isfinite(scale + noise):
        return _RESTLESS, "the CPU's own error is not finite"
    if not exact and noise > max(scale, BLURRED * TOLERANCES[dtype][1]):
        return _RESTLESS, "the CPU's own error is larger than its result"
    floor = 0.0 if exact else _limit(dtype, scale)
    if _size(item, "repeat_reference") > floor:
        return _RESTLESS, "two runs on the CPU differ"
    for kind, counts, word in (("nan", nan, "NaN"), ("inf", inf, "infinite")):
        if any(counts):
            return kind, f"{word} where the CPU is not" if counts[0] else f"not {word} where the CPU is"
    allowed = floor + NOISE_FACTOR * noise
    again = _size(item, "repeat_device")
    off = _beyond(dtype, noise, worst)
    return (
        _zero(item, dtype, scale, noise, off is not None)
        or (("non-deterministic", _restless(again, allowed, exact)) if again > allowed else None)
        or (("values", off) if off else None)
        or (("values", "whole numbers differ" + _all_zero(item)) if differ else None)
    )


def _restless(again: float, allowed: float, exact: bool) -> str:
    if exact:
        return "two runs on the device differ"
    return f"two runs on the device differ by about {power(again)}, allowed is {power(allowed)}"


def _limit(dtype: str, size: float) -> float:
    rtol, atol = TOLERANCES[dtype]
    return atol + rtol * size


def _beyond(dtype: str, noise: float, worst: list[tuple[float, float]]) -> str | None:
    """Return the point that is furthest beyond its limit, in words; None when all are within."""
    limits = [(error, _limit(dtype, size) + NOISE_FACTOR * noise) for size, error in worst]
    beyond = [(error / limit, error, limit) for error, limit in limits if error > limit]
    if not beyond:
        return None
    _, error, limit = max(beyond)
    return f"error of about {power(error)}, allowed is {power(limit)}"


def _zero(item: Mapping[str, Any], dtype: str, scale: float, noise: float, beyond: bool) -> _Said:
    """Return that a result is all zero, where it can not be so by rounding.

    A gradient can be smaller than any limit and yet must not vanish; one that is noise on the CPU may.
    """
    if item.get("zeros") is not True:
        return None
    gradient = _role(item) == "gradient"
    real = noise > 0 and scale > NOISE_FACTOR * noise and scale > SMALLEST.get(dtype, SMALLEST_ELSE)
    if not beyond and not (gradient and real):
        return None
    return ("zero" if gradient else "values"), f"all zero, the CPU's are up to {power(scale)}"


def _all_zero(item: Mapping[str, Any]) -> str:
    return ", all are zero on the device" if item.get("zeros") is True else ""


# --- statistics ------------------------------------------------------------------------------------------


def _statistic(item: Any) -> _Fault | None:
    """Return whether the mean or the spread of random numbers can not be by chance.

    The standard error of a spread is taken as std * sqrt(2 / count), which is that of the exponential
    distribution: twice a normal one's, so that no common distribution is convicted for its tails.
    """
    role, label = _role(item), _label(item)
    want = item.get("want")
    if not isinstance(want, dict):
        raise Unreadable("a statistic has no object 'want'")
    count, std = _size(item, "count", needed=True), _size(want, "std", needed=True)
    if not count or not math.isfinite(count + std):
        raise Unreadable("a statistic has no count or no finite spread")
    for name, error in (("mean", std / math.sqrt(count)), ("std", std * math.sqrt(2 / count))):
        got, must = number(item.get(name), name), number(want.get(name), name)
        rtol, atol = TOLERANCES.get(str(item.get("dtype")), (0.0, 0.0))
        if not abs(got - must) <= Z_LIMIT * error + atol + rtol * abs(must):  # NaN too
            return _Fault(State.WRONG, "statistics", role, f"{label}: {name} can not be so by chance")
    by_chance = number(want.get("alike", 0), "alike") >= LUCK
    if item.get("distinct") == 0 and want.get("distinct", 0) != 0 and not by_chance:
        return _Fault(State.WRONG, "statistics", role, f"{label}: every call gives the same numbers")
    return None


# --- claims ----------------------------------------------------------------------------------------------


def _claim(item: Any) -> _Fault | None:
    """Return that a fact is not what it must be, as JSON sees it: 1, 1.0 and true are three different things."""
    role, label = _role(item), _label(item)
    if "got" not in item or "want" not in item:
        raise Unreadable("a claim has no 'got' or no 'want'")
    got, want = (json.dumps(item[key], sort_keys=True) for key in ("got", "want"))
    if got == want:
        return None
    return _Fault(State.WRONG, "claim", role, f"{label} is {got[:_MAX_NAME]}, right is {want[:_MAX_NAME]}")


# --- reading ---------------------------------------------------------------------------------------------

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def number(value: Any, what: str) -> float:
    """Return a number as JSON or ``suites/worker.py`` says it; raise Unreadable for anything else."""
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unreadable(f"{what} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise Unreadable(f"{what} is beyond any number") from None


def size(value: Any, what: str) -> float:
    """Return a number from 0 up, infinity included; raise Unreadable for anything else."""
    found = number(value, what)
    if not found >= 0:
        raise Unreadable(f"{what} is negative or NaN")
    return found


def _size(item: Mapping[str, Any], key: str, *, needed: bool = False) -> float:
    return size(item[key], key) if needed and key in item else size(item.get(key, None if needed else 0), key)


def _pair(item: Mapping[str, Any], key: str) -> tuple[float, float]:
    value = item.get(key, [0, 0])
    if not isinstance(value, list) or len(value) != 2:
        raise Unreadable(f"{key} is not a pair")
    return size(value[0], key), size(value[1], key)


def _points(item: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """Yield |reference| and |error| of each point; the first must be finite."""
    points = item.get("worst", [])
    if not isinstance(points, list):
        raise Unreadable("worst is not a list")
    for point in points:
        here, error = _pair({"worst": point}, "worst")
        if math.isinf(here):
            raise Unreadable("worst has a reference that is infinite")
        yield here, error


def power(value: float) -> str:
    """Return the power of ten at or below a number from 0 up, such as ``1e-5``."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"1e{math.floor(math.log10(value) + 1e-9)}"
