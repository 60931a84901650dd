"""Transcribe greedily and keep what each window of sound gave; on the CPU also how clearly each token won.

Whisper falls back to a higher temperature, that is to random sampling, when a window's statistics are bad. Here
nothing is sampled: only temperature 0 is tried, and the statistics and the decision that they lead to are kept.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Iterator

import torch
from whisper.decoding import ApplyTimestampRules, DecodingOptions, DecodingResult, GreedyDecoder
from whisper.model import Whisper

from suites.whisper import models

# The defaults of whisper.transcribe.
_MOST_REPETITIVE, _LEAST_LIKELY, _SILENT = 2.4, -1.0, 0.6


@dataclass
class Window:
    """What one window gave; ``tokens`` without the end of the text."""

    tokens: list[int]
    avg_logprob: float
    no_speech: float
    ratio: float
    mel: Any = None
    """The log-mel spectrogram that was decoded, (mels, frames), float32 on the CPU; of followed runs only."""
    path: list[int] = field(default_factory=list)
    """Every token with the prompt before and, where it came, the end; of followed runs only."""
    margins: list[float] = field(default_factory=list)
    """By how much of a logit each token won; of followed runs only."""

    @property
    def falls_back(self) -> bool:
        """Whether Whisper would decode the window again at a higher temperature."""
        silent = self.no_speech > _SILENT and self.avg_logprob < _LEAST_LIKELY
        return not silent and (self.ratio > _MOST_REPETITIVE or self.avg_logprob < _LEAST_LIKELY)


class _Enough(Exception):
    """The run has had as many windows as it may."""


def transcribe(
    model: Whisper,
    samples: Any,
    dtype: str,
    *,
    tokens: int = 0,
    most: int = 64,
    follow: bool = False,
    times: bool = True,
) -> tuple[list[Window], str]:
    """Return the windows of an English transcription and its text, which is empty after ``most`` windows.

    ``tokens`` limits each window (0: Whisper's own limit). ``follow`` is for runs on the CPU. Without ``times`` no
    time tokens are asked for, and the rules for them are left out.
    """
    windows: list[Window] = []

    def decode(mel: torch.Tensor, options: DecodingOptions) -> DecodingResult:
        if len(windows) == most:
            raise _Enough
        with _followed(follow) as steps:
            result = Whisper.decode(model, mel, options)
        assert isinstance(result, DecodingResult)
        windows.append(_window(result, mel, steps))
        return result

    model.decode = decode  # type: ignore[assignment]
    try:
        with models.own_window(model):
            result = model.transcribe(
                samples,
                temperature=0.0,
                fp16=dtype == "float16",
                language="en",
                without_timestamps=not times,
                **({"sample_len": tokens} if tokens else {}),
            )
        return windows, str(result["text"])
    except _Enough:
        return windows, ""
    finally:
        del model.decode


def _window(result: DecodingResult, mel: torch.Tensor, steps: _Steps | None) -> Window:
    window = Window(
        [int(token) for token in result.tokens],
        float(result.avg_logprob),
        float(result.no_speech_prob),
        float(result.compression_ratio),
    )
    if steps is not None:
        window.mel, window.path, window.margins = mel, steps.path, steps.margins
    return window


class _Steps:
    """Sees the steps of a greedy decoder on one sound."""

    def __init__(self) -> None:
        self.path: list[int] = []
        self.margins: list[float] = []
        self.rule = math.inf

    def chosen(self, logits: torch.Tensor) -> None:
        first, second = logits[0].float().topk(2).values.tolist()
        self.margins.append(min(first - second, self.rule))
        self.rule = math.inf

    def ruled(self, before: torch.Tensor, after: torch.Tensor, begin: int) -> None:
        """Keep how near Whisper was to the other choice between "a time comes next" and "a word comes next".

        It takes the time when all times together are likelier than the likeliest word. Where other rules decided,
        this gap means nothing, but then it is small by chance only.
        """
        gap = float(after[0, begin:].float().logsumexp(-1) - before[0, :begin].float().max())
        self.rule = abs(gap) if math.isfinite(gap) else math.inf


@contextmanager
def _followed(wanted: bool) -> Iterator[_Steps | None]:
    if not wanted:
        yield None
        return
    steps = _Steps()
    update, apply = GreedyDecoder.update, ApplyTimestampRules.apply

    def watched_update(self: Any, tokens: Any, logits: Any, sums: Any) -> Any:
        steps.chosen(logits)
        result = update(self, tokens, logits, sums)
        steps.path = result[0][0].tolist()
        return result

    def watched_apply(self: Any, logits: Any, tokens: Any) -> None:
        before = logits.clone()
        if self.tokenizer.no_timestamps is not None:
            before[:, self.tokenizer.no_timestamps] = -math.inf
        apply(self, logits, tokens)
        if tokens.shape[1] > self.sample_begin:  # the first is always a time
            steps.ruled(before, logits, self.tokenizer.timestamp_begin)

    GreedyDecoder.update, ApplyTimestampRules.apply = watched_update, watched_apply  # type: ignore[method-assign]
    try:
        yield steps
    finally:
        GreedyDecoder.update, ApplyTimestampRules.apply = update, apply  # type: ignore[method-assign]


def noise(window: Window, rough: Whisper, exact: Whisper) -> tuple[float, float]:
    """Return the largest error of logits along the window's text, and the largest logit.

    ``rough`` computes at the precision in question, ``exact`` in float64; both on the CPU, without a cache.
    """
    begin = len(window.path) - len(window.margins)
    tokens = torch.tensor([window.path[:-1]])
    with torch.no_grad():
        found = rough.decoder(tokens, rough.encoder(window.mel[None]))
        right = exact.decoder(tokens, exact.encoder(window.mel[None].double()))
    found, right = found[0, begin - 1 :].double(), right[0, begin - 1 :].double()
    return float((found - right).abs().max()), float(right.abs().max())
