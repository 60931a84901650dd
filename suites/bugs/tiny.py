"""Small models of the structure that users' programs have, by hand: transformers is not installed beside a build.

What they do in their forward pass is done as those programs do it: numbers of no dimension, int64 places, masks that
are filled. Only where a GPU without float64 would refuse a plain number (``1.0 - x``, ``full`` without a dtype) is it
said in another way: that is a report of its own. Weights are seeded, and larger than those of a fresh model, so that
answers are not close to each other.
"""

from __future__ import annotations

import math
from typing import List, Tuple

import torch
from torch import nn
from torch.nn import functional

Past = List[Tuple[torch.Tensor, torch.Tensor]]

WORDS = 97
_WIDE, _HEADS, _LAYERS = 32, 4, 2


def enlarged(model: nn.Module, scale: float = 0.25) -> nn.Module:
    """Return the model with normal weights of this spread; norms and biases stay."""
    with torch.no_grad():
        for item in model.parameters():
            if item.dim() > 1:
                item.normal_(0, scale)
    return model.eval()


def _heads(given: torch.Tensor) -> torch.Tensor:
    return given.view(given.shape[0], -1, _HEADS, _WIDE // _HEADS).transpose(1, 2)


def _together(given: torch.Tensor) -> torch.Tensor:
    return given.transpose(1, 2).contiguous().view(given.shape[0], -1, _WIDE)


# --- GPT-2 -----------------------------------------------------------------------------------------------


class _Projection(nn.Module):
    """GPT-2's linear layer: weights the other way round, and one addmm."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.empty(inputs, outputs)),
            nn.Parameter(torch.zeros(outputs)),
        )

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        result = torch.addmm(self.bias, given.view(-1, given.shape[-1]), self.weight)
        return result.view(*given.shape[:-1], -1)


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(_WIDE), nn.LayerNorm(_WIDE)
        self.c_attn, self.c_proj = _Projection(_WIDE, 3 * _WIDE), _Projection(_WIDE, _WIDE)
        self.up, self.down = _Projection(_WIDE, 4 * _WIDE), _Projection(4 * _WIDE, _WIDE)
        triangle = torch.tril(torch.ones(64, 64, dtype=torch.bool)).view(1, 1, 64, 64)
        self.register_buffer("bias", triangle, persistent=False)

    def forward(
        self, hidden: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None, mask: torch.Tensor
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        query, key, value = (_heads(part) for part in self.c_attn(self.ln_1(hidden)).split(_WIDE, dim=2))
        if past is not None:
            key, value = torch.cat((past[0], key), dim=-2), torch.cat((past[1], value), dim=-2)
        scores = torch.matmul(query, key.transpose(-1, -2))
        scores = scores / torch.full([], math.sqrt(_WIDE // _HEADS), dtype=scores.dtype, device=scores.device)
        asked, known = query.size(-2), key.size(-2)
        lowest = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype, device=scores.device)
        scores = torch.where(self.bias[:, :, known - asked : known, :known], scores, lowest) + mask
        result = torch.matmul(torch.softmax(scores, dim=-1).type(value.dtype), value)
        hidden = hidden + self.c_proj(_together(result))
        wide = self.up(self.ln_2(hidden))
        bent = (
            0.5 * wide * (1 + torch.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * torch.pow(wide, 3.0))))
        )
        return hidden + self.down(bent), (key, value)


class GPT2(nn.Module):
    """Two layers, four heads, 32 wide; the weights of the words are those of the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(WORDS, _WIDE), nn.Embedding(64, _WIDE)
        self.blocks = nn.ModuleList(_Block() for _ in range(_LAYERS))
        self.ln_f = nn.LayerNorm(_WIDE)

    def forward(
        self, words: torch.Tensor, seen: torch.Tensor, past: Past | None
    ) -> tuple[torch.Tensor, Past]:
        """Return the logits of the words that are not in ``past`` yet; ``seen`` is 1 for each word so far."""
        places = seen.long().cumsum(-1) - 1
        places.masked_fill_(seen == 0, 1)
        places = places[:, -words.shape[1] :]
        hidden = self.wte(words) + self.wpe(places)
        mask = (seen[:, None, None, :] == 0).to(hidden.dtype) * torch.finfo(hidden.dtype).min
        kept: Past = []
        for at, block in enumerate(self.blocks):
            hidden, one = block(hidden, past[at] if past else None, mask)
            kept.append(one)
        return functional.linear(self.ln_f(hidden), self.wte.weight), kept


def generated(model: nn.Module, words: torch.Tensor, count: int) -> list[int]:
    """Return the words that the model goes on with, each the likeliest, as ``generate`` does it."""
    past: Past | None = None
    seen, given = torch.ones_like(words), words
    going = torch.ones(words.shape[0], dtype=torch.long, device=words.device)
    with torch.no_grad():
        for _ in range(count):
            logits, past = model(given, seen, past)
            following = torch.argmax(logits[:, -1, :], dim=-1) * going
            words = torch.cat([words, following[:, None]], dim=-1)
            seen = torch.cat([seen, seen.new_ones((seen.shape[0], 1))], dim=-1)
            given = following[:, None]
    return [int(word) for word in words[0, -count:].cpu()]


# --- DistilBERT ------------------------------------------------------------------------------------------


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(_WIDE, _WIDE) for _ in range(4))
        self.up, self.down = nn.Linear(_WIDE, 2 * _WIDE), nn.Linear(2 * _WIDE, _WIDE)
        self.first, self.second = nn.LayerNorm(_WIDE, eps=1e-12), nn.LayerNorm(_WIDE, eps=1e-12)

    def forward(self, hidden: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        query = _heads(self.query(hidden)) / math.sqrt(_WIDE // _HEADS)
        scores = torch.matmul(query, _heads(self.key(hidden)).transpose(2, 3))
        hide = (seen == 0).view(seen.shape[0], 1, 1, -1).expand_as(scores)
        # A number on the CPU, as DistilBERT fills it: with this the report's assertion fails.
        scores = scores.masked_fill(hide, torch.tensor(torch.finfo(scores.dtype).min))
        result = torch.matmul(torch.softmax(scores, dim=-1), _heads(self.value(hidden)))
        hidden = self.first(self.out(_together(result)) + hidden)
        return self.second(self.down(functional.gelu(self.up(hidden))) + hidden)  # type: ignore[no-any-return]


class DistilBert(nn.Module):
    """A classifier of two layers; the places are a buffer of int64."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, _WIDE, padding_idx=0), nn.Embedding(64, _WIDE)
        self.norm = nn.LayerNorm(_WIDE, eps=1e-12)
        self.layers = nn.ModuleList(_Layer() for _ in range(_LAYERS))
        self.before, self.head = nn.Linear(_WIDE, _WIDE), nn.Linear(_WIDE, 2)
        self.register_buffer("position_ids", torch.arange(64).expand((1, -1)), persistent=False)

    def forward(self, words: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        """Return the logits [n, 2]; ``seen`` is 0 where a word only fills the row."""
        hidden = self.norm(self.words(words) + self.places(self.position_ids[:, : words.size(1)]))
        for layer in self.layers:
            hidden = layer(hidden, seen)
        return self.head(torch.relu(self.before(hidden[:, 0])))  # type: ignore[no-any-return]


# --- CLIP ------------------------------------------------------------------------------------------------


class _ClipLayer(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.query, self.key, self.value, self.out = (nn.Linear(_WIDE, _WIDE) for _ in range(4))
        self.up, self.down = nn.Linear(_WIDE, 4 * _WIDE), nn.Linear(4 * _WIDE, _WIDE)
        self.first, self.second = nn.LayerNorm(_WIDE), nn.LayerNorm(_WIDE)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        given = self.first(hidden)
        query, key, value = (_heads(layer(given)) for layer in (self.query, self.key, self.value))
        scale = (_WIDE // _HEADS) ** -0.5
        if self.fused:
            result = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        else:
            scores = torch.matmul(query, key.transpose(-1, -2)) * scale + mask
            result = torch.matmul(torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype), value)
        hidden = hidden + self.out(_together(result))
        wide = self.up(self.second(hidden))
        return hidden + self.down(wide * torch.sigmoid(1.702 * wide))  # type: ignore[no-any-return]


class Clip(nn.Module):
    """CLIP's text model; ``fused`` takes torch's own attention, as newer versions of transformers do."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, _WIDE), nn.Embedding(77, _WIDE)
        self.layers = nn.ModuleList(_ClipLayer(fused) for _ in range(_LAYERS))
        self.norm = nn.LayerNorm(_WIDE)
        self.register_buffer("position_ids", torch.arange(77).expand((1, -1)), persistent=False)

    def forward(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the last layer gives, and of that the place of the end: the largest word."""
        hidden = self.words(words) + self.places(self.position_ids[:, : words.shape[1]])
        mask = self._mask(words.shape[1], hidden)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        hidden = self.norm(hidden)
        rows = torch.arange(hidden.shape[0], device=hidden.device)
        ends = words.to(dtype=torch.int, device=hidden.device).argmax(dim=-1)
        return hidden, hidden[rows, ends]

    def _mask(self, count: int, like: torch.Tensor) -> torch.Tensor:
        mask = torch.full((count, count), torch.finfo(like.dtype).min, dtype=like.dtype, device=like.device)
        places = torch.arange(mask.size(-1), device=like.device)
        mask.masked_fill_(places < (places + 1).view(mask.size(-1), 1), 0)
        return mask.to(like.dtype)[None, None].expand(like.shape[0], 1, count, count)


# --- Stable Diffusion's UNet -----------------------------------------------------------------------------


class UNetBlock(nn.Module):
    """A residual block of convolutions and one of attention over the places of the picture.

    Without norms where no report is about them: some builds have none that works.
    """

    def __init__(self, norms: bool, wide: int = 16) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(4, wide) if norms else nn.Identity() for _ in range(3))
        self.first, self.second = (nn.Conv2d(wide, wide, 3, padding=1) for _ in range(2))
        self.query, self.key, self.value, self.out = (nn.Linear(wide, wide) for _ in range(4))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return [n, wide, height, width], as given."""
        hidden = self.first(functional.silu(self.norms[0](image)))
        image = image + self.second(functional.silu(self.norms[1](hidden)))
        places = self.norms[2](image).flatten(2).transpose(1, 2)
        query, key, value = (layer(places) for layer in (self.query, self.key, self.value))
        start = torch.empty(
            query.shape[0], query.shape[1], key.shape[1], dtype=query.dtype, device=query.device
        )
        scores = torch.baddbmm(start, query, key.transpose(-1, -2), beta=0, alpha=query.shape[-1] ** -0.5)
        result = self.out(torch.bmm(scores.softmax(-1), value))
        return image + result.transpose(1, 2).reshape(image.shape)
