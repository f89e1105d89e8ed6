"""What the files of this folder share: the types, and two helpers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Vjp = Callable[[Array], Array]
Result = tuple[Array, *tuple[Vjp, ...]]
Axis = int | tuple[int, ...] | None  # None: all


def with_axis(g: Array, axis: Axis, keepdims: bool) -> Array:
    return g if keepdims or axis is None else np.expand_dims(g, axis)  # give the summed axes back, as length 1


def in_rows(y: Any) -> Any:
    return y if y.flags.c_contiguous else y.copy()  # where x is transposed, NumPy's y is too; PyTorch's is not, and `view` works on it


def dot(a: Array, b: Array) -> Any:
    """A @ B of two matrices. The method `dot` needs half the time of @, which looks for leading axes, where they are small; but
    only np.dot knows what stands in for an array in a recording (tape.py)."""
    return a.dot(b) if type(b) is np.ndarray else np.dot(a, b)
