"""What a recorded function does besides computing: it reads and sets gradients, and optimizers take steps. For recording.py.

A recording computes first. Then the gradients are set, and what works with them (`zero_grad`, `clip_grad_norm_`, `step`) is called
as it is. While it is made, gradients are traced arrays in the same tensors, so the function can read them, add and scale them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .ops import Array

if TYPE_CHECKING:
    from .tape import Tape, Traced


class Step(NamedTuple):
    """What is done after computing: some gradients are set, and then something is called."""

    gradients: list[tuple[Any, Any]]  # tensors, each with the array of its gradient, or None
    name: str
    call: Callable[[], Any]
    moves: bool  # weights

    def __str__(self) -> str:
        count = len(self.gradients)
        return ", ".join([f"set {count} gradient{'s' * (count > 1)}"] * (count > 0) + [self.name] * bool(self.name))


class Effects:
    """The steps of a function that is being recorded, and whose gradients it asks for."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.start = 0  # what was born before isn't made by the function
        self.seen = dict[Any, Any]()  # the tensors from before that are known, and the array of the gradient they have by now, or None
        self.met = dict[Any, Any]()  # other tensors from before whose gradient is read or set, and that gradient
        self.touched, self.replaced = set[Any](), set[Any]()  # whose gradient was set since the last step, or at all
        self.asked = set[Any]()  # whose gradient from before was read
        self.steps: list[Step] = []
        self.final = False  # after a step that needs the gradients as they are
        self.kept: list[Traced] = []  # seeds of backward(), whose memory must not be used again
        self.unknown: list[Traced] = []  # what steps return

    def walk(self, y: Any, seed: Any) -> Any:
        """backward() is about to go through the graph of y and to use it up. The seed, as an array of the tape."""
        self.ask(older(y, self.start))  # it adds to the gradients that there are
        if isinstance(seed, np.ndarray):
            self.kept.append(self.tape.constant(seed))
            return self.kept[-1]
        return seed

    def ask(self, tensors: Iterable[Any]) -> None:
        """The gradients of these are read, or are None."""
        for x in tensors:
            if x in self.seen:
                self.asked |= {x} - self.replaced
            elif x._birth < self.start:
                self.met.setdefault(x, x._grad)
            else:
                self.asked.add(x)

    def replace(self, tensors: Iterable[Any]) -> None:
        """The gradients of these are about to be set."""
        for x in tensors:
            if x in self.seen:
                self.touched.add(x)
                self.replaced.add(x)
            elif x._birth < self.start:
                self.met.setdefault(x, x._grad)

    def news(self) -> list[tuple[Any, Any]]:
        """The gradients that were set since this was asked last."""
        now = {x: None if x._grad is None else x._grad._data for x in self.seen}
        if any(x._grad is not None and x._grad._requires_grad for x in self.seen):
            raise self.tape.refused("it sets a gradient that requires a gradient itself")
        grads = [id(x._grad) for x in self.seen if x._grad is not None]
        if len(set(grads)) < len(grads):
            raise self.tape.refused("it makes one gradient that of two tensors")
        found = [(x, g) for x, g in now.items() if x in self.touched or g is not self.seen[x]]
        self.seen, self.touched = now, set()
        return found

    def later(self, name: str, call: Callable[[], Any], *, of: Iterable[Any] = (), moves: bool = False, final: bool = True) -> Traced:
        """Something with gradients that isn't noted call by call, but done as it is when all else is computed: an optimizer's step,
        or what comes before it and moves no weights. What it returns isn't known until then: nobody may ask."""
        if not all(x in self.seen for x in of):
            raise self.tape.refused(f"{name} on tensors that are made in it, or can't be seen from it")
        self.steps.append(Step(self.news(), name, call, moves))
        self.final |= final
        self.unknown.append(self.tape.placed(np.zeros((), np.float32)))
        return self.unknown[-1]

    def none_is_final(self) -> None:
        """Something is about to be computed or read: only before the steps that are called at the end."""
        if self.final:
            raise self.tape.refused("it computes or reads something after step() or clip_grad_norm_()")


def fixed(gradient: Array) -> Array:
    """An array that is the gradient of a tensor from now on, and of others perhaps: if it is traced, nobody writes into it."""
    if not isinstance(gradient, np.ndarray):
        gradient.memory.fixed = True
    return gradient


def older(y: Any, start: int) -> set[Any]:
    """The tensors from before a moment on which the graph of y rests."""
    found, seen, todo = set[Any](), set[Any](), [y]
    while todo:
        x = todo.pop()
        if x not in seen:
            seen.add(x)
            if x._birth < start:
                found.add(x)
            else:
                todo += [part for part, _ in x._pairs]
    return found
