"""Ops that bring rows to a measure: softmax to sum 1, with its logarithm and its loss; layer and RMS norm to variance or mean square 1."""

import math
from typing import Any

import numpy as np

from .arrays import Array, Axis, Result, in_rows, with_axis


def logsumexp(x: Array, axis: Axis, keepdims: bool = False) -> Result:
    """y = log(sum of exp(x) over the axis).   dx = g * exp(x) / sum of exp(x)"""
    top = _top(x, axis)
    top = np.where(np.isinf(top), 0, top)
    p = np.exp(x - top)
    total = p.sum(axis=axis, keepdims=True)
    y = top + np.log(total)
    y = in_rows(y if keepdims else y.squeeze(axis))
    return y, lambda g: with_axis(g, axis, keepdims) * (p / total)  # exp(x - y) has the rounding of y


def softmax(x: Array, axis: int) -> Result:
    """y_i = exp(x_i) / sum_j exp(x_j) along the axis.   dx = y * (g - sum_j g_j * y_j)"""
    y = x - _top(x, axis)  # the largest exponent is 0: no overflow
    y = np.exp(y, y) if y.flags.c_contiguous else np.exp(y, order="C")  # y is ours until we return it; PyTorch's lies in rows too
    y /= _total(y, axis)
    last = axis in (-1, x.ndim - 1)
    return y, lambda g: y * (g - (np.vecdot(g, y)[..., None] if last else (g * y).sum(axis=axis, keepdims=True)))


def log_softmax(x: Array, axis: int) -> Result:
    """y_i = x_i - log(sum_j exp(x_j)) along the axis.   dx = g - exp(y) * sum_j g_j"""
    shifted, _, total = _exponentials(x, axis)
    y = shifted - np.log(total).astype(x.dtype)
    return y, lambda g: g - np.exp(y) * _total(g, axis)


def cross_entropy(x: Array, target: Array, kept: Array | None = None, smoothing: float = 0.0, divisor: float | None = None) -> Result:
    """y_i = -sum_j q_ij * log softmax(x_i)_j,  (n, v) and ids (n) -> (n),  q = (1-smoothing) at the target + smoothing/v everywhere,
    y_i = 0 where a row isn't kept; with a divisor, y = sum_i y_i / divisor.   dx = g * (softmax(x) - q), and 0 where a row isn't kept"""
    shifted, p, total = _exponentials(x, -1)  # softmax(x) = p / total, and its log is shifted - log(total)
    places = np.arange(len(x)) * x.shape[1] + target  # of the targets, counted through all rows: faster than pairs (row, column)
    y = np.log(total[:, 0]).astype(x.dtype)
    hit = shifted.take(places)
    y -= hit if not smoothing else (1 - smoothing) * hit + smoothing * shifted.mean(axis=-1)

    def dx(g: Array) -> Any:
        out = p / total.astype(x.dtype)
        out.reshape(-1)[places] -= 1 - smoothing
        if smoothing:
            out -= smoothing / x.shape[-1]
        g = g if divisor is None else g / divisor
        out *= (g if kept is None else np.where(kept, g, 0))[..., None]
        return out

    y = y if kept is None else np.where(kept, y, 0)
    return y if divisor is None else np.add.reduce(y) / divisor, dx


def _exponentials(x: Array, axis: int) -> tuple[Array, Array, Array]:
    """x - top, where top is the largest along the axis; exp of that; its sum, in float64: float32 has no 1 + 1e-9 to take the log of."""
    shifted = in_rows(x - _top(x, axis))
    p = np.exp(shifted)
    return shifted, p, _total(p, axis, np.float64)


# NumPy goes through many short rows one by one. What avoids that: a product with ones adds up, and standing on end the
# rows are one long row of elementwise maxima. For 768 rows of 10, 4 to 5 times as fast.


def _total(x: Array, axis: Axis, dtype: Any = None) -> Array:
    if x.size > 512 and x.ndim > 1 and axis in (-1, x.ndim - 1) and x.shape[-1] <= 256 and x.dtype.kind == "f":
        x = x if dtype is None else x.astype(dtype, copy=False)
        total: Array = x @ np.ones((x.shape[-1], 1), x.dtype)
        return total
    return np.add.reduce(x, axis=axis, dtype=dtype, keepdims=True)


def _top(x: Array, axis: Axis) -> Any:
    if x.size > 1024 and x.ndim > 1 and axis in (-1, x.ndim - 1) and x.shape[-1] <= 32:
        upright = x.reshape(-1, x.shape[-1]).T.copy()
        return np.maximum.reduce(upright, axis=0, initial=-math.inf).reshape(*x.shape[:-1], 1)
    return np.maximum.reduce(x, axis=axis, keepdims=True, initial=-math.inf)  # of an empty row: -inf, not an error


def standardize(x: Array, axis: Axis, eps: float) -> Result:
    """y = (x - mean(x)) / sqrt(var(x) + eps) over the axis, var = mean((x - mean(x))**2).
    dx = (g - mean(g) - y * mean(g * y)) / sqrt(var(x) + eps)"""
    centered = x - x.mean(axis=axis, keepdims=True, dtype=np.float64)  # float64 holds the square of any float32
    root = np.sqrt(np.square(centered).mean(axis=axis, keepdims=True) + eps)
    y = (centered / root).astype(x.dtype, order="C")

    def dx(g: Array) -> Any:
        mean_g, mean_gy = g.mean(axis=axis, keepdims=True), (g * y).mean(axis=axis, keepdims=True)
        return ((g - mean_g - y * mean_gy) / root).astype(x.dtype)

    return y, dx


def rms_normalize(x: Array, axis: Axis, eps: float) -> Result:
    """y = x / sqrt(mean(x**2) + eps) over the axis.   dx = (g - y * mean(g * y)) / sqrt(mean(x**2) + eps)"""
    root = np.sqrt(np.square(x, dtype=np.float64).mean(axis=axis, keepdims=True) + eps)
    y = (x / root).astype(x.dtype, order="C")
    return y, lambda g: ((g - y * (g * y).mean(axis=axis, keepdims=True)) / root).astype(x.dtype)
