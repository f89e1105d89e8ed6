"""A recording of NumPy calls that can be played again: the same calls, on the same arrays, without what led to them.

While something is recorded, `Traced` stands in for the arrays. It computes like one, at once, and notes on its tape each call
that computes something, together with the array that took the result. Playing the tape makes these calls anew and lets them
write into these same arrays: no Python of the library runs, no memory is asked for, and what only looks at memory in another
way (reshape, swapaxes, slices) has vanished, for a view stays valid as long as its array is there.

What Python looks at (`if total > 0`, float(x)) decides how a program goes on. It is noted as well: if it isn't the same when
the tape is played, what follows may be the wrong program, and the player gets `Changed`. What can't be noted is an error.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .effects import Effects
from .ops import Array

Call = Callable[[], Any]
T = TypeVar("T")

_LOOKS = frozenset(("shape", "dtype", "ndim", "size", "strides", "flags", "nbytes", "itemsize", "base"))  # say nothing of the numbers
_TAKE_OUT = frozenset(  # functions that write into `out`
    getattr(room, name)
    for name in ["all", "any", "argmax", "argmin", "concatenate", "cumsum", "dot", "einsum", "max", "mean", "min", "prod", "sum", "take"]
    for room in (np, np.ndarray)
    if hasattr(room, name)
)
_DOTS = np.dot, np.ndarray.dot
_COPIES = frozenset([np.ndarray.copy, np.ndarray.astype, np.ndarray.reshape, np.ndarray.ravel])
_VIEWS = frozenset(  # functions that may look at the same memory in another way
    ["astype", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "diagonal", "expand_dims", "flip", "getitem", "moveaxis"]
    + ["permute_dims", "ravel", "reshape", "rollaxis", "squeeze", "swapaxes", "transpose", "view"]
)


class Changed(Exception):  # noqa: N818  nothing went wrong
    """Something that Python looked at while the tape was recorded is different now."""


class Untraceable(TypeError):  # noqa: N818
    """What was asked of a traced array can't be noted on a tape."""


class _Memory:
    """Room for one array. When no traced array is in it any more, the next one that needs as much room gets it: at this point
    of the tape nobody will read it again, now or when the tape is played."""

    def __init__(self, size: int, free: dict[int, list[Array]]) -> None:
        shelf = free.setdefault(size, [])
        self.room, self.read = shelf.pop() if shelf else _in_lines(size), False  # read: whether any call needs what is in it
        self.fixed = False  # whether it is the gradient of a tensor, and of others perhaps
        self.shelf = shelf

    def __del__(self) -> None:
        if hasattr(self, "shelf"):  # Ctrl-C may come before
            self.shelf.append(self.room)


def _in_lines(size: int) -> Array:
    """Room that begins with a line of the cache (64 bytes), as malloc's mostly doesn't: none of the 16 floats that a processor loads
    at once then lie in two lines. Additions take a fifth less time, small products up to a sixth."""
    room = np.empty(size + 64, np.uint8)
    start = -room.__array_interface__["data"][0] % 64
    return room[start : start + size]


class Tape:
    """`calls` in the order in which they were made."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.free: dict[int, list[Array]] = {}
        self.thread = threading.get_ident()  # the one that records; 0: none any more
        self.drew = False  # whether random numbers were drawn
        self.effects = Effects(self)
        self.refusal = ""  # why this can't be a recording, if it can't

    def refused(self, why: str) -> Untraceable:
        """An error that is remembered: the function may catch it and go on."""
        self.refusal = why
        return Untraceable(why)

    def draw(self, function: Callable[..., Any], args: Any) -> Any:
        """Random numbers, new ones each time the tape is played."""
        self.drew = True
        return self.record(function, args, {})

    def copied(self, array: Array) -> Traced:
        """A traced array with these numbers in it, which nothing on the tape writes: the place of an input."""
        place = self.placed(array)
        np.copyto(place.array, array)
        return place

    def constant(self, array: Array) -> Traced:
        """The same in memory of its own, which may be asked for at any time: what calls have written to is written to when the tape
        is played."""
        return Traced(array.copy("K"), self, _Memory(0, {}))

    def placed(self, like: Array) -> Traced:
        if like.dtype.hasobject:
            return Traced(np.empty_like(like), self, _Memory(0, self.free))
        memory = _Memory(like.nbytes, self.free)
        return Traced(np.ndarray(like.shape, like.dtype, memory.room, strides=np.empty_like(like).strides), self, memory)

    def record(self, function: Callable[..., Any], args: Any, options: dict[str, Any]) -> Any:
        """Call a function of NumPy with traced arrays among its arguments, and note the call if it computes something."""
        if self.thread != threading.get_ident():
            raise Untraceable(
                "an array of a recording (minigrad.compile) that is being made in another thread"
                if self.thread
                else "an array of a recording (minigrad.compile) that is over: the compiled function kept a tensor for later"
            )
        self.effects.none_is_final()
        traced: list[Traced] = []
        given, named = _untraced(args, traced), _untraced(options, traced)
        result = function(*given, **named)
        out = options.get("out")
        target = args[0] if result is None else out[0] if isinstance(out, tuple) else out
        if target is not None:  # it wrote into one of its arguments
            if not isinstance(target, Traced):
                raise self.refused(f"{_name(function)} writes into an array that isn't traced: make it with np.empty_like or zeros_like")
            if target.memory.fixed:
                raise self.refused(f"{_name(function)} writes into the array of a gradient")
            self._note(function, given, named, None if result is None else target.array)
            return None if result is None else target
        if isinstance(result, tuple | list):
            raise self.refused(f"{_name(function)} has several results, or they leave as a Python list")
        if isinstance(result, str):  # print(x)
            return result
        value = np.asarray(result)
        for x in traced:
            if value.size and np.may_share_memory(value, x.array):
                if _name(function) not in _VIEWS:
                    raise self.refused(f"{_name(function)} writes into one of its arguments, or keeps it; for an output write out=...")
                return Traced(value, self, x.memory)  # a view: nothing was computed
        place = self.placed(value)
        np.copyto(place.array, value)
        if value is result or isinstance(result, np.generic):
            self._note(function, given, named, place.array)
        else:  # a Python number
            self.calls.append(functools.partial(_refill, place.array, function, given, named))
        return place

    def _note(self, function: Callable[..., Any], args: Any, options: dict[str, Any], out: Array | None) -> None:
        options = {name: x for name, x in options.items() if name != "out"}
        if out is None:
            call = functools.partial(function, *args, **options)
        elif not options and (function in _DOTS or (isinstance(function, np.ufunc) and function not in (np.maximum, np.minimum))):
            # the shortest way: no names, no Python numbers (maximum and minimum want the name)
            kind = out.dtype if out.dtype.kind == "f" else None
            call = functools.partial(function, *(np.asarray(x, kind) if kind and type(x) is float else x for x in args), out)
        elif isinstance(getattr(function, "__self__", function), np.ufunc) or function in _TAKE_OUT:
            call = functools.partial(function, *args, **options, out=out)
        elif function in _COPIES:
            call = functools.partial(np.copyto, out.reshape(args[0].shape), args[0], "unsafe")
        else:
            call = functools.partial(_refill, out, function, args, options)
        self.calls.append(call)


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """An array that notes on a tape what is computed with it."""

    __slots__ = ("array", "memory", "tape")

    def __init__(self, array: Array, tape: Tape, memory: _Memory) -> None:
        self.array, self.tape, self.memory = array, tape, memory

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return self.tape.record(ufunc if method == "__call__" else getattr(ufunc, method), inputs, options)

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, options: dict[str, Any]) -> Any:
        if function in (np.empty_like, np.zeros_like, np.ones_like):  # the calls that fill it come after it
            place = self.tape.placed(function(plain(args[0]), *args[1:], **options))  # its numbers are not read
            if function is not np.empty_like:
                self.tape.record(np.copyto, (place, np.asarray(function is np.ones_like, place.dtype)), {})
            return place
        return self.tape.record(function, args, options)

    def __getattr__(self, name: str) -> Any:
        if name in _LOOKS:
            return getattr(self.array, name)
        if name in ("T", "mT"):
            return Traced(getattr(self.array, name), self.tape, self.memory)
        method = getattr(np.ndarray, name, None)
        if name.startswith("_") or not callable(method):
            raise AttributeError(f"a traced array has no {name}")
        return lambda *args, **options: self.tape.record(method, (self, *args), options)

    def __getitem__(self, index: Any) -> Any:
        return self.tape.record(operator.getitem, (self, index), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        self.tape.record(operator.setitem, (self, index, value), {})

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        return repr(self.array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise self.tape.refused("numbers that are computed in it leave as a NumPy array, or pick from a constant array")

    # What Python looks at -------------------------------------------------------------------------------------

    def look(self, read: Callable[..., T], *args: Any) -> T:
        """read(array, *args), which must be the same when the tape is played."""
        self.tape.effects.none_is_final()
        value = read(self.array, *args)
        self.memory.read = True
        self.tape.calls.append(functools.partial(_same, _exactly(value), read, self.array, *args))
        return value

    def picked_from(self, table: Array, mode: str) -> Any:
        """The rows of a constant array with these numbers, which NumPy wouldn't ask us for."""
        return self.tape.record(np.ndarray.take, (table, self), {"axis": 0, "mode": mode})

    def item(self) -> Any:
        return self.look(np.ndarray.item)

    def __bool__(self) -> bool:
        return self.look(bool)

    def __float__(self) -> float:
        return self.look(float)

    def __int__(self) -> int:
        return self.look(int)

    def __index__(self) -> int:
        return self.look(operator.index)


ARRAYS = np.ndarray, Traced


def plain(x: Any) -> Array:
    """The array itself, where it is traced."""
    array: Array = x.array if type(x) is Traced else x
    return array


def all_traced(*arrays: Any) -> Any:
    """The arrays; if one of them is traced the others too, so that what is made like them (np.empty_like) can be written into."""
    tapes = [x.tape for x in arrays if type(x) is Traced]
    return [x if type(x) is Traced else tapes[0].constant(x) for x in arrays] if tapes else arrays


def look(read: Callable[..., T], x: Any, *args: Any) -> T:
    """read(x, *args): something about the numbers of x on which it depends how Python goes on."""
    return x.look(read, *args) if type(x) is Traced else read(x, *args)


def _untraced(x: Any, found: list[Traced]) -> Any:
    """x with arrays in the places of traced ones, which are added to `found`."""
    if isinstance(x, Traced):
        found.append(x)
        x.memory.read = True
        return x.array
    if type(x) in (tuple, list):
        return type(x)([_untraced(part, found) for part in x])
    if type(x) is dict:
        return {key: _untraced(part, found) for key, part in x.items()}
    return x


def _refill(place: Array, function: Callable[..., Any], args: Any, options: dict[str, Any]) -> None:
    value = np.asarray(function(*args, **options))
    if value.shape != place.shape or value.dtype != place.dtype:  # x[mask] has as many numbers as the mask says
        raise Changed
    np.copyto(place, value)


def _same(value: Any, read: Callable[..., Any], array: Array, *args: Any) -> None:
    if _exactly(read(array, *args)) != value:
        raise Changed


def _exactly(x: Any) -> Any:
    return x.hex() if isinstance(x, float) else x  # 0.0 == -0.0


def decides(call: Call) -> bool:
    """Whether this call is Python's look at something."""
    return call.func is _same  # type: ignore[attr-defined]


def described(call: Call) -> str:
    """A call of a tape in words: the function, and the shapes of the arrays it reads and, at the end, writes."""
    function, args = call.func, [*call.args, *call.keywords.values()]  # type: ignore[attr-defined]
    if function is _same:
        value, function, *args = args
        return f"{_name(function).strip('_')} {' '.join(_shapes(args))}: still {value}?"
    if function is _refill:
        place, function, args, options = args
        args = [*args, *options.values(), place]
    shapes, name = _shapes(args), _name(function)
    if name in ("setitem", "copyto", "fill") or name.endswith(".at"):  # they write into their first argument
        shapes.append(shapes.pop(0))
    return " ".join([name, *shapes])


def _shapes(args: Any) -> list[str]:
    parts = [x if isinstance(x, tuple) else (x,) for x in args]  # an index may be a tuple
    return [str(x.shape) for part in parts for x in part if isinstance(x, np.ndarray)]


def _name(function: Callable[..., Any]) -> str:
    name: str = getattr(function, "__name__", repr(function))
    owner = getattr(function, "__self__", None)
    return f"{owner.__name__}.{name}" if isinstance(owner, np.ufunc) else name  # add.reduce
