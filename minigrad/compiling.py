"""`compile`: a function of tensors that is recorded once and from then on played from its tape (tape.py).

A recording is an op like those of the table: it takes the arrays of the arguments and weights, and returns the value with one
gradient function for each. So the engine knows nothing of it, and `backward` runs through it as through any other op.
"""

from __future__ import annotations

import copy
import functools
import itertools
import operator
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .arguments import short
from .attention import at_once
from .creation import get_rng_state, set_rng_state
from .ops import Array, Result
from .surroundings import Standing, Surroundings, older
from .tape import Call, Changed, Tape, Traced, Untraceable, decides, described, plain
from .tensor import Tensor, apply, mode, quiet, set_all, wrap

VARIANTS, KINDS, WAITING = 4, 64, 4  # of surroundings; of calls, in each; recordings of one kind, each waiting for a backward()
RETRIES, VAIN = 8, 64  # calls in a row, after which a kind is recorded anew; after which there is no more recording


def compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, faster: where arrays are small, most of the time is spent around the computing, and this spares it.

    function: of tensors (and numbers and text), returning one Tensor: a model, or what computes the loss. `backward()` and the
    optimizer's step stay outside. Values and gradients are the same, bit for bit, and so are random numbers.

        loss_of = minigrad.compile(lambda x, y: F.cross_entropy(model(x), y))
        loss = loss_of(x, y); loss.backward(); optimizer.step()

    Each kind of call (shapes, strides and dtypes of the tensors; the other arguments) runs once as it is; the second time it runs
    as it is, is recorded beside that, and the two are compared; from then on the recording is played: only the calls of NumPy,
    on arrays that stand ready. So
    - what it does besides computing (print, append) is done twice in the second call, and not when it is played;
    - weights are read anew in each call. Where something else that its code names was replaced (a variable, an attribute, an item of
      a list; `eval()` replaces attributes), it is recorded anew. NumPy arrays and what libraries keep for themselves are constants;
    - where Python looks at numbers (`if loss > 3`), a call in which it would see others runs as it is;
    - what can't be recorded runs as it is, after one warning that says why: several results, `numpy()` inside, a tensor
      that was computed outside, attributes that it changes. Random numbers of other libraries can't be noticed: they'd stay.
    A recording keeps its arrays: about the memory of the graph. While it is made, other threads can't use the same weights, except
    through compiled functions.
    """
    if not callable(function):
        raise TypeError(f"compile takes a function or a module, got {short(function)}")
    return Compiled(function)


class Compiled(Standing):
    """What `compile` returns. Its other attributes are the function's own: compiled.parameters()."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._variants: list[_Variant] = []  # the last one used comes first
        self._unserved = 0  # calls in a row for which there was no recording
        self._why = ""  # it runs as it is, if it does
        self._name = getattr(function, "__name__", type(function).__name__)
        functools.update_wrapper(self, function, updated=())

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # of a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self._function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(self._function, name, value)

    def __reduce__(self) -> Any:  # copy.deepcopy and pickle: recordings are made anew
        return compile, (self._function,)

    def __set_name__(self, owner: type, name: str) -> None:
        raise TypeError(f"compile: not above a method of a class; compile an object, {owner.__name__.lower()} = minigrad.compile(...)")

    def __repr__(self) -> str:
        """What is played: the calls of NumPy, with the shapes of the arrays they read and write."""
        lines = [f"compiled {self._name}" + f", which runs as it is: {self._why}" * bool(self._why)]
        for kind in self._variants[0].kinds.values() if self._variants else ():
            for recording in kind.ready[:1]:
                for way, calls in (("forward", recording.forward), ("backward", recording.backward)):
                    lines += [f"{way}, {len(calls)} calls:", *(f"    {described(call)}" for call in calls)]
        return "\n".join(lines)

    def __call__(self, *args: Any, **options: Any) -> Any:
        if self._why or mode.tape:
            return self._function(*args, **options)
        try:
            return self._served(args, options)
        except Changed:
            y, why = self._function(*args, **options), self._in_vain("what Python looks at in it (`if x > 0`, float(x)) is different")
        except _Refused as refusal:  # if the call is wrong in itself, it ends in its own error
            (y,), why = refusal.result or (self._function(*args, **options),), str(refusal)
        if why:
            self._why = why
            self._variants.clear()
            warnings.warn(f"compile: {self._name} runs as it is from now on: {why}", stacklevel=2)
        return y

    def _in_vain(self, what: str) -> str:
        """One more call that no recording served; the reason to give up, if there were many in a row."""
        self._unserved += 1
        return f"{what} each time" if self._unserved > VAIN else ""

    def _served(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        given = (*args, *options.values())
        tensors = [x for x in given if isinstance(x, Tensor)]
        key = (mode.pauses > 0, len(args), *options, *map(_kind_of, given))
        if len(set(tensors)) < len(tensors):
            key = (*key, *map(list(map(id, tensors)).index, map(id, tensors)))  # f(x, x) isn't f(x, y)
        variant = next((v for v in self._variants if v.surroundings.unchanged()), None)
        kind = variant.kinds.get(key) if variant else None
        if kind is None or variant is None:
            return self._explored(variant, key, args, options)
        if variant is not self._variants[0]:
            self._variants.insert(0, self._variants.pop(self._variants.index(variant)))
        if kind.ready:
            recording = kind.ready.pop()
            try:
                y = recording.play(list(dict.fromkeys(tensors)), kind.ready)
            except Changed:
                kind.misses += 1
                if kind.misses % RETRIES == 0:  # it won't be again what it was
                    del variant.kinds[key]
                raise
            self._unserved = kind.misses = 0
            return y
        if len(kind.alive) == WAITING:  # so many results wait for their backward() that this one need not be fast
            return self._function(*args, **options)
        self._unserved += 1
        return self._recorded(variant.surroundings, kind, args, options, list(dict.fromkeys(tensors)))

    def _explored(self, variant: _Variant | None, key: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The first call of a kind runs as it is, and its graph shows which weights it reads."""
        start, pauses = wrap(np.zeros(()))._birth, mode.pauses
        try:
            try:
                mode.pauses = 0  # also under no_grad
                y = self._function(*args, **options)
            finally:
                mode.pauses = pauses
        except Exception as error:
            if pauses:
                raise _Refused(f"under no_grad it does what a graph forbids ({type(error).__name__}: {error})") from error
            raise
        finally:
            mode.pauses = pauses
        if not isinstance(y, Tensor):
            raise _Refused(f"it returns {short(y)}, not one Tensor", y)
        found = older(y, start) - {*args, *options.values()}
        y = y.detach() if pauses else y
        if any(x._op for x in found):
            raise _Refused("it reads a tensor that was computed outside of it; hand that over as an argument", y)
        why = self._in_vain("its arguments have other shapes or values" if variant else "something that it reads is replaced")
        if why:
            raise _Refused(why, y)
        if variant is None:
            variant = _Variant(self._function)
            self._variants = [variant, *self._variants[: VARIANTS - 1]]
        if len(variant.kinds) == KINDS:
            del variant.kinds[next(iter(variant.kinds))]
        variant.kinds[key] = _Kind(found | variant.surroundings.leaves)
        return y

    def _recorded(
        self, surroundings: Surroundings, kind: _Kind, args: tuple[Any, ...], options: dict[str, Any], tensors: list[Tensor]
    ) -> Any:
        """The second call runs as it is and is recorded beside that. Both must give the same bits."""
        random = get_rng_state()
        y = self._function(*args, **options)
        after = get_rng_state()
        try:
            set_rng_state(random)
            call = functools.partial(_with, self._function, args, options, tensors)
            recording = _Recording(call, tensors, kind.leaves, surroundings, random)
            if not recording.agrees(y, tensors):
                raise _Refused("recorded, it computes something else")
            kind.alive.add(recording)
            kind.ready.append(recording)
        except _Refused as refusal:
            raise _Refused(str(refusal), y) from refusal
        except Changed:  # a weight was met that wasn't known
            pass
        finally:
            set_rng_state(after)
        return y


class _Variant:
    """Surroundings, and the kinds of calls that were made in them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.surroundings, self.kinds = Surroundings(function), dict[Any, _Kind]()


class _Refused(Exception):  # noqa: N818  nothing went wrong
    """Why a function can't be compiled, as a part of a sentence; and what it returned, if it was called."""

    def __init__(self, why: str, *result: Any) -> None:
        super().__init__(why)
        self.result = result


class _Kind:
    """Calls of one kind: the weights they may read, and their recordings that are not in use."""

    def __init__(self, leaves: set[Tensor]) -> None:
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

    def __init__(
        self, call: Callable[[list[Tensor]], Any], arguments: list[Tensor], leaves: set[Tensor], surroundings: Surroundings, random: Tensor
    ) -> None:
        with self.lock:
            tape, around = Tape(), surroundings.reached | leaves
            self.known = list(leaves)
            self.sorts = list(map(_SORT, [*arguments, *self.known]))
            before = [(mode, "tape", None), (tape, "thread", 0), *((x, "_data", x._data) for x in around)]
            stores = [(store, copy.copy(store)) for store in surroundings.stores]
            try:
                try:
                    self._record(tape, call, arguments, leaves, around)
                finally:
                    set_all(before)
            except Untraceable as error:
                raise _Refused(str(error)) from error
            except Exception as error:
                raise error if isinstance(error, _Refused | Changed) else _Refused(f"{type(error).__name__}: {error}") from error
            finally:  # once more: Ctrl-C may have come where this was being done
                set_all(before)
                put_in = [_put_back(store, old) for store, old in stores]
            if any(put_in):
                raise _Refused("it changes an attribute, a list or a dict of its surroundings")
            set_rng_state(random)
            self._check()

    def _record(
        self, tape: Tape, call: Callable[[list[Tensor]], Any], arguments: list[Tensor], leaves: set[Tensor], around: set[Tensor]
    ) -> None:
        start = wrap(np.zeros(()))._birth
        places = {leaf: tape.copied(leaf._data) for leaf in self.known}
        inputs = [wrap(tape.copied(x._data)) for x in arguments]
        for x, given in zip(inputs, arguments, strict=True):
            x._requires_grad = given._requires_grad
        set_all([(mode, "tape", tape), *((leaf, "_data", place) for leaf, place in places.items())])
        held = [*around, *inputs]
        arrays = [x._data for x in held]
        y = call(inputs)
        if tape.refusal:  # also where the function went on after the error
            raise _Refused(tape.refusal)
        if not all(map(operator.is_, map(_DATA, held), arrays)):
            raise _Refused("it changes the data of an argument, a weight or another tensor")
        strangers = older(y, start) - leaves
        if strangers:
            if any(x._op for x in strangers):
                raise _Refused("it reads a tensor that was computed outside of it; hand that over as an argument")
            leaves |= strangers
            raise Changed
        self.forward, tape.calls = tape.calls, []
        self.value, self.drew = plain(y._data), tape.drew
        if type(y._data) is Traced:
            y._data.memory.read = True
        seed = tape.copied(np.ones_like(self.value))
        found = dict(quiet.copy().run(y._walk, seed, True)) if y._requires_grad else {}
        self.backward, self.seed = tape.calls, seed.array
        if any(decides(call) for call in self.backward):
            raise _Refused("a gradient function looks at numbers")
        self.leaves = [leaf for leaf in self.known if places[leaf].memory.read]
        both = [*inputs, *self.leaves]
        self.places = [plain(x._data) for x in inputs] + [places[leaf].array for leaf in self.leaves]
        self.reached = [i for i, x in enumerate(both) if x in found]  # which inputs have a gradient
        self.gradients = [plain(found[both[i]]) for i in self.reached]

    def _check(self) -> None:
        """Play it once, for the inputs with which it was recorded."""
        recorded = [x.copy() for x in (self.value, *self.gradients)]
        quiet.copy().run(_play, self.forward)
        np.copyto(self.seed, 1)
        quiet.copy().run(_play, self.backward)
        if not all(map(_same_bits, recorded, (self.value, *self.gradients))):
            raise _Refused("played again with the same inputs, it computes something else")

    def agrees(self, y: Tensor, arguments: list[Tensor]) -> bool:
        """Whether value and gradients are those of y, which the function computed as it is from the same inputs."""
        inputs = [*arguments, *self.leaves]
        if y._requires_grad != bool(self.reached) or not _same_bits(y._data, self.value):
            return False
        if not y._requires_grad or any(x._op for x in arguments):
            return True
        found = dict(quiet.copy().run(y._walk, np.ones_like(y._data), True))
        mine = {inputs[i]: g for i, g in zip(self.reached, self.gradients, strict=True)}
        return found.keys() == mine.keys() and all(_same_bits(found[x], mine[x]) for x in mine)

    def play(self, arguments: list[Tensor], ready: list[_Recording]) -> Tensor:
        inputs, random = [*arguments, *self.leaves], get_rng_state() if self.drew else None
        try:
            with self.lock:  # not while another thread records with these weights
                if list(map(_SORT, itertools.chain(arguments, self.known))) != self.sorts:  # a weight was given other data
                    ready.append(self)
                    raise Changed
                any(map(np.copyto, self.places, map(_DATA, inputs)))  # any() goes to the end, for copyto answers None
            return apply(self, *[inputs[i] for i in self.reached], ready=ready)
        except BaseException:
            if random is not None:
                set_rng_state(random)
            raise

    def __call__(self, *arrays: Array, ready: list[_Recording]) -> Result:
        lease = _Lease(self, ready)
        _play(self.forward)

        def backward(g: Array) -> list[Array]:
            recording = lease.recording
            np.copyto(recording.seed, g)
            _play(recording.backward)
            return [gradient.copy() for gradient in recording.gradients]

        return self.value.copy(), *at_once(backward, len(self.gradients))


def _play(calls: list[Call]) -> None:
    for call in calls:
        call()


def _same_bits(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _put_back(store: Any, old: Any) -> bool:
    """Whether something else is in a dict, list or set than before, and what was there again."""
    sides: Any = ((store.keys(), old.keys()), (store.values(), old.values())) if isinstance(store, dict) else ((store, old),)
    if all(len(now) == len(then) and all(map(operator.is_, now, then)) for now, then in sides):
        return False
    if isinstance(store, list):
        store[:] = old
    else:
        store.clear()
        store.update(old)
    return True


def _with(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any], tensors: list[Tensor], others: list[Tensor]) -> Any:
    """function(*args, **options), with other tensors in the places of the tensors."""
    table = dict(zip(tensors, others, strict=True))
    args = tuple(table[x] if isinstance(x, Tensor) else x for x in args)
    return function(*args, **{name: table[x] if isinstance(x, Tensor) else x for name, x in options.items()})


def _kind_of(x: Any) -> Any:
    """What makes a call with this argument another kind of call."""
    if isinstance(x, Tensor):
        return _SORT(x), x._requires_grad
    if isinstance(x, float):
        return x.hex()  # 0.0 == -0.0, but not NaN == NaN
    if x is None or isinstance(x, int | str):
        return type(x), x
    raise _Refused(f"an argument is {short(x)}: they may be tensors, numbers and text")


_DATA = operator.attrgetter("_data")
_SORT = operator.attrgetter("_data.shape", "_data.strides", "_data.dtype")
