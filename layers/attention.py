"""Attention: each token collects from the others, in four lines.

Masks in this file: **True = hidden**, as in `masked_fill`. (`functional.scaled_dot_product_attention` keeps PyTorch's
opposite meaning.) Letters: n queries, m keys, d features of a head, h heads, t tokens.
"""

from __future__ import annotations

import math
from typing import Any

import minigrad
from minigrad import Tensor
from minigrad.arguments import integer, not_bool, sees_only_the_future, short
from minigrad.attention import attention, multi_head

from .linear import Linear
from .module import Module

# Without context, mask and weights asked for, a layer runs as one op, and attention always as one: fast, with the same numbers to
# rounding, but past the methods below. Set this to False, and what you change below is what runs.
ONE_OP = True


def causal_mask(n: int, m: int | None = None) -> Tensor:
    """The (n, m) mask that hides the future: True strictly above the diagonal; m = n by default.

    With m > n keys the queries are the last n of m tokens (decoding with a cache): query i sees keys j <= i + (m - n).
    """
    n = integer(n, "causal_mask: n")
    m = n if m is None else integer(m, "causal_mask: m")
    return minigrad.triu(minigrad.ones(n, m), diagonal=1 + m - n).bool()


def scaled_dot_product_attention(Q: Tensor, K: Tensor, V: Tensor, causal: bool = True, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """softmax(Q K^T / sqrt(d)) V:  Q (..., n, d), K (..., m, d), V (..., m, e) -> output (..., n, e), weights (..., n, m).

    causal hides the future (see `causal_mask`); mask, bool and broadcast to (..., n, m), hides where it is True. A query
    that may look at nothing is a ValueError. (Vaswani et al. 2017, section 3.2.1)
    """
    n, m, d_head = *_fitting(Q, K, V), Q.shape[-1]
    hidden = _hidden(n, m, causal, mask)
    scores = minigrad.matmul(Q, K.transpose(-2, -1)) / math.sqrt(d_head)  # 1. how well each query fits each key (..., n, m)
    scores = scores if hidden is None else scores.masked_fill(hidden, float("-inf"))  # 2. what must not be seen (..., n, m)
    weights = minigrad.softmax(scores, dim=-1)  # 3. how much to take from where; rows sum to 1   (..., n, m)
    output = minigrad.matmul(weights, V)  # 4. take it                                            (..., n, e)
    return output, weights


def _fitting(Q: Tensor, K: Tensor, V: Tensor) -> tuple[int, int]:
    for x in (Q, K, V):
        if not isinstance(x, Tensor):
            raise TypeError(f"attention takes Tensors, got {short(x)}: make it one with minigrad.tensor(...)")
    if min(Q.ndim, K.ndim, V.ndim) < 2 or not Q.shape[-1] == K.shape[-1] > 0 or K.shape[-2] != V.shape[-2]:
        raise ValueError(f"attention: Q (..., n, d), K (..., m, d), V (..., m, e) don't fit: {Q.shape}, {K.shape}, {V.shape}")
    if not Q.shape[-2] or not K.shape[-2]:
        raise ValueError(f"attention over an empty sequence: Q {Q.shape}, K {K.shape}")
    return Q.shape[-2], K.shape[-2]


def _hidden(n: int, m: int, causal: bool, mask: Tensor | None) -> Tensor | None:
    """Both masks in one, True = hidden; None where nothing is."""
    if not isinstance(causal, bool):
        raise TypeError(f"attention: causal must be True or False, got {short(causal)}; a mask is written mask=...")
    if mask is not None and (not isinstance(mask, Tensor) or mask.dtype != minigrad.bool):
        raise not_bool(mask, "attention: the mask (True = hidden)")
    if mask is not None and (mask.ndim < 2 or mask.shape[-1] not in (1, m) or mask.shape[-2] not in (1, n)):
        raise ValueError(f"attention: the mask's last two lengths must be {(n, m)} (queries, keys) or 1, got shape {mask.shape}")
    hidden = mask
    if causal:
        hidden = causal_mask(n, m) if mask is None else mask | causal_mask(n, m)
    if hidden is not None and (mask is not None or n > m):
        blind = hidden.all(-1)  # (..., n)
        if blind.any():
            query = int(blind.reshape(-1, blind.shape[-1]).any(0).long().argmax())
            what = f"attention: query {query} may look at nothing (mask True = hidden, causal={causal}, {n} queries, {m} keys)"
            if mask is not None and sees_only_the_future(mask.data):
                what += (
                    ". The mask hides all but the future: here True = hidden, but it was made as if True = may attend, as in "
                    "functional.scaled_dot_product_attention; write ~mask"
                )
            raise ValueError(what)
    return hidden


class MultiHeadAttention(Module):
    """Attention in num_heads smaller spaces at once:  x (..., t, d_model) -> (..., t, d_model).

    Each head reads its own d_head = d_model / num_heads features of Q = W_q x, K = W_k x, V = W_v x; W_o mixes what the heads
    found. Heads are a batch axis, so their number changes neither the weights, 4 d_model**2, nor the multiplications.
    (Vaswani et al. 2017, section 3.2.2)
    """

    def __init__(self, d_model: int, num_heads: int, causal: bool = True, bias: bool = False) -> None:
        if integer(num_heads, "MultiHeadAttention: num_heads") < 1 or integer(d_model, "MultiHeadAttention: d_model") % num_heads:
            raise ValueError(f"MultiHeadAttention: d_model = {d_model} is not divisible by num_heads = {num_heads}")
        self.d_model, self.num_heads, self.d_head, self.causal = d_model, num_heads, d_model // num_heads, causal
        self.W_q = Linear(d_model, d_model, bias)
        self.W_k = Linear(d_model, d_model, bias)
        self.W_v = Linear(d_model, d_model, bias)
        self.W_o = Linear(d_model, d_model, bias)

    def forward(
        self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Output (..., n, d_model), and with return_weights=True also the weights (..., h, n, m), one map per head.

        context: where keys and values come from, (..., m, d_model); x itself by default.
        mask: True = hidden; (n, m), or with the leading axes of x, (..., n, m), for all heads alike, or (..., h, n, m).
        """
        weights = _weights(self, x) if ONE_OP and context is None and mask is None and not return_weights else []
        if weights:  # the numbers of the last line in one op (minigrad/attention.py): skip it at first
            return minigrad.apply(multi_head, x, *weights, num_heads=self.num_heads, causal=self.causal)
        return self.attend(*self.project(x, x if context is None else context), mask, return_weights)

    def project(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Q (..., h, n, d_head) of x, and K, V (..., h, m, d_head) of the context."""
        return self.split_heads(self.W_q(x)), self.split_heads(self.W_k(context)), self.split_heads(self.W_v(context))

    def attend(
        self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The four steps in every head, heads merged, W_o."""
        if isinstance(mask, Tensor) and 2 < mask.ndim < max(Q.ndim, K.ndim):
            mask = mask.unsqueeze(-3)  # (..., 1, n, m): the same for all heads
        weights: Any = None
        if ONE_OP and not return_weights:  # the numbers of the next line in one op (minigrad/attention.py): skip it at first
            output = _fused(Q, K, V, self.causal, mask)  # (..., h, n, d_head)
        else:
            output, weights = scaled_dot_product_attention(Q, K, V, self.causal, mask)  # and (..., h, n, m)
        output = self.W_o(self.merge_heads(output))  # (..., n, d_model)
        return (output, weights) if return_weights else output

    def split_heads(self, x: Tensor) -> Tensor:
        """(..., t, d_model) -> (..., h, t, d_head): first cut each token's features into heads, then move the heads in front."""
        if x.ndim < 2:
            raise ValueError(f"MultiHeadAttention: tokens must have shape (..., t, {self.d_model}), got {x.shape}")
        return x.view(*x.shape[:-1], self.num_heads, self.d_head).transpose(-3, -2)

    def merge_heads(self, x: Tensor) -> Tensor:
        """(..., h, t, d_head) -> (..., t, d_model): the way back, so that each token's features stand together again."""
        x = x.transpose(-3, -2)  # (..., t, h, d_head)
        return x.reshape(*x.shape[:-2], self.d_model)

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, num_heads={self.num_heads}, causal={self.causal}"


def _fused(Q: Tensor, K: Tensor, V: Tensor, causal: bool, mask: Tensor | None) -> Tensor:
    """The output of the four steps in one op (minigrad/attention.py): same numbers, fewer trips to memory."""
    n, m = _fitting(Q, K, V)
    hidden = None if mask is None and n <= m else _hidden(n, m, causal, mask)  # (..., n, m); it refuses blind queries
    array = None if hidden is None else hidden.data
    return minigrad.apply(attention, Q, K, V, hidden=array, offset=m - n if causal else None, scale=1 / math.sqrt(Q.shape[-1]))


_METHODS = "project", "attend", "split_heads", "merge_heads"
_AS_MADE = [getattr(MultiHeadAttention, name) for name in _METHODS] + [Linear.forward]


def _weights(layer: MultiHeadAttention, x: Tensor) -> list[Tensor]:
    """The weights of W_q, W_k, W_v and W_o, if all is as it was made: no method, number or map replaced, no bias, nothing frozen, and
    x (..., t, d_model) of their dtype and not empty. Else an empty list: the steps one by one then say what is wrong, if something is."""
    if [getattr(type(layer), name) for name in _METHODS] + [Linear.forward] != _AS_MADE or not vars(layer).keys().isdisjoint(_METHODS):
        return []
    d, array = layer.d_model, x._data if isinstance(x, Tensor) else None
    if type(layer.num_heads) is not int or layer.num_heads * layer.d_head != d:
        return []
    if array is None or array.ndim < 2 or array.shape[-1] != d or array.dtype.kind != "f" or not array.size:
        return []
    weights: list[Tensor] = []
    for W in (layer.W_q, layer.W_k, layer.W_v, layer.W_o):
        if type(W) is not Linear or "forward" in vars(W) or W.bias is not None:
            return []
        w = W.weight
        if not isinstance(w, Tensor) or w._data.shape != (d, d) or w._data.dtype != array.dtype or not w._requires_grad:
            return []
        weights.append(w)
    return weights
