"""Whisper models in other forms: dense, on a device, in float64, as float16 would compute, in shorter windows."""

from __future__ import annotations

import copy
import importlib
from contextlib import contextmanager
from typing import Any, Iterator

import torch
from torch import nn
from whisper.model import LayerNorm, MultiHeadAttention, ResidualAttentionBlock, TextDecoder, Whisper

HOP = 160
"""Samples between two columns of a log-mel spectrogram."""

_ROUNDED = (nn.Linear, nn.Conv1d, nn.LayerNorm, nn.GELU, ResidualAttentionBlock, TextDecoder)


def dense(model: Whisper) -> Whisper:
    """Return a copy with the sparse buffer dense: no build has been seen to move it as it comes."""
    copied = copy.deepcopy(model)
    if copied.alignment_heads.is_sparse:
        heads = copied.alignment_heads.to_dense()
        copied.register_buffer("alignment_heads", heads, persistent=False)
    return copied


def moved(model: Whisper, device: torch.device) -> Whisper:
    """Return a dense copy on the device; the float32 weights stay float32, as Whisper keeps them for float16."""
    return dense(model).to(device)


def exact(model: Whisper) -> Whisper:
    """Return a float64 copy on the CPU. Only the logits are rounded to float32, as the decoder's last step."""
    wide = dense(model).cpu().double()
    for module in wide.modules():
        if isinstance(module, LayerNorm):
            module.__class__ = nn.LayerNorm  # Whisper's own computes in float32 whatever it is given
    return wide


def halved(model: Whisper) -> Whisper:
    """Return a float32 copy that makes the errors of float16: weights and what each layer gives are rounded to it.

    That is arithmetic with float16 values and float32 sums. torch on the CPU cannot be asked for it: 1.13 refuses
    float16, and later versions refuse other parts of it each.
    """
    rough = dense(model).cpu()
    with torch.no_grad():
        for parameter in rough.parameters():
            parameter.copy_(parameter.half().float())
    for module in rough.modules():
        if isinstance(module, _ROUNDED):
            module.register_forward_hook(_round)
        if isinstance(module, MultiHeadAttention):
            module.register_forward_hook(lambda _module, _given, result: (_half(result[0]), result[1]))
    return rough


def _round(_module: nn.Module, _given: Any, result: torch.Tensor) -> torch.Tensor:
    return _half(result)


def _half(values: torch.Tensor) -> torch.Tensor:
    return values.half().float()


@contextmanager
def own_window(model: Whisper) -> Iterator[None]:
    """Let ``transcribe`` cut sound into windows of the model's length where that is not the usual 30 s."""
    frames = 2 * model.dims.n_audio_ctx
    # "import whisper.transcribe" would give the function of that name.
    transcribing = importlib.import_module("whisper.transcribe")
    decoding = importlib.import_module("whisper.decoding")
    places = (
        (transcribing, "N_FRAMES", frames),
        (transcribing, "N_SAMPLES", frames * HOP),
        (decoding, "CHUNK_LENGTH", frames * HOP / 16000),
    )
    before = [getattr(module, name) for module, name, _ in places]
    for module, name, value in places:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(places, before):
            setattr(module, name, value)
