"""How a Tensor goes out to Python and NumPy: numbers, arrays, loops, text, and what `array * tensor` does."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from . import arguments
from .methods import Methods
from .operators import constant, explained
from .ops import Array

if TYPE_CHECKING:
    from .tensor import Tensor


class Conversions(Methods):
    if TYPE_CHECKING:
        _options: dict[str, Any]
        _op_name: Callable[[], str]
    else:
        __slots__ = ()

    def numpy(self) -> Array:
        """A copy of the numbers. A RuntimeError for a tensor that requires a gradient: the copy would be outside the graph."""
        if self._requires_grad:
            raise RuntimeError(
                "numpy() on a tensor that requires a gradient: its result would leave the graph. For the numbers write "
                ".detach().numpy(); to join tensors write minigrad.stack or cat"
            )
        return self._data.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        """NumPy hands over here when an array meets a tensor: `array * t` is a Tensor, the array a constant in it."""
        if method != "__call__" or ufunc not in _FROM_NUMPY or options:
            raise TypeError(
                f"np.{ufunc.__name__} doesn't take tensors, its result would leave the graph: write a method, as in t.exp(), "
                "or give it the numbers, t.detach().numpy()"
            )
        if out is None:
            like: Any = next(x for x in inputs if isinstance(x, Conversions))
            return _FROM_NUMPY[ufunc](*(constant(x, like) for x in inputs))
        arrays = [x.numpy() if isinstance(x, Conversions) else x for x in inputs]
        try:
            fresh = ufunc(*arrays).astype(out[0].dtype)
            if fresh.shape != out[0].shape:
                raise ValueError(f"{ufunc.__name__}: a result of shape {fresh.shape} can't go into an array of shape {out[0].shape}")
        except ValueError as error:
            raise explained(error, ufunc.__name__, *arrays) from None
        if out[0] is not inputs[0]:
            out[0][...] = fresh
        return fresh  # `p.data -= lr * p.grad` gets a new array: it rebinds, as every update does

    def item(self) -> Any:
        """The one number in this tensor, as a Python float, int or bool."""
        if self._data.size != 1:
            raise RuntimeError(
                f"a tensor of shape {self.shape} is not one number; item(), float(), int() and `if` need exactly one: "
                "reduce it first, with sum(), mean(), all() or any()"
            )
        return self._data.item()

    def tolist(self) -> Any:
        """The numbers as nested Python lists (one number for a 0-d tensor)."""
        return self._data.tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError(f"only an integer tensor can be an index, this one is {self.dtype}")
        return int(self.item())

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return iter([self[i] for i in range(len(self))])

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)

    def __repr__(self) -> str:
        numbers = np.array2string(self._data, precision=4, floatmode="maxprec_equal", separator=", ", prefix="tensor(")
        extra = "" if self.dtype in (arguments.float32, arguments.int64, arguments.boolean) else f", dtype={self.dtype}"
        if self._op:
            options = [f"{k}={v}" for k, v in self._options.items() if isinstance(v, int | float | str | tuple | np.dtype)]
            extra += f", grad_fn=<{' '.join([self._op_name(), *options])}>"
        elif self._requires_grad:
            extra += ", requires_grad=True"
        return f"tensor({numbers}{extra})"


_FROM_NUMPY: dict[Any, Callable[..., Any]] = {
    getattr(np, name): getattr(operator, short)
    for name, short in {
        "add": "add",
        "subtract": "sub",
        "multiply": "mul",
        "true_divide": "truediv",
        "power": "pow",
        "matmul": "matmul",
        "equal": "eq",
        "not_equal": "ne",
        "less": "lt",
        "less_equal": "le",
        "greater": "gt",
        "greater_equal": "ge",
        "bitwise_and": "and_",
        "bitwise_or": "or_",
    }.items()
}
