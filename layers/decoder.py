"""The decoder: attention mixes tokens, an MLP thinks about each, residuals carry both on. Many layers of it are a language model.

Letters: b batch, t tokens, d features, v vocabulary; m tokens so far, h heads.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import minigrad
from minigrad import Tensor
from minigrad.arguments import checked, integer

from . import functional as F
from . import init
from .attention import MultiHeadAttention
from .embedding import Embedding
from .linear import Linear
from .module import Module, ModuleList, Parameter
from .normalization import RMSNorm

# Positions: attention alone sees a set of tokens; one of these gives it their order --------------------------------


def sinusoidal_positions(length: int, d_model: int) -> Tensor:
    """p[t, 2i] = sin(t / 10000**(2i/d)),  p[t, 2i+1] = cos(t / 10000**(2i/d)):  -> (length, d_model), to be added to the embeddings.

    p[t + k] is p[t] with each pair turned by an angle that depends on k alone  (Vaswani et al. 2017, section 3.5).
    """
    angle = _angles(0, integer(length, "sinusoidal_positions: length"), d_model)  # (t, d/2)
    return minigrad.stack([angle.sin(), angle.cos()], dim=-1).reshape(length, d_model).float()  # (t, d/2, 2) -> (t, d)


def rotary(x: Tensor, start: int = 0) -> Tensor:
    """Turn each pair (x[i], x[i + d/2]) of the token at position t by the angle t / 10000**(2i/d):  (..., t, d) -> (..., t, d).

    For queries and keys: the product of two turned vectors depends on the difference of their angles only, so a score knows
    how far apart two tokens are and not where they stand. start: the position of the first token. (RoPE; Su et al. 2021,
    section 3.2.2. They pair neighbours; halves, as in LLaMA's code, are the same with the features in another order.)
    """
    cos, sin = _turns(start, x.shape[-2], x.shape[-1], x.dtype)  # (t, d/2) each
    a, b = x.chunk(2, dim=-1)  # (..., t, d/2) each
    return minigrad.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


@functools.lru_cache(maxsize=64)  # all layers turn their queries and keys alike
def _turns(start: int, t: int, d: int, dtype: Any) -> tuple[Tensor, Tensor]:
    angle = _angles(start, t, d)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def _angles(start: int, t: int, d: int) -> Tensor:
    if integer(d, "positions: the number of features") % 2:
        raise ValueError(f"positions turn pairs of features, so they need an even number of them, got {d}")
    rates = 10000.0 ** (minigrad.arange(d // 2).double() * (-2.0 / d))  # (d/2)
    return minigrad.arange(start, start + t).unsqueeze(-1) * rates  # (t, d/2), in float64: far positions turn many times


# The layer ---------------------------------------------------------------------------------------------------------


class Cache:
    """Keys and values of the tokens so far, by layer: a new token then computes only its own, and attends to all.

    One for each text, or batch of texts. What the layers computed stays as it is when their weights change.
    """

    def __init__(self) -> None:
        self._past: dict[Module, tuple[Tensor, Tensor]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Cache:  # for another way to go on: of the same layers, whose keys never change
        other = Cache()
        other._past = dict(self._past)
        return other

    def length(self, layer: Module) -> int:
        """How many tokens this attention layer has seen."""
        return self._past[layer][0].shape[-2] if layer in self._past else 0

    def extend(self, layer: Module, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values (..., h, m, d_head) of this layer, the new ones last. ValueError for another batch than before."""
        if layer in self._past:
            past_K, past_V = self._past[layer]
            if (past_K.shape[:-2], past_K.dtype) != (K.shape[:-2], K.dtype):
                raise ValueError(
                    f"this Cache holds keys of shape {past_K.shape} (..., tokens, d_head), {past_K.dtype}; keys of shape {K.shape}, "
                    f"{K.dtype}, don't go on from there: for another text, or batch of texts, start a new one"
                )
            K, V = minigrad.cat([past_K, K], dim=-2), minigrad.cat([past_V, V], dim=-2)
        self._past[layer] = K, V
        return K, V


class SelfAttention(MultiHeadAttention):
    """Causal MultiHeadAttention, if wanted with rotary positions and with a cache of the past:  (..., t, d) -> (..., t, d)."""

    def __init__(self, d_model: int, num_heads: int, rotary: bool = False) -> None:
        super().__init__(d_model, num_heads, causal=True)
        if rotary and self.d_head % 2:
            raise ValueError(f"rotary positions turn pairs of features, so d_model / num_heads must be even, got {d_model} / {num_heads}")
        self.rotary = rotary

    def forward(self, x: Tensor, cache: Cache | None = None, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:  # type: ignore[override]
        """With a cache, x holds the tokens after those it has seen, and the weights are (..., h, t, m)."""
        Q, K, V = self.project(x, x)  # (..., h, t, d_head)
        if self.rotary:
            start = 0 if cache is None else cache.length(self)
            Q, K = rotary(Q, start), rotary(K, start)
        if cache is not None:
            K, V = cache.extend(self, K, V)  # (..., h, m, d_head)
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
    """x + attention(norm1(x)), then x + mlp(norm2(x)):  (..., t, d) -> (..., t, d).  d_ff: 2 * d_model by default.

    The norms stand inside the branches (pre-norm; Xiong et al. 2020), so the sum x runs through all layers untouched: gradients too.
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
    vectors as its weights, and no bias. More than max_length tokens are a ValueError.
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
            raise ValueError(f"TinyTransformer: positions must be 'learned', 'sinusoidal' or 'rotary', got {positions!r}")
        if min(integer(num_layers, "TinyTransformer: num_layers"), integer(max_length, "TinyTransformer: max_length")) < 1:
            raise ValueError(f"TinyTransformer: num_layers and max_length must be at least 1, got {num_layers} and {max_length}")
        self.max_length = max_length
        # Token + position has variance 1. Tied, the vectors are small: the first logits are their products, and should be near 0.
        std = 0.02 if tied else math.sqrt(0.5)
        self.embedding = Embedding(vocab_size, d_model)
        init.normal_(self.embedding.weight, std=std)
        learned = positions == "learned"
        self.positions = init.normal_(Parameter(minigrad.zeros(max_length, d_model)), std=std) if learned else None
        self.waves = sinusoidal_positions(max_length, d_model) if positions == "sinusoidal" else None
        self.layers = ModuleList([DecoderLayer(d_model, num_heads, d_ff, positions == "rotary") for _ in range(num_layers)])
        self.norm = RMSNorm(d_model)
        self.head = Linear(d_model, vocab_size, bias=not tied)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor, cache: Cache | None = None) -> Tensor:
        """With a cache, ids are the tokens after those it has seen already; it is extended by them."""
        if not checked(ids, Tensor, "TinyTransformer").ndim:
            raise ValueError("TinyTransformer: ids must have shape (t) or (b, t), got a single id: write ids.unsqueeze(0)")
        start, t = (0 if cache is None else self._seen(cache)), ids.shape[-1]
        if start + t > self.max_length:
            so_far = f"{start} in the cache and {t} new ones" if start else f"{t} tokens"
            raise ValueError(f"TinyTransformer: {so_far}, but max_length is {self.max_length}: give it the last ones, ids[..., -n:], only")
        x = self.embedding(ids)  # (..., t, d)
        table = self.positions if self.waves is None else self.waves
        if table is not None:
            x = x + table[start : start + t]  # (..., t, d)
        for layer in self.layers:
            x = layer(x, cache)  # (..., t, d)
        logits: Tensor = self.head(self.norm(x))  # (..., t, v)
        return logits

    def _seen(self, cache: Cache) -> int:
        first, *others = (cache.length(layer.attention) for layer in self.layers)
        if any(length != first for length in others):
            raise RuntimeError(
                "this Cache is out of step: a forward pass ended halfway, so some layers saw tokens that others didn't; start a new one"
            )
        return first

    def extra_repr(self) -> str:
        return f"max_length={self.max_length}"
