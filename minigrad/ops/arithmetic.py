"""Ops that work number by number, and the matrix product."""

import math
from typing import Any

import numpy as np

from .arrays import Array, Result, dot

_erfc = np.frompyfunc(math.erfc, 1, 1)  # NumPy has no erfc; Python's is exact


# Arithmetic ---------------------------------------------------------------------------------------------------


def add(a: Array, b: Array) -> Result:
    """y = a + b.   da = g,  db = g"""
    return a + b, lambda g: g, lambda g: g


def sub(a: Array, b: Array) -> Result:
    """y = a - b.   da = g,  db = -g"""
    return a - b, lambda g: g, lambda g: -g


def mul(a: Array, b: Array) -> Result:
    """y = a * b.   da = g * b,  db = g * a"""
    return a * b, lambda g: g * b, lambda g: g * a


def div(a: Array, b: Array) -> Result:
    """y = a / b.   da = g / b,  db = -g * y / b"""
    y = a / b
    return y, lambda g: g / b, lambda g: -g * y / b


def pow(a: Array, b: Array) -> Result:
    """y = a ** b.   da = g * b * a**(b-1), and 0 where b = 0;   db = g * y * log(a), and 0 where a = 0 <= b"""
    y = a**b

    def da(g: Array) -> Any:
        return np.where(np.equal(b, 0), 0, g * b * a ** (b - 1))  # a**0 is the constant 1, at a = 0 too: not 0 * 0**-1, NaN

    def db(g: Array) -> Any:
        silent = np.equal(a, 0) & np.greater_equal(b, 0)  # 0**b stays 0 when b moves; 0 * log(0) would be NaN
        return g * np.where(silent, 0, y * np.log(np.where(silent, 1, a))).astype(g.dtype)

    return y, da, db


def matmul(a: Array, b: Array) -> Result:
    """Y = A @ B,  (..., n, k) @ (..., k, m) -> (..., n, m).   dA = G @ B^T,  dB = A^T @ G"""
    if a.ndim > 2 and b.ndim == 2:  # one matrix for all batches: stack their rows, one large product instead of many small ones
        return _rows(a, b), lambda g: _rows(g, b.T), lambda g: dot(_flat(a).T, _flat(g))
    return a @ b, lambda g: g @ b.mT, lambda g: a.mT @ g


def linear(x: Array, weight: Array, bias: Array | None = None) -> Result:
    """Y = X @ W^T + b,  (..., k), (m, k), (m) -> (..., m).   dX = G @ W,  dW = G^T @ X,  db = G summed over its rows"""
    rows = _flat(x)
    y = dot(rows, weight.T)
    if bias is not None:
        y += bias
    return (
        _like(x, y),
        lambda g: _flat(g).dot(weight).reshape(x.shape),
        lambda g: _flat(g).T.dot(rows),
        lambda g: np.add.reduce(_flat(g)),
    )


def _flat(x: Array) -> Array:
    return x if x.ndim == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])  # (..., k) -> (rows, k)


def _like(x: Array, rows: Array) -> Array:
    return rows if x.ndim == 2 else rows.reshape(*x.shape[:-1], rows.shape[1])  # (rows, m) -> (..., m), ... as in x


def _rows(x: Array, matrix: Array) -> Array:
    return _like(x, dot(_flat(x), matrix))  # (..., k) @ (k, m) -> (..., m)


# Elementwise functions ----------------------------------------------------------------------------------------


def neg(x: Array) -> Result:
    """y = -x.   dx = -g"""
    return -x, lambda g: -g


def abs(x: Array) -> Result:
    """y = |x|.   dx = g * sign(x), which is 0 at 0"""
    return np.abs(x), lambda g: g * np.sign(x)


def exp(x: Array) -> Result:
    """y = exp(x).   dx = g * y"""
    y = np.exp(x)
    return y, lambda g: g * y


def log(x: Array) -> Result:
    """y = log(x), the natural logarithm.   dx = g / x"""
    return np.log(x), lambda g: g / x


def sqrt(x: Array) -> Result:
    """y = sqrt(x).   dx = g / (2 * y)"""
    y = np.sqrt(x)
    return y, lambda g: g / (2 * y)


def sin(x: Array) -> Result:
    """y = sin(x).   dx = g * cos(x)"""
    return np.sin(x), lambda g: g * np.cos(x)


def cos(x: Array) -> Result:
    """y = cos(x).   dx = -g * sin(x)"""
    return np.cos(x), lambda g: -g * np.sin(x)


def tanh(x: Array) -> Result:
    """y = tanh(x).   dx = g * (1 - y**2)"""
    y = np.tanh(x)
    return y, lambda g: g * (1 - y * y)


def sigmoid(x: Array) -> Result:
    """y = 1 / (1 + exp(-x)).   dx = g * y * (1 - y)"""
    small = np.exp(-np.abs(x))  # at most 1, so nothing overflows
    y = np.where(x >= 0, 1, small) / (1 + small)
    return y, lambda g: g * small / np.square(1 + small)  # y * (1 - y), whose 1 - y is rounded to 0 where x is large


def relu(x: Array) -> Result:
    """y = max(x, 0).   dx = g where x > 0, else 0"""
    return np.maximum(x, 0), lambda g: np.where(x > 0, g, 0)


def erfc(x: Array) -> Result:
    """y = 2/sqrt(pi) * integral of exp(-t**2) from x to infinity.   dx = -g * 2/sqrt(pi) * exp(-x**2)"""
    y = np.empty_like(x)
    y[...] = _erfc(x)
    return y, lambda g: -g * (2 / math.sqrt(math.pi)) * np.exp(-x * x)


# Choosing -----------------------------------------------------------------------------------------------------


def where(a: Array, b: Array, condition: Array) -> Result:
    """y = a where the condition holds, else b.   da = g where it holds, else 0;   db = 0 where it holds, else g"""
    return np.where(condition, a, b), lambda g: np.where(condition, g, 0), lambda g: np.where(condition, 0, g)


def maximum(a: Array, b: Array) -> Result:
    """y = the larger of a and b, elementwise.   da = g where a > b, g/2 where they tie, else 0;   db = g - da"""
    return np.maximum(a, b), lambda g: _won(a, b, g), lambda g: _won(b, a, g)


def minimum(a: Array, b: Array) -> Result:
    """y = the smaller of a and b, elementwise.   da = g where a < b, g/2 where they tie, else 0;   db = g - da"""
    return np.minimum(a, b), lambda g: _won(b, a, g), lambda g: _won(a, b, g)


def _won(a: Array, b: Array, g: Array) -> Array:
    return np.where(np.greater(a, b), g, np.where(np.equal(a, b), g / 2, 0))  # the loser gets 0, also where g is inf or NaN


def clamp(x: Array, low: float | None, high: float | None) -> Result:
    """y = x moved into [low, high].   dx = g where low <= x <= high, else 0"""

    def dx(g: Array) -> Any:
        inside = (True if low is None else x >= low) & (True if high is None else x <= high)
        return np.where(inside, g, 0)

    return np.clip(x, low, high), dx


def cast(x: Array, dtype: np.dtype[Any]) -> Result:
    """y = x in another precision.   dx = g in the precision of x"""
    return x.astype(dtype), lambda g: g.astype(x.dtype)
