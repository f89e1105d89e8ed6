"""The table of derivatives, minigrad/ops, checked row by row: against central differences, through the engine, in float32, and against
PyTorch where it is installed.

A row is an op, the shapes of its inputs and its options. Lengths are different small primes, so that no swapped axis passes.
"""

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from minigrad import apply, ops, tensor
from minigrad.tensor import unbroadcast

EPS = 2.0**-20  # a power of two: float32 holds the points x + EPS of a `dyadic` row exactly


# What the inputs are like, made from normal random numbers -----------------------------------------------------


def normal(x: np.ndarray) -> np.ndarray:
    return x


def positive(x: np.ndarray) -> np.ndarray:
    return np.abs(x) + 0.5


def nonzero(x: np.ndarray) -> np.ndarray:
    return x + np.where(x < 0, -0.5, 0.5)


def some_zeros(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 0.6, 0.0, x)


def distinct(x: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(x.reshape(-1))).reshape(x.shape) / 7 - 1.0


def dyadic(x: np.ndarray) -> np.ndarray:
    return np.round(x * 16) / 16


# The table ----------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Row:
    op: str
    torch: Callable[..., Any]
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    domain: Callable[[np.ndarray], np.ndarray] = field(default=normal)

    def __str__(self) -> str:
        options = [f"{k}={v}" if len(str(v)) < 30 else k for k, v in self.options.items()]
        return f"{self.op}-{'-'.join(map(str, [*self.inputs, *options]))}".replace(" ", "").replace("\n", "")

    def arrays(self, dtype: Any = np.float64) -> list[Any]:
        """The inputs: random arrays, which nobody may write to, for shapes; numbers as they are."""
        rng = np.random.default_rng(3)
        arrays = [np.asarray(self.domain(rng.standard_normal(x)), dtype) if isinstance(x, tuple) else x for x in self.inputs]
        return [frozen(x) if isinstance(x, np.ndarray) else x for x in arrays]

    def run(self, arrays: list[Any]) -> tuple[np.ndarray, list[Any]]:
        """The value, and (input, vjp) for the inputs that are arrays."""
        y, *vjps = getattr(ops, self.op)(*arrays, **self.options)
        assert len(vjps) >= len(arrays), "an input without a gradient function"
        return frozen(np.asarray(y)), [(x, vjp) for x, vjp in zip(arrays, vjps, strict=False) if isinstance(x, np.ndarray)]


def frozen(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


def at(*inputs: Any, **options: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return inputs, options


def rows(op: str, torch: Callable[..., Any], *entries: Any, domain: Callable[..., Any] = normal) -> list[Row]:
    return [Row(op, torch, inputs, options, domain) for inputs, options in entries]


def mask(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).random(shape) < 0.5


def ids(*values: Any) -> np.ndarray:
    return np.array(values)


def cross_entropy(t: Any, x: Any, target: Any, kept: Any, smoothing: float = 0.0, divisor: float | None = None) -> Any:
    ids = t.where(t.tensor(kept), t.tensor(target), -100)
    y = t.nn.functional.cross_entropy(x, ids, reduction="none", label_smoothing=smoothing)
    return y if divisor is None else y.sum() / divisor


def dims(x: Any, axis: Any) -> Any:
    return tuple(range(x.ndim)) if axis is None else axis


TWO_SIDES = [
    at((3, 5), (3, 5)), at((2, 3, 5), (3, 1)), at((1, 3), (2, 1, 3)), at((5,), (3, 5)), at((), (3,)), at((), ()), at((1,), ()),
    at((0, 3), (3,)), at((3, 5), 2.5), at(2.5, (3, 5)),
]  # fmt: skip
ONE_SIDE = [at((3, 5)), at(()), at((1,)), at((0, 3))]
REDUCED = [
    at((3, 5)), at(()), at((1,)), at((2, 3, 5), axis=1), at((2, 3, 5), axis=-1), at((2, 3, 5), axis=(0, 2)), at((2, 3, 5), axis=(-1, 0)),
    at((2, 3, 5), axis=1, keepdims=True), at((2, 3, 5), axis=(0, 2), keepdims=True), at((3, 5), keepdims=True), at((3, 1), axis=1),
    at((0, 3), axis=1), at((2, 3), axis=(1,)),
]  # fmt: skip
ALONG = [at((2, 3, 5), axis=0), at((2, 3, 5), axis=1), at((2, 3, 5), axis=-1), at((3, 1), axis=1), at((0, 3), axis=1), at((3, 0), axis=1)]
PICKED = [
    2, -1, slice(1, 4), slice(None, None, 2), None, ..., (1, 2), (slice(None), 1), (..., None, slice(0, 2)), (slice(2, 2),),
    ids(0, 4, 0, 0), ids([0, 1], [1, 3]), (ids(3, 3, 1), ids(1, 1, 2)), (slice(None), ids(2, 0, 2)), (ids(0, 0), slice(1, 3)),
    (None, ids(1, 1)), ids().astype(int), mask(5), mask(5, 3), (slice(None), mask(3)), (ids([4], [0]), ids(1, 1)),
    np.arange(67) * 7 % 5, (np.arange(70) * 3 % 10 - 5).reshape(2, 35),
]  # fmt: skip

EPSILONS = [at((2, 3, 5), axis=a, eps=e) for a, e in ((-1, 1e-5), (1, 0.5), ((1, 2), 1e-5))] + [at((3, 1), axis=1, eps=0.1)]
DIAGONALS = [at((2, 3, 5), diagonal=d) for d in (0, 2, -1, 5, -5)] + [at((3, 3), diagonal=1), at((0, 3), diagonal=0)]

TABLE = [
    *rows("add", lambda t, a, b: a + b, *TWO_SIDES),
    *rows("sub", lambda t, a, b: a - b, *TWO_SIDES),
    *rows("mul", lambda t, a, b: a * b, *TWO_SIDES),
    *rows("div", lambda t, a, b: a / b, *TWO_SIDES, domain=nonzero),
    *rows("pow", lambda t, a, b: a**b, *TWO_SIDES, domain=positive),
    *rows("pow", lambda t, a, b: a**b, *[at((3, 5), b) for b in (-2, -1, 0, 1, 2, 3, 3.0)], domain=nonzero),
    *rows("pow", lambda t, a, b: a**b, at((3, 5), 2), at((3, 5), 3), domain=some_zeros),
    *rows(
        "matmul", lambda t, a, b: a @ b, at((3, 5), (5, 7)), at((2, 3, 5), (5, 7)), at((2, 3, 5), (2, 5, 7)), at((3, 5), (2, 5, 7)),
        at((2, 1, 3, 5), (7, 5, 11)), at((1, 3, 5), (2, 5, 1)), at((1, 1), (1, 1)),
        at((3, 0), (0, 5)), at((0, 3), (3, 5)), at((2, 0, 3), (3, 5)), at((0, 2, 3), (3, 5)),
    ),
    *rows(
        "linear", lambda t, x, weight, bias=None: t.nn.functional.linear(x, weight, bias), at((3, 5), (7, 5), (7,)),
        at((2, 3, 5), (7, 5), (7,)), at((5,), (7, 5), (7,)), at((3, 5), (7, 5)), at((2, 3, 5), (7, 5)), at((0, 5), (7, 5), (7,)),
    ),
    *rows("neg", lambda t, x: -x, *ONE_SIDE),
    *rows("abs", lambda t, x: x.abs(), *ONE_SIDE, domain=nonzero),
    *rows("exp", lambda t, x: x.exp(), *ONE_SIDE),
    *rows("log", lambda t, x: x.log(), *ONE_SIDE, domain=positive),
    *rows("sqrt", lambda t, x: x.sqrt(), *ONE_SIDE, domain=positive),
    *rows("sin", lambda t, x: x.sin(), *ONE_SIDE),
    *rows("cos", lambda t, x: x.cos(), *ONE_SIDE),
    *rows("tanh", lambda t, x: x.tanh(), *ONE_SIDE),
    *rows("sigmoid", lambda t, x: x.sigmoid(), *ONE_SIDE),
    *rows("relu", lambda t, x: x.relu(), *ONE_SIDE, domain=nonzero),
    *rows("erfc", lambda t, x: x.erfc(), *ONE_SIDE),
    *rows(
        "where", lambda t, a, b, condition: t.where(t.tensor(condition), a, b), at((3, 5), (3, 5), condition=mask(3, 5)),
        at((5,), (3, 1), condition=mask(3, 5)), at((3, 1), (5,), condition=mask(2, 1, 5)), at((3, 5), 2.5, condition=mask(5)),
        at(2.5, (3, 5), condition=mask(3, 1)), at((), (), condition=np.array(True)), at((0, 3), (3,), condition=mask(3)),
    ),
    *rows("maximum", lambda t, a, b: t.maximum(t.as_tensor(a), t.as_tensor(b)), *TWO_SIDES, domain=nonzero),
    *rows("minimum", lambda t, a, b: t.minimum(t.as_tensor(a), t.as_tensor(b)), *TWO_SIDES, domain=nonzero),
    *rows(
        "clamp", lambda t, x, low, high: x.clamp(low, high), at((3, 5), low=-0.6, high=0.7), at((3, 5), low=0.1, high=None),
        at((3, 5), low=None, high=0.1), at((), low=-0.6, high=0.7), at((0, 3), low=0, high=1),
    ),
    *rows(
        "cast", lambda t, x, dtype: x.to(getattr(t, dtype)), *[at(s, dtype=d) for s in ((3, 5), ()) for d in ("float32", "float64")],
        domain=dyadic,
    ),
    *rows("sum", lambda t, x, axis=None, keepdims=False: x.sum(dims(x, axis), keepdims), *REDUCED, at((0, 3)), at((0, 3), axis=0)),
    *rows("max", lambda t, x, axis=None, keepdims=False: x.amax(dims(x, axis), keepdims), *REDUCED, domain=distinct),
    *rows(
        "norm", lambda t, x, axis=None, keepdims=False: t.linalg.vector_norm(x, 2, dims(x, axis), keepdims), *REDUCED,
        at((0, 3)), at((0, 3), axis=0), domain=nonzero,
    ),
    *rows(
        "logsumexp", lambda t, x, axis, keepdims=False: x.logsumexp(dims(x, axis), keepdims),
        *[at(*inputs, **{"axis": None} | options) for inputs, options in REDUCED],
    ),
    *rows(
        "prod", lambda t, x, axis, keepdims=False: x.prod(axis, keepdims), *ALONG, at((2, 3, 5), axis=1, keepdims=True), domain=some_zeros,
    ),
    *rows("cumsum", lambda t, x, axis: x.cumsum(axis), *ALONG),
    *rows(
        "softmax", lambda t, x, axis: x.softmax(axis),
        *ALONG, at((223, 5), axis=1), at((223, 5), axis=0), at((2, 83, 7), axis=-1), at((2, 263), axis=1),
    ),
    *rows("log_softmax", lambda t, x, axis: x.log_softmax(axis), *ALONG[:-1], at((), axis=0), at((223, 5), axis=1), at((2, 263), axis=1)),
    *rows(
        "cross_entropy", cross_entropy,
        at((3, 5), target=ids(1, 0, 4), kept=ids(1, 1, 1) > 0), at((3, 5), target=ids(1, 0, 4), kept=ids(1, 0, 1) > 0),
        at((2, 3), target=ids(2, 2), kept=ids(0, 1) > 0, smoothing=0.3), at((0, 3), target=np.zeros(0, int), kept=np.zeros(0, bool)),
        at((3, 5), target=ids(1, 0, 4), kept=ids(1, 0, 1) > 0, divisor=2.0), at((2, 3), target=ids(2, 1), kept=ids(1, 1) > 0, divisor=1.0),
    ),
    *rows(
        "standardize", lambda t, x, axis, eps: (x - x.mean(axis, True)) / ((x - x.mean(axis, True)).square().mean(axis, True) + eps).sqrt(),
        *EPSILONS, at((0, 3), axis=-1, eps=0.1),
    ),
    *rows(
        "rms_normalize", lambda t, x, axis, eps: x / (x.square().mean(axis, True) + eps).sqrt(), *EPSILONS, at((0, 3), axis=-1, eps=0.1),
    ),
    *rows(
        "reshape", lambda t, x, shape: x.reshape(shape),
        at((2, 3, 5), shape=(5, 6)), at((2, 3), shape=(6,)), at((), shape=(1, 1)), at((0, 3), shape=(5, 0)),
    ),
    *rows(
        "transpose", lambda t, x, axes: x.permute(axes), at((2, 3, 5), axes=(1, 2, 0)), at((2, 3, 5), axes=(2, 0, 1)),
        at((2, 3, 5), axes=(-1, 0, -2)), at((3, 5), axes=(1, 0)), at((), axes=()), at((0, 3), axes=(1, 0)),
    ),
    *rows("swapaxes", lambda t, x, i, j: x.swapaxes(i, j), at((2, 3, 5), i=0, j=2), at((2, 3, 5), i=1, j=1), at((0, 3), i=1, j=0)),
    *rows(
        "expand", lambda t, x, shape: x.expand(shape), at((3, 1), shape=(3, 5)), at((3,), shape=(2, 3)), at((1, 3), shape=(2, 5, 3)),
        at((), shape=(3,)), at((1,), shape=(0,)),
    ),
    *rows(
        "getitem", lambda t, x, index: x[as_torch(t, index)], *[at((5, 3), index=index) for index in PICKED], at((), index=()),
        at((5, 3), index=(np.arange(41) * 7 % 9 - 4,)), at((5, 2, 3), index=(np.arange(46).reshape(2, 23) % 4,)),
        at((2, 3, 5), index=(ids(1, 1), slice(None), ids(2, 0))),
    ),
    *rows(
        "take", lambda t, x, ids: x[t.tensor(ids).long()],
        at((5, 3), ids=ids(4, 0, 4)), at((5, 2, 3), ids=ids([1, 1], [0, -1])), at((5,), ids=ids(3, 3)), at((5, 3), ids=np.asarray(2)),
        at((5, 3), ids=np.zeros((2, 0), int)), at((0, 3), ids=np.zeros(0, int)), at((5, 0), ids=ids(1, 1)),
        at((300, 4), ids=np.array([3, -128, 127], np.int8)), at((300, 4), ids=np.array([255, 0], np.uint8)),
    ),
    *rows(
        "scatter", lambda t, x, source, index: x.index_put(as_torch(t, index), t.as_tensor(source, dtype=x.dtype)),
        at((3, 5), (2,), index=(ids(0, 2), ids(4, 1))), at((3, 5), (2, 2), index=(ids([0], [2]), ids([4, 1], [0, 3]))),
        at((3, 5), 2.5, index=(ids(0, 2), ids(4, 1))),
    ),
    *rows(
        "concatenate", lambda t, *x, axis: t.cat(x, axis), at((2, 3), (5, 3), (1, 3), axis=0), at((2, 3, 5), (2, 7, 5), axis=1),
        at((2, 3, 5), (2, 3, 1), axis=-1), at((3,), axis=0), at((0, 3), (2, 3), axis=0),
    ),
    *rows("triu", lambda t, x, diagonal: x.triu(diagonal), *DIAGONALS),
    *rows("tril", lambda t, x, diagonal: x.tril(diagonal), *DIAGONALS),
    *rows("contiguous", lambda t, x: x.contiguous(), at((2, 3, 5)), at(()), at((0, 3))),
]  # fmt: skip

# Where differences say nothing: kinks, ties, ends. (op, inputs, options, incoming gradient, value, gradients)
INF, NAN = np.inf, np.nan
CORNERS: list[Any] = [
    ("abs", [[-2, 0, 3]], {}, [5, 5, 5], [2, 0, 3], [[-5, 0, 5]]),
    ("relu", [[-2, 0, 3]], {}, [5, 5, 5], [0, 0, 3], [[0, 0, 5]]),
    ("sqrt", [[0, 4]], {}, [1, 1], [0, 2], [[INF, 0.25]]),
    ("log", [[0, 2]], {}, [1, 1], [-INF, np.log(2)], [[INF, 0.5]]),
    ("exp", [[1000, -1000]], {}, [1, 1], [INF, 0], [[INF, 0]]),
    ("sigmoid", [[-1000, 0, 1000]], {}, [1, 1, 1], [0, 0.5, 1], [[0, 0.25, 0]]),
    ("div", [[0, 1], [0, 0]], {}, [1, 1], [NAN, INF], [[INF, INF], [NAN, -INF]]),
    ("pow", [[0, 0, 0, 0], [0, 1, 2, 0.5]], {}, [3, 3, 3, 3], [1, 0, 0, 0], [[0, 3, 0, INF], [0, 0, 0, 0]]),
    ("pow", [[0, 3], 0], {}, [1, 1], [1, 1], [[0, 0]]),
    ("pow", [[-2, -2], [3, 2]], {}, [1, 1], [-8, 4], [[12, -4], [NAN, NAN]]),
    ("pow", [[2, 0], 0], {}, [NAN, INF], [1, 1], [[0, 0]]),
    ("maximum", [[1, 2], [2, 1]], {}, [NAN, INF], [2, 2], [[0, INF], [NAN, 0]]),
    ("minimum", [[1, 2], [2, 1]], {}, [NAN, INF], [1, 1], [[NAN, 0], [0, INF]]),
    ("maximum", [[1, 2, 3], [2, 2, 2]], {}, [4, 4, 4], [2, 2, 3], [[0, 2, 4], [4, 2, 0]]),
    ("minimum", [[1, 2, 3], [2, 2, 2]], {}, [4, 4, 4], [1, 2, 2], [[4, 2, 0], [0, 2, 4]]),
    ("clamp", [[-1, 0, 1, 2]], {"low": 0, "high": 1}, [3, 3, 3, 3], [0, 0, 1, 1], [[0, 3, 3, 0]]),
    ("max", [[1, 4, 4]], {}, 6, 4, [[0, 3, 3]]),
    ("max", [[[2, 1], [2, 5]]], {"axis": 0}, [6, 7], [2, 5], [[[3, 0], [3, 7]]]),
    ("norm", [[0, 0]], {}, 5, 0, [[0, 0]]),
    ("norm", [[[3, 4], [0, 0]]], {"axis": 1}, [10, 10], [5, 0], [[[6, 8], [0, 0]]]),
    ("prod", [[[2, 0, 5], [0, 0, 3]]], {"axis": 1}, [1, 1], [0, 0], [[[0, 10, 0], [0, 0, 0]]]),
    ("softmax", [[0, 0, -INF]], {"axis": 0}, [1, 0, 5], [0.5, 0.5, 0], [[0.25, -0.25, 0]]),
    ("softmax", [[1000, 0]], {"axis": 0}, [1, 0], [1, 0], [[0, 0]]),
    ("softmax", [[-INF, -INF]], {"axis": 0}, [1, 0], [NAN, NAN], [[NAN, NAN]]),
    ("log_softmax", [[0, -200]], {"axis": 0}, [0, 1], [0, -200], [[-1, 1]]),
    ("log_softmax", [[0, -INF]], {"axis": 0}, [1, 0], [0, -INF], [[0, 0]]),
    ("logsumexp", [[1000, 1000]], {"axis": 0}, 2, 1000 + np.log(2), [[1, 1]]),
    ("logsumexp", [[0, -INF]], {"axis": 0}, 2, 0, [[2, 0]]),
    ("logsumexp", [[-INF, -INF]], {"axis": 0}, 1, -INF, [[NAN, NAN]]),
    ("logsumexp", [[INF, 1]], {"axis": 0}, 1, INF, [[NAN, 0]]),
    ("getitem", [[5, 6, 7]], {"index": ids(0, 0, 2, 0)}, [1, 10, 100, 1000], [5, 5, 7, 5], [[1011, 0, 100]]),
]
OWN_CORNERS: list[Any] = [  # PyTorch has NaN in the first two (from amax; max has 6 and inf too), and inf in the third
    ("max", [[1, NAN, 2]], {}, 6, NAN, [[0, 6, 0]]),
    ("max", [[1, 4, 4]], {}, INF, 4, [[0, INF, INF]]),
    ("norm", [[3e200, 4e200]], {}, 10, 5e200, [[6, 8]]),
]


def as_torch(t: Any, index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(as_torch(t, part) for part in index)
    return t.tensor(index) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("op", ["softmax", "log_softmax", "cross_entropy"])
def test_many_short_rows_far_from_0_lose_nothing(op: str) -> None:
    rows = np.array([[-1000.0, -1001.0], [1000.0, 999.0]]).repeat(401, axis=0)
    p = np.array([np.e, 1.0]) / (np.e + 1.0)
    expected = {"softmax": p, "log_softmax": np.log(p), "cross_entropy": -np.log(p[1])}[op]
    options = {"target": np.ones(802, int), "kept": np.ones(802, bool)} if op == "cross_entropy" else {"axis": 1}
    value = getattr(ops, op)(rows, **options)[0]
    assert np.allclose(value, expected, rtol=1e-12, atol=0)


every_row = pytest.mark.parametrize("row", TABLE, ids=str)


# The tests ----------------------------------------------------------------------------------------------------


@functools.cache
def differences(row: Row) -> tuple[np.ndarray, list[np.ndarray]]:
    """A random cotangent c, and d(y . c)/dx for each input array by central differences."""
    arrays = row.arrays()
    y, pairs = row.run(arrays)
    c = frozen(np.asarray(np.random.default_rng(1).standard_normal(y.shape), y.dtype))
    slopes = []
    for x, _ in pairs:
        place, slope = next(i for i, a in enumerate(arrays) if a is x), np.zeros(x.shape)
        for index in np.ndindex(*x.shape):
            ends = []
            for step in (EPS, -EPS):
                moved = x.copy()
                moved[index] += step
                value, _ = row.run([*arrays[:place], moved, *arrays[place + 1 :]])
                ends.append(np.sum(value.astype(np.float64) * c))
            slope[index] = (ends[0] - ends[1]) / (2 * EPS)
        slopes.append(slope)
    return c, slopes


def assert_close(got: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """The error, as a vector, against the length of what is expected (or 0.1 where that is shorter)."""
    assert got.shape == expected.shape
    error, scale = np.linalg.norm(got - expected), max(np.linalg.norm(expected), 0.1)
    assert error <= tolerance * scale, f"relative error {error / scale:.2g}\ngot {got}\nexpected {expected}"


@every_row
def test_each_gradient_function_agrees_with_central_differences(row: Row) -> None:
    c, slopes = differences(row)
    _, pairs = row.run(row.arrays())
    for (x, vjp), slope in zip(pairs, slopes, strict=True):
        assert_close(unbroadcast(vjp(c), x.shape), slope, 1e-6)


@every_row
def test_backward_agrees_with_central_differences(row: Row) -> None:
    c, slopes = differences(row)
    inputs = [tensor(x, requires_grad=True) if isinstance(x, np.ndarray) else x for x in row.arrays()]
    y = apply(getattr(ops, row.op), *inputs, **row.options)
    y.backward(tensor(c))
    for x, slope in zip([x for x in inputs if not isinstance(x, int | float)], slopes, strict=True):
        assert x.grad.dtype == np.float64
        assert_close(x.grad.numpy(), slope, 1e-6)


@every_row
def test_values_and_gradients_are_those_of_pytorch(row: Row, torch: Any) -> None:
    arrays = row.arrays()
    y, pairs = row.run(arrays)
    inputs = [torch.tensor(x, requires_grad=True) if isinstance(x, np.ndarray) else x for x in arrays]
    expected = row.torch(torch, *inputs, **row.options)
    assert_close(y, expected.detach().numpy(), 1e-9)
    c, _ = differences(row)
    leaves = [x for x in inputs if isinstance(x, torch.Tensor)]
    for (x, vjp), grad in zip(pairs, torch.autograd.grad(expected, leaves, torch.tensor(c), allow_unused=True), strict=True):
        assert_close(unbroadcast(vjp(c), x.shape), np.zeros(x.shape) if grad is None else grad.numpy(), 1e-9)


@every_row
def test_float32_stays_float32(row: Row) -> None:
    dtype = row.options.get("dtype", "float32")
    y, pairs = row.run(row.arrays(np.float32))
    y64, pairs64 = row.run(row.arrays())
    assert y.dtype == dtype
    assert_close(y.astype(np.float64), y64, 1e-5)
    c = np.random.default_rng(1).standard_normal(y.shape).astype(dtype)
    for (x, vjp), (_, vjp64) in zip(pairs, pairs64, strict=True):
        dx = vjp(c)
        assert dx.dtype == np.float32
        assert_close(unbroadcast(dx, x.shape).astype(np.float64), unbroadcast(vjp64(c.astype(y64.dtype)), x.shape), 1e-5)


def check_corner(corner: Any, leaf: Callable[..., Any], constant: Callable[..., Any], call: Callable[..., Any]) -> None:
    op, inputs, options, g, value, gradients = corner
    leaves = [leaf(np.array(x, float), requires_grad=True) if isinstance(x, list) else x for x in inputs]
    y = call(op, *leaves, **options)
    np.testing.assert_allclose(y.detach().numpy(), value, rtol=1e-12)
    y.backward(constant(np.array(g, float)))
    for x, gradient in zip(leaves, gradients, strict=False):
        np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-12)


@pytest.mark.parametrize("corner", CORNERS + OWN_CORNERS, ids=str)
def test_corner_points_worked_out_by_hand(corner: Any) -> None:
    check_corner(corner, tensor, tensor, lambda op, *inputs, **options: apply(getattr(ops, op), *inputs, **options))


@pytest.mark.parametrize("corner", CORNERS, ids=str)
def test_pytorch_says_the_same_of_corner_points(corner: Any, torch: Any) -> None:
    functions = {row.op: row.torch for row in TABLE}
    check_corner(corner, torch.tensor, torch.tensor, lambda op, *inputs, **options: functions[op](torch, *inputs, **options))


@pytest.mark.parametrize("shape", [(5,), (3, 5), (223, 5), (2, 83, 7), (2, 263)])
@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("top", [1000, -1000])
def test_softmax_and_its_kin_bear_large_numbers_in_every_place(shape: tuple[int, ...], place: int, top: float) -> None:
    x = np.full(shape, top - 1000, np.float32)
    x[..., place] = top
    expected = (x == top).astype(np.float32)
    np.testing.assert_array_equal(ops.softmax(x, -1)[0], expected)
    np.testing.assert_array_equal(ops.log_softmax(x, -1)[0], 1000 * (expected - 1))
    np.testing.assert_array_equal(ops.logsumexp(x, -1)[0], np.full(shape[:-1], top))


PUBLIC = {name: f for name, f in vars(ops).items() if inspect.isfunction(f) and not name.startswith("_")}


def test_every_op_is_in_the_table() -> None:
    assert {row.op for row in TABLE} == set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_docstring_says_formula_then_the_derivative_for_each_input(name: str) -> None:
    form = re.fullmatch(r"[yY](?:_i)? = (?P<formula>.+?)\.\s{3,}(?P<rules>d\w+ = .+)", PUBLIC[name].__doc__ or "", re.DOTALL)
    assert form, PUBLIC[name].__doc__
    ruled = re.findall(r"\bd([A-Za-z]+?)(?:_i)? = ", form["rules"])
    row = next(row for row in TABLE if row.op == name)
    _, *vjps = PUBLIC[name](*row.arrays(), **row.options)
    inputs = ["x"] if name == "concatenate" else list(inspect.signature(PUBLIC[name]).parameters)[: len(vjps)]
    assert [r.lower() for r in ruled] == [x if len(r) > 1 else x[0] for x, r in zip(inputs, ruled, strict=True)]
