"""From logits to the next token. Each filter takes logits (..., v) and returns logits, so they can be chained; -inf = never.

A sampler is a function of logits, made of these; `generate` calls it for each token:

    for token in generate(model, ids, 100, lambda logits: sample(top_p(temperature(logits, 0.8), 0.95))): ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import minigrad
from minigrad import Tensor, no_grad
from minigrad.arguments import checked, integer, module_getattr, number

from .decoder import Cache, TinyTransformer


def greedy(logits: Tensor) -> Tensor:
    """The likeliest id:  (..., v) -> (...)."""
    return checked(logits, Tensor, "greedy").argmax(-1)


def sample(logits: Tensor) -> Tensor:
    """A random id, drawn with the probabilities softmax(logits):  (..., v) -> (...)."""
    rows = checked(logits, Tensor, "sample").softmax(-1).reshape(-1, logits.shape[-1])  # (rows, v)
    return minigrad.multinomial(rows, 1).reshape(logits.shape[:-1])


def gumbel_max(logits: Tensor) -> Tensor:
    """The same distribution without a softmax: argmax(logits - log(-log(u))), u uniform in (0, 1):  (..., v) -> (...).

    -log(-log(u)) is Gumbel noise; the largest of logit + noise is i with probability softmax(logits)_i  (Gumbel 1954).
    """
    shape = checked(logits, Tensor, "gumbel_max").shape
    u = minigrad.rand(shape, dtype=minigrad.float64).clamp(min=2.0**-54)  # a zero would be -inf: never chosen
    return (logits - (-u.log()).log()).argmax(-1)


def temperature(logits: Tensor, t: float) -> Tensor:
    """logits / t: sharper for t < 1, flatter for t > 1."""
    if not number(t, "temperature") > 0:
        raise ValueError(f"temperature must be above 0, got {t}; for the likeliest token use greedy")
    return checked(logits, Tensor, "temperature") / t


def top_k(logits: Tensor, k: int) -> Tensor:
    """Only the k likeliest ids, or all if there are fewer  (Fan et al. 2018)."""
    if integer(k, "top_k: k") < 1:
        raise ValueError(f"top_k: k must be at least 1, got {k}")
    kept = checked(logits, Tensor, "top_k").topk(min(k, logits.shape[-1])).indices  # (..., k)
    return logits.masked_fill(minigrad.ones_like(logits).scatter(-1, kept, 0.0).bool(), -math.inf)


def top_p(logits: Tensor, p: float) -> Tensor:
    """Only the likeliest ids, as few as together have probability p or more: the nucleus  (Holtzman et al. 2020)."""
    if not 0.0 < number(p, "top_p: p") <= 1.0:
        raise ValueError(f"top_p: p must lie in (0, 1], got {p}")
    values, order = checked(logits, Tensor, "top_p").double().softmax(-1).sort(descending=True)  # (..., v)
    before = values.cumsum(-1) - values  # what the likelier ones have together; 0 for the first, which is always kept
    dropped = (before >= p).double() if p < 1.0 else minigrad.zeros_like(before)  # rounding must not drop any of all
    return logits.masked_fill(dropped.scatter(-1, order, dropped).bool(), -math.inf)


@no_grad()
def generate(
    model: TinyTransformer, ids: Tensor, count: int, choose: Callable[[Tensor], Tensor] = sample, use_cache: bool = True
) -> Iterator[Tensor]:
    """Yield `count` new ids, one by one, (b) for a prompt (b, t), () for (t); `choose` turns logits (..., v) into ids (...).

    The model sees the last max_length tokens. While that is all of them, the cache makes a step cost one token; after that each
    step moves every token to another position, and all is computed anew.
    """
    if not checked(ids, Tensor, "generate").ndim or not ids.shape[-1]:
        raise ValueError(f"generate: the prompt must have shape (t) or (b, t) with at least one token, got {ids.shape}")
    cache, new = Cache(), ids
    for _ in range(integer(count, "generate: count")):
        if use_cache and ids.shape[-1] <= model.max_length:
            logits = model(new, cache)  # (..., new ones, v)
        else:
            logits = model(ids[..., -model.max_length :])  # (..., t, v)
        token = choose(logits[..., -1, :])  # (...)
        yield token
        new = token.unsqueeze(-1)  # (..., 1)
        ids = minigrad.cat([ids, new], dim=-1)  # (..., t + 1)


__getattr__ = module_getattr(__name__)
