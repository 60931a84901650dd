"""Recorded speech with the words that are said in it.

Recordings are ``speech/*.wav`` in the folder of the option ``data`` (16-bit mono of 16 kHz), each with the words
in a text file of the same name. No ffmpeg is needed.
"""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from suites.context import Inconclusive

RATE = 16000


class Clip(NamedTuple):
    """One recording: float32 samples at 16 kHz, and the words that are said in it."""

    name: str
    samples: Any
    words: str


def clips(data: str, most: int) -> list[Clip]:
    """Return the shortest recordings, at most so many; raise Inconclusive where there are none."""
    folder = Path(data) / "speech"
    found = (
        [path for path in sorted(folder.glob("*.wav")) if path.with_suffix(".txt").is_file()] if data else []
    )
    if not found:
        raise Inconclusive(
            "skipped", "speech-not-at-hand", "no speech/*.wav with a .txt beside it in the folder of 'data'"
        )
    found.sort(key=lambda path: path.stat().st_size)
    return [
        Clip(path.stem, samples(path), path.with_suffix(".txt").read_text("utf-8").strip())
        for path in found[:most]
    ]


def samples(path: Path) -> Any:
    """Return a recording as float32 samples in -1..1; raise Inconclusive where it is of another kind."""
    try:
        with wave.open(str(path)) as file:
            kind = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            data = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise Inconclusive("infra", "speech-unreadable", f"{path.name}: {error}") from None
    if kind != (1, 2, RATE):
        raise Inconclusive(
            "infra",
            "speech-unreadable",
            f"{path.name}: (channels, bytes, rate) are {kind} instead of (1, 2, {RATE})",
        )
    return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32768)
