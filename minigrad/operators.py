"""What + - * / ** @ == < & [] mean when a tensor meets a tensor, a number or a NumPy array.

Three things NumPy would do differently are settled here: the dtype of mixed operands (PyTorch's rule: float32 stays
float32), the words of the error when shapes don't fit, and `+=`, which never writes into an array.
"""

# fmt: off
from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import ops
from .arguments import array_of, boolean, float32, index_of, short
from .ops import Array, Result
from .tape import ARRAYS

if TYPE_CHECKING:
    from .tensor import Tensor

_NOT_MINUS = "- on a bool tensor: to turn a mask round, write ~mask"
_KINDS = "buif"  # bool < int < float: the operand of the later kind decides the dtype


def constant(x: Any, like: Any) -> Any:
    """An operand as a tensor or a Python number. Arrays are constants; floats among them take the tensor's precision."""
    if isinstance(x, Operators) or type(x) in (float, int, bool):
        return x
    if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.ndim == 0):
        return x.item()  # np.float64(3) is a number like 3.0; NumPy would make the result float64
    if isinstance(x, np.ndarray):
        array = array_of(x)
        return like._wrap(array_of(array, like.dtype) if array.dtype.kind == like.dtype.kind == "f" else array)
    if isinstance(x, numbers.Real):
        return float(x)
    raise TypeError(f"a tensor can't be combined with {short(x)}: make it a tensor first, minigrad.tensor(...)")


def common_dtype(arrays: Sequence[Array]) -> np.dtype[Any]:
    """PyTorch's rule for mixed dtypes: the latest kind (bool < int < float); in it arrays with axes outvote single numbers; then
    the widest."""
    kind = max((x.dtype.kind for x in arrays), key=_KINDS.index)
    voters = [x for x in arrays if x.dtype.kind == kind]
    return np.result_type(*{x.dtype for x in ([x for x in voters if x.ndim] or voters)})


def matched(a: Any, b: Any) -> tuple[Any, Any]:
    """Both operands in one dtype. A Python number takes the tensor's dtype, except that a float makes integers float32."""
    x, y = getattr(a, "_data", None), getattr(b, "_data", None)
    if x is not None and y is not None and x.dtype is y.dtype:
        return a, b
    like = b if x is None else a
    a, b = constant(a, like), constant(b, like)
    if isinstance(a, Operators) and isinstance(b, Operators):
        dtype = common_dtype([a._data, b._data])
    else:
        dtype = like.dtype
        if dtype.kind != "f" and float in (type(a), type(b)):
            dtype = float32
    return tuple(x.to(dtype) if isinstance(x, Operators) else x for x in (a, b))  # type: ignore[return-value]


def elementwise(op: Callable[..., Result], a: Any, b: Any) -> Tensor:
    """An op of two operands, which NumPy stretches to a common shape."""
    dtype = a._data.dtype if isinstance(a, Operators) else boolean
    if dtype.kind != "f" or not (type(b) is float or (isinstance(b, Operators) and b._data.dtype is dtype)):
        a, b = _prepared(op, a, b)  # rarely: mostly two float tensors of one dtype meet, or a float tensor and a float
    try:
        return (a if isinstance(a, Operators) else b)._apply(op, a, b)
    except (ValueError, OverflowError) as error:
        raise explained(error, op.__name__, a, b) from None


def _prepared(op: Callable[..., Result], a: Any, b: Any) -> tuple[Any, Any]:
    if op is ops.sub and boolean in (getattr(a, "dtype", None), getattr(b, "dtype", None)):
        raise TypeError(_NOT_MINUS)
    a, b = matched(a, b)
    dtype = a.dtype if isinstance(a, Operators) else b.dtype
    if op is ops.pow and dtype == boolean:
        raise TypeError("** on a bool tensor: make it numbers first, mask.long() or mask.float()")
    if op is ops.div and dtype.kind != "f":
        a, b = (x.to(float32) if isinstance(x, Operators) else x for x in (a, b))
    return a, b


def explained(error: Exception, name: str, *operands: Any) -> Exception:
    """NumPy's error in words that hold the shapes or the number."""
    shapes = [x.shape for x in operands if hasattr(x, "shape")]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        text = " and ".join(str(shape) for shape in shapes)
        return ValueError(f"{name}: shapes {text} don't fit: counted from the right, lengths must be equal or 1 (broadcasting)")
    if isinstance(error, OverflowError):
        large = ", ".join(short(x) for x in operands if isinstance(x, int))
        return OverflowError(f"{name}: {large} is too large for a tensor of dtype {next(x.dtype for x in operands if hasattr(x, 'dtype'))}")
    return ValueError(f"{name}: {error} Make the base a float, x.float()") if name == "pow" else error


def compare(ufunc: np.ufunc, a: Any, b: Any) -> Tensor:
    """A bool tensor; no gradient."""
    a, b = matched(a, b)
    first: Operators = a
    try:
        return first._wrap(ufunc(a._data, getattr(b, "_data", b)))
    except ValueError as error:
        raise explained(error, ufunc.__name__, a, b) from None


def _comparable(x: object) -> bool:
    return isinstance(x, Operators | numbers.Real | np.ndarray | np.generic)  # == with anything else is False, as for any object


def logical(ufunc: np.ufunc, a: Any, b: Any) -> Tensor:
    """& and | of bools."""
    for x in (a, b):
        if getattr(x, "dtype", type(x)) not in (boolean, bool):
            raise TypeError(f"& | ~ need bool tensors, got {short(x)}; make one with .bool() or a comparison")
    return compare(ufunc, a, b)


class Operators:
    """The operators of a Tensor; the array, `_apply` and `_wrap` come from the engine in tensor.py."""

    if TYPE_CHECKING:
        _data: Array
        _requires_grad: bool
        _op: Any
        _piece: bool
        to: Callable[..., Tensor]
        matmul: Callable[..., Tensor]
        _frozen: Callable[[], bool]
        _apply: Callable[..., Tensor]
        _wrap: Callable[[Any], Tensor]
    else:
        __slots__ = ()

    @property
    def dtype(self) -> np.dtype[Any]: "float32, float64, int64, bool, ..."; return self._data.dtype

    @property
    def shape(self) -> tuple[int, ...]: "The length of each dim"; return self._data.shape

    @property
    def ndim(self) -> int: "The number of dims"; return self._data.ndim

    def __add__(self, other: Any) -> Tensor: return elementwise(ops.add, self, other)
    def __radd__(self, other: Any) -> Tensor: return elementwise(ops.add, other, self)
    def __sub__(self, other: Any) -> Tensor: return elementwise(ops.sub, self, other)
    def __rsub__(self, other: Any) -> Tensor: return elementwise(ops.sub, other, self)
    def __mul__(self, other: Any) -> Tensor: return elementwise(ops.mul, self, other)
    def __rmul__(self, other: Any) -> Tensor: return elementwise(ops.mul, other, self)
    def __truediv__(self, other: Any) -> Tensor: return elementwise(ops.div, self, other)
    def __rtruediv__(self, other: Any) -> Tensor: return elementwise(ops.div, other, self)
    def __pow__(self, other: Any) -> Tensor: return elementwise(ops.pow, self, other)
    def __rpow__(self, other: Any) -> Tensor: return elementwise(ops.pow, other, self)
    def __matmul__(self, other: Any) -> Tensor: return self.matmul(other)

    def __rmatmul__(self, other: Any) -> Any:
        a = constant(other, self)
        return (a if isinstance(a, Operators) else self._wrap(a)).matmul(self)

    def __neg__(self) -> Tensor:
        if self._data.dtype == boolean:
            raise TypeError(_NOT_MINUS)
        return self._apply(ops.neg, self)

    def __abs__(self) -> Tensor: return self._apply(ops.abs, self)
    def __iadd__(self, other: Any) -> Tensor: return self._update(self + other)
    def __isub__(self, other: Any) -> Tensor: return self._update(self - other)
    def __imul__(self, other: Any) -> Tensor: return self._update(self * other)
    def __itruediv__(self, other: Any) -> Tensor: return self._update(self / other)

    def _update(self, y: Tensor) -> Tensor:
        """`x += ...` is x = x + ... while a graph is recorded, and otherwise rebinds x.data: x stays the same leaf."""
        self._must_not_be_a_leaf("+=, -=, *= or /=")
        if y._requires_grad:
            return y
        if y.shape != self.shape or _KINDS.index(y.dtype.kind) > _KINDS.index(self.dtype.kind):
            raise ValueError(
                f"in place, a tensor keeps its shape and kind: {self.dtype} {self.shape} can't become {y.dtype} {y.shape}; "
                "write x = x + ... instead of x += ..."
            )
        self._data = y.to(self.dtype)._data
        return self  # type: ignore[return-value]

    def _must_not_be_a_leaf(self, what: str) -> None:
        if self._frozen() and self._op is None:
            raise RuntimeError(f"{what} on a leaf that requires a gradient: to update a parameter in place, do it inside `with no_grad():`")

    def __eq__(self, other: object) -> Any: return compare(np.equal, self, other) if _comparable(other) else NotImplemented
    def __ne__(self, other: object) -> Any: return compare(np.not_equal, self, other) if _comparable(other) else NotImplemented
    __hash__ = object.__hash__  # by identity: two tensors with equal numbers are two keys of a dict

    def __lt__(self, other: Any) -> Tensor: return compare(np.less, self, other)
    def __le__(self, other: Any) -> Tensor: return compare(np.less_equal, self, other)
    def __gt__(self, other: Any) -> Tensor: return compare(np.greater, self, other)
    def __ge__(self, other: Any) -> Tensor: return compare(np.greater_equal, self, other)
    def __and__(self, other: Any) -> Tensor: return logical(np.logical_and, self, other)
    def __or__(self, other: Any) -> Tensor: return logical(np.logical_or, self, other)
    __rand__, __ror__ = __and__, __or__

    def _float(self) -> Any: return self if self._data.dtype.kind == "f" else self.to(float32)

    def __invert__(self) -> Tensor:
        if self.dtype != boolean:
            raise TypeError(f"~ needs a bool tensor, got {self.dtype}; make one with .bool() or a comparison")
        return self._wrap(~self._data)

    def __getitem__(self, index: Any) -> Tensor:
        """x[...] with ints, slices, None, ..., integer tensors or arrays, bool masks. Places picked twice add their gradients."""
        y: Tensor = self  # type: ignore[assignment]
        for part in index_of(index, self.shape):
            try:
                y = y._apply(ops.getitem, y, index=part)
            except IndexError as error:
                why = f"{short(index)} is out of range" if "only integers" in str(error) else str(error)  # an int of more than 64 bits
                raise IndexError(f"{why} (the tensor has shape {self.shape})") from None
            y._piece = not any(isinstance(i, ARRAYS) for i in part)  # then its array is a part of ours
        return y

    def __setitem__(self, index: Any, value: Any) -> None:
        """x[...] = value, for constants only: it rebinds x.data to a changed copy, so nothing that was recorded changes."""
        value = constant(value, self)
        if self._piece:
            raise RuntimeError(
                "x[i][j] = value would change the piece that x[i] took out, and not x: write x[i, j] = value; "
                "for a piece of your own take x[i].clone()"
            )
        if self._frozen() or (isinstance(value, Operators) and value._frozen()):
            raise RuntimeError("x[...] = value would leave the graph: build the result instead, with where, masked_fill, scatter or cat")
        array = self._data.copy()
        *before, last = index_of(index, self.shape)
        try:
            target = array[before[0]] if before else array  # a view: ints and slices only
            with np.errstate(all="ignore"):
                target[last] = getattr(value, "_data", value)
        except (ValueError, IndexError, OverflowError) as error:
            why = f"{short(value)} is too large" if isinstance(error, OverflowError) else str(error)
            if isinstance(error, ValueError) and isinstance(value, Operators) and value.ndim:
                why = f"a value of shape {value.shape} doesn't fit into a place of shape {target[last].shape}"
            raise type(error)(f"x[...] = value: {why} (x has shape {self.shape} and dtype {self.dtype})") from None
        self._data = array
