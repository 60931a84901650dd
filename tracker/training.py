"""Say in words where a training on the device and the same training on the CPU part; pure and total.

It reads what ``suites/training`` measured (the key ``training`` of a case's measures)::

    {"watched": [{"step": 1,
                  "worst": {"loss": point, "gradient": point, "buffer": point, "optimizer": point},
                  "missing": named, "zero": named, "lost_graph": ["layer1.0"],
                  "frozen_buffers": named, "frozen_weights": named}, ...],
     "curves": {"device": curve, "cpu": curve, "controls": [curve, ...]},
     "evaluation": {"device_weights": scores, "cpu_weights": scores},
     "losses": [2.3, 2.2, ...]}                        # of a case that only has steps
    point:  {"part": "bn1.running_mean", "size": 0.5, "error": 1e-4, "noise": 1e-7, "odd": ["nan"]}
    named:  {"count": 2, "of": 20, "names": ["bn1.running_mean", "bn1.running_var"]}
    curve:  {"steps": [...], "train_loss": [per epoch], "test_loss": [before, after each epoch]}
    scores: {"device": {"loss", "accuracy"}, "cpu": {...}, "batch_statistics": {...}, "worst": point}

Training is chaotic: two runs of one CPU part by more than any tolerance after a dozen steps. So a *part* is blamed
by what is not chaotic only: single steps that both did from the same state, and the same weights evaluated on
both. A *symptom* in the curves is what no control run on the CPU comes near to. Numbers may be missing, or be
the texts "nan" and "inf": what can not be read is no evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tracker.model import State

Diagnosis = tuple[State, str, str]
_Curve = Mapping[str, Any]

_ATOL, _RTOL, _NOISES = 1e-5, 1.3e-6, 8.0
"""Limit of a point's error: ATOL + RTOL * size + NOISES * noise; of float32, as for every other check."""
_LEAST_FALL = 0.05
"""Share of its beginning that a loss must fall by on every CPU run before anything is said of the device's."""
_FLAT = 0.5
"""A loss is flat that falls by less than this share of what it fell by on the CPU run where it fell least."""


class Evidence(NamedTuple):
    """What shows that one part is at fault, and the reason that it is by itself."""

    part: str
    reason: str
    words: str


class Symptom(NamedTuple):
    """How the curves part."""

    reason: str
    words: str


def diagnose(training: Mapping[str, Any]) -> Diagnosis | None:
    """Return state, reason and message of the first fault that a training shows, or None.

    A gradient that is silently absent goes first. Else the reason joins the symptom and the part to blame,
    ``test-loss-flat-buffers``, or is the part's own, ``buffers-not-updated``, while the curves look fine.
    """
    blamed = next(_evidence(training), None)
    symptom = _symptom(training)
    if blamed is not None and blamed.reason in _SILENT.values():
        return State.WRONG, blamed.reason, _joined(blamed.words, symptom.words if symptom else "")
    if symptom is not None:
        blamed = blamed or _buffers_by_evaluation(training)
        part = blamed.part if blamed else "unexplained"
        return State.WRONG, f"{symptom.reason}-{part}", _joined(symptom.words, blamed.words if blamed else "")
    return (State.WRONG, blamed.reason, blamed.words) if blamed else None


def _joined(*words: str) -> str:
    return "; ".join(filter(None, words))


# --- evidence against a part -----------------------------------------------------------------------------

_SILENT: Mapping[str, str] = {"missing": "gradient-missing", "zero": "gradient-zero"}

# In the order in which one fault brings the next about, within a step.
_PARTS: Sequence[tuple[str, str, str]] = (
    ("loss", "forward", "loss-values"),
    ("gradient", "gradient", "gradient-values"),
    ("buffer", "buffers", "buffer-values"),
    ("optimizer", "optimizer", "optimizer-values"),
)
_FROZEN: Mapping[str, tuple[str, str, str]] = {
    "buffer": ("frozen_buffers", "buffers-not-updated", "buffers stay as they were"),
    "optimizer": ("frozen_weights", "weights-not-updated", "weights stay as they were"),
}

RULES = (
    _ATOL,
    _RTOL,
    _NOISES,
    _LEAST_FALL,
    _FLAT,
    tuple(_SILENT.items()),
    tuple(_PARTS),
    tuple(_FROZEN.items()),
)
"""All that a judge's digest must cover."""


def _evidence(training: Mapping[str, Any]) -> Iterator[Evidence]:
    """Yield what is certain, the earliest step first."""
    steps = [step for step in _list(training.get("watched")) if isinstance(step, Mapping)]
    for step in steps:
        yield from _silent(step)
    for step in steps:
        yield from _of_step(step)
    yield from _evaluated(training)


def _silent(step: Mapping[str, Any]) -> Iterator[Evidence]:
    at = _at(step)
    lost = ", ".join(_names(step.get("lost_graph")))
    graph = f"; the results of {lost} have lost their graph" if lost else ""
    for key, reason in _SILENT.items():
        if said := _counted(step.get(key)):
            what = "have no gradient" if key == "missing" else "have a gradient of zeros"
            yield Evidence("gradient", reason, f"{at}{said} {what}{graph}")
    if lost:
        yield Evidence("gradient", _SILENT["missing"], f"{at}the results of {lost} have lost their graph")


def _of_step(step: Mapping[str, Any]) -> Iterator[Evidence]:
    worst = _mapping(step.get("worst"))
    for role, part, reason in _PARTS:
        point = worst.get(role)
        if not _is_beyond(point):
            continue
        key, frozen, what = _FROZEN.get(role, ("", "", ""))
        if said := _counted(step.get(key)):
            yield Evidence(part, frozen, f"{_at(step)}{said} {what}")
        else:
            yield Evidence(part, reason, f"{_at(step)}{role} {_point(point)}")


def _evaluated(training: Mapping[str, Any]) -> Iterator[Evidence]:
    both = _mapping(training.get("evaluation"))
    for key, whose in (("device_weights", "the device's"), ("cpu_weights", "the CPU's")):
        scores = _mapping(both.get(key))
        if _is_beyond(scores.get("worst")):
            there, here = (_loss(scores.get(name)) for name in ("device", "cpu"))
            said = f"{whose} weights have a test loss of {_short(there)} on the device, {_short(here)} on the CPU"
            yield Evidence("evaluation", "evaluation-values", said)


def _buffers_by_evaluation(training: Mapping[str, Any]) -> Evidence | None:
    """Blame the buffers where the device's weights do well with the batch's statistics, and only with them."""
    both = _mapping(training.get("evaluation"))
    mine, theirs = _mapping(both.get("device_weights")), _mapping(both.get("cpu_weights"))
    gathered, batch = _loss(mine.get("cpu")), _loss(mine.get("batch_statistics"))
    right = _loss(theirs.get("cpu"))
    if gathered is None or batch is None or right is None or math.isnan(batch) or math.isnan(right):
        return None
    if not (math.isnan(gathered) or gathered - right > 2 * abs(batch - right)):
        return None
    said = f"evaluated with statistics of the batch the same weights have {_short(batch)}, not {_short(gathered)}"
    return Evidence("buffers", "buffer-values", said)


def _is_beyond(point: Any) -> bool:
    """Whether a point shows a difference that rounding does not explain."""
    point = _mapping(point)
    if _list(point.get("odd")):
        return True
    size, error, noise = (_number(point.get(key)) for key in ("size", "error", "noise"))
    if size is None or error is None or not math.isfinite(size):
        return False
    limit = _ATOL + _RTOL * abs(size) + _NOISES * (noise if noise is not None and noise > 0 else 0.0)
    return math.isnan(error) or error > limit


def _point(point: Any) -> str:
    point = _mapping(point)
    if odd := _names(point.get("odd")):
        said = f"differs ({', '.join(odd)})"
    else:
        said = f"is off by {_short(_number(point.get('error')))} at {_short(_number(point.get('size')))}"
    part = point.get("part")
    return f"of {part} {said}" if isinstance(part, str) and part else said


def _at(step: Mapping[str, Any]) -> str:
    number = step.get("step")
    return f"step {number}: " if isinstance(number, int) and not isinstance(number, bool) else ""


def _counted(named: Any) -> str:
    """Return ``2 of 20 (a, b)``, or nothing where nothing is counted."""
    named = _mapping(named)
    count, of = named.get("count"), named.get("of")
    if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
        return ""
    names = _names(named.get("names"))
    listed = ", ".join(names) + (", ..." if count > len(names) else "")
    return f"{count} of {of} ({listed})" if names else f"{count} of {of}"


# --- symptoms in the curves ------------------------------------------------------------------------------


def _symptom(training: Mapping[str, Any]) -> Symptom | None:
    curves = _mapping(training.get("curves"))
    device, cpu = _mapping(curves.get("device")), _mapping(curves.get("cpu"))
    runs = [cpu, *(_mapping(run) for run in _list(curves.get("controls")))]
    return (
        _not_finite("training-loss", "losses", training, [])
        or _not_finite("training-loss", "steps", device, runs)
        or _flat("training-loss", "train_loss", device, runs)
        or _not_finite("test-loss", "test_loss", device, runs)
        or _flat("test-loss", "test_loss", device, runs)
    )


def _not_finite(name: str, key: str, device: _Curve, runs: Sequence[_Curve]) -> Symptom | None:
    """Return the symptom of a loss that is no number, while that of every other run is one."""
    losses = _numbers(device.get(key))
    first = next((at for at, loss in enumerate(losses) if not math.isfinite(loss)), None)
    if first is None or not all(math.isfinite(loss) for run in runs for loss in _numbers(run.get(key))):
        return None
    words = name.replace("-", " ")
    return Symptom(f"{name}-nan", f"the {words} is {losses[first]} at reading {first + 1} of {len(losses)}")


def _flat(name: str, key: str, device: _Curve, runs: Sequence[_Curve]) -> Symptom | None:
    """Return the symptom of a loss that falls on every CPU run and not on the device.

    The CPU runs make the band: the more they differ among themselves, the less is said. A single run makes none.
    """
    mine = _numbers(device.get(key))
    theirs = [_numbers(run.get(key)) for run in runs]
    if len(mine) < 2 or len(theirs) < 2 or any(len(run) != len(mine) for run in theirs):
        return None
    if not all(math.isfinite(loss) for run in (mine, *theirs) for loss in (run[0], run[-1])):
        return None
    falls = [run[0] - run[-1] for run in theirs]
    least, spread = min(falls), max(falls) - min(falls)
    start = abs(theirs[0][0])
    if least < _LEAST_FALL * start or mine[0] - mine[-1] >= _FLAT * least - spread:
        return None
    said = (
        f"the {name.replace('-', ' ')} goes from {_short(mine[0])} to {_short(mine[-1])}, "
        f"on the CPU from {_short(theirs[0][0])} to {_short(theirs[0][-1])}"
    )
    return Symptom(f"{name}-flat", said)


# --- reading ---------------------------------------------------------------------------------------------


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else ()


def _names(value: Any) -> list[str]:
    return [name for name in _list(value) if isinstance(name, str) and name]


_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        return _WORDS.get(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _numbers(value: Any) -> list[float]:
    """Return the numbers of a list; an empty list where any of them can not be read."""
    found = [_number(item) for item in _list(value)]
    return [item for item in found if item is not None] if None not in found else []


def _loss(scores: Any) -> float | None:
    return _number(_mapping(scores).get("loss"))


def _short(value: float | None) -> str:
    return "?" if value is None else f"{value:.3g}"
