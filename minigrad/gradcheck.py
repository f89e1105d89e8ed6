"""Is a gradient right? Compare it with what the function itself does when its inputs move a little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arguments import checked, float64, listed, number, short
from .mode import no_grad
from .ops import Array
from .tensor import Tensor, wrap


@np.errstate(all="ignore")
def gradcheck(
    fn: Callable[..., Any],
    inputs: Tensor | Sequence[Tensor],
    eps: float = 1e-6,
    rtol: float = 1e-6,
    atol: float = 1e-7,
    seed: int = 0,
) -> bool:
    """True if `backward` through fn agrees with central differences at these inputs; else an AssertionError.

        d(y . c)/dx_i  ~  (fn(x + eps e_i) . c - fn(x - eps e_i) . c) / (2 eps)        for a random cotangent c

    fn takes the inputs and returns a tensor or a tuple of them. The cotangent c is random, because a plain sum hides
    errors: the gradient of softmax(x).sum() is 0, so a rule that returns zeros would pass. Inputs must be float64
    (float32 rounding alone exceeds the tolerance); those that don't require a gradient are constants. Inputs and their
    `.grad` are afterwards as before. The message names the op, the input, the index, got, expected and their ratio.
    """
    inputs = [inputs] if isinstance(inputs, Tensor) else listed(inputs, "gradcheck takes a tensor or a list of them")
    leaves = [(i, x) for i, x in enumerate(inputs) if checked(x, Tensor, f"gradcheck, as input {i},").requires_grad]
    number(eps, "gradcheck: eps", 1e-12)
    if not leaves:
        raise ValueError("gradcheck: none of the inputs requires a gradient, so there is nothing to check")
    if not leaves[0][1]._frozen():
        raise RuntimeError("gradcheck under no_grad(), where nothing is recorded: call it outside")
    for i, x in leaves:
        if x.dtype != float64:
            raise TypeError(f"gradcheck: input {i} is {x.dtype}; differences need float64, write x.double().detach().requires_grad_()")
        if not x.is_leaf:
            raise ValueError(f"gradcheck: input {i} was computed by {x._op_name()}; detach() it")
    random = np.random.default_rng([seed, 1])  # default_rng(0) may well have made the inputs, and c = x hides errors too
    saved = [(x, x.data, x.grad) for _, x in leaves]
    try:
        for _, x in leaves:
            x.grad = None
        outputs = _outputs(fn(*inputs))
        seeds = [random.standard_normal(y.shape) for y in outputs]
        for y, c in zip(outputs, seeds, strict=True):
            if y.requires_grad:
                y.backward(wrap(c.astype(y.dtype)), retain_graph=True)
        name = outputs[-1]._op_name()
        got = [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for _, x in leaves]
        for (i, x), g in zip(leaves, got, strict=True):
            _compare(f"fn, whose last op is {name}: input {i}", g, _differences(fn, inputs, x, seeds, eps), rtol, atol)
    finally:
        for x, data, grad in saved:
            x.data, x.grad = data, grad
    return True


def _outputs(y: Any) -> list[Tensor]:
    outputs = [y] if isinstance(y, Tensor) else listed(y, "gradcheck: fn must return a tensor or a tuple of them")
    floats = [t for t in outputs if checked(t, Tensor, "gradcheck, as what fn returns,").dtype.kind == "f"]
    if not floats:
        raise ValueError(f"gradcheck: fn must return a tensor of floats, got {short(y)}")
    return floats


@no_grad()
def _differences(fn: Callable[..., Any], inputs: Sequence[Tensor], x: Tensor, seeds: Sequence[Array], eps: float) -> Array:
    center, slope = x.data, np.zeros(x.shape)
    for index in np.ndindex(*x.shape):
        ends = []
        for step in (eps, -eps):
            moved = center.copy()
            moved[index] += step
            x.data = moved
            ends.append(sum(float((y.data * c).sum()) for y, c in zip(_outputs(fn(*inputs)), seeds, strict=True)))
        slope[index] = (ends[0] - ends[1]) / (2 * eps)
    x.data = center
    return slope


def _compare(where: str, got: Array, expected: Array, rtol: float, atol: float) -> None:
    scale = np.abs(expected).max(initial=0)  # rounding in the differences is of this size everywhere
    wrong = ~(np.abs(got - expected) <= atol + rtol * max(scale, 1.0))
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        g, e = float(got[index]), float(expected[index])
        ratio = f"{g / e:.6g}" if e else "undefined"
        raise AssertionError(
            f"gradcheck: {where}, index {index}: got {g:.9g}, expected {e:.9g}, ratio {ratio} ({int(wrong.sum())} of {got.size} are wrong)"
            "; both are derivatives of sum(c * fn(...)) with random c"
        )
