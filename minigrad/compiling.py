"""`compile`: a function of tensors that is recorded once and from then on played from its tape (tape.py).

A recording is an op like those of the table: it takes the arrays of the arguments and weights, and returns the value with one
gradient function for each. So the engine knows nothing of it, and `backward` runs through it as through any other op.
"""

from __future__ import annotations

import functools
import itertools
import operator
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from .arguments import short
from .attention import at_once
from .creation import get_rng_state, set_rng_state
from .ops import Array, Result
from .tape import Call, Changed, Tape, Untraceable, described, plain
from .tensor import Tensor, apply, mode, quiet, set_all, wrap

VARIANTS, KINDS, WAITING = 4, 64, 4  # of surroundings; of calls, in each; recordings of one kind, each waiting for a backward()
RETRIES, VAIN = 8, 64  # calls in a row, after which a kind is recorded anew; after which there is no more recording
LONG = 1000  # lists and dicts with more items are taken as they are


def compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, faster: where arrays are small, most of the time is spent around the computing, and this spares it.

    function: of tensors (and numbers and text), returning one Tensor: a model, or what computes the loss. `backward()` and the
    optimizer's step stay outside. Values and gradients are the same, bit for bit; random numbers too.

        loss_of = minigrad.compile(lambda x, y: F.cross_entropy(model(x), y))
        loss = loss_of(x, y); loss.backward(); optimizer.step()

    Each kind of call (shapes and dtypes of the tensors; the other arguments) runs once as it is, the second time it is recorded,
    and from then on the recording is played: only the calls of NumPy, on arrays that stand ready. So
    - what it does besides computing (print, append) is not done when it is played;
    - weights it reads, wherever it finds them, are read anew in each call. Where something else in its closure, the globals of
      its file, modules, lists and dicts was replaced (`eval()` replaces an attribute), it is recorded anew;
    - where Python looks at numbers (`if loss > 3`), a call in which it would see others runs as it is;
    - what can't be recorded runs as it is, after one warning that says why: several results, `numpy()` inside, a tensor
      that was computed outside. Random numbers of other libraries can't be noticed: they'd stay what they were.
    A recording keeps its arrays: about the memory of the graph. While it is made, other threads can't use the same weights, except
    through compiled functions.
    """
    if not callable(function):
        raise TypeError(f"compile takes a function or a module, got {short(function)}")
    return Compiled(function)


class Compiled:
    """What `compile` returns. It has the attributes of the function or module: compiled.parameters()."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._variants: list[_Variant] = []  # the last one used comes first
        self._unserved = 0  # calls in a row for which there was no recording
        self._why = ""  # it runs as it is, if it does
        functools.update_wrapper(self, function, updated=())

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # of a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self._function, name)

    def __reduce__(self) -> Any:  # copy.deepcopy and pickle: recordings are made anew
        return compile, (self._function,)

    def __set_name__(self, owner: type, name: str) -> None:
        raise TypeError(f"compile: not above a method of a class; compile an object, {owner.__name__.lower()} = minigrad.compile(...)")

    def __repr__(self) -> str:
        """What is played: the calls of NumPy, with the shapes of the arrays they read and write."""
        name = getattr(self._function, "__name__", type(self._function).__name__)
        lines = [f"compiled {name}" + f", which runs as it is: {self._why}" * bool(self._why)]
        for kind in self._variants[0].kinds.values() if self._variants else ():
            for recording in kind.ready[:1]:
                for way, calls in (("forward", recording.forward), ("backward", recording.backward)):
                    lines += [f"{way}, {len(calls)} calls:", *(f"    {described(call)}" for call in calls)]
        return "\n".join(lines)

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self._why or mode.tape:
            return self._function(*args, **options)
        try:
            return self._played(args, options)
        except Changed:
            y, why = (
                self._function(*args, **options),
                self._in_vain("what Python looks at in it (`if x > 0`, float(x)) is different each time"),
            )
        except _Refused as refusal:
            (y,), why = refusal.result or (self._function(*args, **options),), str(refusal)
        if why:  # only now: a call that is wrong in itself has ended in its own error
            self._why = why
            self._variants.clear()
            name = getattr(self._function, "__name__", type(self._function).__name__)
            warnings.warn(f"compile: {name} runs as it is from now on: {why}", stacklevel=2)
        return y

    def _in_vain(self, why: str) -> str:
        """One more call that no recording served; the reason to give up, if there were many in a row."""
        self._unserved += 1
        return why if self._unserved > VAIN else ""

    def _played(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        given = (*args, *options.values())
        key = (mode.pauses > 0, len(args), *options, *map(_kind_of, given))
        variant = next((v for v in self._variants if v.unchanged()), None)
        kind = variant.kinds.get(key) if variant else None
        if kind is None or variant is None:
            return self._explored(variant, key, args, options)
        if variant is not self._variants[0]:
            self._variants.insert(0, self._variants.pop(self._variants.index(variant)))
        tensors = [x for x in given if isinstance(x, Tensor)]
        if kind.ready:
            recording = kind.ready.pop()
            try:
                y = recording.play(tensors, kind.ready)
            except Changed:
                kind.misses += 1
                if kind.misses % RETRIES == 0:  # it won't be again what it was
                    del variant.kinds[key]
                raise
            self._unserved = kind.misses = 0
            return y
        if len(kind.alive) == WAITING:  # so many results wait for their backward() that this one need not be fast
            return self._function(*args, **options)
        recording = _Recording(functools.partial(_with, self._function, args, options), tensors, kind.leaves)
        kind.alive.add(recording)
        self._unserved += 1
        return recording.play(tensors, kind.ready)

    def _explored(self, variant: _Variant | None, key: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The first call of a kind runs as it is, and shows which weights it reads."""
        start = wrap(np.zeros(()))._birth
        y = self._function(*args, **options)
        if not isinstance(y, Tensor):
            raise _Refused(f"it returns {short(y)}, not one Tensor", y)
        older = _older(y, start) - {*args, *options.values()}
        if any(x._op for x in older):
            raise _Refused("it reads a tensor that was computed outside of it; hand that over as an argument", y)
        what = "its arguments have other shapes or values" if variant else "something that it reads besides its arguments is replaced"
        why = self._in_vain(f"{what} each time")
        if why:
            raise _Refused(why, y)
        if variant is None:
            variant = _Variant(self._function)
            self._variants = [variant, *self._variants[: VARIANTS - 1]]
        if len(variant.kinds) == KINDS:
            del variant.kinds[next(iter(variant.kinds))]
        variant.kinds[key] = _Kind(list(older | variant.leaves))
        return y


class _Refused(Exception):  # noqa: N818  nothing went wrong
    """Why a function can't be compiled, as a part of a sentence; and what it returned, if it was called."""

    def __init__(self, why: str, *result: Any) -> None:
        super().__init__(why)
        self.result = result


class _Kind:
    """Calls of one kind: the weights they may read, and their recordings that are not in use."""

    def __init__(self, leaves: list[Tensor]) -> None:
        self.leaves, self.misses = leaves, 0
        self.ready: list[_Recording] = []
        self.alive = weakref.WeakSet[_Recording]()  # with those that are in use


class _Lease:
    """While it lives, its recording is in use: someone may still call backward()."""

    def __init__(self, recording: _Recording, ready: list[_Recording]) -> None:
        self.recording, self.ready = recording, ready

    def __del__(self) -> None:
        if hasattr(self, "ready"):  # Ctrl-C may come before
            self.ready.append(self.recording)


class _Recording:
    """An op that copies its inputs to their places, plays the tape, and finds value and gradients in theirs."""

    __name__ = "compiled"
    lock = threading.RLock()

    def __init__(self, call: Callable[[list[Tensor]], Any], arguments: list[Tensor], leaves: list[Tensor]) -> None:
        with self.lock:
            tape, random = Tape(), get_rng_state()
            before = [(mode, "tape", None), (tape, "thread", 0), *((leaf, "_data", leaf._data) for leaf in leaves)]
            try:
                try:
                    self._record(tape, call, arguments, leaves)
                finally:
                    set_all(before)
                    set_rng_state(random)
            except Untraceable as error:
                raise _Refused(str(error)) from error
            except Exception as error:
                raise error if isinstance(error, _Refused) else _Refused(f"{type(error).__name__}: {error}") from error
            finally:  # once more: Ctrl-C may have come where this was being done
                set_all(before)
                set_rng_state(random)
            self._check()
            set_rng_state(random)

    def _record(self, tape: Tape, call: Callable[[list[Tensor]], Any], arguments: list[Tensor], leaves: list[Tensor]) -> None:
        places = {leaf: tape.copied(leaf._data) for leaf in leaves}
        inputs = [wrap(tape.copied(x._data)) for x in arguments]
        for x, given in zip(inputs, arguments, strict=True):
            x._requires_grad = given._requires_grad
        set_all([(mode, "tape", tape), *((leaf, "_data", place) for leaf, place in places.items())])
        y = call(inputs)
        if not all(map(operator.is_, map(_DATA, leaves), places.values())):
            raise _Refused("it changes the data of a weight")
        self.forward, tape.calls = tape.calls, []
        self.value = plain(y._data)
        seed = tape.copied(np.ones_like(self.value))
        found = dict(quiet.copy().run(y._walk, seed, True)) if y._requires_grad else {}
        self.backward, self.seed = tape.calls, seed.array
        self.leaves = [leaf for leaf, place in places.items() if place.memory.read]
        both = [*inputs, *self.leaves]
        self.places = [plain(x._data) for x in inputs] + [places[leaf].array for leaf in self.leaves]
        self.sorts = list(map(_SORT, both))
        self.reached = [i for i, x in enumerate(both) if x in found]  # which inputs have a gradient
        self.passed_on = sum(i < len(inputs) for i in self.reached)  # gradients of arguments; the engine copies those of leaves
        self.gradients = [plain(found[both[i]]) for i in self.reached]

    def _check(self) -> None:
        """Play it once, for the inputs with which it was recorded."""
        recorded = [x.copy() for x in (self.value, *self.gradients)]
        quiet.copy().run(_play, self.forward)
        np.copyto(self.seed, 1)
        quiet.copy().run(_play, self.backward)
        if not all(map(_same_bits, recorded, (self.value, *self.gradients))):
            raise _Refused("played again with the same inputs, it computes something else")

    def play(self, arguments: list[Tensor], ready: list[_Recording]) -> Tensor:
        inputs = [*arguments, *self.leaves]
        with self.lock:  # not while another thread records with these weights
            if list(map(_SORT, inputs)) != self.sorts:  # a weight was given other data
                ready.append(self)
                raise Changed
            any(map(np.copyto, self.places, map(_DATA, inputs)))  # any() goes to the end, for copyto answers None
        return apply(self, *[inputs[i] for i in self.reached], ready=ready)

    def __call__(self, *arrays: Array, ready: list[_Recording]) -> Result:
        lease = _Lease(self, ready)
        _play(self.forward)

        def backward(g: Array) -> list[Array]:
            recording = lease.recording
            np.copyto(recording.seed, g)
            _play(recording.backward)
            return [g.copy() for g in recording.gradients[: recording.passed_on]] + recording.gradients[recording.passed_on :]

        return self.value.copy(), *at_once(backward, len(self.gradients))


def _play(calls: list[Call]) -> None:
    for call in calls:
        call()


def _same_bits(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes()


def _with(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any], tensors: list[Tensor]) -> Any:
    """function(*args, **options), with other tensors in the places of the tensors."""
    given = iter(tensors)
    args = tuple(next(given) if isinstance(x, Tensor) else x for x in args)
    return function(*args, **{name: next(given) if isinstance(x, Tensor) else x for name, x in options.items()})


def _kind_of(x: Any) -> Any:
    """What makes a call with this argument another kind of call."""
    if isinstance(x, Tensor):
        return x._data.shape, x._data.dtype, x._requires_grad
    if isinstance(x, float):
        return x.hex()  # 0.0 == -0.0, but not NaN == NaN
    if x is None or isinstance(x, int | str):
        return type(x), x
    raise _Refused(f"an argument is {short(x)}: they may be tensors, numbers and text")


# What a function reads besides its arguments ------------------------------------------------------------------


def _older(y: Tensor, start: int) -> set[Tensor]:
    """The tensors from before a moment on which the graph of y rests."""
    found, seen, todo = set[Tensor](), set[Tensor](), [y]
    while todo:
        x = todo.pop()
        if x not in seen:
            seen.add(x)
            if x._birth < start:
                found.add(x)
            else:
                todo += [part for part, _ in x._pairs]
    return found


class _Variant:
    """All that a function reaches through closures, globals of its file, modules, lists and dicts: `leaves`, the tensors among it
    that require a gradient, and whether something in it is another object now. As long as not, the recordings of `kinds` hold."""

    def __init__(self, function: Any) -> None:
        self.kinds: dict[Any, _Kind] = {}
        self.leaves: set[Tensor] = set()
        self.tensors: list[Tensor] = []
        self.constants: list[Tensor] = []
        self.containers: list[Collection[Any]] = []
        self.cells: list[types.CellType] = []
        self.names: list[str] = []
        forward = getattr(type(function), "forward", function)
        self.globals: dict[str, Any] = getattr(getattr(function, "__func__", forward), "__globals__", {})
        todo, seen = [(function, True)], set[int]()
        while todo:
            x, watched = todo.pop()
            if id(x) not in seen:
                seen.add(id(x))
                watched = watched or hasattr(x, "named_parameters")  # a module
                todo += [(part, watched) for part in self._parts(x, watched)]
        self.length = sum(map(len, self.containers))
        self.before = list(self._now())

    def unchanged(self) -> bool:
        try:
            same = all(map(operator.is_, self._now(), self.before))
        except ValueError:  # a variable of the closure was deleted
            return False
        return same and sum(map(len, self.containers)) == self.length

    def _now(self) -> Iterator[Any]:
        return itertools.chain(
            itertools.chain.from_iterable(self.containers),
            map(_CELL, self.cells),
            map(self.globals.get, self.names),
            map(_FLAG, self.tensors),
            map(_DATA, self.constants),
        )

    def _parts(self, x: Any, watched: bool) -> Collection[Any]:
        """What is in x. What is watched is noted: everything, but for attributes of objects that aren't modules."""
        if isinstance(x, type | types.ModuleType):
            return ()
        if isinstance(x, Tensor):
            if x._requires_grad and x._op is None:
                self.leaves.add(x)
            self.tensors += [x] * watched
            self.constants += [x] * (watched and not x._requires_grad)
            return ()
        if isinstance(x, types.FunctionType):
            if x.__globals__ is not self.globals:  # of another file
                return ()
            cells = [cell for cell in x.__closure__ or () if cell != types.CellType()]
            names = sorted(_names(x.__code__) & self.globals.keys())
            if watched:
                self.cells += cells
                self.names += names
            return [*map(_CELL, cells), *map(self.globals.get, names), *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
        if isinstance(x, types.MethodType):
            return x.__self__, x.__func__
        if isinstance(x, functools.partial):
            return x.func, x.args, x.keywords
        if isinstance(x, dict | list | tuple):
            parts: Collection[Any] = x.values() if isinstance(x, dict) else x
            self.containers += [parts] * (watched and len(x) <= LONG)
            return parts if len(x) <= LONG else ()
        if hasattr(x, "__dict__"):
            watched = hasattr(x, "named_parameters")
            self.containers += [vars(x).values()] * watched
            return [*vars(x).values(), getattr(type(x), "forward", None)]
        return ()


_CELL, _FLAG, _DATA = map(operator.attrgetter, ("cell_contents", "_requires_grad", "_data"))
_SORT = operator.attrgetter("_data.shape", "_data.dtype")


def _names(code: types.CodeType) -> set[str]:
    """The names in a function and in those inside it: of globals, among others."""
    return set(code.co_names).union(*(_names(part) for part in code.co_consts if isinstance(part, types.CodeType)))
