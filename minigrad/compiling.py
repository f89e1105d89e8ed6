"""`compile`: a function of tensors that is recorded once and from then on played from its tape (tape.py).

A recording is an op like those of the table: it takes the arrays of the arguments and weights, and returns the value with one
gradient function for each. So the engine knows nothing of it, and `backward` runs through it as through any other op.

What is known of a function is kept in three layers. A variant belongs to one state of what the function reads (train or eval,
say). In it there are kinds of calls, told apart by the shapes and dtypes of tensors and the values of other arguments. Of each kind
there are recordings. The first call of a kind is explored, the second recorded, the others are played (`_served` decides). A miss is a
call in which Python would see other numbers; credit is what many calls without use take away until the function is left as it is.
"""

from __future__ import annotations

import functools
import itertools
import pickle
import random as random_of_python
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from .arguments import short
from .creation import get_rng_state, set_rng_state
from .effects import older
from .mode import mode
from .recording import OUTSIDE, WEIGHT, Recording, Refused, same_gradient, state
from .surroundings import Snapshot, Standing, Surroundings, moment
from .tape import Changed, described
from .tensor import Tensor, set_all

VARIANTS, KINDS, WAITING = 4, 64, 4  # of surroundings; of calls, in each; recordings of one kind, each waiting for a backward()
RETRIES, CREDIT = 8, 64  # misses, less hits, after which a kind is recorded anew; calls without use before the first of use


def compile(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, faster: where arrays are small, most of the time is spent around the computing, and this spares it.

    function: of tensors (and numbers and text), returning one Tensor: a model, what computes the loss, or a whole step of training.
    Values, gradients and weights are the same, bit for bit, and so are random numbers.

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            return loss.detach()

        step = minigrad.compile(step)

    Each kind of call (shapes, strides and dtypes of the tensors; values of the other arguments, so a number that changes from call to
    call is better handed over as a tensor) runs once as it is; the second time it runs as it is, is recorded beside that, and the two
    are compared; from then on the recording is played: only the calls of NumPy, on arrays that stand ready. So
    - what it does besides computing (print) is done twice in the second call, and not when it is played;
    - weights are read anew in each call. Where something else that its code names was replaced (a variable, an attribute, an item of
      a list; `eval()` replaces attributes), it is recorded anew. The numbers in NumPy arrays, items of lists longer than 1000, what
      libraries keep for themselves, files and the like are constants;
    - where Python looks at numbers (`if loss > 3`), a call in which it would see others runs as it is. `loss.item()`, even if only to
      print it, makes every call such a one: return the loss, and ask outside;
    - first all is computed; then gradients are set and `zero_grad()`, `clip_grad_norm_()`, `step()` are called as they are: they see
      the learning rate, the optimizer's state and the gradients of that moment. So nothing may be computed after the last two, and
      where they raise an error, no `except` or `finally` of the function is run;
    - what can't be recorded runs as it is, after one warning that says why: several results, `numpy()` inside, a tensor
      that was computed outside, variables, attributes and weights that it changes itself, random numbers of other libraries.
    A recording keeps its arrays: about the memory of the graph. It is in use as long as its result waits for backward(); up to four
    of a kind are made, and calls beyond that run as they are. While one is made, other threads can't use the same weights, except
    through compiled functions, which wait.
    """
    if not callable(function):
        raise TypeError(f"compile takes a function or a module, got {short(function)}")
    return Compiled(function)


class Compiled(Standing):
    """What `compile` returns. Its other attributes are the function's own: compiled.parameters()."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._variants: list[_Variant] = []  # the last one used comes first
        self._credit = CREDIT  # grows with each call that a recording serves, and shrinks with each of the others
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
        kinds = [kind for variant in self._variants for kind in variant.kinds.values() if len(kind.alive)]
        lines[0] += ": nothing is recorded yet" * (not kinds and not self._why)
        for kind in kinds:
            for recording in itertools.islice(kind.alive, 1):
                if len(kinds) > 1:
                    lines.append(f"for arguments of shapes {', '.join(str(shape) for shape in recording.shapes)}:")
                ways = {"forward and backward": recording.forward}
                if not recording.steps:
                    ways = {"forward": recording.forward, "backward": recording.backward}
                for way, calls in ways.items():
                    lines += [f"{way}, {len(calls)} calls:", *(f"    {described(call)}" for call in calls)]
                lines += [f"then {step}" for step in recording.steps]
        return "\n".join(lines)

    def __call__(self, *args: Any, **options: Any) -> Any:
        if mode.tape:
            return self._function(*args, **options)
        if self._why:
            return self._as_it_is(args, options)
        try:
            return self._served(args, options)
        except Changed:
            y = self._as_it_is(args, options)
            why = self._in_vain("what Python looks at in it (`if x > 0`, x.item(), the shape of a weight) is different")
        except Refused as refusal:
            y = refusal.result[0] if refusal.result else self._as_it_is(args, options)  # a call that is wrong ends in its own error
            why = str(refusal)
        if why:
            self._why = why
            self._variants.clear()
            warnings.warn(f"compile: {self._name} runs as it is from now on: {why}", stacklevel=2)
        return y

    def _as_it_is(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The function itself. It waits for a recording in another thread, for which weights are traced, and none begins meanwhile."""
        thread, entered = threading.get_ident(), False
        try:
            with Recording.lock:
                Recording.running.append(thread)
                entered = True
            return self._function(*args, **options)
        finally:
            if entered:
                Recording.running.remove(thread)

    def _in_vain(self, what: str) -> str:
        """One more call that no recording served; the reason to give up, if that is all there is."""
        self._credit -= 1
        return f"{what} each time" if self._credit < 0 else ""

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
        if variant in self._variants[1:]:
            self._variants = [variant, *(v for v in self._variants if v is not variant)]
        recording = kind.pick()
        if recording:
            y = None  # what becomes of a miss waits for the end of `except`: its traceback holds the recording
            try:
                y = recording.play(list(dict.fromkeys(tensors)), kind.ready)
            except Changed:
                kind.misses += 1
                if kind.misses < RETRIES:
                    raise
            if y is not None:
                kind.misses = max(0, kind.misses - 1)
                self._credit = min(self._credit + 1, 16 * CREDIT)
                return y
            kind.misses = 0
            kind.ready.clear()  # it is seldom what it was: recorded anew
        if len(kind.alive) == WAITING:
            if not kind.ready:  # so many results wait for their backward() that this one need not be fast
                return self._as_it_is(args, options)
            kind.ready.pop(0)  # none of them fits
        with Recording.lock:
            if all(thread == threading.get_ident() for thread in Recording.running):
                self._credit -= 1
                return self._recorded(variant.surroundings, kind, args, options, list(dict.fromkeys(tensors)))
        return self._as_it_is(args, options)  # other threads are using weights

    def _explored(self, variant: _Variant | None, key: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """The first call of a kind runs as it is, and its graph shows which weights it reads."""
        start, pauses, exploring, random = moment(), mode.pauses, mode.exploring, get_rng_state()
        try:
            try:  # twice, for Ctrl-C may come where pauses are put back
                mode.pauses, mode.exploring = 0, exploring or pauses > 0  # also under no_grad
                y = self._as_it_is(args, options)
            finally:
                mode.pauses, mode.exploring = pauses, exploring
        except Exception as error:
            if pauses:
                set_rng_state(random)  # for it is called once more
                raise Refused(f"under no_grad it does what a graph forbids ({type(error).__name__}: {error})") from error
            raise
        finally:
            mode.pauses, mode.exploring = pauses, exploring
        if not isinstance(y, Tensor):
            raise Refused(f"it returns a {type(y).__name__}, not one Tensor", y)
        found = older(y, start) - {*args, *options.values()}
        y = y.detach() if pauses else y
        if any(x._op for x in found):
            raise Refused(OUTSIDE, y)
        why = self._in_vain(
            "its arguments have other shapes or values (numbers that change may be tensors)"
            if variant
            else "something that it reads is replaced"
        )
        if why:
            raise Refused(why, y)
        variant = variant or next((v for v in self._variants if v.surroundings.unchanged()), None)  # it may have set them itself
        if variant is None:
            variant = _Variant(self._function)
            self._variants = [variant, *self._variants[: VARIANTS - 1]]
        if key not in variant.kinds:
            if len(variant.kinds) == KINDS:
                del variant.kinds[next(iter(variant.kinds))]
            variant.kinds[key] = _Kind(found | variant.surroundings.leaves)
        return y

    def _recorded(
        self, surroundings: Surroundings, kind: _Kind, args: tuple[Any, ...], options: dict[str, Any], tensors: list[Tensor]
    ) -> Any:
        """The second call runs as it is and is recorded beside that. Both must give the same bits."""
        around, others = kind.leaves | surroundings.reached, _other_random()
        random, before, assigned = get_rng_state(), state(around), Snapshot(surroundings)
        y = self._function(*args, **options)
        after, now = get_rng_state(), state(around)
        changed = assigned.changed()
        if changed:
            raise Refused(f"it changes a variable, an attribute, a list or a dict of its surroundings: {changed}", y)
        if others != _other_random():
            raise Refused("it draws random numbers from another library", y)
        try:
            try:
                set_rng_state(random)
                set_all(before)  # back to before its steps
                call = functools.partial(_with, self._function, args, options, tensors)
                recording = Recording(call, tensors, kind.leaves, surroundings, random)
                recording.rehearse()
                found = [x._grad for x in around]
            finally:
                set_all(now)
            if not (recording.agrees(y, tensors) and all(map(same_gradient, found, [x._grad for x in around]))):
                raise Refused("called again with the same inputs, it gave other numbers (another library's random numbers? an iterator?)")
            kind.alive.add(recording)
            kind.ready.append(recording)
        except Refused as refusal:
            raise Refused(str(refusal), y) from refusal
        except Changed:  # a weight was met that wasn't known
            pass
        finally:
            set_all(now)  # once more, for Ctrl-C
            set_rng_state(after)
        return y


def _other_random() -> Any:
    return random_of_python.getstate(), pickle.dumps(np.random.get_state())


class _Variant:
    """Surroundings, and the kinds of calls that were made in them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.surroundings, self.kinds = Surroundings(function), dict[Any, _Kind]()


class _Kind:
    """Calls of one kind: the weights they may read, and their recordings that are not in use."""

    def __init__(self, leaves: set[Tensor]) -> None:
        self.leaves, self.misses = leaves, 0
        self.ready: list[Recording] = []
        self.alive = weakref.WeakSet[Recording]()  # with those that are in use

    def pick(self) -> Recording | None:
        """The recording that was used last, or another one, if it fits now."""
        for _ in range(len(self.ready)):
            try:
                recording = self.ready.pop()
            except IndexError:  # another thread was here
                break
            if recording.fits():
                return recording
            self.ready.insert(0, recording)
        return None


def _with(function: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any], tensors: list[Tensor], others: list[Tensor]) -> Any:
    """function(*args, **options), with other tensors in the places of the tensors."""
    table = dict(zip(tensors, others, strict=True))
    args = tuple(table[x] if isinstance(x, Tensor) else x for x in args)
    return function(*args, **{name: table[x] if isinstance(x, Tensor) else x for name, x in options.items()})


def _kind_of(x: Any) -> Any:
    """What makes a call with this argument another kind of call."""
    if isinstance(x, Tensor):
        return WEIGHT(x)
    if isinstance(x, float):
        return x.hex()  # 0.0 == -0.0, but not NaN == NaN
    if x is None or isinstance(x, int | str | np.dtype | type):
        return type(x), x
    if isinstance(x, tuple) and not any(isinstance(part, Tensor) for part in x):
        return tuple, *map(_kind_of, x)
    raise Refused(f"an argument is {short(x)}: they may be tensors, numbers, text, dtypes and tuples without tensors")
