"""The methods of a Tensor that move elements and change none: shapes, order, picking, dtype and device."""

# fmt: off
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from . import ops
from .arguments import (
    Dim,
    along,
    axes_of,
    axis_of,
    boolean,
    checked,
    dtype_of,
    expanded_shape,
    filled_shape,
    float32,
    float64,
    ids_in_range,
    int64,
    integer,
    sizes_of,
)
from .arguments import device as the_device
from .operators import Operators, constant

if TYPE_CHECKING:
    from .tensor import Tensor


class Layout(Operators):
    if not TYPE_CHECKING:
        __slots__ = ()

    # Shape ----------------------------------------------------------------------------------------------------

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements, in order, in another shape; one length may be -1."""
        return self._apply(ops.reshape, self, shape=filled_shape(sizes_of(shape, "reshape: a size"), self._data.shape, "reshape"))

    def view(self, *shape: Any) -> Tensor:
        """As `reshape`, but never a copy: a RuntimeError where the layout in memory (after a transpose) would need one."""
        x = self._data
        y = self._apply(ops.reshape, self, shape=filled_shape(sizes_of(shape, "view: a size"), x.shape, "view"))
        base = y._data.base
        if base is not x and base is not x.base and x.size:  # NumPy made a copy
            raise RuntimeError(f"view: {self.shape} laid out like this (transposed?) can't be viewed as {y.shape}; use .reshape(...)")
        return y

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """The dims from start to end joined into one."""
        start, end = axis_of(start_dim, self.ndim, "flatten"), axis_of(end_dim, self.ndim, "flatten")
        if start > end:
            raise ValueError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
        return self.reshape(*self.shape[:start], math.prod(self.shape[start : end + 1]), *self.shape[end + 1 :])

    def squeeze(self, dim: Dim = None) -> Tensor:
        """Without the dims of length 1 (only those named, where they have length 1)."""
        axes = axes_of(dim, self.ndim, "squeeze") if dim is not None else range(self.ndim)
        return self.reshape(tuple(n for i, n in enumerate(self.shape) if n != 1 or i not in (axes or ())))

    def unsqueeze(self, dim: int) -> Tensor:
        """With a new dim of length 1 at place dim."""
        axis = axis_of(dim, self.ndim + 1, "unsqueeze")
        return self.reshape(self.shape[:axis] + (1,) + self.shape[axis:])

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        """Two dims exchanged."""
        ndim = self._data.ndim
        i, j = axis_of(dim0, ndim, "transpose"), axis_of(dim1, ndim, "transpose")
        return self._apply(ops.swapaxes, self, i=i, j=j) if ndim else self.permute()

    swapaxes = transpose

    def permute(self, *dims: Any) -> Tensor:
        """All dims in a new order: result dim i is dim dims[i]."""
        order = tuple(axis_of(d, self.ndim, "permute") for d in sizes_of(dims, "permute: dim"))
        if sorted(order) != list(range(self.ndim)):
            raise ValueError(f"permute: {sizes_of(dims)} must name each of the {self.ndim} dims once")
        return self._apply(ops.transpose, self, axes=order)

    def t(self) -> Tensor:
        """The transpose of a matrix; a vector or number stays."""
        if self.ndim > 2:
            raise ValueError(f"t: at most 2 dims, got shape {self.shape}; use .mT or transpose")
        return self.T

    @property
    def T(self) -> Tensor: "All dims in reverse order"; return self.permute(*reversed(range(self.ndim)))

    @property
    def mT(self) -> Tensor:
        """The last two dims exchanged."""
        if self.ndim < 2:
            raise ValueError(f"mT: needs at least 2 dims, got shape {self.shape}")
        return self.transpose(-2, -1)

    def expand(self, *sizes: Any) -> Tensor:
        """Repeated along dims of length 1, and along new ones in front; -1 keeps a length. No copy."""
        return self._apply(ops.expand, self, shape=expanded_shape(sizes_of(sizes, "expand: a size"), self.shape))

    def expand_as(self, other: Tensor) -> Tensor:
        """Expanded to the shape of another tensor."""
        return self.expand(checked(other, Operators, "expand_as").shape)

    def repeat(self, *sizes: Any) -> Tensor:
        """Copies laid side by side, sizes[i] of them along dim i: (2, 3).repeat(2, 2) -> (4, 6)."""
        times = sizes_of(sizes, "repeat: a count")
        shape = (1,) * (len(times) - self.ndim) + self.shape
        if len(times) < self.ndim or min(times, default=0) < 0:
            raise ValueError(f"repeat: {times} needs one count (0 or more) for each dim of shape {self.shape}")
        x = self.reshape([m for n in shape for m in (1, n)])  # (a, b) -> (1, a, 1, b)
        x = x.expand([m for r, n in zip(times, shape, strict=True) for m in (r, n)])  # -> (r, a, s, b)
        return x.reshape([r * n for r, n in zip(times, shape, strict=True)]).contiguous()  # -> (r * a, s * b)

    def split(self, size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces of this size along dim (the last may be smaller), or of these sizes, which must add up."""
        axis, n = self._length(dim, "split")
        if isinstance(size, Sequence):
            sizes = [integer(s, "split: size") for s in size]
        else:
            step = integer(size, "split: size")
            sizes = [min(step, n - i) for i in range(0, n, step)] or [0] if step > 0 else [-1]
        if sum(sizes) != n or min(sizes, default=0) < 0:
            raise ValueError(f"split: pieces of {size} don't make up dim {dim}, which has length {n}")
        ends = np.cumsum(sizes).tolist()
        return tuple(self[(slice(None),) * axis + (slice(end - s, end),)] for s, end in zip(sizes, ends, strict=True))

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most this many pieces of equal length along dim (the last may be smaller)."""
        if integer(chunks, "chunk: chunks") < 1:
            raise ValueError(f"chunk: needs at least 1 chunk, got {chunks}")
        n = self._length(dim, "chunk")[1]
        return self.split(math.ceil(n / chunks) if n else [0] * chunks, dim)

    def contiguous(self) -> Tensor:
        """The same tensor laid out row by row in memory, so that `view` works."""
        return self if self._data.flags.c_contiguous else self._apply(ops.contiguous, self)  # type: ignore[return-value]

    def clone(self) -> Tensor: "A copy, in the graph: the gradient flows through"; return self._apply(ops.contiguous, self)

    # Picking --------------------------------------------------------------------------------------------------

    def gather(self, dim: int, index: Tensor) -> Tensor:
        """y[i, j, ...] = x[index[i, j, ...], j, ...] for dim 0, and likewise for others; y has the shape of index."""
        return self._apply(ops.getitem, self, index=self._places("gather", dim, index))

    def scatter(self, dim: int, index: Tensor, src: Any) -> Tensor:
        """x with y[index[i, j, ...], j, ...] = src[i, j, ...] for dim 0, and likewise for others; src may be a number."""
        places = self._places("scatter", dim, index)
        src = constant(src, self)
        if not isinstance(src, Operators):
            return self._apply(ops.scatter, self, src, index=places)
        if src.ndim != index.ndim or any(n > m for n, m in zip(index.shape, src.shape, strict=True)):
            raise ValueError(f"scatter: src of shape {src.shape} is smaller than the index of shape {index.shape}")
        piece = src.to(self.dtype)[tuple(slice(n) for n in index.shape)]
        return self._apply(ops.scatter, self, piece, index=places)

    def _places(self, op: str, dim: int, index: Tensor) -> Any:
        axis = axis_of(dim, self.ndim, op)
        checked(index, Operators, f"{op}, as its index,")
        fits = index.ndim == self.ndim and all(
            n <= m for i, (n, m) in enumerate(zip(index.shape, self.shape, strict=True)) if i != axis
        )
        if not fits:
            raise ValueError(f"{op}: the index {index.shape} may be longer than the tensor {self.shape} only along dim {dim}")
        ids_in_range(index._data, self.shape[axis] if self.ndim else 1, f"{op} index")
        return along(index._data, axis) if self.ndim else ()

    def index_select(self, dim: int, index: Tensor) -> Tensor:
        """The slices of x at these places along dim, in this order; the index is 1-d."""
        axis, n = self._length(dim, "index_select")
        if checked(index, Operators, "index_select, as its index,").ndim > 1:
            raise ValueError(f"index_select: the index must be 1-d, got shape {index.shape}")
        ids_in_range(index._data, n, "index_select index")
        return self[(slice(None),) * axis + (index.reshape(-1),)]

    # dtype, device, size --------------------------------------------------------------------------------------

    def to(self, *what: Any, dtype: Any = None, device: Any = None) -> Tensor:
        """In another dtype (`to(float64)`; the gradient comes back in this one), or on the one device there is (`to("cpu")`)."""
        for w in (*what, device):
            if isinstance(w, str) and not hasattr(np, w.removeprefix("torch.")):
                the_device(w)
            elif isinstance(w, Operators):
                dtype = w.dtype
            elif w is not None and not isinstance(w, bool):
                dtype = w.removeprefix("torch.") if isinstance(w, str) else w
        wanted = self.dtype if dtype is None else dtype_of(dtype)
        if wanted == self.dtype:
            return self  # type: ignore[return-value]
        if wanted.kind == "f":
            return self._apply(ops.cast, self, dtype=wanted)
        with np.errstate(all="ignore"):  # NaN has no integer; PyTorch too says nothing
            return self._wrap(self._data.astype(wanted))

    def float(self) -> Tensor: "As float32"; return self.to(float32)
    def double(self) -> Tensor: "As float64"; return self.to(float64)
    def long(self) -> Tensor: "As int64, fractions dropped; a constant"; return self.to(int64)
    def bool(self) -> Tensor: "True where x is not 0; a constant"; return self.to(boolean)
    def cpu(self) -> Self: "This tensor: minigrad computes on the CPU"; return self

    @property
    def device(self) -> the_device: "Where the numbers are: on the CPU"; return the_device("cpu")

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the length of one dim."""
        return self.shape if dim is None else self._length(dim, "size")[1]

    def _length(self, dim: int, op: str) -> tuple[int, int]:  # an axis and its length
        axis = axis_of(dim, self.ndim, op)
        if not self.ndim:
            raise IndexError(f"{op}: a 0-d tensor has no dim {dim}")
        return axis, self.shape[axis]

    def dim(self) -> int: "The number of dims"; return self.ndim
    def numel(self) -> int: "The number of elements"; return self._data.size

    def zero_(self) -> Self:
        """Set all numbers to 0 (of a gradient, say); not for a leaf that requires one, outside no_grad."""
        self._must_not_be_a_leaf("zero_()")
        self._data = np.zeros_like(self._data)
        return self
