"""A tensor is an array that remembers how it was made, so that `backward` can send gradients the same way back.

The whole engine is the first part of this file: `apply` records, `backward` walks, `unbroadcast` undoes NumPy's
stretching (and `no_grad`, in mode.py, switches recording off). It knows graphs and nothing of calculus; that is in ops.
"""

from __future__ import annotations

import contextvars
import inspect
import itertools
import operator
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Self

import numpy as np

from . import arguments
from .conversions import Conversions
from .effects import fixed
from .mode import mode, setting_gradients
from .ops import Array, Result, Vjp
from .tape import ARRAYS

_births = itertools.count()  # next() on it is one step that no other thread can split
_new = object.__new__
DATA = operator.attrgetter("_data")  # map(DATA, tensors) is faster than a comprehension
quiet = contextvars.Context()  # in here log(0) is -inf and 0/0 NaN without a RuntimeWarning, as in PyTorch
quiet.run(np.seterr, all="ignore")


def apply(op: Callable[..., Result], *inputs: Any, **options: Any) -> Tensor:
    """Run an op of the table on the arrays inside the inputs, and record it.

    The record is one pair (input, vjp) for each input tensor that requires a gradient. These pairs *are* the graph.
    Inputs that aren't tensors (Python numbers) and the options are constants.
    """
    result = quiet.copy().run(op, *[x._data if isinstance(x, Tensor) else x for x in inputs], **options)  # op(...), without warnings
    if type(result) is not tuple or len(result) <= len(inputs):
        raise _not_an_op(op, result, inputs)
    y = wrap(result[0])
    if not mode.pauses:
        pairs = []
        for x, vjp in zip(inputs, result[1:]):  # noqa: B905  the op may offer more
            if isinstance(x, Tensor) and x._requires_grad:
                pairs.append((x, vjp))
        if pairs:
            y._requires_grad = True
            y._pairs = pairs
            y._op = op
            y._options = options
    return y


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Sum g over the axes along which an input of this shape was repeated: where a value was used many times,
    its gradients add up. E.g. g (b, t, d) for a bias of shape (d): sum over b and t."""
    if g.ndim > len(shape):
        g = np.add.reduce(g, tuple(range(g.ndim - len(shape))))
    if g.shape != shape:
        g = np.add.reduce(g, tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)
    if g.shape != shape:
        raise ValueError(f"a gradient function answered in shape {g.shape} for an input of shape {shape}")
    return g


def wrap(array: Any, into: Tensor | None = None) -> Tensor:
    """A constant around this very array, without the copy that `Tensor(array)` makes. (into: an object still without fields)"""
    t = _new(Tensor) if into is None else into
    t._data = array if type(array) in ARRAYS else np.asarray(array)  # NumPy's sum of everything is no array but a scalar
    t._requires_grad = t._piece = t._keep = False
    t._grad = t._op = None
    t._pairs = ()
    t._birth = next(_births)
    return t


class Tensor(Conversions):
    """An array with a gradient: `data` (NumPy), `requires_grad`, and after `backward`, on leaves, `grad`.

    A leaf is a tensor that no recorded op made: parameters, inputs, constants. The array inside is never written
    to; updates rebind `data`, so a recorded graph stays right whatever happens to its tensors afterwards.
    `Tensor(data)` copies, as `minigrad.tensor(data)` does.
    """

    __slots__ = ("__weakref__", "_birth", "_data", "_grad", "_keep", "_op", "_options", "_pairs", "_piece", "_requires_grad")
    _data: Array
    _requires_grad: bool
    _grad: Tensor | None
    _pairs: Sequence[tuple[Tensor, Vjp]]  # the inputs, each with the function that carries the gradient to it
    _op: Callable[..., Result] | None  # the op that made this tensor; None for a leaf
    _options: dict[str, Any]
    _birth: int  # rises by one with every tensor: nothing can be used before it exists
    _keep: bool  # retain_grad() was asked for
    _piece: bool  # x[...] made it: writing into it would not reach x

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        wrap(arguments.array_of(data), into=self)
        self.requires_grad = requires_grad

    def backward(self, gradient: Tensor | None = None, retain_graph: bool = False) -> None:
        """Add d(self)/d(leaf) to `leaf.grad` for every leaf that self depends on.

        gradient: dL/d(self), of self's shape; may be left out for a single number (it is 1 then).
        The walk goes from young to old. A tensor is younger than all it was made from, so when its turn comes,
        everyone who used it has been here and its gradient is complete: added up, before it is passed on.
        Each op is used up on the way, unless retain_graph=True; a second walk is a RuntimeError.
        """
        if mode.exploring:
            raise RuntimeError("backward() under no_grad()")
        seed = self._seed(gradient)
        if mode.tape:
            seed = mode.tape.effects.walk(self, seed)
        gradients = quiet.copy().run(self._gradients, seed, retain_graph)  # a copy: a context can't be entered twice
        set_all(gradients)  # only now: an error on the way changes nothing

    def _gradients(self, seed: Array, retain_graph: bool) -> list[tuple[Tensor, str, Tensor]]:
        return [(x, "_grad", wrap(_summed(x, g))) for x, g in self._walk(seed, retain_graph)]

    def _walk(self, seed: Array, retain_graph: bool) -> list[tuple[Tensor, Array]]:
        grads: dict[Tensor, Array] = {self: seed}  # of tensors whose turn has not come yet; keys by identity
        kept: list[tuple[Tensor, Array]] = []
        waiting = [(-self._birth, self)] if self._op else []  # a heap: the youngest comes first
        while waiting:
            node = heappop(waiting)[1]
            g = grads.pop(node)
            if node._keep:
                kept.append((node, g))
            pairs = node._pairs
            if not pairs:
                raise _used_up(node)
            for x, vjp in pairs:
                try:
                    dx, shape = vjp(g), x._data.shape
                    if isinstance(dx, Tensor):
                        raise _not_an_array()
                    if dx.shape != shape:
                        dx = unbroadcast(dx, shape)
                except Exception as error:
                    raise _located(error, node, x)  # noqa: B904
                if x in grads:
                    grads[x] = grads[x] + dx
                else:
                    grads[x] = dx
                    if x._op:
                        heappush(waiting, (-x._birth, x))
            if not retain_graph:
                node._pairs = ()
        kept.extend(grads.items())  # whatever has not had its turn is a leaf
        return kept

    # That was the engine. From here on: a tensor's fields, and the words of what can go wrong. ----------------------

    def _seed(self, gradient: Tensor | None) -> Array:
        if not self._requires_grad:
            if self._data.dtype.kind != "f":
                raise RuntimeError(
                    f"backward() on a tensor of dtype {self.dtype}: only floats have a gradient. argmax, comparisons, .long() and "
                    "the like end the graph: compute the loss without them, in floats"
                )
            raise RuntimeError(
                "backward() on a tensor that doesn't require a gradient: nothing it was computed from does, or it was "
                "computed under no_grad() or from detach(). Give the weights requires_grad=True before computing the loss"
            )
        if gradient is None:
            if self._data.size != 1:
                raise RuntimeError(
                    f"backward() on a tensor of shape {self.shape}: only a single number has one gradient. "
                    "Reduce it first, y.sum().backward(), or pass dL/dy of the same shape: y.backward(gradient)"
                )
            return np.ones(self._data.shape, self._data.dtype)
        seed = gradient._data if isinstance(gradient, Tensor) else arguments.array_of(gradient)
        if seed.shape != self._data.shape:
            raise RuntimeError(f"backward(gradient): the gradient has shape {seed.shape}, but the tensor has shape {self.shape}")
        return seed if seed.dtype is self._data.dtype else arguments.array_of(seed, self._data.dtype)

    @property
    def data(self) -> Array:
        """The NumPy array inside. Rebind it (`p.data = p.data - step`) rather than writing into it."""
        return self._data

    @data.setter
    def data(self, value: Any) -> None:
        array = value._data if isinstance(value, Tensor) else value
        array = np.asarray(array) if isinstance(array, np.ndarray) else arguments.array_of(array)  # of a memmap, the plain array
        if arguments.dtype_of(array.dtype).kind != "f" and self._requires_grad:
            raise TypeError(f"data of dtype {array.dtype} for a tensor that requires a gradient: write .astype(np.float32)")
        self._data = array

    @property
    def grad(self) -> Tensor | None:
        """dL/d(self), a tensor of the same shape, or None before the first `backward`. Later ones add to it."""
        if mode.tape:
            mode.tape.effects.ask([self])
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not (isinstance(value, Tensor) and value.shape == self.shape):
            raise TypeError(f".grad must be None or a Tensor of shape {self.shape}, got {arguments.short(value)}")
        setting_gradients([self])
        self._grad = value

    @property
    def requires_grad(self) -> bool:
        """Whether `backward` should find the gradient of this tensor. Only floats can have one."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):  # Tensor(2, 3)
            raise TypeError(f"requires_grad must be True or False, got {arguments.short(value)}; sizes go to minigrad.zeros(2, 3)")
        if value and self._data.dtype.kind != "f":
            raise TypeError(f"a tensor of dtype {self.dtype} can't require a gradient: only floats can. Write 1.0 for 1, or call .float()")
        if self._op and not value:
            raise RuntimeError(f"this tensor was computed (by {self._op_name()}), so its gradient can't be switched off; use detach()")
        self._requires_grad = bool(value)

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded op made this tensor."""
        return self._op is None

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set requires_grad and return the tensor."""
        self.requires_grad = requires_grad
        return self

    def retain_grad(self) -> None:
        """Ask for `.grad` on this tensor although it isn't a leaf."""
        if not self._requires_grad:
            raise RuntimeError("retain_grad() on a tensor that doesn't require a gradient; set requires_grad=True on what it was made from")
        self._keep = True

    def detach(self) -> Tensor:
        """The same numbers outside the graph: a constant, to which no gradient flows."""
        return wrap(self._data)

    _apply, _wrap = staticmethod(apply), staticmethod(wrap)

    def _frozen(self) -> bool:  # a leaf that may not change now, because what is recorded needs it as it is
        return self._requires_grad and not mode.pauses

    def _op_name(self) -> str:
        return self._op.__name__ if self._op else "a leaf"

    def __reduce__(self) -> tuple[Any, ...]:  # copy.deepcopy and pickle
        if self._op:
            raise RuntimeError(f"only leaves can be copied or pickled; this tensor was computed (by {self._op_name()}): detach() it")
        return _restored, (type(self), self._data.copy(), self._requires_grad)


def _restored(kind: type[Tensor], array: Array, requires_grad: bool) -> Tensor:
    t = wrap(array, into=kind.__new__(kind))
    t._requires_grad = requires_grad
    return t


def set_all(changes: list[tuple[Any, str, Any]]) -> None:
    """Set (object, attribute, value) for all of them or, if Ctrl-C comes, for none: Python looks for signals between two of
    its own instructions, and this is a single one, however many changes there are."""
    any(itertools.starmap(setattr, changes))  # any() goes to the end, for setattr answers None


def _summed(x: Tensor, g: Array) -> Array:
    """A fresh array of x's dtype: its gradient so far plus g."""
    dtype = x._data.dtype
    if x._grad is None:
        if mode.tape and g.dtype == dtype and g.flags.c_contiguous:
            return fixed(g)  # the copy is made when it is played
        return g.astype(dtype, "C")
    return (x._grad._data + g).astype(dtype, copy=False)


def _used_up(node: Tensor) -> RuntimeError:
    return RuntimeError(
        f"backward() has already been through this graph (at {node._op_name()}) and used it up; to go through it a second "
        "time, write backward(retain_graph=True) the first time, or compute the loss anew"
    )


def _located(error: Exception, node: Tensor, x: Tensor) -> Exception:
    place = [y is x for y, _ in node._pairs].index(True)
    error.add_note(f"in backward: gradient function {place} of {node._op_name()}, which takes an array and returns one of shape {x.shape}")
    return error


def _not_an_array() -> TypeError:
    return TypeError("a gradient function works on arrays, but this one returned a Tensor: hand a tensor's numbers over as mask=mask.data")


def _not_an_op(op: Callable[..., Any], result: Any, inputs: Sequence[Any]) -> TypeError:
    got = f"a tuple of {len(result)}" if isinstance(result, tuple) else arguments.short(result)
    return TypeError(
        f"apply: an op returns a tuple (value, vjp, ...) with a gradient function for each of its inputs, here {1 + len(inputs)} in all; "
        f"{getattr(op, '__name__', 'this op')} returned {got}. Constants go by name, apply(op, x, c=3.0)"
    )


for _base in Conversions.__mro__[:-1]:
    for _method in vars(_base).values():
        if inspect.isfunction(_method):
            _method.__qualname__ = f"Tensor.{_method.__name__}"  # Python's own errors begin with it: "Tensor.sum() got an unexpected ..."
