"""The named methods of a Tensor. Most are one line: an op of the table with its arguments read, or algebra on such ops.

`minigrad.exp(x)` is `x.exp()`: functions.py offers the same methods as functions. Dims may be negative; `keepdim`
keeps a reduced dim as length 1. Errors in dims are IndexErrors, in shapes ValueErrors, in dtypes TypeErrors.
"""

# fmt: off
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import ops
from .arguments import Dim, array_of, axes_of, axis_of, boolean, checked, integer, not_bool, number, short, suggest
from .layout import Layout
from .operators import Operators, constant, elementwise, explained, matched

if TYPE_CHECKING:
    from .tensor import Tensor


class Picked(NamedTuple):
    """What max(dim), min(dim), sort and topk return: the values, with a gradient, and where they were."""

    values: Tensor
    indices: Tensor


def choose(condition: Any, a: Any, b: Any, op: str = "where") -> Tensor:
    """`minigrad.where` and what is built on it."""
    if not isinstance(condition, Operators) or condition.dtype != boolean:
        raise not_bool(condition, f"{op}: the condition")
    if not isinstance(a, Operators) and not isinstance(b, Operators):
        a = condition._wrap(array_of(a))
    a, b = matched(a, b)
    try:
        return condition._apply(ops.where, a, b, condition=condition._data)
    except (ValueError, OverflowError) as error:
        raise explained(error, op, a, b, condition) from None


class Methods(Layout):
    if not TYPE_CHECKING:
        __slots__ = ()

    # Elementwise ----------------------------------------------------------------------------------------------

    def exp(self) -> Tensor: "e**x"; return self._apply(ops.exp, self._float())
    def log(self) -> Tensor: "The natural logarithm: -inf at 0, NaN below"; return self._apply(ops.log, self._float())
    def sqrt(self) -> Tensor: "The square root; its gradient at 0 is infinite"; return self._apply(ops.sqrt, self._float())
    def rsqrt(self) -> Tensor: "1 / sqrt(x)"; return 1.0 / self.sqrt()
    def sin(self) -> Tensor: "The sine of x radians"; return self._apply(ops.sin, self._float())
    def cos(self) -> Tensor: "The cosine of x radians"; return self._apply(ops.cos, self._float())
    def tanh(self) -> Tensor: "(e**x - e**-x) / (e**x + e**-x)"; return self._apply(ops.tanh, self._float())
    def sigmoid(self) -> Tensor: "1 / (1 + e**-x)"; return self._apply(ops.sigmoid, self._float())

    def erfc(self) -> Tensor:
        """1 - erf(x): 2/sqrt(pi) times the integral of exp(-t**2) from x to infinity."""
        return self._apply(ops.erfc, self._float())

    def relu(self) -> Tensor: "max(x, 0); gradient 0 at 0"; return self._apply(ops.relu, self)
    def abs(self) -> Tensor: "|x|; gradient 0 at 0"; return self._apply(ops.abs, self)
    def pow(self, exponent: Any) -> Tensor: "x ** exponent"; return elementwise(ops.pow, self, exponent)
    def add(self, other: Any) -> Tensor: "x + other"; return elementwise(ops.add, self, other)
    def mul(self, other: Any) -> Tensor: "x * other"; return elementwise(ops.mul, self, other)

    def maximum(self, other: Any) -> Tensor:
        """The larger of the two, elementwise; where they tie, each gets half of the gradient."""
        return elementwise(ops.maximum, self, other)

    def minimum(self, other: Any) -> Tensor:
        """The smaller of the two, elementwise; where they tie, each gets half of the gradient."""
        return elementwise(ops.minimum, self, other)

    def clamp(self, min: float | None = None, max: float | None = None) -> Tensor:
        """x moved into [min, max]; gradient 0 where it had to be moved."""
        if min is None and max is None:
            raise ValueError("clamp: give min, max or both")
        low, high = (None if bound is None else constant(bound, self) for bound in (min, max))
        if isinstance(low, Operators) or isinstance(high, Operators):
            raise TypeError("clamp: min and max must be numbers; for tensors write x.maximum(low).minimum(high)")
        return self._apply(ops.clamp, self._float() if float in (type(low), type(high)) else self, low=low, high=high)

    def isnan(self) -> Tensor: "True where x is NaN"; return self._wrap(np.isnan(self._data))
    def isinf(self) -> Tensor: "True where x is inf or -inf"; return self._wrap(np.isinf(self._data))

    # Products and choices -------------------------------------------------------------------------------------

    def matmul(self, other: Any) -> Tensor:
        """The matrix product over the last two dims, (..., n, k) @ (..., k, m) -> (..., n, m); a vector (k) counts as a row
        on the left and a column on the right, and its dim is dropped from the result. Leading dims broadcast."""
        a: Tensor
        b: Tensor
        a, b = matched(self, other)
        n, m = a._data.ndim, b._data.ndim if isinstance(b, Operators) else 0
        try:
            if n < 2 or m < 2:
                if not n or not m:
                    raise ValueError
                if n == 1:
                    return a.unsqueeze(0).matmul(b).squeeze(0 if m == 1 else -2)
                return a.matmul(b.unsqueeze(1)).squeeze(-1)
            return self._apply(ops.matmul, a, b)
        except ValueError:
            why = "both sides need at least one dim"
            if n and m:
                k, rows, where = a.shape[-1], b.shape[-2:][0], "last but one" if m > 1 else "only one"
                why = f"the last length on the left ({k}) must equal the {where} on the right ({rows})"
                why = why if k != rows else "the lengths in front of the last two must be equal or 1"
            raise ValueError(f"matmul: shapes {a.shape} and {getattr(b, 'shape', ())} don't fit: {why}") from None

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """x with `value` wherever the mask is True (True = hidden); no gradient flows to x there. The mask broadcasts to x."""
        if getattr(mask, "dtype", None) != boolean:
            raise not_bool(mask, "masked_fill: the mask")
        if isinstance(value, Operators) and value.ndim:
            raise ValueError(f"masked_fill: the value must be one number, got a tensor of shape {value.shape}; use where")
        y = choose(constant(mask, self), value, self.contiguous(), "masked_fill")
        if y.dtype != self.dtype:
            raise TypeError(f"masked_fill: a tensor of dtype {self.dtype} can't hold {short(value)}; write x.float().masked_fill(...)")
        return y

    def where(self, condition: Any, other: Any) -> Tensor:
        """x where the (bool) condition holds, else other: minigrad.where(condition, x, other)."""
        return choose(condition, self, other)

    def triu(self, diagonal: int = 0) -> Tensor:
        """The last two dims with zeros below the diagonal; diagonal=1 drops the main one too."""
        return self._triangle(ops.triu, diagonal)

    def tril(self, diagonal: int = 0) -> Tensor:
        """The last two dims with zeros above the diagonal."""
        return self._triangle(ops.tril, diagonal)

    def _triangle(self, op: Any, diagonal: int) -> Tensor:
        if self.ndim < 2:
            raise ValueError(f"{op.__name__}: needs at least 2 dims, got shape {self.shape}")
        return self._apply(op, self, diagonal=integer(diagonal, f"{op.__name__}: diagonal"))

    # Reductions -----------------------------------------------------------------------------------------------

    def sum(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        """The sum over dim (all dims by default)."""
        return self._apply(ops.sum, self, axis=axes_of(dim, self.ndim, "sum", keepdim), keepdims=keepdim)

    def mean(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        """The mean over dim; NaN of nothing."""
        return self._only_float("mean").sum(dim, keepdim) / self._count(dim, "mean")

    def var(self, dim: Dim = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
        """Sum of (x - mean)**2 over dim, divided by n - 1 (by n with unbiased=False)."""
        centered = self._centered(dim, "var")
        return (centered * centered).sum(dim, keepdim) / self._freedom(dim, unbiased)

    def std(self, dim: Dim = None, unbiased: bool = True, keepdim: bool = False) -> Tensor:
        """sqrt(var); gradient 0 where all values are equal."""
        return self._centered(dim, "std").norm(dim=dim, keepdim=keepdim) / math.sqrt(self._freedom(dim, unbiased))

    def norm(self, p: float | str = 2, dim: Dim = None, keepdim: bool = False) -> Tensor:
        """The length of x over dim: sqrt(sum x**2) for p = 2, sum |x| for 1, max |x| for inf; gradient 0 at 0."""
        x, axis = self._only_float("norm"), axes_of(dim, self.ndim, "norm", keepdim)
        if p in (2, "fro"):
            return self._apply(ops.norm, x, axis=axis, keepdims=keepdim)
        if p == 1:
            return x.abs().sum(dim, keepdim)
        if p == math.inf:
            self._not_empty("norm", dim)
            return self._apply(ops.max, x.abs(), axis=axis, keepdims=keepdim)
        raise ValueError(f"norm: p must be 1, 2 or inf, got {short(p)}")

    def prod(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """The product over dim."""
        axis = 0 if dim is None else axis_of(dim, self.ndim, "prod")
        if dim is None or not self.ndim:
            return self._apply(ops.prod, self.reshape(-1), axis=0)
        return self._apply(ops.prod, self, axis=axis, keepdims=keepdim)

    def logsumexp(self, dim: Dim, keepdim: bool = False) -> Tensor:
        """log(sum(exp(x))) over dim, safe for large x."""
        return self._apply(ops.logsumexp, self._float(), axis=axes_of(dim, self.ndim, "logsumexp", keepdim), keepdims=keepdim)

    def cumsum(self, dim: int) -> Tensor:
        """Running sums along dim."""
        axis = axis_of(dim, self.ndim, "cumsum")
        return self._apply(ops.cumsum, self, axis=axis) if self.ndim else self.reshape(1).cumsum(0).reshape(())

    def softmax(self, dim: int) -> Tensor:
        """exp(x_i) / sum_j exp(x_j) along dim. A row of -inf only is NaN, as in PyTorch."""
        x = self._data
        if not x.ndim:
            return self.reshape(1).softmax(axis_of(dim, 0, "softmax")).reshape(())
        return self._apply(ops.softmax, self if x.dtype.kind == "f" else self._float(), axis=axis_of(dim, x.ndim, "softmax"))

    def log_softmax(self, dim: int) -> Tensor:
        """log(softmax(x)) along dim, finite where the softmax underflows to 0."""
        return self._apply(ops.log_softmax, self._float(), axis=axis_of(dim, self.ndim, "log_softmax"))

    def max(self, dim: Any = None, keepdim: bool = False) -> Any:
        """Without dim, the largest value (ties share its gradient). With dim, (values, indices), the first of several; with
        another tensor, their elementwise `maximum`."""
        if isinstance(dim, Operators):
            return self.maximum(dim)
        if dim is None:
            self._not_empty("max")
            return self._apply(ops.max, self)
        return self._pick(self._found(np.argmax, "max", dim, True), dim, keepdim)

    def min(self, dim: Any = None, keepdim: bool = False) -> Any:
        """The smallest value; otherwise as `max`."""
        if isinstance(dim, Operators):
            return self.minimum(dim)
        if dim is None:
            low = self._not_empty("min")
            return -(-self).max() if low.dtype.kind == "f" else self._wrap(low.min())
        return self._pick(self._found(np.argmin, "min", dim, True), dim, keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the largest value is along dim (without dim, in the flattened tensor); the first of several."""
        return self._found(np.argmax, "argmax", dim, keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Tensor:
        """Where the smallest value is along dim; the first of several."""
        return self._found(np.argmin, "argmin", dim, keepdim)

    def all(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        """Whether all values over dim are true (not zero)."""
        return self._wrap(np.all(self._data, axis=axes_of(dim, self.ndim, "all", keepdim), keepdims=keepdim)).contiguous()

    def any(self, dim: Dim = None, keepdim: bool = False) -> Tensor:
        """Whether any value over dim is true (not zero)."""
        return self._wrap(np.any(self._data, axis=axes_of(dim, self.ndim, "any", keepdim), keepdims=keepdim)).contiguous()

    def sort(self, dim: int = -1, descending: bool = False) -> Picked:
        """(values, indices) in rising order along dim; equal values keep their order."""
        axis, x = axis_of(dim, self.ndim, "sort"), np.atleast_1d(self._data)
        if descending:  # of the reversed row, so that equal values keep their order once it is reversed back
            order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
        else:
            order = np.argsort(x, axis=axis, kind="stable")
        return self._pick(self._wrap(order.reshape(self.shape)), axis, True)

    def topk(self, k: int, dim: int = -1) -> Picked:
        """The k largest along dim, largest first: (values, indices)."""
        axis, n = axis_of(dim, self.ndim, "topk"), self.shape[dim] if self.ndim else 1
        if not 0 <= integer(k, "topk: k") <= n:
            raise ValueError(f"topk: k = {k} is out of range: dim {dim} has {n} values")
        order = self.detach().sort(axis, descending=True).indices
        return self._pick(order[(slice(None),) * axis + (slice(int(k)),)].contiguous() if self.ndim else order, axis, True)

    def _pick(self, indices: Tensor, dim: int, keepdim: bool) -> Picked:
        values = self.gather(dim, indices)
        return Picked(values, indices) if keepdim else Picked(values.squeeze(dim), indices.squeeze(dim))

    # Comparing whole tensors ----------------------------------------------------------------------------------

    @np.errstate(all="ignore")
    def allclose(self, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
        """Whether |x - other| <= atol + rtol * |other| everywhere."""
        array = checked(other, Operators, "allclose")._data
        try:
            return bool(np.allclose(self._data, array, number(rtol, "allclose: rtol"), number(atol, "allclose: atol"), equal_nan))
        except ValueError as error:
            raise explained(error, "allclose", self, other) from None

    def equal(self, other: Tensor) -> bool:
        """Whether shapes and all values are the same."""
        return bool(np.array_equal(self._data, checked(other, Operators, "equal")._data))

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_") and hasattr(type(self), name[:-1]):
            raise AttributeError(f"there is no in-place {name}(): write x = x.{name[:-1]}(...), which leaves what was recorded as it is")
        raise suggest(name, lambda: dir(type(self)), "a tensor")


    def _only_float(self, op: str) -> Tensor:
        if self._data.dtype.kind != "f":
            raise TypeError(f"{op}: needs floats, got {self.dtype}; write x.float().{op}()")
        return self  # type: ignore[return-value]

    def _count(self, dim: Dim, op: str) -> float:
        axes = axes_of(dim, self.ndim, op)
        count = math.prod(self.shape if axes is None else [self.shape[i] for i in axes])
        return float(count)

    def _centered(self, dim: Dim, op: str) -> Tensor:
        axes = axes_of(dim, self.ndim, op)
        first = self._data[tuple(slice(None if axes and i not in axes else 1) for i in range(self.ndim))]
        shifted = self._only_float(op) - self._wrap(first)  # exactly 0 if all are equal, which x - mean(x) need not be
        return shifted - shifted.mean(dim, keepdim=True)

    def _freedom(self, dim: Dim, unbiased: bool) -> float: return max(self._count(dim, "var") - bool(unbiased), 0.0)

    def _not_empty(self, op: str, dim: Dim = None) -> ops.Array:
        if self._count(dim, op) == 0:
            raise ValueError(f"{op}: there is no {op} of nothing: the tensor has shape {self.shape}")
        return self._data

    def _found(self, find: Any, op: str, dim: int | None, keepdim: bool) -> Tensor:
        axis = None if dim is None else axis_of(dim, self.ndim, op)
        return self._wrap(find(self._not_empty(op, dim), axis=axis, keepdims=keepdim))
