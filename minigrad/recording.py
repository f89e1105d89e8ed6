"""A recording: an op of the engine that plays a tape. It is made and checked here; compiling.py says when to play it."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Collection
from typing import Any, ClassVar

import numpy as np

from .attention import at_once
from .creation import get_rng_state, set_rng_state
from .effects import Step, older
from .mode import mode
from .ops import Array, Result
from .surroundings import Snapshot, Surroundings, moment
from .tape import Call, Changed, Tape, Traced, Untraceable, decides, plain
from .tensor import DATA, Tensor, apply, quiet, set_all, wrap

OUTSIDE = "it reads a tensor that was computed outside of it; hand that over as an argument"


class Refused(Exception):  # noqa: N818  nothing went wrong
    """Why a function can't be compiled, as a part of a sentence; and what it returned, if it was called."""

    def __init__(self, why: str, *result: Any) -> None:
        super().__init__(why)
        self.result = result


class _Lease:
    """While it lives, its recording is in use: someone may still call backward()."""

    def __init__(self, recording: Recording, ready: list[Recording]) -> None:
        self.recording, self.ready = recording, ready

    def __del__(self) -> None:
        if hasattr(self, "ready"):  # Ctrl-C may come before
            self.ready.append(self.recording)


class Recording:
    """An op that copies its inputs to their places, plays the tape, and finds value and gradients in theirs."""

    __name__ = "compiled"
    lock = threading.RLock()
    running: ClassVar[list[int]] = []  # threads in which compiled functions run as they are

    def __init__(
        self, call: Callable[[list[Tensor]], Any], arguments: list[Tensor], leaves: set[Tensor], surroundings: Surroundings, random: Tensor
    ) -> None:
        with self.lock:
            tape, around = Tape(), surroundings.reached | leaves
            self.known = list(leaves)
            self.layouts = list(map(WEIGHT, self.known))
            before, assigned = [(mode, "tape", None), (tape, "thread", 0), *state(around)], Snapshot(surroundings)
            try:
                try:
                    self._record(tape, call, arguments, leaves, around)
                finally:
                    set_all([*((x, "_grad", g) for x, g in tape.effects.met.items()), *before])
            except Untraceable as error:
                self._meet(tape.effects.met.keys(), leaves)
                raise Refused(str(error)) from error
            except Exception as error:
                raise error if isinstance(error, Refused | Changed) else Refused(f"{type(error).__name__}: {error}") from error
            finally:  # once more: Ctrl-C may have come where this was being done
                set_all([*((x, "_grad", g) for x, g in tape.effects.met.items()), *before])
                assigned.put_back()
            set_rng_state(random)
            self._check()

    def _record(
        self, tape: Tape, call: Callable[[list[Tensor]], Any], arguments: list[Tensor], leaves: set[Tensor], around: set[Tensor]
    ) -> None:
        effects = tape.effects
        effects.start = moment()
        places = {leaf: tape.copied(leaf._data) for leaf in self.known}
        inputs = [wrap(tape.copied(x._data)) for x in arguments]
        for x, given in zip(inputs, arguments, strict=True):
            x._requires_grad = given._requires_grad

        layouts = {x: _layout(x._grad) for x in around}
        earlier = {x: None if x._grad is None else tape.copied(x._grad._data) for x in around}  # gradients from before
        effects.seen = dict(earlier)
        grads = [(x, "_grad", wrap(g)) for x, g in earlier.items() if g is not None]

        set_all([(mode, "tape", tape), *((leaf, "_data", place) for leaf, place in places.items()), *grads])
        held, fixed = [*around, *inputs], operator.attrgetter("_data", "_requires_grad")
        before = list(map(fixed, held))
        y = call(inputs)

        self._meet(older(y, effects.start) | effects.met.keys(), leaves)
        if tape.refusal:  # also where the function went on after the error
            raise Refused(tape.refusal)
        for (data, flag), (old, old_flag) in zip(map(fixed, held), before, strict=True):
            if data is not old or flag is not old_flag:
                what = "the data" if data is not old else "requires_grad"
                raise Refused(f"it changes {what} of an argument, a weight or another tensor")
        if any(x._grad is not None or x in effects.asked for x in inputs):
            raise Refused("it sets or reads the gradient of an argument: return the loss, and call backward() on that")

        if type(y._data) is Traced:
            y._data.memory.read = True
        self.used_up = y._op is not None and not y._pairs  # by backward(), inside
        with_graph = y._requires_grad and not self.used_up
        last = Step(effects.news(), "", _nothing, False)
        steps = effects.steps + [last] * bool(last.gradients)
        self.steps = [step._replace(gradients=[(x, _settled(g)) for x, g in step.gradients]) for step in steps]
        self.asked = [(x, layouts[x]) for x in effects.asked if x in earlier]  # what gradients from before must be like, where it matters
        self.earlier = [(x, g.array) for x, g in earlier.items() if g is not None and g.memory.read]  # those that it reads or adds to
        if effects.final:
            if with_graph:
                raise Refused("it takes a step and returns a tensor with a graph: return loss.detach()")
            if type(y._data) is not Traced:
                raise Refused("it takes a step and returns a constant, which may be among what is moved")
            changing = [*places.values(), *earlier.values(), *effects.unknown, *(g for step in steps for _, g in step.gradients)]
            if any(type(x) is Traced and x.memory is getattr(y._data, "memory", None) for x in changing):
                raise Refused("it returns a weight, a gradient or a norm, which a step changes")

        self.forward, tape.calls = tape.calls, []
        self.value, self.drew = plain(y._data), tape.drew
        seed = tape.copied(np.ones_like(self.value))
        found = dict(quiet.copy().run(y._walk, seed, True)) if with_graph else {}
        self.backward, self.seed = tape.calls, seed.array
        if any(decides(call) for call in self.backward):
            raise Refused("a gradient function looks at numbers")
        self.leaves = [leaf for leaf in self.known if places[leaf].memory.read]
        self.shapes = [x.shape for x in arguments]
        both = [*inputs, *self.leaves]
        self.places = [plain(x._data) for x in inputs] + [places[leaf].array for leaf in self.leaves]
        self.with_gradient = [i for i, x in enumerate(both) if x in found]  # which inputs have a gradient
        self.gradients = [plain(found[both[i]]) for i in self.with_gradient]

    def _meet(self, tensors: Collection[Tensor], leaves: set[Tensor]) -> None:
        """Among tensors from before, unknown weights are reason enough to try again: now they are known."""
        strangers = set(tensors) - leaves
        if any(x._op for x in strangers):
            raise Refused(OUTSIDE)
        if strangers:
            leaves |= strangers
            raise Changed

    def _check(self) -> None:
        """Play it once, for the inputs with which it was recorded: the tape must give what was computed while it was recorded."""
        results = [self.value, *self.gradients, *(g for step in self.steps for _, g in step.gradients if g is not None)]
        recorded = [x.copy() for x in results]
        quiet.copy().run(_play, self.forward)
        np.copyto(self.seed, 1)
        quiet.copy().run(_play, self.backward)
        if not all(map(_same_bits, recorded, results)):
            raise Refused("played again with the same inputs, it computes something else")

    def agrees(self, y: Tensor, arguments: list[Tensor]) -> bool:
        """Whether value and gradients are those of y, which the function computed as it is from the same inputs."""
        inputs = [*arguments, *self.leaves]
        if y._requires_grad != bool(self.with_gradient or self.used_up) or not _same_bits(y._data, self.value):
            return False
        if not y._requires_grad or self.used_up or any(x._op for x in arguments):
            return True  # a walk from y would go on through what the arguments were computed from
        found = dict(quiet.copy().run(y._walk, np.ones_like(y._data), True))
        mine = {inputs[i]: g for i, g in zip(self.with_gradient, self.gradients, strict=True)}
        return found.keys() == mine.keys() and all(_same_bits(found[x], mine[x]) for x in mine)

    def fits(self) -> bool:
        """Whether there are gradients from before like those with which it was recorded, if it reads them or adds to them."""
        return all(_layout(x._grad) == like for x, like in self.asked)

    def play(self, arguments: list[Tensor], ready: list[Recording]) -> Tensor:
        inputs, random = [*arguments, *self.leaves], get_rng_state() if self.drew else None
        lease = [_Lease(self, ready)]  # who may call backward() holds it too
        try:
            try:
                with self.lock:  # not while another thread records with these weights
                    if list(map(WEIGHT, self.known)) != self.layouts:  # a weight was given other data, or frozen
                        raise Changed
                    for x, place in self.earlier:
                        np.copyto(place, x._grad._data)  # type: ignore[union-attr]
                    any(map(np.copyto, self.places, map(DATA, inputs)))  # any() goes to the end, for copyto answers None
                if self.with_gradient:
                    y = apply(self, *[inputs[i] for i in self.with_gradient], lease=lease)
                else:  # a graph would hold nothing
                    y = wrap(quiet.copy().run(self._play_forward))
            except BaseException:
                if random is not None:
                    set_rng_state(random)
                raise
            self._take_steps(True)
        finally:
            lease.clear()
        if self.used_up:
            y._requires_grad, y._op, y._options = True, self, {}
        return y

    def rehearse(self) -> None:
        """What the function does after computing, but for the steps that move weights."""
        try:
            self._take_steps(False)
        except Exception as error:
            raise Refused(f"{type(error).__name__}: {error}") from error

    def _take_steps(self, moving: bool) -> None:
        for step in self.steps:
            set_all([(x, "_grad", None if g is None else wrap(g.copy("K"))) for x, g in step.gradients])
            if moving or not step.moves:
                step.call()

    def _play_forward(self) -> Array:
        _play(self.forward)
        return self.value.copy("K")

    def __call__(self, *arrays: Array, lease: list[_Lease]) -> Result:
        held, value = lease[0], self._play_forward()

        def backward(g: Array) -> list[Array]:
            recording = held.recording
            np.copyto(recording.seed, g)
            _play(recording.backward)
            return [gradient.copy("K") for gradient in recording.gradients]

        return value, *at_once(backward, len(self.gradients))


def _nothing() -> None: ...


def _layout(gradient: Tensor | None) -> Any:
    return None if gradient is None else WEIGHT(gradient)


def _settled(gradient: Any) -> Array | None:
    if gradient is None:
        return None
    if type(gradient) is not Traced:
        raise Refused("it sets a gradient to something that it didn't compute")
    gradient.memory.read = True  # it may be a gradient from before: p.grad = q.grad
    return gradient.array


def _play(calls: list[Call]) -> None:
    for call in calls:
        call()


def _same_bits(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def same_gradient(a: Tensor | None, b: Tensor | None) -> bool:
    return a is b or (a is not None and b is not None and _same_bits(a._data, b._data))


def state(tensors: Collection[Tensor]) -> list[tuple[Any, str, Any]]:
    """What can be changed of them, as set_all takes it."""
    both = [*tensors, *(x._grad for x in tensors if x._grad is not None)]
    return [(x, name, getattr(x, name)) for x in both for name in ("_data", "_grad", "_requires_grad")]


WEIGHT = operator.attrgetter("_data.shape", "_data.strides", "_data.dtype", "_requires_grad")  # where they differ, a recording doesn't hold
