"""Making tensors: from data, filled, in sequence, and at random.

Sizes are written `zeros(2, 3)` or `zeros((2, 3))`. All functions take `dtype` (float32 by default), `requires_grad` and
`device` ("cpu"). Random numbers come from one generator of the library's own, which `manual_seed` restarts; NumPy's
global generator is never touched. Its stream is the same in every NumPy version and on every machine. All threads draw from
it: each number goes to one of them, but to which is chance, so for the same numbers in every run draw in one thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .arguments import array_of, checked, dtype_of, float32, int64, integer, number, short, sizes_of
from .arguments import device as the_device
from .mode import mode
from .ops import Array
from .tensor import Tensor, wrap

_generator = np.random.RandomState(None)  # the one generator whose stream NumPy has promised never to change


@np.errstate(all="ignore")
def _made(array: Array, dtype: Any, requires_grad: bool, device: Any) -> Tensor:
    if device is not None:
        the_device(device)
    t = wrap(array if dtype is None else array.astype(dtype_of(dtype), copy=False))
    t.requires_grad = requires_grad
    return t


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """A tensor with a copy of these numbers. Python floats become float32, ints int64, bools bool; arrays keep their dtype."""
    if isinstance(data, Tensor):
        data = data.detach().numpy()
    return _made(array_of(data, dtype), None, requires_grad, device)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The tensor itself, or one made from the data."""
    return data.to(dtype=dtype, device=device) if isinstance(data, Tensor) else tensor(data, dtype, device=device)


def from_numpy(array: Array) -> Tensor:
    """A tensor with a copy of the array (PyTorch would share its memory; here later writes to it change nothing)."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: needs a NumPy array, got {short(array)}; use tensor(...)")
    return tensor(array)


def full(size: Any, fill_value: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """A tensor filled with one number; its dtype is that of the number: float32, int64 or bool."""
    value, shape = array_of(fill_value, dtype), _possible(sizes_of((size,)))
    if value.ndim:
        raise TypeError(f"full: the fill value must be one number, got {short(fill_value)}")
    return _made(np.full(shape, value), None, requires_grad, device)


def zeros(*size: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """A tensor of zeros."""
    return full(sizes_of(size, "zeros: a size"), 0.0, dtype or float32, requires_grad, device)


def ones(*size: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """A tensor of ones."""
    return full(sizes_of(size, "ones: a size"), 1.0, dtype or float32, requires_grad, device)


def eye(n: int, m: int | None = None, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """The n x m matrix with ones on the diagonal (m = n by default)."""
    rows, columns = _possible((integer(n, "eye: n"), integer(n if m is None else m, "eye: m")))
    return _made(np.eye(rows, columns, dtype=float32), dtype, requires_grad, device)


def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """start, start + step, ... up to but without end; arange(n) counts from 0. int64 if all three are ints, else float32."""
    start, end, step = (0, start, step) if end is None else (start, end, step)
    for v, name in ((start, "start"), (end, "end"), (step, "step")):
        number(v, f"arange: {name}")
    start, end, step = (v.item() if hasattr(v, "item") else v for v in (start, end, step))
    if step == 0 or (end - start) * step < 0:
        raise ValueError(f"arange: steps of {step} don't lead from {start} to {end}")
    _possible((math.ceil((end - start) / step),))
    whole = all(isinstance(v, int) for v in (start, end, step))
    return _made(np.arange(start, end, step), dtype or (int64 if whole else float32), requires_grad, device)


def linspace(start: float, end: float, steps: int, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """`steps` numbers at equal distances from start to end, both included."""
    (count,) = _possible((integer(steps, "linspace: steps"),))
    ends = number(start, "linspace: start"), number(end, "linspace: end")
    return _made(np.linspace(*ends, count), dtype or float32, requires_grad, device)


def _possible(shape: tuple[int, ...]) -> tuple[int, ...]:
    if min(shape, default=0) < 0:
        raise ValueError(f"a size can't be negative, got {shape}")
    if math.prod(max(n, 1) for n in shape) >= 2**59:  # 2**62 bytes
        raise ValueError(f"no memory holds a tensor of shape {shape}")
    return shape


def zeros_like(input: Tensor, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Zeros in the shape and dtype of another tensor."""
    return full(checked(input, Tensor, "zeros_like").shape, 0, dtype or input.dtype, requires_grad, device)


def ones_like(input: Tensor, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Ones in the shape and dtype of another tensor."""
    return full(checked(input, Tensor, "ones_like").shape, 1, dtype or input.dtype, requires_grad, device)


def full_like(input: Tensor, fill_value: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """One number in the shape and dtype of another tensor."""
    return full(checked(input, Tensor, "full_like").shape, fill_value, dtype or input.dtype, requires_grad, device)


# Random -------------------------------------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Restart the random generator: the same seed gives the same numbers, on every run and machine."""
    number = integer(seed, "manual_seed: the seed")
    _not_recorded()
    _generator.seed([number % 2**32, number // 2**32 % 2**32] if not 0 <= number < 2**32 else number)


def get_rng_state() -> Tensor:
    """Where the random generator stands, as 628 integers to save and to hand to `set_rng_state`."""
    _not_recorded()
    _, keys, position, has_spare, spare = _generator.get_state(legacy=True)
    return wrap(np.concatenate([keys, [position, has_spare], np.frombuffer(np.float64(spare).tobytes(), np.uint32)]).astype(int64))


def set_rng_state(state: Tensor) -> None:
    """Put the random generator back where `get_rng_state` found it."""
    numbers = checked(state, Tensor, "set_rng_state").detach().numpy()
    whole = numbers.shape == (628,) and numbers.dtype.kind in "iu" and numbers.min() >= 0 and numbers.max() < 2**32
    if not whole or numbers[624] > 624 or numbers[625] > 1:  # NumPy would read past the end of its keys
        raise ValueError(f"set_rng_state: needs the 628 integers that get_rng_state() gave, got {short(state)}")
    _not_recorded()
    spare = np.frombuffer(numbers[626:].astype(np.uint32).tobytes(), np.float64)[0]
    _generator.set_state(("MT19937", numbers[:624].astype(np.uint32), int(numbers[624]), int(numbers[625]), float(spare)))


def _not_recorded() -> None:
    if mode.tape:
        raise mode.tape.refused("it reads or sets the state of the random generator")


def rand(*size: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Uniform random numbers in [0, 1)."""
    shape, kind = _possible(sizes_of(size, "rand: a size")), _float(dtype, "rand")
    bits = 24 if kind == float32 else 53  # as many as fit below 1: rounding a float64 near 1 would give 1.0
    return _made(np.floor(_drawn(_generator.random_sample, shape) * 2**bits) / 2**bits, kind, requires_grad, device)


def randn(*size: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Normal random numbers, mean 0 and standard deviation 1."""
    shape, kind = _possible(sizes_of(size, "randn: a size")), _float(dtype, "randn")
    return _made(_drawn(_generator.standard_normal, shape), kind, requires_grad, device)


def _drawn(draw: Callable[..., Any], *args: Any) -> Array:
    """Random numbers; in a recording (compiling.py) new ones each time it is played. All that are drawn come this way."""
    return mode.tape.draw(draw, args) if mode.tape else np.asarray(draw(*args))


def _float(dtype: Any, op: str) -> np.dtype[Any]:
    kind = dtype_of(dtype or float32)
    if kind.kind != "f":
        raise TypeError(f"{op} draws floats, which {kind} can't hold; for integers write randint(low, high, size)")
    return kind


def rand_like(input: Tensor, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Uniform random numbers in the shape and dtype of another tensor."""
    return rand(checked(input, Tensor, "rand_like").shape, dtype=dtype or input.dtype, requires_grad=requires_grad, device=device)


def randn_like(input: Tensor, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Normal random numbers in the shape and dtype of another tensor."""
    return randn(checked(input, Tensor, "randn_like").shape, dtype=dtype or input.dtype, requires_grad=requires_grad, device=device)


def randint(low: int, high: Any = None, size: Any = None, dtype: Any = None, device: Any = None) -> Tensor:
    """Random integers from low to high - 1; randint(high, size) counts from 0."""
    if size is None:
        low, high, size = 0, low, high
    if size is None or isinstance(size, int):
        raise TypeError(f"randint(low, high, size): the size must be a tuple, as in randint(0, 10, (2, 3)); got {size!r}")
    if not -(2**63) <= integer(low, "randint: low") < integer(high, "randint: high") <= 2**63:
        raise ValueError(f"randint: there is no int64 from {low} to {high} - 1")
    shape = _possible(sizes_of((size,), "randint: a size"))
    return _made(_drawn(_generator.randint, low, high, shape, int64), dtype, False, device)


def randperm(n: int, device: Any = None) -> Tensor:
    """The integers 0 to n - 1 in random order."""
    (count,) = _possible((integer(n, "randperm: n"),))
    return _made(_drawn(_generator.permutation, count), int64, False, device)


@np.errstate(all="ignore")
def multinomial(input: Tensor, num_samples: int, replacement: bool = False) -> Tensor:
    """Random ids, drawn with these probabilities (rows of weights >= 0, not all 0): (v) -> (k), (n, v) -> (n, k)."""
    weights = checked(input, Tensor, "multinomial").detach().double().numpy()
    count = integer(num_samples, "multinomial: num_samples")
    if weights.ndim not in (1, 2) or not weights.size or count < 1:
        raise ValueError(f"multinomial: needs weights of shape (v) or (n, v) and at least one sample, got {input.shape} and {count}")
    fine = np.isfinite(weights) & (weights >= 0)
    if not fine.all() or (weights.sum(axis=-1) <= 0).any():
        wrong = "a row of zeros" if fine.all() else weights[~fine][0]
        raise ValueError(f"multinomial: weights must be finite, not negative, and not all 0 in a row; got {wrong}")
    if replacement:
        edges = weights.cumsum(axis=-1)  # a point falls into slice i with probability weight_i / total
        points = _drawn(_generator.random_sample, (*weights.shape[:-1], count)) * edges[..., -1:]
        ids = np.asarray((points[..., None] >= edges[..., None, :]).sum(axis=-1))
        last = weights.shape[-1] - 1 - np.argmax(np.flip(weights > 0, -1), axis=-1)
        return wrap(np.minimum(ids, last[..., None]))
    if count > (weights > 0).sum(axis=-1).min():
        raise ValueError(f"multinomial: can't draw {count} different ids where fewer have a weight above 0; write replacement=True")
    # Exponential clocks: the i-th rings first with probability weight_i / total.
    clocks = -np.log1p(-_drawn(_generator.random_sample, weights.shape)) / weights
    return wrap(np.argsort(clocks, axis=-1, kind="stable")[..., :count])


inf, nan, pi = math.inf, math.nan, math.pi
