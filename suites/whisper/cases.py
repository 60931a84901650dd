"""The parts of Whisper on the device beside the CPU: log-mel, encoder, decoder, language, loading.

Shapes: sound (samples,), log-mel (1, mels, frames), encoded sound (1, frames / 2, state), logits (1, tokens,
vocabulary). Whisper computes in float16 by casting float32 weights in every layer, and so it is done here.
"""

from __future__ import annotations

import dataclasses
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator

import numpy as np
import torch
import whisper
from torch.distributions import Categorical
from whisper.audio import HOP_LENGTH, N_FFT, log_mel_spectrogram, mel_filters, pad_or_trim
from whisper.decoding import DecodingOptions, DecodingTask, GreedyDecoder
from whisper.model import Whisper

from suites import timing
from suites.comparing import check, on_cpu
from suites.context import Context
from suites.whisper import models, seeded

Measures = Dict[str, Any]

_END = 50257
"""The token that ends a text."""

_BEGIN = 4
"""Tokens that the decoder gets at once before it goes on one by one."""


# --- log-mel ---------------------------------------------------------------------------------------------


def log_mel(context: Context, mels: int, seconds: float, seed: int = 0) -> Measures:
    """Compute the log-mel spectrogram on the device, which needs a short-time Fourier transform."""
    device = context.device()
    with on_cpu():
        sound = seeded.sound(seconds, seed)
        want, again = log_mel_spectrogram(sound, mels), log_mel_spectrogram(sound, mels)
        truth = _logarithm(_magnitudes(sound), mel_filters("cpu", mels).double())

    def work() -> torch.Tensor:
        return log_mel_spectrogram(sound, mels, device=device)

    return _compared("log_mel", work, device, want, truth, reference_again=again)


def log_mel_tail(context: Context, mels: int, seconds: float, seed: int = 0) -> Measures:
    """Compute what follows the Fourier transform: the transform's magnitudes come from the CPU."""
    device = context.device()
    with on_cpu():
        exact = _magnitudes(seeded.sound(seconds, seed))
        magnitudes, filters = exact.float(), mel_filters("cpu", mels)
        want = _logarithm(magnitudes, filters)
        truth = _logarithm(magnitudes.double(), filters.double())

    def work() -> torch.Tensor:
        return _logarithm(magnitudes.to(device), filters.to(device))

    return _compared("log_mel", work, device, want, truth)


def _magnitudes(sound: Any) -> torch.Tensor:
    """Return the power spectrum, (201, frames), float64."""
    window = torch.hann_window(N_FFT).double()  # Whisper's is float32
    spectrum = torch.stft(
        torch.from_numpy(sound).double(), N_FFT, HOP_LENGTH, window=window, return_complex=True
    )
    return spectrum[..., :-1].abs() ** 2


def _logarithm(magnitudes: torch.Tensor, filters: torch.Tensor) -> torch.Tensor:
    """Do what ``log_mel_spectrogram`` does after the transform, at the precision of what is given."""
    spectrum = torch.clamp(filters @ magnitudes, min=1e-10).log10()
    return (torch.maximum(spectrum, spectrum.max() - 8.0) + 4.0) / 4.0


# --- the model's parts -----------------------------------------------------------------------------------


def encoder(context: Context, dtype: str, size: str, seed: int = 0) -> Measures:
    """Encode one window of sound."""
    device = context.device()
    with on_cpu():
        model, mel = seeded.shared_model(size, seed), _mel(size, seed, dtype)
        want, again, truth = _references(model, dtype, lambda form: form.encoder(_like(mel, form)))
        if dtype == "float16":
            want, again = want.half(), again.half()
    moved = models.moved(model, device)
    put = mel.to(device).to(getattr(torch, dtype))
    return _compared("encoded", lambda: moved.encoder(put), device, want, truth, reference_again=again)


def decoder(
    context: Context, dtype: str, size: str, tokens: int, attention: str, cached: bool, seed: int = 0
) -> Measures:
    """Compute the logits of a text of random tokens, whole or one token at a time with cached keys and values.

    ``attention``: "shipped" as Whisper chooses, which is the fused one where torch has it, or "plain".
    """
    device = context.device()
    with on_cpu():
        model = seeded.shared_model(size, seed)
        heard = _heard(model, size, seed, dtype)
        ids = np.random.RandomState(seed).randint(0, 50257, (1, tokens))
        text = torch.from_numpy(ids.astype(np.int64))
        # One by one is another order of the same sums, so the whole text is the truth of both.
        want, again, truth = _references(model, dtype, lambda form: form.decoder(text, _like(heard, form)))
    moved = models.moved(model, device)
    sound, ids_there = heard.to(device).to(getattr(torch, dtype)), text.to(device)
    run = _one_by_one if cached else _whole

    def work() -> torch.Tensor:
        with _attention(attention):
            return run(moved, ids_there, sound)

    return _compared("logits", work, device, want, truth, reference_again=again)


def _whole(model: Whisper, text: torch.Tensor, heard: torch.Tensor) -> torch.Tensor:
    logits: torch.Tensor = model.decoder(text, heard)
    return logits


def _one_by_one(model: Whisper, text: torch.Tensor, heard: torch.Tensor) -> torch.Tensor:
    cache, hooks = model.install_kv_cache_hooks()
    try:
        logits = [model.decoder(text[:, :_BEGIN], heard, kv_cache=cache)]
        for at in range(_BEGIN, text.shape[1]):
            logits.append(model.decoder(text[:, at : at + 1], heard, kv_cache=cache))
    finally:
        for hook in hooks:
            hook.remove()
    return torch.cat([step.cpu() for step in logits], dim=1).to(text.device)


@contextmanager
def _attention(kind: str) -> Iterator[None]:
    if kind == "plain":
        with whisper.model.disable_sdpa():
            yield
    else:
        yield


def language(context: Context, dtype: str, size: str, seed: int = 0) -> Measures:
    """Detect the language of encoded sound: the probability of each of 99, and the device's own search for the best.

    The mask that it writes through comes from the CPU.
    """
    device = context.device()
    with on_cpu():
        model = seeded.shared_model(size, seed)
        heard = _heard(model, size, seed, dtype)
        want, again, truth = _references(model, dtype, lambda form: _languages(form, _like(heard, form))[1])
    moved = models.moved(model, device)
    put = heard.to(device).to(getattr(torch, dtype))
    seconds, (token, got) = timing.timed(lambda: _languages(moved, put))
    best = whisper.tokenizer.get_tokenizer(True).all_language_tokens[int(got.argmax())]
    return {
        "checks": [
            check("language_probabilities", got, want, truth=truth, reference_again=again),
            check("likeliest", token, torch.tensor([best]), device=device.type),
        ],
        "timing": {"first": seconds, "each": [], "items": 1, "cpu_each": []},
        "facts": {"weights": "seeded", "model": size},
    }


def _languages(model: Whisper, heard: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the likeliest language's token where it was computed, and all probabilities on the CPU."""
    token, probabilities = model.detect_language(heard)
    return token, torch.tensor(list(probabilities[0].values()))


def rules(context: Context, history: str, seed: int = 0) -> Measures:
    """Apply the rules by which Whisper rules tokens out, writing through slices and lists of places of the logits.

    ``history``: "begin", where nothing is said yet and the rules look at an empty slice; "text", after a word;
    "time", after a time that ends a part.
    """
    device = context.device()
    with on_cpu():
        options = DecodingOptions(language="en", fp16=False)
        task = DecodingTask(seeded.shared_model("mini", seed), options)
        time = task.tokenizer.timestamp_begin + 3
        said = {"begin": [], "text": [time, 500, 600], "time": [time, 500, time + 9]}[history]
        tokens = torch.tensor([[*task.initial_tokens, *said]])
        values = 5 * np.random.RandomState(seed).standard_normal((1, task.model.dims.n_vocab))
        logits = torch.from_numpy(values.astype(np.float32))
        want = _ruled(task, logits.clone(), tokens)
    seconds, got = timing.timed(lambda: _ruled(task, logits.clone().to(device), tokens.to(device)))
    return {
        "checks": [check("logits", got, want, device=device.type)],
        "timing": {"first": seconds, "each": [], "items": 1, "cpu_each": []},
    }


def _ruled(task: DecodingTask, logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    for rule in task.logit_filters:
        rule.apply(logits, tokens)
    return logits


def greedy_step(context: Context, seed: int = 0) -> Measures:
    """Choose the next token and add its log probability to the sum that Whisper's fallbacks go by."""
    device = context.device()
    with on_cpu():
        values = 5 * np.random.RandomState(seed).standard_normal((2, 51865))
        logits = torch.from_numpy(values.astype(np.float32))
        tokens = torch.tensor([[50258, 500], [50258, _END]])  # the second text is at its end
        want, truth = _chosen(logits, tokens), _chosen(logits.double(), tokens)
    seconds, got = timing.timed(lambda: _chosen(logits.to(device), tokens.to(device)))
    return {
        "checks": [
            check("tokens", got[0], want[0], device=device.type),
            check("sum_logprobs", got[1], want[1], truth=truth[1], device=device.type),
        ],
        "timing": {"first": seconds, "each": [], "items": 1, "cpu_each": []},
    }


def _chosen(logits: torch.Tensor, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    sums = torch.zeros(len(logits), device=logits.device)
    following, _ = GreedyDecoder(0.0, _END).update(tokens, logits, sums)
    return following, sums


def sampling(context: Context, classes: int, draws: int, seed: int = 0) -> Measures:
    """Draw tokens as the fallbacks of Whisper do, at a temperature; compare how often each came.

    The error allowed is six standard deviations of the frequency: the judge allows eight times the noise.
    """
    device = context.device()
    with on_cpu():
        logits = torch.from_numpy(np.random.RandomState(seed).standard_normal(classes).astype(np.float32))
        want = torch.softmax(logits.double() / 0.8, dim=-1)
        deviation = float((want * (1 - want) / draws).sqrt().max())
    torch.manual_seed(seed)
    put = logits.to(device).repeat(draws, 1)
    seconds, tokens = timing.timed(lambda: Categorical(logits=put / 0.8).sample())
    counts = torch.bincount(tokens.cpu().clamp(0, classes), minlength=classes + 1)
    found = check("frequencies", counts[:classes].float() / draws, want.float(), noise=0.75 * deviation)
    return {
        "checks": [found, check("token", tokens[:1].cpu() * 0, torch.zeros(1, dtype=torch.int64))],
        "timing": {"first": seconds, "each": [], "items": draws, "cpu_each": []},
    }


# --- loading ---------------------------------------------------------------------------------------------


def sparse_buffer(context: Context, size: str, seed: int = 0) -> Measures:
    """Move Whisper's sparse buffer, as ``.to(device)`` on the model as it comes does."""
    device = context.device()
    with on_cpu():
        heads = seeded.model(size, seed).alignment_heads
        heads.to_dense()
    return {"checks": [check("alignment_heads", heads.to(device), heads, device=device.type)]}


def load(context: Context, way: str, size: str, seed: int = 0) -> Measures:
    """Load a model on the device and compare every parameter.

    ``way``: "moved" builds it on the CPU, makes the sparse buffer dense and moves it; "straight" is
    ``whisper.load_model(file, device=device)``.
    """
    device = context.device()
    with on_cpu():
        model = seeded.model(size, seed)
        want = {name: parameter.clone() for name, parameter in model.named_parameters()}
    if way == "straight":
        seconds, loaded = _straight(model, device)
    else:
        seconds, loaded = _timed_state(lambda: models.dense(model).to(device))
    checks = [
        check(name, loaded.get(name), tensor, role="buffer", device=device.type)
        for name, tensor in want.items()
    ]
    off = [found for found in checks if {"want", "worst", "nan", "inf", "missing"} & set(found)]
    return {
        "checks": (off or checks)[:4],
        "timing": {"first": seconds, "each": [], "items": 1, "cpu_each": []},
        "facts": {"weights": "seeded", "model": size, "parameters": len(checks), "wrong": len(off)},
    }


def _straight(model: Whisper, device: torch.device) -> tuple[float, dict[str, torch.Tensor]]:
    checkpoint = {"dims": dataclasses.asdict(model.dims), "model_state_dict": model.state_dict()}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "seeded.pt"))
        torch.save(checkpoint, path)
        return _timed_state(lambda: whisper.load_model(path, device=device))


def _timed_state(made: Callable[[], Whisper]) -> tuple[float, dict[str, torch.Tensor]]:
    return timing.timed(lambda: dict(made().named_parameters()))


# --- shared by the cases ---------------------------------------------------------------------------------


def _mel(size: str, seed: int, dtype: str) -> torch.Tensor:
    """Return one window of log-mel, (1, mels, frames), float32 with values that the dtype has."""
    dims = seeded.dimensions(size)
    frames = 2 * dims.n_audio_ctx
    sound = seeded.sound(0.6 * frames * models.HOP / seeded.RATE, seed)
    return _rounded(pad_or_trim(log_mel_spectrogram(sound, dims.n_mels), frames)[None], dtype)


def _heard(model: Whisper, size: str, seed: int, dtype: str) -> torch.Tensor:
    """Return encoded sound, from the CPU's encoder, float32 with values that the dtype has."""
    with torch.no_grad():
        return _rounded(model.encoder(_mel(size, seed, dtype)), dtype)


def _rounded(values: torch.Tensor, dtype: str) -> torch.Tensor:
    return values.to(getattr(torch, dtype)).float()


def _like(values: torch.Tensor, model: Whisper) -> torch.Tensor:
    return values.to(next(model.parameters()).dtype)


def _references(model: Whisper, dtype: str, run: Callable[[Whisper], torch.Tensor]) -> tuple[Any, Any, Any]:
    """Return the result on the CPU at this precision, the same a second time, and the one of float64."""
    same = models.halved(model) if dtype == "float16" else model
    with torch.no_grad():
        return run(same), run(same), run(models.exact(model))


def _compared(
    name: str,
    work: Callable[[], torch.Tensor],
    device: torch.device,
    want: torch.Tensor,
    truth: torch.Tensor,
    *,
    reference_again: torch.Tensor | None = None,
) -> Measures:
    """Do the work on the device twice and compare it."""
    with torch.no_grad():
        first, got = timing.timed(work)
        second, again = timing.timed(work)
    found: list[Any] = [
        check(name, got, want, truth=truth, again=again, reference_again=reference_again, device=device.type)
    ]
    return {
        "checks": found,
        "timing": {"first": first, "each": [second], "items": 1, "cpu_each": []},
        "facts": {"weights": "seeded"},
    }
