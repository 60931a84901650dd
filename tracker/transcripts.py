"""Judge a transcription beside the CPU's: its tokens, the statistics that steer Whisper, and its words.

Pure, and total over any JSON. The format stands in ``suites/whisper/transcription.py``. A greedy decoder takes the
largest logit, so a token may differ where the CPU's own choice was closer than two logits may be off together; what
follows in that text then says nothing. Statistics are compared where the tokens are equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tracker.model import Finding, State
from tracker.numbers import NOISE_FACTOR, TOLERANCES, Unreadable, number, power, size, unreadable

SPARE_WORDS = 2
"""Wrong words that a device may have more than the CPU, where ties were decided the other way."""
SPARE_SHARE = 0.05
"""The same as a share of the words that were said, for long recordings."""

RULES = (SPARE_WORDS, SPARE_SHARE)
"""All that a judge's digest must cover, beside the limits of ``tracker.numbers``."""

_STATISTICS = {"avg_logprob": "avg-logprob", "no_speech": "no-speech"}

_Said = tuple[str, str] | None


def diagnose(transcript: Any) -> Finding | None:
    """Return what is wrong with the measure ``transcript``, or None when there is nothing against it."""
    try:
        said = _said(_object(transcript, "transcript"))
    except Unreadable as problem:
        return unreadable(problem)
    return Finding(State.WRONG, *said) if said else None


def _said(transcript: Mapping[str, Any]) -> _Said:
    windows = _list(transcript, "windows")
    dtype = transcript.get("dtype")
    if not isinstance(dtype, str) or dtype not in TOLERANCES:
        raise Unreadable("transcript has no dtype with a limit")
    # Every window is read, so that what can not be read is never passed over.
    found = [_window(_object(window, "window"), dtype) for window in windows]
    count, words = _counts(transcript, "count", 2), _words(transcript)
    if said := next(filter(None, found), None):
        return said
    tied = any(_tied(window) for window in windows)
    if count[0] != count[1] and not tied:
        return "windows", f"the sound was cut into {'more' if count[0] > count[1] else 'fewer'} windows"
    return words


def _window(window: Mapping[str, Any], dtype: str) -> _Said:
    """Return the first of tokens, statistics and repeat that is not as it must be."""
    noise, scale = (size(window.get(key), key) for key in ("noise", "scale"))
    agree, of = _counts(window, "tokens", 2)
    if agree > of or not math.isfinite(noise + scale):
        raise Unreadable("a window has impossible numbers")
    rtol, atol = TOLERANCES[dtype]
    off = NOISE_FACTOR * noise + atol + rtol * scale
    # Two logits decide on a token, and both may be off. A statistic is a mean over tokens, or a probability, which
    # moves by a quarter of its logit at most; while the noise is the largest of all logits of the text.
    limit = 2 * off
    statistics = [_statistic(window, key, off) for key in _STATISTICS]
    falls_back, repeat = _flags(window, "falls_back"), _repeat(window, limit)
    if "margin" in window or agree < of:
        return _tokens(window, limit) or repeat
    if said := next(filter(None, statistics), None):
        steered = falls_back[0] is not falls_back[1]
        return said[0], said[1] + (", and Whisper falls back by it" if steered else "")
    return repeat


def _tokens(window: Mapping[str, Any], limit: float) -> _Said:
    """Say that a token differs, unless the CPU itself nearly chose another."""
    if "margin" not in window:
        return "tokens", "the text differs from the CPU's"
    margin = size(window["margin"], "margin")
    if margin <= limit:
        return None
    return (
        "tokens",
        f"a token differs that the CPU chose by a logit of about {power(margin)}, allowed is {power(limit)}",
    )


def _tied(window: Mapping[str, Any]) -> bool:
    return "margin" in window


def _statistic(window: Mapping[str, Any], key: str, limit: float) -> _Said:
    have, want = _pair(window, key)
    if math.isnan(want) and math.isnan(have):
        return None
    if not math.isfinite(want):
        raise Unreadable(f"{key} of the CPU is not finite")
    if math.isnan(have):
        return "nan", f"{key} is NaN"
    off = abs(have - want)
    if off <= limit:
        return None
    return _STATISTICS[key], f"{key} is off by about {power(off)}, allowed is {power(limit)}"


def _repeat(window: Mapping[str, Any], limit: float) -> _Said:
    """Say that two runs on the device differ, where no tie of the CPU's explains it."""
    if "repeat" not in window:
        return None
    _counts(window, "repeat", 2)
    margin = size(window["repeat_margin"], "repeat_margin") if "repeat_margin" in window else 0.0
    if margin <= limit:
        return None
    return "non-deterministic", "two runs on the device gave two texts"


def _words(transcript: Mapping[str, Any]) -> _Said:
    if "words" not in transcript:
        return None
    have, want, said = _counts(transcript, "words", 3)
    spare = max(SPARE_WORDS, SPARE_SHARE * said)
    if have <= want + spare:
        return None
    return "word-errors", "many more words are wrong than on the CPU"


# --- reading ---------------------------------------------------------------------------------------------


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable(f"{what} is not an object")
    return value


def _list(item: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = item.get(key)
    if not isinstance(value, list) or not value:
        raise Unreadable(f"{key} is not a list with something in it")
    return value


def _counts(item: Mapping[str, Any], key: str, length: int) -> Sequence[int]:
    value = item.get(key)
    if not isinstance(value, list) or len(value) != length:
        raise Unreadable(f"{key} is not {length} numbers")
    if not all(type(number) is int and 0 <= number < 1 << 53 for number in value):
        raise Unreadable(f"{key} has what is not a whole number from 0 up")
    return value


def _pair(item: Mapping[str, Any], key: str) -> tuple[float, float]:
    value = item.get(key)
    if not isinstance(value, list) or len(value) != 2:
        raise Unreadable(f"{key} is not a pair")
    return number(value[0], key), number(value[1], key)


def _flags(item: Mapping[str, Any], key: str) -> Sequence[bool]:
    value = item.get(key)
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(flag, bool) for flag in value):
        raise Unreadable(f"{key} is not a pair of yes and no")
    return value
