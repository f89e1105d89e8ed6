"""Attention as one op: the numbers of matmul, softmax and matmul, with fewer trips to memory.

The four visible steps (layers/attention.py) write n * m scores to memory and read them back about ten times. This op
takes a block of them at a time, small enough for the processor's cache, and does all the work on it while it is there.
Letters: n queries, m keys, d and e features of a key and a value; S scores, P weights, Y output, G = dL/dY.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .ops import Array, Result, Vjp
from .ops.arrays import dot
from .tape import all_traced, look

BLOCK = 2**17  # scores at work at a time: 512 KiB of float32, what the cache of one core holds
ROWS = 64  # rows of a block that has many keys; a causal block leaves out the keys that none of its rows sees
KEEP = 2**23  # weights of so many scores (32 MiB of float32) wait for the backward pass; more are computed again
LOW, HIGH = 1e-10, 1e30  # between them, the sum of a row of exp(S) has lost nothing

Index = tuple[Any, ...]  # of slices, or (...,) for everything


def attention(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None = None,
    *,
    scale: float,
    hidden: Array | None = None,
    offset: int | None = None,
) -> Result:
    """Y = P V,  P = softmax of each row of S,  S = scale * Q K^T + bias:  (..., n, d), (..., m, d), (..., m, e) -> (..., n, e).

    Leading axes broadcast. bias (floats, may be -inf) and hidden (bools, True = hidden) broadcast to (..., n, m); with an
    offset, query i sees keys j <= i + offset only. The row of a query that sees nothing is 0, and so are its gradients.

    dV = P^T G,  and with dP = G V^T and dS = P * (dP - D), where D_i = sum_j dP_ij P_ij (softmax, in ops/normalizing.py):
    dQ = scale * dS K,  dK = scale * dS^T Q,  dbias = dS.

    1. D needs no scores: D_i = sum_j (sum_c G_ic V_jc) P_ij = sum_c G_ic (sum_j P_ij V_jc) = G_i . Y_i.
    2. Each row of P depends on its own scores only, so the rows are done block by block, and their parts of dK, dV add up.
    3. exp(S) needs no shift by the row's largest score while the sum of a row stays far from the ends of float32. Only
       rows whose sum leaves that range are done again, with the shift. So a row's numbers depend on that row alone.
    4. P is kept for the backward pass if it is small. If not, it is computed again from each row's logsumexp, kept in its
       two parts: P = exp(S - shift) / sum, where shift + log(sum) is the logsumexp. Memory grows with n + m, not with n * m.

    (Rabe & Staats 2021, "Self-attention does not need O(n^2) memory"; Dao et al. 2022, "FlashAttention", appendix B)
    """
    y, backward = _attention(q, k, v, bias, scale, hidden, offset)
    return y, *at_once(backward, 3 if bias is None else 4)


def _attention(
    q: Array, k: Array, v: Array, bias: Array | None, scale: float, hidden: Array | None, offset: int | None
) -> tuple[Array, Callable[..., list[Array]]]:
    q, k, v = all_traced(q, k, v)
    n, m, lead, wide_bias = q.shape[-2], k.shape[-2], q.shape[:-2], None
    q = q if scale == 1 else q * scale
    if bias is not None or hidden is not None or not lead == k.shape[:-2] == v.shape[:-2]:
        masks = [x for x in (bias, hidden) if x is not None]
        try:
            lead = np.broadcast_shapes(*(x.shape[:-2] for x in (q, k, v, *masks)))
            wide_bias, hidden = (None if x is None else np.broadcast_to(x, (*lead, n, m)) for x in (bias, hidden))
        except ValueError:
            shapes = ", ".join(str(x.shape) for x in (q, k, v, *masks))
            raise ValueError(
                f"attention: the shapes {shapes} (queries, keys, values, mask) don't fit: leading lengths must be equal or 1, "
                f"and the last two of a mask {(n, m)} or 1"
            ) from None
        q, k, v = (np.broadcast_to(x, lead + x.shape[-2:]) for x in (q, k, v))
    blocks, kept = _blocks(lead, n, m, offset, ROWS, BLOCK), math.prod(lead) * n * m <= KEEP
    y, k_columns = _laid_out_like(q, v), _columns(k, n)
    saved: list[tuple[Array | None, Array | None, Array]] = []  # of each block: P if it is kept, shift if there is one, sums

    def late(x: Any, pairs: Index) -> tuple[Any, Array]:
        """The columns of a block in which something is hidden by the offset, and their pattern: 1 = seen, 0 = hidden."""
        last = pairs[-2].start + offset  # the last key that the first row sees
        first = max(0, last) if x.shape[-1] > 4 * ROWS else 0  # few columns are done faster all at once, in rows without gaps
        return x[..., first:], _seen(x.shape[-2], x.shape[-1] - first, last - first, q.dtype)

    def scores(rows: Index, columns: Index, pairs: Index, hide: bool) -> Any:  # hide: now, and not after exp, what the offset hides
        s = np.matmul(q[rows], k_columns[columns])  # (..., rows, keys)
        if wide_bias is not None:
            s += wide_bias[pairs]
        if hidden is not None:
            np.copyto(s, -math.inf, where=hidden[pairs])
        if offset is not None and hide:
            part, seen = late(s, pairs)
            np.copyto(part, -math.inf, where=seen == 0)
        return s

    def exponentials(rows: Index, columns: Index, pairs: Index, shift: Array | None) -> Any:
        p = scores(rows, columns, pairs, hide=shift is not None)
        if shift is not None:
            p -= shift
        np.exp(p, p)
        if offset is not None and shift is None:  # a product is faster than -inf before; inf * 0 is NaN, and is done again with shift
            part, seen = late(p, pairs)
            part *= seen
        return p

    for rows, keys, columns, pairs in blocks:
        p, shift, ones = exponentials(rows, columns, pairs, None), None, _ones(pairs[-1].stop, q.dtype)
        total = np.matmul(p, ones)  # the sum of each row: NumPy is slow at many short sums
        if not look(_in_range, total):
            s = scores(rows, columns, pairs, hide=True)
            total = np.matmul(np.exp(s), ones)  # of what a row sees; a later key that is NaN or large is no reason for a shift
            shift = np.where((total > LOW) & (total < HIGH), 0, s.max(axis=-1, keepdims=True, initial=-math.inf))
            shift[shift == -math.inf] = 0
            p = exponentials(rows, columns, pairs, shift)
            total = np.matmul(p, ones)
            total += total == 0  # a query that sees nothing: 0 / 1
        p /= total
        np.matmul(p, v[keys], y[rows])
        saved.append((p if kept else None, shift, total))

    def backward(g: Array, *room: Array) -> list[Array]:  # room for dQ, dK and dV, if they have a place already
        dq, dk, dv = room or (_laid_out_like(x, x) for x in (q, k, v))
        if not blocks or (offset is not None and n + offset < m):  # there are keys that no query sees
            dk.fill(0)
            dv.fill(0)
        D = np.vecdot(g, y)[..., None]  # (..., n, 1)
        dbias = None if bias is None else np.zeros_like(q, shape=(1,) * (q.ndim - bias.ndim) + bias.shape, order="C")
        v_columns = _columns(v, n)
        for (rows, keys, columns, pairs), (p, shift, total) in zip(blocks, saved, strict=True):
            if p is None:
                p = exponentials(rows, columns, pairs, shift)
                p /= total
            ds = np.matmul(g[rows], v_columns[columns])  # (..., rows, keys)
            ds -= D[rows]
            ds *= p
            np.matmul(ds, k[keys], dq[rows])
            fresh = pairs[-2].stop == n
            _add_product(dk[keys], ds.swapaxes(-1, -2), q[rows], fresh)
            _add_product(dv[keys], p.swapaxes(-1, -2), g[rows], fresh)
            if dbias is not None:  # summed at once over the axes along which the bias was stretched, so it stays as small as it is
                stretched = tuple(i for i, length in enumerate(dbias.shape) if length == 1)
                place = tuple(slice(None) if i in stretched else part for i, part in enumerate(pairs))
                dbias[place] += ds.sum(axis=stretched, keepdims=True)
        if scale != 1:
            dq *= scale  # in dK it is, with q
        return [dq, dk, dv] if dbias is None else [dq, dk, dv, dbias]

    return y, backward


def multi_head(x: Array, w_q: Array, w_k: Array, w_v: Array, w_o: Array, *, num_heads: int, causal: bool) -> Result:
    """Y = merged(attention(Q, K, V)) W_o^T,  Q = split(X W_q^T), and so K and V:  (..., t, d) and four times (d, d) -> (..., t, d).

    A chain of ops is an op: its gradient functions are theirs, called backwards. As one op it spares what a dozen nodes of a
    graph cost, and Q, K and V come from one product with the three matrices one above the other: [Q K V] = X W^T,
    dX = [dQ dK dV] W,  dW = [dQ dK dV]^T X. A large product is faster than three small ones, up to a tenth of a step.
    """
    d, tokens = x.shape[-1], x.reshape(-1, x.shape[-1])
    in_heads = (*x.shape[:-1], num_heads, d // num_heads)
    scale = 1 / math.sqrt(d // num_heads)
    w = np.concatenate([w_q * scale, w_k, w_v])  # (3 d, d); the scores' scale is in it, so no pass over them is needed
    qkv = dot(tokens, w.T)  # (tokens, 3 d)

    def split(rows: Array) -> Array:
        return rows.reshape(in_heads).swapaxes(-2, -3)  # (tokens, d) -> (..., h, t, d_head)

    def thirds(rows: Array) -> list[Array]:  # (tokens, 3 d) -> three times (..., h, t, d_head), as views
        parts = rows.reshape(*x.shape[:-1], 3, *in_heads[-2:])
        return [parts[..., i, :, :].swapaxes(-2, -3) for i in range(3)]

    q, k, v = thirds(qkv)
    heads, to_heads = _attention(q, k, v, None, 1.0, None, 0 if causal else None)
    merged = heads.swapaxes(-2, -3).reshape(tokens.shape)  # (..., h, t, d_head) -> (tokens, d)

    def backward(g: Array) -> list[Array]:
        g = g.reshape(tokens.shape)
        g_qkv = np.empty_like(qkv)
        to_heads(split(g.dot(w_o)), *thirds(g_qkv))
        dw = g_qkv.T.dot(tokens)  # (3 d, d)
        return [g_qkv.dot(w).reshape(x.shape), dw[:d] * scale, dw[d : 2 * d], dw[2 * d :], g.T.dot(merged)]

    return dot(merged, w_o.T).reshape(x.shape), *at_once(backward, 5)


def at_once(backward: Callable[[Array], list[Array]], count: int) -> list[Vjp]:
    """Gradient functions that share their work: the first one called with a g does it for all, who are asked with the same g in turn."""
    latest: list[Any] = []  # g and its gradients

    def gradient(i: int, g: Array) -> Array:
        if not latest or latest[0] is not g:
            latest[:] = g, backward(g)
        found: Array = latest[1][i]
        return found

    return [functools.partial(gradient, i) for i in range(count)]


@functools.lru_cache(maxsize=16)
def _blocks(lead: tuple[int, ...], n: int, m: int, offset: int | None, height: int, size: int) -> list[tuple[Index, Index, Index, Index]]:
    """Where the work is cut. Of each block four places: of its rows in Q and Y, of its keys in K and V, of the same keys in K^T and
    V^T, and of its scores in S. A block takes some rows (`height` of them, or more where all see all keys) of several
    heads, or of one, and has about `size` scores. The last rows come first: they see the most keys."""
    if 0 in lead:
        return []
    height = min(n, height if offset is not None else max(height, size // max(m, 1))) or 1
    heads, axis = max(1, size // max(height * m, 1)), len(lead)
    while axis and lead[axis - 1] <= heads:  # these axes are taken whole, the one before in steps, those in front singly
        axis -= 1
        heads //= max(lead[axis], 1)
    steps = [range(0, length, heads if i == axis - 1 else 1) for i, length in enumerate(lead[:axis])]
    whole, blocks = (slice(None),) * (len(lead) - axis), []
    for starts in itertools.product(*steps):
        part = (*(slice(i, i + step.step) for i, step in zip(starts, steps, strict=True)), *whole)
        for stop in range(n, 0, -height):
            rows = slice(max(0, stop - height), stop)
            keys = slice(0, m if offset is None else min(m, max(0, stop + offset)))
            pairs = (*part, rows, keys)
            all_rows, all_keys = ((...,) if not axis and x == slice(0, length) else None for x, length in ((rows, n), (keys, m)))
            in_rows = all_rows or (*part, rows, slice(None))
            blocks.append((in_rows, all_keys or (*part, keys, slice(None)), all_keys or (*part, slice(None), keys), pairs))
    return blocks


def _in_range(total: Array) -> bool:  # nothing too small, too large or NaN
    return bool(total.item(total.argmin()) > LOW and total.item(total.argmax()) < HIGH)


@functools.lru_cache(maxsize=64)
def _ones(m: int, dtype: np.dtype[Any]) -> Array:
    return np.ones((m, 1), dtype)


@functools.lru_cache(maxsize=64)  # most blocks have the same triangle
def _seen(n: int, m: int, offset: int, dtype: np.dtype[Any]) -> Array:
    return (np.arange(m) <= np.arange(offset, offset + n)[:, None]).astype(dtype)  # key j <= i + offset


def _columns(x: Array, rows: int) -> Array:
    """X^T, for products A X^T with this many rows in A. A copy pays if they are many, for OpenBLAS, which doesn't mind a turned A, takes
    up to twice as long where it must turn X itself; it doesn't pay if X has far more rows, or is one for several A."""
    turned = x.swapaxes(-1, -2)
    if rows < 64 or x.shape[-2] > 2 * rows or 0 in x.strides:
        return turned
    columns = np.empty_like(x, shape=turned.shape, order="C")
    for i in range(0, x.shape[-2], 64):  # so many rows of X at a time stay in the cache, whatever lies between them
        columns[..., i : i + 64] = turned[..., i : i + 64]
    return columns


def _laid_out_like(x: Array, like: Array) -> Array:
    """Room for (..., length of `like`) in the memory order of x: heads that were split off by a view can be merged by a view."""
    if like is x and 0 not in x.strides:
        return np.empty_like(x)
    shape = (*x.shape[:-1], like.shape[-1])
    return np.empty_like(x, shape=shape, order="C" if 0 in x.strides else "K")


def _add_product(total: Array, a: Array, b: Array, fresh: bool) -> None:
    """total += A B; or total = A B if it is fresh, with nothing in it yet: the first block of a head has the last rows, and all keys."""
    if fresh:
        np.matmul(a, b, total)
    else:
        part = np.empty_like(total)  # in memory its heads lie side by side, as those of total do: the addition runs through long rows
        total += np.matmul(a, b, part)
