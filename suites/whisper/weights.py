"""Trained Whisper weights: from the folder of the option ``weights``, from a URL, or from OpenAI's own place."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, Dict, Iterator

import torch
import whisper
from whisper.model import ModelDimensions, Whisper

from suites.context import Context, Inconclusive
from suites.whisper import ctranslate2

Facts = Dict[str, Any]

_NAMES = ("tiny.en", "tiny", "base.en", "base", "small.en", "small")
"""What may lie in the folder, wanted first: the smallest that hears English."""
_DOWNLOADED = "tiny.en"
_BLOCK = 1 << 20


def trained(context: Context) -> tuple[Whisper, Facts]:
    """Return a trained float32 model on the CPU, and what it is; raise Inconclusive where none is at hand."""
    path = _at_hand(context)
    try:
        if path.name == "model.bin":
            made = _model(ctranslate2.checkpoint(path))
        else:
            made = _model(torch.load(str(path), map_location="cpu", weights_only=True))
    except Exception as error:
        message = f"{path.name}: {type(error).__name__}: {error}"
        raise Inconclusive("infra", "weights-unreadable", message[:500]) from error
    return made, {"weights": path.name, "sha256": digest(path)}


def _model(checkpoint: dict[str, Any]) -> Whisper:
    made = Whisper(ModelDimensions(**checkpoint["dims"]))
    made.load_state_dict(checkpoint["model_state_dict"])
    return made.eval()


def _at_hand(context: Context) -> Path:
    options = context.options
    found = next(_in_folder(str(options.get("weights") or "")), None)
    if found is not None:
        return found
    if options.get("whisper_url"):
        return _fetched(str(options["whisper_url"]), str(options.get("whisper_sha256") or ""))
    if options.get("download"):
        return _own_download()
    raise Inconclusive(
        "skipped",
        "weights-not-at-hand",
        "no Whisper weights in the folder of 'weights', no 'whisper_url', and 'download' is off",
    )


def _in_folder(given: str) -> Iterator[Path]:
    """Yield checkpoints of openai-whisper, then models converted for CTranslate2."""
    folder = Path(given)
    if not given or not folder.exists():
        return
    if folder.is_file():
        yield folder
        return
    for name in _NAMES:
        yield from sorted(folder.rglob(f"{name}.pt"))
    for path in sorted(folder.rglob("model.bin")):
        with path.open("rb") as file:
            if b"WhisperSpec\0" in file.read(64):
                yield path


def _own_download() -> Path:
    try:
        folder = str(cache())
        return Path(whisper._download(whisper._MODELS[_DOWNLOADED], folder, in_memory=False))  # type: ignore[arg-type]
    except (OSError, RuntimeError) as error:
        raise _not_fetched(error) from error


def _fetched(url: str, sha256: str) -> Path:
    """Return the file from the cache, fetched when it is not there whole; only the digest makes it trusted."""
    if len(sha256) != 64:
        raise Inconclusive("infra", "weights-not-fetched", "'whisper_url' needs 'whisper_sha256', 64 digits")
    path = cache() / f"{sha256.lower()}.pt"
    if path.is_file() and digest(path) == sha256.lower():
        return path
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        with urllib.request.urlopen(url, timeout=60) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target, _BLOCK)
        if digest(part) != sha256.lower():
            raise Inconclusive("infra", "weights-digest", f"what came has not the digest {sha256}")
        part.replace(path)
    except (OSError, ValueError) as error:
        raise _not_fetched(error) from error
    finally:
        if part.exists():
            part.unlink()
    return path


def _not_fetched(error: Exception) -> Inconclusive:
    return Inconclusive("infra", "weights-not-fetched", f"{type(error).__name__}: {error}"[:500])


def cache() -> Path:
    """Return the folder of fetched weights, which outlives the environment."""
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    try:
        folder = (Path(base) if base else Path.home() / ".cache") / "dmltrack" / "whisper"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        folder = Path(tempfile.gettempdir()) / "dmltrack-whisper"
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def digest(path: Path) -> str:
    """Return the sha256 of the file, in lower case."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            total.update(block)
    return total.hexdigest()
