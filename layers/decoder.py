"""The decoder: attention mixes tokens, an MLP thinks about each, residuals carry both on. Many layers of it are a language model.

Letters: b batch, t tokens, d d_model, v vocabulary.
"""

from __future__ import annotations

import math

import minigrad
from minigrad import Tensor

from . import functional as F
from . import init
from .attention import MultiHeadAttention
from .embedding import Embedding
from .linear import Linear
from .module import Module, ModuleList, Parameter
from .normalization import RMSNorm

# Positions: attention alone sees a set of tokens; one of these gives it their order --------------------------------


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """p[t, 2i] = sin(t / 10000**(2i/d)),  p[t, 2i+1] = cos(t / 10000**(2i/d)):  (t, d), to be added to the embeddings.

    p[t + k] is a fixed linear map (a rotation of each pair) of p[t], whatever t is  (Vaswani et al. 2017, section 3.5).
    """
    angle = _angles(minigrad.arange(length), d_model)  # (t, d/2)
    return minigrad.stack([angle.sin(), angle.cos()], dim=-1).reshape(length, d_model).float()  # (t, d/2, 2) -> (t, d)


def rotary(x: Tensor, start: int = 0) -> Tensor:
    """Turn each pair (x[i], x[i + d/2]) of the token at position t by the angle t / 10000**(2i/d):  (..., t, d) -> (..., t, d).

    Applied to queries and keys: a product of two turned vectors depends on the difference of their angles only, so a score
    knows how far apart two tokens are and not where they stand (RoPE; Su et al. 2021, section 3.2). start: position of the first.
    """
    d = x.shape[-1]
    angle = _angles(minigrad.arange(start, start + x.shape[-2]), d)  # (t, d/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., : d // 2], x[..., d // 2 :]  # (..., t, d/2) each
    return minigrad.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def _angles(positions: Tensor, d: int) -> Tensor:
    if d % 2:
        raise ValueError(f"positions in pairs of sine and cosine need an even number of features, got {d}")
    rates = 10000.0 ** (-2.0 * minigrad.arange(d // 2).double() / d)  # (d/2)
    return positions.unsqueeze(-1) * rates  # (t, 1) * (d/2) -> (t, d/2), in float64: far positions turn many times


# The layer -------------------------------------------------------------------------------------------------------


class Cache:
    """Keys and values of the tokens so far, for each layer: a new token then needs only its own, and attends to all."""

    def __init__(self) -> None:
        self.length = 0
        self._layers: dict[Module, tuple[Tensor, Tensor]] = {}

    def extend(self, layer: Module, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of this layer up to now, (..., h, m, d_head), the new ones last."""
        if layer in self._layers:
            past_K, past_V = self._layers[layer]
            K, V = minigrad.cat([past_K, K], dim=-2), minigrad.cat([past_V, V], dim=-2)
        self._layers[layer] = K, V
        return K, V


class SelfAttention(MultiHeadAttention):
    """Causal MultiHeadAttention, on request with rotary positions and with a cache of the past:  (..., t, d) -> (..., t, d)."""

    def __init__(self, d_model: int, num_heads: int, rotary: bool = False) -> None:
        super().__init__(d_model, num_heads, causal=True)
        self.rotary = rotary

    def forward(self, x: Tensor, cache: Cache | None = None, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:  # type: ignore[override]
        Q, K, V = self.project(x, x)  # (..., h, t, d_head)
        if self.rotary:
            start = 0 if cache is None else cache.length
            Q, K = rotary(Q, start), rotary(K, start)
        if cache is not None:
            K, V = cache.extend(self, K, V)  # (..., h, m, d_head), m tokens so far
        return self.attend(Q, K, V, return_weights=return_weights)


class SwiGLU(Module):
    """W_down(silu(W_gate x) * W_up x):  (..., d) -> (..., d), each token by itself, d_ff wide in between  (Shazeer 2020)."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        self.W_gate = Linear(d_model, d_ff, bias=False)
        self.W_up = Linear(d_model, d_ff, bias=False)
        self.W_down = Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.W_down(F.silu(self.W_gate(x)) * self.W_up(x))
        return y


class DecoderLayer(Module):
    """x + attention(norm1(x)), then x + mlp(norm2(x)):  (..., t, d) -> (..., t, d).

    The norm stands before each part (pre-norm), so that the sum x runs through all layers untouched: gradients too.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int | None = None, rotary: bool = False) -> None:
        self.norm1, self.attention = RMSNorm(d_model), SelfAttention(d_model, num_heads, rotary)
        self.norm2, self.mlp = RMSNorm(d_model), SwiGLU(d_model, 2 * d_model if d_ff is None else d_ff)

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor:
        x = x + self.attention(self.norm1(x), cache)
        y: Tensor = x + self.mlp(self.norm2(x))
        return y


class TinyTransformer(Module):
    """A language model:  ids (t) or (b, t) -> logits (t, v) or (b, t, v), at each place for the token that comes next.

    positions: "learned" (a table of max_length vectors), "sinusoidal" or "rotary". tied: the read-out uses the embedding's own
    vectors as its weight. Raises ValueError for more than max_length tokens.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int = 32,
        num_heads: int = 2,
        num_layers: int = 1,
        max_length: int = 128,
        d_ff: int | None = None,
        positions: str = "learned",
        tied: bool = False,
    ) -> None:
        if positions not in ("learned", "sinusoidal", "rotary"):
            raise ValueError(f"positions must be 'learned', 'sinusoidal' or 'rotary', got {positions!r}")
        self.max_length = max_length
        self.embedding = Embedding(vocab_size, d_model)
        init.normal_(self.embedding.weight, std=math.sqrt(0.5))  # token + position then has variance 1
        self.positions = (
            init.normal_(Parameter(minigrad.zeros(max_length, d_model)), std=math.sqrt(0.5)) if positions == "learned" else None
        )
        self.waves = sinusoidal_positions(max_length, d_model) if positions == "sinusoidal" else None
        self.layers = ModuleList([DecoderLayer(d_model, num_heads, d_ff, positions == "rotary") for _ in range(num_layers)])
        self.norm = RMSNorm(d_model)
        self.head = Linear(d_model, vocab_size, bias=not tied)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        """With a cache, ids are the tokens after those it has seen already; it is extended by them."""
        start, t = (0 if cache is None else cache.length), ids.shape[-1]
        if start + t > self.max_length:
            raise ValueError(f"TinyTransformer: {start + t} tokens, but max_length is {self.max_length}: keep the last ones, ids[..., -n:]")
        x = self.embedding(ids)  # (..., t, d)
        table = self.positions if self.waves is None else self.waves
        if table is not None:
            x = x + table[start : start + t]  # (..., t, d)
        for layer in self.layers:
            x = layer(x, cache)
        if cache is not None:
            cache.length += t
        logits: Tensor = self.head(self.norm(x))  # (..., t, v)
        return logits
