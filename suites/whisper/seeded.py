"""Whisper models and sounds made from a seed: the same numbers on every torch, with nothing fetched.

Weights as torch initialises them make the decoder repeat one token for ever, and then tokens say little. Here the
place in the text outweighs the token's own embedding, attention is peaked, and the last layer norm is scaled so
that one token clearly wins: the text is nonsense, but it changes with every token and with the sound.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from whisper.model import ModelDimensions, Whisper

RATE = 16000
"""Samples per second of all sound that Whisper hears."""

# Vocabulary of the multilingual models; n_audio_ctx counts steps of 20 ms.
SIZES: dict[str, dict[str, int]] = {
    "tiny": {"ctx": 1500, "state": 384, "head": 6, "layer": 4},
    "mini": {"ctx": 250, "state": 128, "head": 2, "layer": 2},
}

_TEXT_CTX = 448
_VOCABULARY = 51865
_NO_SPEECH = 50362
_SILENT = 0.7
_TOKEN, _PLACE, _PEAKED, _HEARD, _SURE = 0.1, 2.0, 1.5, 3.0, 6.0


def dimensions(size: str) -> ModelDimensions:
    """Return the dimensions of OpenAI's tiny, or of a model that a slow machine can run; see SIZES."""
    of = SIZES[size]
    wide = {f"n_{part}_{key}": of[key] for part in ("audio", "text") for key in ("state", "head", "layer")}
    return ModelDimensions(
        n_mels=80, n_audio_ctx=of["ctx"], n_vocab=_VOCABULARY, n_text_ctx=_TEXT_CTX, **wide
    )


@lru_cache(maxsize=1)
def shared_model(size: str, seed: int) -> Whisper:
    """Return a model as ``model`` does, but one for all cases of a worker: not to be changed."""
    return model(size, seed)


def model(size: str, seed: int) -> Whisper:
    """Return a float32 model on the CPU, ready to evaluate, with its sparse buffer as it comes."""
    made = Whisper(dimensions(size))
    numbers = np.random.RandomState(seed)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(torch.from_numpy(_weights(name, tuple(parameter.shape), numbers)))
        place = made.decoder.positional_embedding[0]
        # Else its probability would be next to nothing, and no fault could be seen in it.
        made.decoder.token_embedding.weight[_NO_SPEECH] = place * (_SILENT / math.sqrt(len(place)))
    return made.eval()


def _weights(name: str, shape: Any, numbers: np.random.RandomState) -> Any:
    values = numbers.standard_normal(shape).astype(np.float32)
    if name == "decoder.token_embedding.weight":
        return values * np.float32(_TOKEN)
    if name == "decoder.positional_embedding":
        return values * np.float32(_PLACE)
    if name == "decoder.ln.weight":
        # Logits then have a standard deviation of _SURE * sqrt(2), whatever the width.
        return np.full(shape, _SURE / (_TOKEN * math.sqrt(shape[0])), np.float32)
    if len(shape) == 1:  # biases, and the weights of layer norms around 1
        return values * np.float32(0.1) + np.float32("ln" in name and name.endswith("weight"))
    spread = 1.0 / math.sqrt(float(np.prod(shape[1:])))
    if ".query." in name or ".key." in name:
        spread *= _PEAKED
    if "conv" in name or ".cross_attn.out." in name:
        spread *= _HEARD
    return values * np.float32(spread)


def sound(seconds: float, seed: int) -> Any:
    """Return float32 samples of a voice-like sound: gliding harmonics in syllables, over a little noise."""
    numbers = np.random.RandomState(seed)
    time = np.arange(int(seconds * RATE)) / RATE
    pitch = 120.0 + 40.0 * np.sin(2 * np.pi * 0.4 * time + numbers.uniform(0, 6))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    voice = np.zeros_like(time)
    for harmonic in range(1, 25):
        swell = 0.5 + 0.5 * np.sin(2 * np.pi * numbers.uniform(0.3, 2.0) * time + numbers.uniform(0, 6))
        voice += swell / harmonic * np.sin(harmonic * phase)
    syllables = np.clip(np.sin(2 * np.pi * 1.7 * time) + 0.4, 0, 1)
    samples = 0.2 * voice * syllables + 0.005 * numbers.standard_normal(time.shape)
    return np.clip(samples, -1, 1).astype(np.float32)
