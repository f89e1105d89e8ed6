"""From logits to the next token. Each filter takes logits (..., v) and returns logits, so they can be chained; -inf = never."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import minigrad
from minigrad import Tensor, no_grad

from .decoder import Cache, TinyTransformer


def greedy(logits: Tensor) -> Tensor:
    """The likeliest id:  (..., v) -> (...)."""
    return logits.argmax(-1)


def sample(logits: Tensor) -> Tensor:
    """A random id, drawn with probabilities softmax(logits):  (..., v) -> (...)."""
    ids = minigrad.multinomial(logits.softmax(-1).reshape(-1, logits.shape[-1]), 1)  # (rows, 1)
    return ids.reshape(logits.shape[:-1])


def gumbel_max(logits: Tensor) -> Tensor:
    """The same distribution without a softmax: argmax of logits + Gumbel noise, -log(-log(u)), u uniform  (Gumbel 1954)."""
    u = minigrad.rand(logits.shape, dtype=minigrad.float64).clamp(min=2.0**-60)
    return (logits - (-u.log()).log()).argmax(-1)


def temperature(logits: Tensor, t: float) -> Tensor:
    """logits / t: sharper for t < 1, flatter for t > 1. (For t -> 0 use `greedy`.)"""
    if not t > 0:
        raise ValueError(f"temperature must be above 0, got {t}; for the likeliest token use greedy")
    return logits / t


def top_k(logits: Tensor, k: int) -> Tensor:
    """Only the k likeliest ids  (Fan et al. 2018)."""
    if k < 1:
        raise ValueError(f"top_k: k must be at least 1, got {k}")
    kept = logits.topk(min(k, logits.shape[-1])).indices
    return logits.masked_fill(minigrad.ones_like(logits).scatter(-1, kept, 0.0).bool(), -math.inf)


def top_p(logits: Tensor, p: float) -> Tensor:
    """Only the likeliest ids that together just reach probability p: the nucleus  (Holtzman et al. 2020)."""
    if not 0.0 < p <= 1.0:
        raise ValueError(f"top_p: p must lie in (0, 1], got {p}")
    values, order = logits.softmax(-1).sort(descending=True)
    before = values.cumsum(-1) - values  # probability of all that are likelier
    dropped = (before >= p).float()  # never the first
    return logits.masked_fill(minigrad.zeros_like(dropped).scatter(-1, order, dropped).bool(), -math.inf)


@no_grad()
def generate(
    model: TinyTransformer, ids: Tensor, count: int, choose: Callable[[Tensor], Tensor] = sample, use_cache: bool = True
) -> Iterator[Tensor]:
    """Yield `count` new tokens one by one, (b) for a prompt (b, t), () for (t); `choose` turns logits (..., v) into ids.

    The model sees at most its last max_length tokens. While all of them fit, the cache makes each step cost one token; once they
    don't, positions shift at every step, and the window is computed anew.
    """
    if not ids.shape[-1]:
        raise ValueError("generate: the prompt is empty; give it at least one token")
    cache, new = Cache(), ids
    for _ in range(count):
        if use_cache and cache.length + new.shape[-1] <= model.max_length:
            logits = model(new, cache)
        else:
            use_cache = False
            logits = model(ids[..., -model.max_length :])
        token = choose(logits[..., -1, :])  # (...)
        yield token
        new = token.unsqueeze(-1)
        ids = minigrad.cat([ids, new], dim=-1)
