"""What the pieces are: small modules and their inputs, of the sizes of ViT-tiny (192 wide, 3 heads, 50 tokens).

A maker returns ``(module, inputs)``, drawn from torch's CPU generator. Tokens are (batch, tokens, width).
"""

from __future__ import annotations

from typing import Any, Callable, Tuple

import torch
from torch import nn
from torch.nn import functional

BATCH, TOKENS, WIDTH, HEADS = 2, 50, 192, 3
HEAD = WIDTH // HEADS

Made = Tuple[nn.Module, Tuple[Any, ...]]
Maker = Callable[[], Made]


def tokens(*shape: int) -> torch.Tensor:
    """Return a random tensor that needs a gradient, (BATCH, TOKENS, WIDTH) where nothing is said."""
    return torch.randn(shape or (BATCH, TOKENS, WIDTH)).requires_grad_()


class Call(nn.Module):
    """A function as a module; tensors given by name are its buffers and come first among its arguments."""

    def __init__(self, function: Callable[..., torch.Tensor], **buffers: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.names = list(buffers)
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        """Return the function's result."""
        return self.function(*(getattr(self, name) for name in self.names), *given)


class PatchEmbedding(nn.Module):
    """Images (batch, 3, height, width) to tokens (batch, patches, WIDTH)."""

    def __init__(self, patch: int) -> None:
        super().__init__()
        self.projection = nn.Conv2d(3, WIDTH, kernel_size=patch, stride=patch)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return the tokens, not contiguous, as every implementation gives them on."""
        return self.projection(given).flatten(2).transpose(1, 2)


class ClassToken(nn.Module):
    """A learned token, expanded over the batch and put before the others; then positions are added."""

    def __init__(self, positions: bool) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.randn(1, TOKENS + 1, WIDTH)) if positions else None

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return (batch, TOKENS + 1, WIDTH)."""
        joined = torch.cat([self.token.expand(given.shape[0], -1, -1), given], dim=1)
        return joined if self.positions is None else joined + self.positions


class Head(nn.Module):
    """The class token alone, through the last norm and layer: (batch, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.layer = nn.Linear(WIDTH, 10)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.layer(self.norm(given)[:, 0])


def resized(positions: torch.Tensor) -> torch.Tensor:
    """Return position embeddings (1, 49, WIDTH) of a 7x7 grid on a 10x10 one, as for a larger image."""
    grid = positions.reshape(1, 7, 7, WIDTH).permute(0, 3, 1, 2)
    grid = functional.interpolate(grid, size=(10, 10), mode="bicubic", align_corners=False)
    return grid.permute(0, 2, 3, 1).reshape(1, 100, WIDTH)


def merged(heads: torch.Tensor) -> torch.Tensor:
    """Return (batch, HEADS, tokens, HEAD) as tokens: a reshape that must copy, as no view has that order."""
    return heads.transpose(1, 2).reshape(heads.shape[0], heads.shape[2], WIDTH)


class Normed(nn.Module):
    """Layer norm over the last dimension of an input that ``change`` makes a view of."""

    def __init__(
        self, width: int, change: Callable[[torch.Tensor], torch.Tensor], affine: bool = True
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6, elementwise_affine=affine)
        self.change = change

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return the normalised view."""
        return self.norm(self.change(given))


class Mlp(nn.Module):
    """Two layers with GELU between, four times as wide inside."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, 4 * WIDTH)
        self.second = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return tokens."""
        return self.second(functional.gelu(self.first(given)))


class Split(nn.Module):
    """Queries, keys and values of one layer as views of its result, as timm splits them."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def views(self, given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return three (batch, HEADS, tokens, HEAD)."""
        batch, count, _ = given.shape
        return self.qkv(given).reshape(batch, count, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4).unbind(0)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return the three with different weights, so that a mix-up shows."""
        query, key, value = self.views(given)
        return query + 2 * key + 3 * value


class Attention(nn.Module):
    """Multi-head self-attention written out: product, softmax, product."""

    def __init__(self) -> None:
        super().__init__()
        self.split = Split()
        self.projection = nn.Linear(WIDTH, WIDTH)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return tokens."""
        query, key, value = self.split.views(given)
        weights = (query * HEAD**-0.5 @ key.transpose(-2, -1)).softmax(dim=-1)
        return self.projection(merged(weights @ value))


class Block(nn.Module):
    """One encoder block: attention and MLP, each behind a layer norm and beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm2, self.mlp = nn.LayerNorm(WIDTH), Mlp()

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return tokens."""
        given = given + self.attention(self.norm1(given))
        return given + self.mlp(self.norm2(given))


class MultiHead(nn.Module):
    """``nn.MultiheadAttention`` with its masks as buffers; the weights are added to the result where asked for."""

    def __init__(
        self,
        attention: torch.Tensor | None = None,
        padding: torch.Tensor | None = None,
        weights: bool = False,
    ) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.register_buffer("attention", attention)
        self.register_buffer("padding", padding)
        self.weights = weights

    def forward(self, given: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """Return tokens; ``other`` holds keys and values where it is given."""
        source = given if other is None else other
        result, weights = self.attend(
            given,
            source,
            source,
            attn_mask=self.attention,
            key_padding_mask=self.padding,
            need_weights=self.weights,
        )
        return result if weights is None else result[:, :, : weights.shape[-1]] + weights


class Encoder(nn.Module):
    """torch's own encoder layer, which has a fused kernel in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return tokens."""
        return self.layer(given)


def banned() -> torch.Tensor:
    """Return a random mask (TOKENS, TOKENS), True where not to look; each token may look at itself."""
    mask = torch.rand(TOKENS, TOKENS) > 0.7
    return mask & ~torch.eye(TOKENS, dtype=torch.bool)


def later() -> torch.Tensor:
    """Return the causal mask (TOKENS, TOKENS), float: -inf for what comes later."""
    return torch.full((TOKENS, TOKENS), float("-inf")).triu(1)


def padded() -> torch.Tensor:
    """Return (BATCH, TOKENS), True for the last tokens of each row but the first."""
    lengths = torch.tensor([TOKENS - 13 * at for at in range(BATCH)])
    return torch.arange(TOKENS)[None, :] >= lengths[:, None]


def _qkv() -> tuple[torch.Tensor, ...]:
    return tuple(tokens(BATCH, HEADS, TOKENS, HEAD) for _ in range(3))


def _attend(query: Any, key: Any, value: Any, **more: Any) -> torch.Tensor:
    return functional.scaled_dot_product_attention(query, key, value, **more)


def _masked(mask: Any, query: Any, key: Any, value: Any) -> torch.Tensor:
    return _attend(query, key, value, attn_mask=mask)


def _sdpa(mask: torch.Tensor | None = None, **more: Any) -> Made:
    """Attention as a function; ``mask`` as torch takes it here: True where to look, or a float that is added."""
    if mask is not None:
        return Call(_masked, mask=mask), _qkv()
    return Call(lambda query, key, value: _attend(query, key, value, **more)), _qkv()


def _softmax(dim: int, *shape: int, turned: bool = False) -> Made:
    def function(given: torch.Tensor) -> torch.Tensor:
        return torch.softmax(given.transpose(1, 2) if turned else given, dim=dim)

    return Call(function), (tokens(*shape),)


def embedded(patch: int) -> Made:
    """Return the patch embedding of images of four by four patches."""
    return PatchEmbedding(patch), (tokens(BATCH, 3, 4 * patch, 4 * patch),)


MAKERS: dict[str, Maker] = {
    "class_token": lambda: (ClassToken(positions=False), (tokens(),)),
    "class_token_select": lambda: (Head(), (tokens(),)),
    "position_embedding": lambda: (ClassToken(positions=True), (tokens(),)),
    "position_resize": lambda: (Call(resized), (tokens(1, 49, WIDTH),)),
    "layer_norm/contiguous": lambda: (Normed(WIDTH, lambda given: given), (tokens(),)),
    "layer_norm/permuted": lambda: (
        Normed(WIDTH, lambda given: given.permute(0, 2, 3, 1)),
        (tokens(BATCH, WIDTH, 7, 7),),
    ),
    "layer_norm/transposed": lambda: (
        Normed(WIDTH, lambda given: given.flatten(2).transpose(1, 2)),
        (tokens(BATCH, WIDTH, 5, 10),),
    ),
    "layer_norm/plain": lambda: (Normed(WIDTH, lambda given: given, affine=False), (tokens(),)),
    "gelu/none": lambda: (Call(functional.gelu), (tokens(),)),
    "gelu/tanh": lambda: (Call(lambda given: functional.gelu(given, approximate="tanh")), (tokens(),)),
    "softmax/last": lambda: _softmax(-1, BATCH, HEADS, TOKENS, TOKENS),
    "softmax/middle": lambda: _softmax(1, BATCH, TOKENS, 8),
    "softmax/first": lambda: _softmax(0, TOKENS, 3, 8),
    "softmax/transposed": lambda: _softmax(-1, BATCH, TOKENS, 8, turned=True),
    "qkv_split": lambda: (Split(), (tokens(),)),
    "merge_heads": lambda: (Call(merged), (tokens(BATCH, HEADS, TOKENS, HEAD),)),
    "mlp": lambda: (Mlp(), (tokens(),)),
    "attention/explicit": lambda: (Attention(), (tokens(),)),
    "attention/block": lambda: (Block(), (tokens(),)),
    "sdpa/none": lambda: _sdpa(),
    "sdpa/bool": lambda: _sdpa(~banned()),
    "sdpa/float": lambda: _sdpa(torch.randn(TOKENS, TOKENS)),
    "sdpa/causal": lambda: _sdpa(is_causal=True),
    "sdpa/padding": lambda: _sdpa(~padded()[:, None, None, :]),
    "mha/none": lambda: (MultiHead(), (tokens(),)),
    "mha/bool": lambda: (MultiHead(banned()), (tokens(),)),
    "mha/float": lambda: (MultiHead(torch.randn(TOKENS, TOKENS)), (tokens(),)),
    "mha/causal": lambda: (MultiHead(later()), (tokens(),)),
    "mha/padding": lambda: (MultiHead(padding=padded()), (tokens(),)),
    "mha/weights": lambda: (MultiHead(weights=True), (tokens(),)),
    "mha/cross": lambda: (MultiHead(), (tokens(), tokens(BATCH, 17, WIDTH))),
    "mha/fused": lambda: (MultiHead(), (tokens(),)),
    "mha/fused_padding": lambda: (MultiHead(padding=padded()), (tokens(),)),
    "encoder_layer/fused": lambda: (Encoder(), (tokens(),)),
}
"""Every piece by the name that the manifest gives it, but the patch embedding, which has a size."""
