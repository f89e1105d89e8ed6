"""The functions of several tensors, and the methods of a Tensor spelled as functions: `minigrad.exp(x)` is `x.exp()`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from . import ops
from .arguments import axis_of, checked, listed, short
from .methods import choose
from .operators import common_dtype
from .tensor import Tensor, apply

P = ParamSpec("P")
R = TypeVar("R")


def _function(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Tensor, P], R]:
    @functools.wraps(method)
    def function(input: Tensor, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(checked(input, Tensor, method.__name__), *args, **kwargs)

    return function


def _parts(tensors: Any, op: str) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        raise TypeError(f"{op} takes a list of tensors, got a single {short(tensors)}: write {op}([a, b])")
    return [checked(t, Tensor, op) for t in listed(tensors, f"{op} takes a list of tensors")]


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one behind the other along dim; their other lengths must agree. The dtype is the widest among them."""
    parts = _parts(tensors, "cat")
    if not parts:
        raise ValueError("cat: needs at least one tensor")
    axis = axis_of(dim, parts[0].ndim, "cat")
    others = {t.shape[:axis] + t.shape[axis + 1 :] if t.ndim == parts[0].ndim else None for t in parts}
    if len(others) > 1 or not parts[0].ndim:
        raise ValueError(f"cat: except along dim {dim}, all shapes must be equal (with 1 dim at least), got {_shapes(parts)}")
    dtype = common_dtype([t.data for t in parts])
    return apply(ops.concatenate, *[t.to(dtype) for t in parts], axis=axis)


def _shapes(tensors: Sequence[Tensor]) -> str:
    return ", ".join(str(t.shape) for t in tensors)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape, side by side along a new dim."""
    parts = _parts(tensors, "stack")
    if len({t.shape for t in parts}) != 1:
        raise ValueError(f"stack: needs tensors of one shape, got {_shapes(parts) or 'an empty list'}")
    axis = axis_of(dim, parts[0].ndim + 1, "stack")
    return cat([t.unsqueeze(axis) for t in parts], axis)


def where(condition: Tensor, a: Any, b: Any) -> Tensor:
    """a where the (bool) condition holds, else b. The gradient goes to the one that was chosen; but a NaN or inf in the
    derivative of the other still spoils it (0 * inf), so guard the input: where(ok, x, 1).log()."""
    return choose(condition, a, b)


abs = _function(Tensor.abs)
exp = _function(Tensor.exp)
log = _function(Tensor.log)
sqrt = _function(Tensor.sqrt)
rsqrt = _function(Tensor.rsqrt)
sin = _function(Tensor.sin)
cos = _function(Tensor.cos)
tanh = _function(Tensor.tanh)
sigmoid = _function(Tensor.sigmoid)
relu = _function(Tensor.relu)
pow = _function(Tensor.pow)
add = _function(Tensor.add)
mul = _function(Tensor.mul)
clamp = _function(Tensor.clamp)
maximum = _function(Tensor.maximum)
minimum = _function(Tensor.minimum)
matmul = _function(Tensor.matmul)
sum = _function(Tensor.sum)
mean = _function(Tensor.mean)
var = _function(Tensor.var)
std = _function(Tensor.std)
max = _function(Tensor.max)
min = _function(Tensor.min)
argmax = _function(Tensor.argmax)
argmin = _function(Tensor.argmin)
all = _function(Tensor.all)
any = _function(Tensor.any)
norm = _function(Tensor.norm)
logsumexp = _function(Tensor.logsumexp)
cumsum = _function(Tensor.cumsum)
prod = _function(Tensor.prod)
topk = _function(Tensor.topk)
sort = _function(Tensor.sort)
reshape = _function(Tensor.reshape)
transpose = _function(Tensor.transpose)
swapaxes = _function(Tensor.swapaxes)
permute = _function(Tensor.permute)
t = _function(Tensor.t)
flatten = _function(Tensor.flatten)
squeeze = _function(Tensor.squeeze)
unsqueeze = _function(Tensor.unsqueeze)
split = _function(Tensor.split)
chunk = _function(Tensor.chunk)
clone = _function(Tensor.clone)
masked_fill = _function(Tensor.masked_fill)
triu = _function(Tensor.triu)
tril = _function(Tensor.tril)
gather = _function(Tensor.gather)
scatter = _function(Tensor.scatter)
index_select = _function(Tensor.index_select)
softmax = _function(Tensor.softmax)
log_softmax = _function(Tensor.log_softmax)
allclose = _function(Tensor.allclose)
equal = _function(Tensor.equal)
isnan = _function(Tensor.isnan)
isinf = _function(Tensor.isinf)
