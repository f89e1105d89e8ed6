"""What is switched on in this thread: `no_grad`, and what `compile` is doing."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Collection
from typing import Any, TypeVar, cast

from . import arguments
from .tape import Tape

F = TypeVar("F", bound=Callable[..., Any])


class _Mode(threading.local):  # each thread has its own: no_grad in one doesn't disturb another
    pauses = 0  # how many no_grad blocks we are in
    tape: Tape | None = None  # what `compile` is recording on
    exploring = False  # `compile` looks for weights, although we are in a no_grad block


mode = _Mode()


class no_grad:
    """Switch recording off in this thread: `with no_grad(): ...`, or `@no_grad()` above a function."""

    def __new__(cls, function: Any = None) -> no_grad:  # `@no_grad` without () is given the function at once
        return super().__new__(cls) if function is None else super().__new__(cls)(function)

    def __enter__(self) -> None:
        mode.pauses += 1

    def __exit__(self, *error: object) -> None:
        mode.pauses -= 1

    def __call__(self, function: F) -> F:
        if not callable(function):
            raise TypeError(f"no_grad stands in `with no_grad():` or as @no_grad() above a function, got {arguments.short(function)}")

        def whole(*args: Any, **kwargs: Any) -> Any:
            with no_grad():
                return function(*args, **kwargs)

        def pieces(*args: Any, **kwargs: Any) -> Any:  # of a generator: its body runs later, from one yield to the next
            steps = function(*args, **kwargs)
            while True:
                with no_grad():
                    piece = next(steps, steps)
                if piece is steps:
                    return
                yield piece

        return cast(F, functools.wraps(function)(pieces if inspect.isgeneratorfunction(function) else whole))


def setting_gradients(tensors: Collection[Any]) -> None:
    """To be called before gradients are set other than by backward()."""
    if mode.exploring:
        raise RuntimeError("gradients set under no_grad()")
    if mode.tape:
        mode.tape.effects.replace(tensors)
