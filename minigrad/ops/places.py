"""Ops that move elements and change none: shapes, picking, putting together."""

import math
from typing import Any

import numpy as np

from .arrays import Array, Result, in_rows


def reshape(x: Array, shape: tuple[int, ...]) -> Result:
    """y = the elements of x, in order, in another shape.   dx = g in the shape of x"""
    return x.reshape(shape), lambda g: g.reshape(x.shape)


def transpose(x: Array, axes: tuple[int, ...]) -> Result:
    """y = x with its axes in another order.   dx = g with the order undone"""
    return x.transpose(axes), lambda g: g.transpose(sorted(range(x.ndim), key=[i % x.ndim for i in axes].__getitem__))


def swapaxes(x: Array, i: int, j: int) -> Result:
    """y = x with two axes exchanged.   dx = g with them exchanged back"""
    return x.swapaxes(i, j), lambda g: g.swapaxes(i, j)


def expand(x: Array, shape: tuple[int, ...]) -> Result:
    """y = x repeated along axes of length 1 (and new ones in front).   dx = g; the engine sums over the repeats"""
    return np.broadcast_to(x, shape), lambda g: g


def getitem(x: Array, index: Any) -> Result:
    """y = x[index].   dx = zeros with g added at the index, once for each time a place was picked"""
    parts = index if isinstance(index, tuple) else (index,)
    if len(parts) == 1 and hasattr(parts[0], "dtype") and parts[0].dtype.kind == "i":
        return take(x, parts[0])
    simple = all(part is None or part is Ellipsis or isinstance(part, int | slice) for part in parts)

    def dx(g: Array) -> Any:
        out = np.zeros_like(x)
        if simple:
            out[index] = g  # ints and slices pick no place twice
        else:
            np.add.at(out, index, g)  # out[index] += g would keep only one gradient of a place picked twice
        return out

    return x[index] if simple else in_rows(x[index]), dx


def take(x: Array, ids: Any, mode: Any = "raise") -> Result:
    """y = x[ids], a row for each id,  (v, ...), (...) -> (..., ...).   dx = zeros with each row of g added to the row it is of"""

    def dx(g: Array) -> Any:
        out, width, kind = np.zeros_like(x, order="C"), math.prod(x.shape[1:]), x.dtype
        if width % 2 == 0:  # two neighbours at a time, as a complex number: half as many to add
            width, kind = width // 2, np.result_type(kind, 1j)
        starts = ids.reshape(-1, 1).astype(np.intp, copy=False) * width
        places = starts + np.arange(width)  # of numbers: NumPy adds these 5 times as fast as rows
        np.add.at(out.reshape(-1).view(kind), places.reshape(-1), g.reshape(-1).view(kind))
        return out

    return x.take(ids, axis=0, mode=mode) if type(ids) is np.ndarray else ids.picked_from(x, mode), dx  # in a recording (tape.py)


def scatter(x: Array, source: Array, index: Any) -> Result:
    """y = x with y[index] = source.   dx = g, and 0 at the index;   dsource = g[index]"""
    y = x.copy()
    y[index] = source

    def dx(g: Array) -> Any:
        out = g.copy()
        out[index] = 0
        return out

    return y, dx, lambda g: g[index]


def concatenate(*arrays: Array, axis: int) -> Result:
    """y = the arrays one behind the other along the axis.   dx_i = the part of g that came from x_i"""
    ends = np.cumsum([x.shape[axis] for x in arrays]).tolist()
    before = (slice(None),) * (axis % arrays[0].ndim)
    parts = [(*before, slice(end - x.shape[axis], end)) for x, end in zip(arrays, ends, strict=True)]
    return in_rows(np.concatenate(arrays, axis=axis)), *[lambda g, part=part: g[part] for part in parts]


def triu(x: Array, diagonal: int) -> Result:
    """y = x on and above the diagonal, else 0,  (..., n, m) -> (..., n, m).   dx = g on and above it, else 0"""
    return in_rows(np.triu(x, diagonal)), lambda g: np.triu(g, diagonal)


def tril(x: Array, diagonal: int) -> Result:
    """y = x on and below the diagonal, else 0,  (..., n, m) -> (..., n, m).   dx = g on and below it, else 0"""
    return in_rows(np.tril(x, diagonal)), lambda g: np.tril(g, diagonal)


def contiguous(x: Array) -> Result:
    """y = a copy of x, laid out row by row.   dx = g"""
    return x.copy(order="C"), lambda g: g
