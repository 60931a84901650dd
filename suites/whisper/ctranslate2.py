"""Read a Whisper model that was converted for CTranslate2, as a checkpoint of openai-whisper.

The file ``model.bin`` of binary version 6 (CTranslate2 3 and 4) is, little-endian: u32 version; the name of the
specification; u32 its revision; u32 the number of variables, and of each its name, u8 rank, u32 per dimension,
u8 type, u32 bytes, data; u32 the number of aliases, and of each two names. A name is a u16 length, which counts
the zero byte at the end.

It joins query, key and value into one matrix, and key and value where attention is to the sound. Whisper's key has
no bias, so there it is zero.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Dict

import numpy as np
import torch

_TYPES = ("float32", "int8", "int16", "int32", "float16")
_VERSION = 6

Variables = Dict[str, Any]


class Unreadable(ValueError):
    """The file is no Whisper model of the kind that is read here."""


class _Reader:
    """Takes values off the front of the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack("<" + kind, self.take(struct.calcsize(kind)))
        return int(value)

    def name(self) -> str:
        return self.take(self.number("H"))[:-1].decode("utf-8")

    def take(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        if len(part) != count:
            raise Unreadable(f"the file ends {count - len(part)} bytes too early")
        self._at += count
        return part


def read(path: Path) -> tuple[str, Variables]:
    """Return the specification's name and every variable as an array; an alias stands for what it names."""
    reader = _Reader(path.read_bytes())
    version = reader.number("I")
    if version != _VERSION:
        raise Unreadable(f"binary version {version} instead of {_VERSION}")
    specification, _ = reader.name(), reader.number("I")
    found: Variables = {}
    for _ in range(reader.number("I")):
        name = reader.name()
        shape = [reader.number("I") for _ in range(reader.number("B"))]
        kind = reader.number("B")
        data = reader.take(reader.number("I"))
        if kind >= len(_TYPES):
            raise Unreadable(f"{name} has the type number {kind}")
        found[name] = np.frombuffer(data, np.dtype(_TYPES[kind]).newbyteorder("<")).reshape(shape)
    for _ in range(reader.number("I")):
        alias, name = reader.name(), reader.name()
        found[alias] = found[name]
    return specification, found


def checkpoint(path: Path) -> dict[str, Any]:
    """Return ``{"dims", "model_state_dict"}`` of a ``model.bin``, float32, as openai-whisper stores a model."""
    specification, have = read(path)
    if specification != "WhisperSpec":
        raise Unreadable(f"the specification is {specification!r}")
    wrong = sorted(name for name in have if name.endswith("_scale") or "weight_zero" in name)
    if wrong:
        raise Unreadable(f"the weights are quantised: {wrong[0]}")
    state: dict[str, Any] = {
        "decoder.token_embedding.weight": have["decoder/embeddings/weight"],
        "encoder.conv1.weight": have["encoder/conv1/weight"],
        "encoder.conv1.bias": have["encoder/conv1/bias"],
        "encoder.conv2.weight": have["encoder/conv2/weight"],
        "encoder.conv2.bias": have["encoder/conv2/bias"],
    }
    for part in ("encoder", "decoder"):
        state[f"{part}.positional_embedding"] = have[f"{part}/position_encodings/encodings"]
        state.update(
            _norm(have, f"{part}/layer_norm", f"{part}.ln_post" if part == "encoder" else "decoder.ln")
        )
        for layer in range(_layers(have, part)):
            state.update(_block(have, f"{part}/layer_{layer}", f"{part}.blocks.{layer}"))
    tensors = {name: torch.from_numpy(np.array(value, np.float32)) for name, value in state.items()}
    return {"dims": _dimensions(have), "model_state_dict": tensors}


def _layers(have: Variables, part: str) -> int:
    return len(
        {name.split("/")[1] for name in have if name.startswith(f"{part}/layer_") and name.count("/") > 2}
    )


def _dimensions(have: Variables) -> dict[str, int]:
    sound, text = have["encoder/position_encodings/encodings"].shape, have["decoder/embeddings/weight"].shape
    return {
        "n_mels": have["encoder/conv1/weight"].shape[1],
        "n_audio_ctx": sound[0],
        "n_audio_state": sound[1],
        "n_audio_head": int(have["encoder/num_heads"]),
        "n_audio_layer": _layers(have, "encoder"),
        "n_vocab": text[0],
        "n_text_ctx": have["decoder/position_encodings/encodings"].shape[0],
        "n_text_state": text[1],
        "n_text_head": int(have["decoder/num_heads"]),
        "n_text_layer": _layers(have, "decoder"),
    }


def _norm(have: Variables, place: str, name: str) -> Variables:
    return {f"{name}.weight": have[f"{place}/gamma"], f"{name}.bias": have[f"{place}/beta"]}


def _linear(have: Variables, place: str, name: str) -> Variables:
    return {f"{name}.weight": have[f"{place}/weight"], f"{name}.bias": have[f"{place}/bias"]}


def _block(have: Variables, place: str, name: str) -> Variables:
    state = {
        **_norm(have, f"{place}/self_attention/layer_norm", f"{name}.attn_ln"),
        **_joined(have, f"{place}/self_attention/linear_0", f"{name}.attn", ("query", "key", "value")),
        **_linear(have, f"{place}/self_attention/linear_1", f"{name}.attn.out"),
        **_norm(have, f"{place}/ffn/layer_norm", f"{name}.mlp_ln"),
        **_linear(have, f"{place}/ffn/linear_0", f"{name}.mlp.0"),
        **_linear(have, f"{place}/ffn/linear_1", f"{name}.mlp.2"),
    }
    if f"{place}/attention/linear_0/weight" in have:
        state.update(_norm(have, f"{place}/attention/layer_norm", f"{name}.cross_attn_ln"))
        state.update(_linear(have, f"{place}/attention/linear_0", f"{name}.cross_attn.query"))
        state.update(_joined(have, f"{place}/attention/linear_1", f"{name}.cross_attn", ("key", "value")))
        state.update(_linear(have, f"{place}/attention/linear_2", f"{name}.cross_attn.out"))
    return state


def _joined(have: Variables, place: str, name: str, parts: tuple[str, ...]) -> Variables:
    """Return the matrices that were put on top of each other, each with its bias; the key has none."""
    weights: list[Any] = np.split(have[f"{place}/weight"], len(parts))
    biases: list[Any] = np.split(have[f"{place}/bias"], len(parts))
    state = {f"{name}.{part}.weight": weight for part, weight in zip(parts, weights)}
    state.update({f"{name}.{part}.bias": bias for part, bias in zip(parts, biases) if part != "key"})
    return state
