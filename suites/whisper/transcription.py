"""Whole transcriptions on the device beside the CPU's: tokens, the statistics that steer Whisper, and words.

The measure ``transcript`` is for ``tracker/transcripts.py``::

    {"dtype": "float32",
     "windows": [{"tokens": [24, 24],          # the first so many are equal, of the CPU's
                  "margin": 0.2,               # by how many logits the CPU chose the first that differs; else absent
                  "noise": 1e-5, "scale": 29.0,        # of the CPU's logits: error at this precision, and size
                  "avg_logprob": [-0.7, -0.7], "no_speech": [0.2, 0.2], "ratio": [1.4, 1.4],   # [device, CPU]
                  "falls_back": [false, false],        # whether Whisper would try a higher temperature
                  "repeat": [20, 24], "repeat_margin": 0.1}],  # where the device's second run differs; else absent
     "count": [1, 1],                          # windows [device, CPU]; what follows a difference is not listed
     "words": [3, 2, 27]}                      # wrong on the device, wrong on the CPU, said; where they are known
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, Dict, List, Sequence, Tuple

import torch
from whisper.model import Whisper

from suites.comparing import brief, on_cpu
from suites.context import Context, Inconclusive
from suites.whisper import greedy, models, seeded, speech, weights, words

Measures = Dict[str, Any]
Windows = List[greedy.Window]

_SPARE_WINDOWS = 2
"""How many windows more than the CPU a device may take: wrong times could else make hundreds."""


class Reference:
    """The CPU's transcription of one sound, with the errors that it has at the precision of the device's run."""

    def __init__(self, model: Whisper, samples: Any, dtype: str, **how: Any) -> None:
        self.samples = samples
        self.windows, self.text = greedy.transcribe(model, samples, "float32", follow=True, **how)
        started = perf_counter()
        again, _ = greedy.transcribe(model, samples, "float32", **how)
        self.seconds = brief(perf_counter() - started)
        if [window.tokens for window in again] != [window.tokens for window in self.windows]:
            raise Inconclusive("no-reference", "tokens-differ", "two runs on the CPU gave two texts")
        exact, rough = models.exact(model), models.halved(model) if dtype == "float16" else model
        self.noise = [greedy.noise(window, rough, exact) for window in self.windows]


def transcribe(
    context: Context, dtype: str, size: str, seconds: float, tokens: int, times: bool = True, seed: int = 0
) -> Measures:
    """Transcribe a seeded sound by a seeded model; ``tokens`` and ``times`` as in ``greedy.transcribe``."""
    device = _device(context, dtype)
    with on_cpu():
        model = seeded.shared_model(size, seed)
        reference = Reference(model, seeded.sound(seconds, seed), dtype, tokens=tokens, times=times)
    runs = _runs(model, device, [reference], dtype, tokens=tokens, times=times)
    facts = {"weights": "seeded", "model": size, "sound": f"seeded, {seconds:g} s"}
    return _measures(runs, [reference], dtype, facts)


def transcribe_speech(
    context: Context, dtype: str, clips: int, tokens: int = 0, times: bool = True
) -> Measures:
    """Transcribe the shortest recordings, at most ``clips``, by a trained model, and count the wrong words."""
    device = _device(context, dtype)
    recordings = speech.clips(str(context.options.get("data") or ""), clips)
    model, facts = weights.trained(context)
    with on_cpu():
        references = [
            Reference(model, clip.samples, dtype, tokens=tokens, times=times) for clip in recordings
        ]
    runs = _runs(model, device, references, dtype, tokens=tokens, times=times)
    found = _measures(runs, references, dtype, dict(facts, clips=[clip.name for clip in recordings]))
    wrong = [
        sum(words.word_errors(text, clip.words) for text, clip in zip(texts, recordings))
        for texts in ([text for _, text in runs[0][1]], [reference.text for reference in references])
    ]
    said = sum(len(words.words(clip.words)) for clip in recordings)
    found["transcript"]["words"] = [*wrong, said]
    found["facts"]["word_error_rate"] = [brief(count / max(said, 1)) for count in wrong]
    return found


def _device(context: Context, dtype: str) -> torch.device:
    device: torch.device = context.device()
    if dtype == "float16" and device.type == "cpu":
        raise Inconclusive(
            "skipped",
            "whisper-uses-float32-on-cpu",
            "transcribe() takes float32 on the CPU whatever is asked for",
        )
    return device


Run = Tuple[float, List[Tuple[Windows, str]]]


def _runs(
    model: Whisper, device: torch.device, references: Sequence[Reference], dtype: str, **how: Any
) -> list[Run]:
    """Return two runs on the device, each with its seconds; the first has the move of the model in it."""
    runs: list[Run] = []
    moved = None
    for _ in range(2):
        started = perf_counter()
        if moved is None:
            moved = models.moved(model, device)
        texts = [
            greedy.transcribe(moved, each.samples, dtype, most=len(each.windows) + _SPARE_WINDOWS, **how)
            for each in references
        ]
        runs.append((brief(perf_counter() - started), texts))
    return runs


def _measures(
    runs: Sequence[Run], references: Sequence[Reference], dtype: str, facts: dict[str, Any]
) -> Measures:
    (first, got), (second, again) = runs
    windows = [
        window
        for (have, _), (repeated, _), want in zip(got, again, references)
        for window in _compared(have, repeated, want)
    ]
    count = [sum(len(have) for have, _ in got), sum(len(want.windows) for want in references)]
    cpu = brief(sum(want.seconds for want in references))
    return {
        "transcript": {"dtype": dtype, "windows": windows, "count": count},
        "timing": {"first": first, "each": [second], "items": len(references), "cpu_each": [cpu]},
        "facts": facts,
    }


def _compared(got: Windows, again: Windows, want: Reference) -> list[dict[str, Any]]:
    """Return the windows up to the first whose tokens differ: what comes later follows from it."""
    found = []
    for at, (here, there) in enumerate(zip(got, want.windows)):
        window = _window(here, there, *want.noise[at])
        if at < len(again):
            window.update(_repeat(here, again[at], there))
        found.append(window)
        if here.tokens != there.tokens:
            break
    return found


def _window(here: greedy.Window, there: greedy.Window, noise: float, scale: float) -> dict[str, Any]:
    agree = _agreement(here.tokens, there.tokens)
    found: dict[str, Any] = {
        "tokens": [agree, len(there.tokens)],
        "noise": brief(noise),
        "scale": brief(scale),
        "avg_logprob": [brief(here.avg_logprob), brief(there.avg_logprob)],
        "no_speech": [brief(here.no_speech), brief(there.no_speech)],
        "ratio": [brief(here.ratio), brief(there.ratio)],
        "falls_back": [here.falls_back, there.falls_back],
    }
    if here.tokens != there.tokens and agree < len(there.margins):
        found["margin"] = brief(there.margins[agree])
    return found


def _repeat(first: greedy.Window, second: greedy.Window, reference: greedy.Window) -> dict[str, Any]:
    """Say where the device's two runs part, and by how many logits the CPU chose there."""
    if first.tokens == second.tokens:
        return {}
    agree = _agreement(first.tokens, second.tokens)
    found: dict[str, Any] = {"repeat": [agree, len(first.tokens)]}
    known = agree <= _agreement(first.tokens, reference.tokens) and agree < len(reference.margins)
    return dict(found, repeat_margin=brief(reference.margins[agree])) if known else found


def _agreement(have: Sequence[int], want: Sequence[int]) -> int:
    """Return how many tokens are equal before the first that differs."""
    pairs = enumerate(zip(have, want))
    return next((at for at, (here, there) in pairs if here != there), min(len(have), len(want)))
