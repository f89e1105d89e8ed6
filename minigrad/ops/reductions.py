"""Ops that sum up, over an axis: an int, a tuple of ints, or None for all of them."""

from typing import Any

import numpy as np

from .arrays import Array, Axis, Result, in_rows, with_axis


def sum(x: Array, axis: Axis = None, keepdims: bool = False) -> Result:
    """y = sum of x over the axis.   dx = g, repeated along the axis"""
    y = in_rows(x.sum(axis=axis, keepdims=keepdims))

    def dx(g: Array) -> Array:
        out = np.empty_like(g, shape=x.shape, order="C")
        out[...] = with_axis(g, axis, keepdims)
        return out

    return y, dx


def max(x: Array, axis: Axis = None, keepdims: bool = False) -> Result:
    """y = largest of x over the axis.   dx = g at the largest, shared evenly where several tie, else 0"""
    top = x.max(axis=axis, keepdims=True)

    def dx(g: Array) -> Any:
        hit = (x == top) | (x != x)  # NaN is never equal to itself, and is what max() returns
        return np.where(hit, with_axis(g, axis, keepdims) / hit.sum(axis=axis, keepdims=True, dtype=x.dtype), 0)

    return top if keepdims else top.squeeze(axis), dx


def norm(x: Array, axis: Axis = None, keepdims: bool = False) -> Result:
    """y = sqrt(sum of x**2 over the axis).   dx = g * x / y, and 0 where y = 0"""
    scale = np.abs(x).max(axis=axis, keepdims=True, initial=0)  # so that squares neither overflow nor vanish
    scale = np.where((scale == 0) | np.isinf(scale), 1, scale)
    x = x / scale
    root = np.sqrt(np.square(x).sum(axis=axis, keepdims=True))
    y = scale * root
    return in_rows(y if keepdims else y.squeeze(axis)), lambda g: with_axis(g, axis, keepdims) * (x / np.where(root == 0, 1, root))


def prod(x: Array, axis: int, keepdims: bool = False) -> Result:
    """y = product of x over the axis.   dx_i = g * product of the others (not y / x_i: x_i may be 0)"""

    def before(x: Array) -> Any:  # along the axis, the product of all that come earlier
        x = np.moveaxis(x, axis, 0)
        return np.moveaxis(np.concatenate([np.ones_like(x[:1]), np.cumprod(x[:-1], axis=0)])[: len(x)], 0, axis)

    def dx(g: Array) -> Any:
        after = np.flip(before(np.flip(x, axis)), axis)
        return with_axis(g, axis, keepdims) * before(x) * after

    return in_rows(x.prod(axis=axis, keepdims=keepdims)), dx


def cumsum(x: Array, axis: int) -> Result:
    """y_i = x_0 + ... + x_i along the axis.   dx_i = g_i + g_(i+1) + ... to the end"""
    return in_rows(np.cumsum(x, axis)), lambda g: np.flip(np.cumsum(np.flip(g, axis), axis), axis)
