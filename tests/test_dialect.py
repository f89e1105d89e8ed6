"""The PyTorch names: each exists and does what PyTorch does, in value, dtype, shape and gradient.

One table of calls says so three times over: against NumPy, against finite differences, and against PyTorch where it is installed.
"""

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import minigrad
from minigrad import Tensor, gradcheck, tensor

# The names ----------------------------------------------------------------------------------------------------


def names(text: str) -> list[str]:
    return text.split()


MAKING = names("""tensor as_tensor from_numpy zeros ones full eye arange linspace zeros_like ones_like full_like rand_like randn_like
    rand randn randint randperm multinomial manual_seed""")
CONSTANTS = names("float32 float64 int64 long bool inf nan pi")
BOTH = names("""abs exp log sqrt rsqrt sin cos tanh sigmoid relu pow add mul clamp maximum minimum where matmul
    sum mean var std max min argmax argmin all any norm logsumexp cumsum prod topk sort
    reshape transpose permute swapaxes t flatten squeeze unsqueeze split chunk clone
    masked_fill triu tril gather scatter index_select softmax log_softmax allclose equal isnan isinf""")
FUNCTIONS = names("cat stack")
METHODS = names("view T mT expand expand_as contiguous repeat size shape dim ndim numel float double long bool to cpu tolist item")
ELSEWHERE = names("""backward grad requires_grad requires_grad_ is_leaf retain_grad detach zero_ numpy data device dtype
    __getitem__ __setitem__ __array__ __len__ __iter__ __float__ __int__ __bool__ __index__ __repr__ __format__""")


@pytest.mark.parametrize("name", MAKING + CONSTANTS + BOTH + FUNCTIONS + ["no_grad", "optim", "save", "load", "gradcheck", "cuda"])
def test_the_module_has_the_name(name: str) -> None:
    assert hasattr(minigrad, name)
    assert name in minigrad.__all__


@pytest.mark.parametrize("name", BOTH + METHODS + ELSEWHERE)
def test_tensors_have_the_name(name: str) -> None:
    assert hasattr(Tensor, name)


def test_all_names_lead_to_something_and_every_function_to_its_docstring() -> None:
    for name in minigrad.__all__:
        found = getattr(minigrad, name)
        assert not callable(found) or found.__doc__, name


# The table of calls -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Call:
    name: Any  # of a function and of a method; or an operator
    reference: Callable[..., Any]  # the same with NumPy's means
    args: tuple[Any, ...]  # an array stands for a tensor
    kwargs: dict[str, Any]
    form: str  # "function", "method" or "both"

    def __str__(self) -> str:
        args = ["x".join(map(str, a.shape)) or "0-d" if isinstance(a, np.ndarray) else str(a)[:20] for a in self.args]
        return "-".join([getattr(self.name, "__name__", self.name), *args, *map(str, self.kwargs.items())]).replace(" ", "")

    def floats(self) -> list[np.ndarray]:
        """The arrays that are differentiated."""
        flat = [a for x in self.args for a in (x if x is PAIR else [x])]
        return [a for a in flat if isinstance(a, np.ndarray) and a.dtype.kind == "f"]

    def expected(self) -> tuple[Any, ...]:
        """What NumPy answers. Its warnings don't count: once in some hundred runs finite numbers gave one of an invalid value."""
        with np.errstate(all="ignore"):
            return outputs(self.reference(*self.args, **self.kwargs))

    def answers(self, module: Any, make: Callable[[np.ndarray], Any]) -> Iterator[tuple[Any, ...]]:
        """The outputs of each spelling of the call."""
        args = [[make(a) for a in x] if x is PAIR else make(x) if isinstance(x, np.ndarray) else x for x in self.args]
        if callable(self.name):
            yield outputs(self.name(*args, **self.kwargs))
        if self.form != "method" and self.name not in METHODS and hasattr(module, str(self.name)):
            yield outputs(getattr(module, self.name)(*args, **self.kwargs))
        if self.form != "function" and not callable(self.name):
            found = getattr(args[0], self.name)
            yield outputs(found(*args[1:], **self.kwargs) if callable(found) else found)


def outputs(y: Any) -> tuple[Any, ...]:
    return tuple(y) if isinstance(y, tuple | list) and y and hasattr(y[0], "shape") else (y,)


def at(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


def calls(name: Any, reference: Callable[..., Any], *entries: Any, form: str = "both") -> list[Call]:
    return [Call(name, reference, args, kwargs, form) for args, kwargs in entries]


def sample(seed: int, *shape: int) -> np.ndarray:
    return np.array(np.random.default_rng(seed).standard_normal(shape), np.float32)


X, Y, M, N, V, NUMBER = sample(1, 2, 3, 5), sample(2, 2, 3, 5), sample(3, 3, 5), sample(4, 5, 7), sample(5, 5), sample(6)
THIN, PAIR = sample(7, 1, 3, 1), [X, Y]
POSITIVE = np.abs(X) + np.float32(0.5)
INTS = np.array([[3, 0, 4], [2, 5, 1]])
COLUMN = np.array([[2], [0]])
MASK, MASK2, MASK3 = X > 0, M > 0, Y[:, :1] > 0
HOLES = np.array([1.0, math.nan, math.inf, -math.inf], np.float32)
REPEATED = np.array([[[0, 2], [1, 1], [4, 0]], [[4, 4], [2, 0], [3, 3]]])
UNIQUE = np.array([[[0, 2], [1, 3], [4, 0]], [[4, 1], [2, 0], [3, 1]]])


def reduced(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim=None, keepdim=False: f(x, axis=dim, keepdims=keepdim)


def spread(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim=None, unbiased=True, keepdim=False: f(x, axis=dim, ddof=int(unbiased), keepdims=keepdim)


def extreme(f: Callable[..., Any], where: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim, keepdim=False: (f(x, axis=dim, keepdims=keepdim), where(x, axis=dim, keepdims=keepdim))


def norm(x: np.ndarray, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    if p == math.inf:
        return np.abs(x).max(dim, keepdims=keepdim)
    p = 2 if p == "fro" else p
    return (np.abs(x) ** p).sum(dim, keepdims=keepdim) ** (1 / p)


def logsumexp(x: np.ndarray, dim: Any, keepdim: bool = False) -> Any:
    return np.log(np.exp(x).sum(dim, keepdims=keepdim))


def ordered(x: np.ndarray, dim: int = -1, descending: bool = False) -> Any:
    order = np.argsort(-x if descending else x, dim, kind="stable")
    return np.take_along_axis(x, order, dim), order


def top(x: np.ndarray, k: int, dim: int = -1) -> Any:
    return tuple(y.take(range(k), dim) for y in ordered(x, dim, descending=True))


def softmax(x: np.ndarray, dim: int) -> np.ndarray:
    return np.exp(x) / np.exp(x).sum(dim, keepdims=True)


def to_shape(x: np.ndarray, *shape: Any) -> np.ndarray:
    return x.reshape(*shape)


def tiled(x: np.ndarray, *times: Any) -> np.ndarray:
    return np.tile(x, times)


def in_pieces(x: np.ndarray, *ends: int) -> Callable[..., Any]:
    return lambda _, size, dim=0: tuple(np.split(x, ends, dim))


def filled(x: np.ndarray, mask: np.ndarray, value: Any) -> np.ndarray:
    return np.where(mask, value, x)


def picked(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    return np.take_along_axis(x, index, dim)


def put(x: np.ndarray, dim: int, index: np.ndarray, source: Any) -> np.ndarray:
    y = x.copy()
    np.put_along_axis(y, index, source if np.ndim(source) == 0 else source[tuple(map(slice, index.shape))], dim)
    return y


MATRICES = [(M, N), (X, N), (X, sample(7, 2, 5, 7)), (sample(7, 2, 1, 3, 5), sample(8, 7, 5, 11)), (INTS, INTS.T)]
VECTORS = [(M, V), (V, N), (V, V), (X, V), (V, sample(7, 2, 5, 7)), (sample(7, 3, 3), sample(8, 3)), (sample(7, 3), sample(8, 3, 3))]

CALLS = [
    *calls("abs", np.abs, at(X), at(-INTS)),
    *calls("exp", np.exp, at(X), at(INTS)),
    *calls("log", np.log, at(POSITIVE)),
    *calls("sqrt", np.sqrt, at(POSITIVE)),
    *calls("rsqrt", lambda x: 1 / np.sqrt(x), at(POSITIVE)),
    *calls("sin", np.sin, at(X)),
    *calls("cos", np.cos, at(X)),
    *calls("tanh", np.tanh, at(X)),
    *calls("sigmoid", lambda x: 1 / (1 + np.exp(-x)), at(X), at(NUMBER), at(INTS)),
    *calls("relu", lambda x: np.maximum(x, 0), at(X), at(-INTS)),
    *calls("pow", np.power, at(POSITIVE, M), at(X, 2), at(X, 3.0), at(POSITIVE, -0.5), at(INTS, 2)),
    *calls("add", np.add, at(X, M), at(X, 2)),
    *calls("mul", np.multiply, at(X, Y[:, :1]), at(X, 2.5)),
    *calls("clamp", lambda x, min=None, max=None: np.clip(x, min, max), at(X, -0.5, 0.5), at(X, min=0), at(X, max=0.3), at(INTS, 1, 3)),
    *calls("clamp", lambda x, min, max: np.clip(x.astype(np.float32), min, max), at(INTS, 0.5, 3.5)),
    *calls("maximum", np.maximum, at(X, Y), at(X, M), at(INTS, INTS[:, :1])),
    *calls("minimum", np.minimum, at(X, Y), at(X, M), at(INTS, INTS[:, :1]), at(MASK, MASK2), at(*INTS.astype(np.uint8))),
    *calls("where", np.where, at(MASK, X, Y), at(MASK2, X, 0.0), at(MASK3, 2, X), at(MASK, X[..., :1], M[0]), form="function"),
    *calls("where", lambda *args: np.where(*args).astype(np.float32), at(MASK, 1.0, 2), at(MASK, 1, 2.0), form="function"),
    *calls("where", np.where, at(MASK, 1, 2), at(MASK, True, False), form="function"),
    *calls("where", lambda x, condition, other: np.where(condition, x, other), at(X, MASK, Y), at(X, MASK3, 0.0), form="method"),
    *calls("matmul", np.matmul, *[at(a, b) for a, b in MATRICES + VECTORS]),
    *calls("sum", reduced(np.sum), at(X), at(X, 1), at(X, -1), at(X, dim=(0, -1), keepdim=True), at(INTS), at(MASK, 0), at(NUMBER)),
    *calls("mean", reduced(np.mean), at(X), at(X, (0, 2)), at(X, -1, keepdim=True)),
    *calls("var", spread(np.var), at(X), at(X, 1), at(X, (0, 2)), at(X, dim=-1, unbiased=False, keepdim=True)),
    *calls("std", spread(np.std), at(X), at(X, 1), at(X, unbiased=False), at(X, (0, 2), unbiased=False, keepdim=True)),
    *calls("max", np.max, at(X), at(INTS), at(MASK)),
    *calls("max", extreme(np.max, np.argmax), at(X, 1), at(X, dim=-1, keepdim=True), at(INTS, 0)),
    *calls("max", np.maximum, at(X, Y)),
    *calls("min", np.min, at(X), at(INTS), at(MASK), at(INTS.astype(np.uint8))),
    *calls("min", extreme(np.min, np.argmin), at(X, 1), at(X, dim=-1, keepdim=True), at(INTS, 0)),
    *calls("min", np.minimum, at(X, Y)),
    *calls("argmax", reduced(np.argmax), at(X), at(X, 1), at(X, dim=-1, keepdim=True), at(HOLES)),
    *calls("argmin", reduced(np.argmin), at(X), at(INTS, 0), at(X, -1, True)),
    *calls("all", reduced(np.all), at(MASK), at(INTS, 1), at(MASK, dim=(0, 1), keepdim=True)),
    *calls("any", reduced(np.any), at(MASK), at(X, 1), at(MASK, 0, True)),
    *calls("norm", norm, at(X), at(X, 1), at(X, math.inf), at(X, "fro"), at(X, dim=1), at(X, 1, -1), at(X, 2, (0, 2), True)),
    *calls("norm", norm, at(X, p=math.inf, dim=-1, keepdim=True), at(NUMBER)),
    *calls("logsumexp", logsumexp, at(X, 1), at(X, (0, -1), keepdim=True), at(X, dim=-1)),
    *calls("cumsum", np.cumsum, at(X, 1), at(X, -1), at(INTS, 0)),
    *calls("cumsum", lambda x, dim: x, at(NUMBER, 0)),
    *calls("cumsum", lambda x, dim: x.astype(np.int64), at(np.array(True), 0)),
    *calls("prod", reduced(np.prod), at(M), at(X, 1), at(X, -1, keepdim=True), at(INTS)),
    *calls("prod", lambda x, dim, keepdim=False: x, at(NUMBER, 0), at(NUMBER, -1, keepdim=True)),
    *calls("topk", top, at(X, 2), at(X, 2, 1), at(X, k=1, dim=0), at(V, 5), at(INTS, 3)),
    *calls("sort", ordered, at(X), at(X, 1), at(X, dim=0, descending=True), at(INTS)),
    *calls("softmax", softmax, at(X, 1), at(X, dim=-1)),
    *calls("log_softmax", lambda x, dim: np.log(softmax(x, dim)), at(X, 0), at(X, dim=-1)),
    # shape
    *calls("reshape", to_shape, at(X, (5, 6)), at(X, (-1, 5)), at(X, (-1,))),
    *calls("reshape", to_shape, at(X, 3, -1), at(X, 30), form="method"),
    *calls("view", to_shape, at(X, 3, 10), at(X, (-1, 5)), at(X, -1), at(NUMBER, 1), form="method"),
    *calls("transpose", np.swapaxes, at(X, 0, 1), at(X, -1, 0)),
    *calls("swapaxes", np.swapaxes, at(X, 1, 2)),
    *calls("permute", np.transpose, at(X, (2, 0, 1)), at(X, (-1, 0, -2))),
    *calls("permute", lambda x, *dims: x.transpose(dims), at(X, 1, 2, 0), form="method"),
    *calls("t", np.transpose, at(M), at(V), at(NUMBER)),
    *calls("T", np.transpose, at(M)),
    *calls("mT", lambda x: x.swapaxes(-1, -2), at(X)),
    *calls("flatten", np.ravel, at(X), at(NUMBER)),
    *calls("flatten", lambda x, start_dim, end_dim=-1: x.reshape(2, 15), at(X, 1), at(X, start_dim=-2, end_dim=2)),
    *calls("flatten", lambda x, start_dim, end_dim: x.reshape(6, 5), at(X, 0, 1)),
    *calls("squeeze", np.squeeze, at(THIN), at(THIN, -1), at(THIN, (0, 2)), at(X)),
    *calls("squeeze", lambda x, dim: x, at(X, 1), at(THIN, dim=1)),
    *calls("unsqueeze", lambda x, dim: np.expand_dims(x, dim), at(X, 0), at(X, -1), at(X, dim=2), at(NUMBER, 0)),
    *calls("expand", lambda x, *sizes: np.broadcast_to(x, (2, 3, 5)), at(M, 2, 3, 5), at(V, (2, 3, -1)), at(X[:, :1], -1, 3, -1)),
    *calls("expand_as", lambda x, other: np.broadcast_to(x, other.shape), at(M, X), at(X[..., :1], X)),
    *calls("repeat", tiled, at(M, 2, 3), at(V, 2, 3, 1), at(V, 0)),
    *calls("repeat", np.tile, at(M, (2, 3))),
    *calls("split", in_pieces(X, 2, 4), at(X, 2, -1)),
    *calls("split", in_pieces(X, 1, 3), at(X, [1, 2, 2], dim=2)),
    *calls("chunk", in_pieces(X, 1), at(X, 2)),
    *calls("chunk", in_pieces(X, 3), at(X, 2, dim=-1)),
    *calls("chunk", in_pieces(M, 1, 2), at(M, 7)),
    *calls("chunk", lambda x, chunks: (x,) * chunks, at(M[:0], 4)),
    *calls("cat", lambda tensors, dim=0: np.concatenate(tensors, dim), at(PAIR), at(PAIR, 1), at(PAIR, dim=-1), form="function"),
    *calls("stack", lambda tensors, dim=0: np.stack(tensors, dim), at(PAIR), at(PAIR, 1), at(PAIR, dim=-1), form="function"),
    *calls("contiguous", lambda x: x, at(X), at(X.transpose(2, 0, 1))),
    *calls("clone", np.copy, at(X)),
    *calls("size", lambda x: x.shape, at(X), at(NUMBER), form="method"),
    *calls("size", lambda x, dim: x.shape[dim], at(X, 0), at(X, -1), form="method"),
    *calls("shape", np.shape, at(X)),
    *calls("dim", np.ndim, at(X)),
    *calls("ndim", np.ndim, at(X)),
    *calls("numel", np.size, at(X), at(NUMBER)),
    *calls(len, len, at(X)),
    # picking
    *calls("masked_fill", filled, at(X, MASK, -7.5), at(X, MASK2, -math.inf), at(X, MASK3, 0), at(X, MASK, NUMBER), at(INTS, INTS > 2, 0)),
    *calls("triu", np.triu, at(M), at(X), at(M, 1), at(X, -1), at(M, 9)),
    *calls("tril", lambda x, diagonal=0: np.tril(x, diagonal), at(M), at(X, 1), at(M, -1), at(X, diagonal=-9)),
    *calls("gather", picked, at(X, 2, REPEATED), at(X, -1, UNIQUE), at(M, 0, np.array([[0, 2, 0, 0, 1]])), at(INTS, 1, COLUMN)),
    *calls("gather", lambda x, dim, index: picked(x[:1], dim, index), at(X, 2, REPEATED[:1])),
    *calls("scatter", put, at(X, 2, UNIQUE, 7.5), at(X, 2, UNIQUE, Y), at(X, -1, UNIQUE, Y[..., :2]), at(INTS, 1, COLUMN, 9)),
    *calls("index_select", lambda x, dim, index: x.take(index, dim), at(X, 1, np.array([2, 0, 2])), at(X, -1, np.array([1]))),
    # operators
    *[
        c for op in (operator.add, operator.mul, operator.sub, operator.truediv)
        for c in calls(op, op, at(X, M + 3), at(X, 2), at(2.5, X + 4))
    ],
    *calls(operator.truediv, lambda a, b: (a / b).astype(np.float32), at(INTS, 2), at(1, INTS + 1)),
    *calls(operator.pow, operator.pow, at(POSITIVE, Y), at(X, 2), at(2.0, X), at(INTS, 2), at(2, INTS), at(POSITIVE, 0.5)),
    *calls(operator.matmul, operator.matmul, at(X, N)),
    *calls(operator.neg, operator.neg, at(X), at(INTS)),
    *calls(operator.abs, operator.abs, at(X)),
    *[
        c for op in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
        for c in calls(op, op, at(X, Y), at(INTS, INTS), at(INTS, 2), at(2, INTS), at(INTS, 2.5))
    ],
    *calls(operator.and_, operator.and_, at(MASK, MASK2), at(MASK, True), at(False, MASK)),
    *calls(operator.or_, operator.or_, at(MASK, MASK2), at(MASK, True), at(False, MASK)),
    *calls(operator.invert, operator.invert, at(MASK)),
    # comparing
    *calls("allclose", lambda *args, **kwargs: True, at(X, X * np.float32(1.000001)), at(X, X + 1, 0.0, 2.0)),
    *calls("allclose", lambda *args, **kwargs: True, at(HOLES, HOLES, equal_nan=True)),
    *calls("allclose", lambda *args, **kwargs: False, at(X, Y), at(HOLES, HOLES), at(X, X * np.float32(1.0001))),
    *calls("equal", np.array_equal, at(X, X.copy()), at(X, Y), at(X, M), at(HOLES, HOLES)),
    *calls("isnan", np.isnan, at(HOLES), at(INTS)),
    *calls("isinf", np.isinf, at(HOLES)),
    # dtypes and out to Python
    *calls("float", lambda x: x.astype(np.float32), at(INTS), at(MASK), at(X), form="method"),
    *calls("double", lambda x: x.astype(np.float64), at(INTS), at(X), form="method"),
    *calls("long", lambda x: x.astype(np.int64), at(X * 3), at(MASK), form="method"),
    *calls("bool", lambda x: x.astype(bool), at(INTS), at(HOLES), form="method"),
    *calls("to", lambda x, where: x, at(X, "cpu")),
    *calls("cpu", lambda x: x, at(X)),
    *calls("tolist", lambda x: x.tolist(), at(INTS), at(MASK)),
    *calls("item", lambda x: x.item(), at(NUMBER), at(INTS[:1, :1])),
]  # fmt: skip


every_call = pytest.mark.parametrize("call", CALLS, ids=str)


def plain(y: Any) -> np.ndarray:
    return np.asarray(y.detach() if hasattr(y, "detach") else y)


@every_call
def test_a_call_gives_what_numpy_gives(call: Call) -> None:
    dtypes = {"f": "float64" if call.name == "double" else "float32", "i": "int64", "u": "uint8", "b": "bool"}
    for got in call.answers(minigrad, tensor):
        for y, e in zip(got, call.expected(), strict=True):
            assert np.shape(plain(y)) == np.shape(e)
            np.testing.assert_allclose(plain(y), e, rtol=1e-5, atol=1e-6)
            if isinstance(y, Tensor):
                assert y.dtype == dtypes[np.asarray(e).dtype.kind]


@every_call
def test_a_call_gives_what_pytorch_gives(call: Call, torch: Any) -> None:
    expected = next(call.answers(torch, lambda a: torch.tensor(a, requires_grad=a.dtype.kind == "f")))
    for got in call.answers(minigrad, lambda a: tensor(a, requires_grad=a.dtype.kind == "f")):
        for y, e in zip(got, expected, strict=True):
            assert np.shape(plain(y)) == np.shape(plain(e))
            np.testing.assert_allclose(plain(y), plain(e), rtol=1e-5, atol=1e-6)
            if isinstance(y, Tensor):
                assert f"torch.{y.dtype}" == str(e.dtype)
                assert y.requires_grad == e.requires_grad


def differentiable(call: Call) -> bool:
    y = call.expected()[0]
    floats = isinstance(y, np.ndarray | np.floating) and y.dtype.kind == "f" and np.isfinite(y).all()
    return bool(floats and call.floats()) and call.name not in ("item", "float")


@pytest.mark.parametrize("call", [c for c in CALLS if differentiable(c)], ids=str)
def test_no_call_is_outside_the_graph_and_its_gradient_is_right(call: Call) -> None:
    def fn(*leaves: Tensor) -> Any:
        waiting = iter(leaves)
        return next(call.answers(minigrad, lambda a: next(waiting) if a.dtype.kind == "f" else tensor(a)))

    assert gradcheck(fn, [tensor(a.astype(np.float64), requires_grad=True) for a in call.floats()])


@pytest.mark.parametrize("name", names("sum mean max min softmax log_softmax logsumexp cumsum prod argmax argmin all any sort squeeze"))
@pytest.mark.parametrize("dim", [0, -1])
def test_a_single_number_has_the_dims_0_and_minus_1(name: str, dim: int, torch_or_none: Any) -> None:
    for module in filter(None, (minigrad, torch_or_none)):
        y = outputs(getattr(module.tensor(5.0), name)(dim))
        assert [part.shape for part in y] == [()] * len(y)
        first = {"softmax": 1.0, "log_softmax": 0.0, "argmax": 0, "argmin": 0, "all": True, "any": True}.get(name, 5.0)
        assert [part.item() for part in y] == [first, 0][: len(y)]


def test_every_name_has_a_row() -> None:
    in_table = {call.name for call in CALLS}
    assert set(BOTH + FUNCTIONS + METHODS) <= in_table
    as_functions = {call.name for call in CALLS if call.form != "method"}
    assert set(BOTH + FUNCTIONS) <= as_functions


# Indexing -----------------------------------------------------------------------------------------------------

# Index, and the same in NumPy's terms where those differ: an int beside arrays is applied first, not broadcast with them.
INDICES: list[tuple[Any, Any]] = [
    *[
        (index, lambda x, index=index: x[index])
        for index in (
            0, -1, (0, 1), (1, -1, 2), slice(1, None), (slice(None), slice(0, 3, 2)), (slice(None), 1), None, ..., (..., 0), (0, ..., None),
            (slice(2, 2),), np.array([1, 0, 1]), np.array([[0, 1], [1, 1]]), np.array([-1, 0]), (slice(None), np.array([2, 0, 0])),
            (np.array([0, 1]), np.array([2, 1])), (COLUMN // 2, np.array([2, 0])), (..., np.array([4, 4])), (None, np.array([1, 1])),
            (np.array([0, 1]), slice(None), np.array([3, 3])), MASK, MASK[:, :, 0], (slice(None), MASK[0, :, 0]), (0, np.array([1, 2])),
            np.array([], np.int64), (1, MASK[0, :, 0]),
        )
    ],
    ([1, 0, 1], lambda x: x[np.array([1, 0, 1])]),
    ((0, slice(None), np.array([4, 1])), lambda x: x[0][:, [4, 1]]),
    ((0, ..., np.array([4, 1])), lambda x: x[0][:, [4, 1]]),
    ((slice(None), np.array([[2], [0]]), ..., np.array([4, 1])), lambda x: x[:, [[2], [0]], [4, 1]]),
    ((np.array([1, 0, 1]), slice(None), -1), lambda x: x[:, :, -1][[1, 0, 1]]),
    ((None, 1, slice(None), np.array([4, 4])), lambda x: x[1][:, [4, 4]][None]),
]  # fmt: skip
every_index = pytest.mark.parametrize(("index", "reference"), INDICES, ids=[str(i).replace("\n", "") for i, _ in INDICES])


def with_tensors(index: Any, make: Callable[[np.ndarray], Any]) -> Any:
    if isinstance(index, tuple):
        return tuple(with_tensors(part, make) for part in index)
    return make(index) if isinstance(index, np.ndarray) else index


@every_index
def test_indexing_picks_and_its_gradient_adds_up(index: Any, reference: Any, torch_or_none: Any) -> None:
    expected = reference(X)
    for written in (index, with_tensors(index, tensor)):
        y = tensor(X)[written]
        assert y.shape == expected.shape
        np.testing.assert_array_equal(y.numpy(), expected)
    if expected.size:
        assert gradcheck(lambda x: x[index], tensor(X.astype(np.float64), requires_grad=True))
    if torch_or_none:
        np.testing.assert_array_equal(torch_or_none.tensor(X)[with_tensors(index, torch_or_none.tensor)].numpy(), expected)


@every_index
def test_item_assignment_on_a_constant(index: Any, reference: Any) -> None:
    places = reference(np.arange(X.size).reshape(X.shape))
    expected = X.copy()
    expected.reshape(-1)[places] = 7
    for written in (index, with_tensors(index, tensor)):
        x = tensor(X)
        x[written] = 7
        np.testing.assert_array_equal(x.numpy(), expected)
    value = np.arange(places.size, dtype=np.float32).reshape(places.shape) if len(np.unique(places)) == places.size else places * 0.0
    expected.reshape(-1)[places] = value
    x = tensor(X)
    x[index] = tensor(value)  # in the shape that x[index] has
    np.testing.assert_array_equal(np.where(x.numpy() == X, expected, x.numpy()), expected)
    np.testing.assert_array_equal(x.numpy().reshape(-1)[places], value)


# Views --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "shape", "fits"),
    [
        (lambda x: x, (30,), True),
        (lambda x: x.transpose(0, 1), (3, 2, 5, 1), True),
        (lambda x: x.transpose(0, 1), (3, 10), False),
        (lambda x: x.transpose(1, 2), (2, 15), False),
        (lambda x: x.transpose(1, 2).contiguous(), (2, 15), True),
        (lambda x: x.transpose(1, 2), (1, 2, 5, 3), True),
        (lambda x: x.permute(2, 0, 1), (5, 6), True),
        (lambda x: x[:, 1:], (2, 10), True),
        (lambda x: x[:, 1:], (20,), False),
        (lambda x: x[:, :, ::2], (6, 3), True),
        (lambda x: x[0, 0].expand(3, 5), (15,), False),
        (lambda x: x[0, 0].expand(3, 5), (3, 1, 5), True),
        (lambda x: x[:0].transpose(0, 1), (0, 7), True),
    ],
)
def test_view_never_copies(make: Callable[[Any], Any], shape: tuple[int, ...], fits: bool, torch_or_none: Any) -> None:
    for module in filter(None, (minigrad, torch_or_none)):
        x = make(module.tensor(X))
        if fits:
            assert x.view(shape).shape == x.reshape(shape).shape == shape
        else:
            with pytest.raises(RuntimeError, match="reshape"):
                x.view(shape)
            assert x.reshape(shape).shape == shape
    x = make(tensor(X))
    assert not x.numel() or np.shares_memory(x.data, x.reshape(shape).data) == fits


# What is refused, and in which words ----------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda T: T.zeros(2, 3) + T.zeros(4), ValueError, r"add.*\(2, 3\).*\(4,\)"),
    (lambda T: T.zeros(2, 3) < T.zeros(4), ValueError, r"less.*\(2, 3\).*\(4,\)"),
    (lambda T: T.zeros(2, 3) @ T.zeros(5, 7), ValueError, r"matmul.*\(2, 3\).*\(5, 7\)"),
    (lambda T: T.zeros(2, 3, 5) @ T.zeros(7, 5, 2), ValueError, r"\(2, 3, 5\).*\(7, 5, 2\)"),
    (lambda T: T.zeros(3) @ T.zeros(5), ValueError, r"matmul"),
    (lambda T: T.zeros(3) @ T.tensor(2.0), ValueError, r"matmul.*\(3,\).*\(\)"),
    (lambda T: T.zeros(2, 3).sum(2), IndexError, r"sum.*dim 2.*\[-2, 1\]"),
    (lambda T: T.zeros(2, 3).mean(-3), IndexError, r"dim -3.*\[-2, 1\]"),
    (lambda T: T.zeros(2, 3).sum((0, -2)), ValueError, r"sum.*twice"),
    (lambda T: T.zeros(2, 3).softmax(2), IndexError, r"softmax.*dim 2"),
    (lambda T: T.softmax(T.zeros(2)), TypeError, r"dim"),
    (lambda T: T.log_softmax(T.zeros(2)), TypeError, r"dim"),
    (lambda T: T.zeros(2, 3).reshape(4), ValueError, r"reshape.*\(4,\).*\(2, 3\).*6"),
    (lambda T: T.zeros(2, 3).reshape(-1, 5), ValueError, r"\(-1, 5\).*\(2, 3\)"),
    (lambda T: T.zeros(2, 3).reshape(-1, -1), ValueError, r"\(-1, -1\)"),
    (lambda T: T.zeros(2, 3).permute(0, 0), ValueError, r"permute.*\(0, 0\)"),
    (lambda T: T.zeros(2, 3).transpose(0, 2), IndexError, r"transpose.*2"),
    (lambda T: T.zeros(2, 3).expand(2, 5), ValueError, r"expand.*\(2, 3\).*\(2, 5\)"),
    (lambda T: T.zeros(2, 3).repeat(2), ValueError, r"repeat.*\(2,\).*\(2, 3\)"),
    (lambda T: T.zeros(2, 3).flatten(1, 0), ValueError, r"flatten.*1.*0"),
    (lambda T: T.zeros(2, 3).unsqueeze(3), IndexError, r"unsqueeze.*3"),
    (lambda T: T.zeros(5).split([2, 2]), ValueError, r"split.*\[2, 2\].*5"),
    (lambda T: T.zeros(5).chunk(0), ValueError, r"chunk.*0"),
    (lambda T: T.cat([T.zeros(2, 3), T.zeros(2, 2)]), ValueError, r"cat.*\(2, 3\).*\(2, 2\)"),
    (lambda T: T.cat([]), ValueError, r"cat"),
    (lambda T: T.stack([T.zeros(2), T.zeros(3)]), ValueError, r"stack.*\(2,\).*\(3,\)"),
    (lambda T: T.zeros(3).triu(), ValueError, r"triu.*\(3,\)"),
    (lambda T: T.zeros(2, 3, 5).t(), ValueError, r"\(2, 3, 5\)"),
    (lambda T: T.zeros(3).mT, ValueError, r"\(3,\)"),
    (lambda T: T.zeros(3).topk(5), ValueError, r"topk.*5.*3"),
    (lambda T: T.zeros(0).max(), ValueError, r"max.*\(0,\)"),
    (lambda T: T.zeros(0).min(), ValueError, r"min.*\(0,\)"),
    (lambda T: T.zeros(2, 0).max(1), ValueError, r"max.*\(2, 0\)"),
    (lambda T: T.zeros(2).clamp(), ValueError, r"clamp"),
    (lambda T: T.tensor([1, 2]).mean(), TypeError, r"mean.*int64.*float\(\)"),
    (lambda T: T.tensor([1, 2]).norm(), TypeError, r"norm.*int64"),
    # ids: NumPy would wrap the negative ones
    (lambda T: T.zeros(2, 3).gather(1, T.tensor([[3]])), IndexError, r"3.*\[0, 2\]"),
    (lambda T: T.zeros(2, 3).gather(1, T.tensor([[-1]])), IndexError, r"-1.*\[0, 2\]"),
    (lambda T: T.zeros(2, 3).gather(1, T.tensor([[0.0]])), TypeError, r"float32.*long"),
    (lambda T: T.zeros(2, 3).gather(1, T.tensor([0])), ValueError, r"\(1,\).*\(2, 3\)"),
    (lambda T: T.zeros(2, 3).gather(1, T.tensor([[0], [0], [0]])), ValueError, r"\(3, 1\).*\(2, 3\)"),
    (lambda T: T.zeros(2, 3).scatter(1, T.tensor([[-1]]), 1.0), IndexError, r"-1.*\[0, 2\]"),
    (lambda T: T.zeros(2, 3).scatter(1, T.tensor([[0, 1]]), T.zeros(1, 1)), ValueError, r"\(1, 1\).*\(1, 2\)"),
    (lambda T: T.zeros(2, 3).index_select(1, T.tensor([3])), IndexError, r"3.*\[0, 2\]"),
    (lambda T: T.zeros(2, 3).index_select(1, T.tensor([-1])), IndexError, r"-1.*\[0, 2\]"),
    (lambda T: T.zeros(2, 3)[2], IndexError, r"2.*\(2, 3\)"),
    (lambda T: T.zeros(2, 3)[T.tensor([5])], IndexError, r"5.*\(2, 3\)"),
    (lambda T: T.zeros(2, 3)[0, 0, 0], IndexError, r"3.*\(2, 3\)"),
    (lambda T: T.zeros(3)[::-1], ValueError, r"-1"),
    (lambda T: T.zeros(3)[1.5], IndexError, r"1\.5"),
    (lambda T: T.zeros(3)[T.tensor([1.0])], IndexError, r"int"),
    (lambda T: T.zeros(2, 3)[T.tensor([True, False, True])], IndexError, r"\(2, 3\)"),
    # masks are bools
    (lambda T: T.zeros(2).masked_fill(T.tensor([1, 0]), 0.0), TypeError, r"int64.*\.bool\(\)"),
    (lambda T: T.zeros(2).masked_fill(T.tensor([True, False]), T.zeros(2)), ValueError, r"\(2,\)"),
    (lambda T: T.tensor([1, 2]).masked_fill(T.tensor([True, False]), -math.inf), TypeError, r"int64.*-inf.*float\(\)"),
    (lambda T: T.where(T.tensor([1.0]), T.zeros(1), T.zeros(1)), TypeError, r"float32.*\.bool\(\)"),
    (lambda T: T.where(T.tensor([True, False]), T.zeros(3), 0.0), ValueError, r"where.*\([23],\).*\([23],\)"),
    (lambda T: 1 - T.tensor([True]), TypeError, r"~mask"),
    (lambda T: 1.0 - T.tensor([True]), TypeError, r"~mask"),
    (lambda T: T.tensor([2.0]) - T.tensor([True]), TypeError, r"~mask"),
    (lambda T: T.tensor([True]) - T.tensor([1]), TypeError, r"~mask"),
    (lambda T: -T.tensor([True]), TypeError, r"~mask"),
    (lambda T: T.tensor([True]) ** T.tensor([True]), TypeError, r"long"),
    (lambda T: T.zeros(2, device="cuda"), RuntimeError, r"cuda.*CPU"),
    (lambda T: T.tensor([1.0]).to("cuda:0"), RuntimeError, r"cuda:0.*CPU"),
    (lambda T: T.tensor([1.0]).to(T.device("mps")), RuntimeError, r"mps.*CPU"),
]
OURS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [  # PyTorch has an answer to these
    (lambda T: ~T.tensor([1, 0]), TypeError, r"int64.*bool"),
    (lambda T: T.tensor([1]) & T.tensor([True]), TypeError, r"int64.*bool"),
    (lambda T: T.zeros(2).var(False), TypeError, r"dim.*False"),
    (lambda T: T.zeros(2).norm(3), ValueError, r"norm.*3"),
    (lambda T: T.exp(2.0), TypeError, r"exp.*2\.0.*tensor"),
    (lambda T: T.cat([T.zeros(2), 1.0]), TypeError, r"cat.*1\.0"),
    (lambda T: T.tensor([1.0]).to("float16"), (TypeError, RuntimeError), r"float16"),
    (lambda T: T.zeros(2, 3).sum(1.0), TypeError, r"1\.0"),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED + OURS)
def test_what_is_refused_is_explained(call: Callable[[Any], Any], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        call(minigrad)


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_pytorch_refuses_it_too(call: Callable[[Any], Any], error: Any, words: str, torch: Any) -> None:
    if words.endswith("CPU") and (torch.cuda.is_available() or torch.backends.mps.is_available()):
        pytest.skip("this PyTorch has another device")
    with pytest.raises((RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, AssertionError)):
        call(torch).numpy().sum()


@pytest.mark.parametrize(
    ("owner", "name", "hint"),
    [
        (minigrad, "sofmax", "'softmax'"),
        (minigrad, "tensr", "'tensor'"),
        (minigrad, "onez", "'ones'"),
        (tensor(1.0), "clon", "'clone'"),
        (tensor(1.0), "backwards", "'backward'"),
        (tensor(1.0), "masked_fil", "'masked_fill'"),
        (tensor(1.0), "exp_", r"x = x\.exp\("),
        (tensor(1.0), "masked_fill_", r"x = x\.masked_fill\("),
        (tensor(1.0), "clamp_", r"x = x\.clamp\("),
        (tensor(1.0), "qqqqqq", "'qqqqqq'$"),
    ],
)
def test_a_name_that_does_not_exist_is_an_attribute_error_that_names_the_nearest(owner: Any, name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=hint) as error:
        getattr(owner, name)
    assert name in str(error.value)
    assert not hasattr(owner, name)


def test_no_method_works_in_place_but_zero_and_requires_grad() -> None:
    assert {n for n in dir(Tensor) if n.endswith("_") and not n.startswith("_")} == {"zero_", "requires_grad_"}


def test_the_device_lines_of_a_lesson_run() -> None:
    device = minigrad.device("cuda" if minigrad.cuda.is_available() else "cpu")
    assert minigrad.cuda.is_available() is False
    x = minigrad.randn(2, 3, device=device).to(device).cpu()
    assert x.device == device == minigrad.device("cpu")
    assert (str(x.device), x.device.type) == ("cpu", "cpu")
    assert minigrad.zeros(2, device="cpu").to("cpu", minigrad.float64).dtype == minigrad.float64
    assert x.to(device="cpu") is x.to("cpu") is x


def test_to_keeps_the_graph_and_gives_the_gradient_in_the_leafs_dtype() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    for y in (x.to(minigrad.float64), x.double(), x.to(dtype=minigrad.float64), x.to(tensor(np.zeros(1))), x.to("float64")):
        assert (y.dtype, y.requires_grad) == (np.float64, True)
        x.grad = None
        (y * y).sum().backward()
        assert (x.grad.dtype, x.grad.tolist()) == (np.float32, [2, 4])
    assert x.to(minigrad.float32) is x
    assert x.to(minigrad.int64).tolist() == [1, 2]


# Decisions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "data", "gradient"),
    [
        (lambda x: x.max(), [1, 4, 4], [0, 0.5, 0.5]),
        (lambda x: x.min(), [1, 1, 4], [0.5, 0.5, 0]),
        (lambda x: x.max(0).values, [1, 4, 4], [0, 1, 0]),
        (lambda x: x.min(dim=0)[0], [1, 1, 4], [1, 0, 0]),
        (lambda x: minigrad.maximum(x, tensor([1.0, 4.0, 0.0])), [1, 4, 4], [0.5, 0.5, 1]),
        (lambda x: x.minimum(tensor([1.0, 4.0, 0.0])), [1, 4, 4], [0.5, 0.5, 0]),
        (lambda x: x.norm(), [0, 0], [0, 0]),
        (lambda x: x.norm(dim=0), [0, 0], [0, 0]),
        (lambda x: x.std(), [5, 5, 5], [0, 0, 0]),
        (lambda x: x.var(), [5, 5, 5], [0, 0, 0]),
        (lambda x: x**0, [0, 3], [0, 0]),
        (lambda x: x**2, [-2, 0, 1.5], [-4, 0, 3]),
        (lambda x: x.pow(3), [-2, 0, 1.5], [12, 0, 6.75]),
        (lambda x: 0.0**x, [1, 2], [0, 0]),
        (lambda x: x.abs(), [0, -1], [0, -1]),
        (lambda x: x.relu(), [0, -1, 2], [0, 0, 1]),
        (lambda x: x.clamp(0, 1), [0, 1, 2], [1, 1, 0]),
        (lambda x: x.prod(), [0, 2, 3], [6, 0, 0]),
        (lambda x: x.norm(1), [0, -2], [0, -1]),
        (lambda x: x.norm(p=math.inf), [-3, 3, 1], [-0.5, 0.5, 0]),
        (lambda x: x.masked_fill(x > 0.5, 7.0), [0.2, 0.9, 0.4], [1, 0, 1]),
        (lambda x: x.masked_fill(tensor([False, True, False]), -math.inf).softmax(0)[0], [1, 50, 1], [0.25, 0, -0.25]),
        (lambda x: minigrad.where(x > 0, x, 0.0).sqrt(), [4, 9], [0.25, 1 / 6]),
        (lambda x: minigrad.where(x > 0, x, 1.0).log().masked_fill(x <= 0, 0.0), [0, 2], [0, 0.5]),
    ],
)
def test_gradients_at_ties_and_corners(f: Callable[[Tensor], Tensor], data: list[float], gradient: list[float]) -> None:
    x = tensor(np.array(data, np.float32), requires_grad=True)
    f(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-6)


@pytest.mark.parametrize(
    ("f", "shape", "value", "gradient"),  # of x = 0, 1, 2, ... in this shape
    [
        # joining heads (b, h, t, d): a token's own features stay together
        (lambda x: x.transpose(1, 2).reshape(1, 2, 4)[0, 0], (1, 2, 2, 2), [0, 1, 4, 5], [[[[1, 1], [0, 0]], [[1, 1], [0, 0]]]]),
        (lambda x: x.split(2)[1] * 7, (5,), [14, 21], [0, 0, 7, 7, 0]),
        (lambda x: x.T.masked_fill(tensor([[True, False], [False, False], [False, True]]), -1), (2, 3), None, [[0, 1, 1], [1, 1, 0]]),
        (lambda x: x.T @ tensor([[1.0], [10.0]]), (2, 3), [[30], [41], [52]], [[1, 1, 1], [10, 10, 10]]),
        # one weight as the table of embeddings and as the output layer
        (lambda x: x[tensor([0, 2])] @ x.T, (3, 2), [[1, 3, 5], [5, 23, 41]], [[10, 15], [4, 6], [10, 15]]),
        (lambda x: minigrad.cat([x[:1], tensor([5.0, 6.0]), x[1:]]) * minigrad.arange(5), (3,), [0, 5, 12, 3, 8], [0, 3, 4]),
        (lambda x: x.reshape(3, 2).mean(0, keepdim=True).expand(5, 2), (6,), [[2, 3]] * 5, [5 / 3] * 6),
        (lambda x: (x.unsqueeze(-1) - x.unsqueeze(0)).abs(), (3,), [[0, 1, 2], [1, 0, 1], [2, 1, 0]], [-4, 0, 4]),
        (lambda x: minigrad.stack([x, x * x], dim=1)[1:, 1], (3,), [1, 4], [0, 2, 4]),
        (lambda x: x.scatter(0, tensor([2, 0]), tensor([7.0, 8.0])), (4,), [8, 1, 7, 3], [0, 1, 0, 1]),
    ],
)
def test_small_programs_worked_out_by_hand(f: Callable[[Tensor], Tensor], shape: Any, value: Any, gradient: Any) -> None:
    x = minigrad.arange(math.prod(shape), dtype=minigrad.float32).reshape(shape).requires_grad_()
    y = f(x)
    assert value is None or y.tolist() == value
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-6)


def test_max_and_sort_take_the_first_of_equals() -> None:
    x = tensor([[2, 1, 2, 1]])
    assert (x.max(1).indices.item(), x.min(1).indices.item(), x.argmax().item(), x.argmin(1).item()) == (0, 1, 0, 1)
    assert x.sort().indices.tolist() == [[1, 3, 0, 2]]
    assert x.sort(descending=True).indices.tolist() == [[0, 2, 1, 3]]
    assert x.topk(3).indices.tolist() == [[0, 2, 1]]
    values, indices = x.sort(dim=0)
    assert (values.tolist(), indices.tolist()) == (x.tolist(), [[0, 0, 0, 0]])


def test_std_and_variance_of_too_few_values_are_nan() -> None:
    one = tensor([1.0])
    assert math.isnan(one.std().item())
    assert math.isnan(one.var().item())
    assert one.var(unbiased=False).item() == 0
    assert math.isnan(tensor([]).mean().item())
    assert (tensor([]).sum().item(), tensor([]).prod().item(), tensor([]).norm().item()) == (0, 1, 0)


def test_float32_statistics_of_numbers_far_from_zero() -> None:
    x = tensor([10000.0, 10001.0, 10002.0])
    assert x.var().item() == pytest.approx(1.0, rel=1e-3)
    assert x.std(unbiased=False).item() == pytest.approx(math.sqrt(2 / 3), rel=1e-3)
    assert x.logsumexp(0).item() == pytest.approx(10002 + math.log(1 + math.exp(-1) + math.exp(-2)))


# Mixed dtypes -------------------------------------------------------------------------------------------------

KINDS: dict[str, Any] = {"bool": True, "int64": 2, "float32": 1.5, "float64": 1.5}
MIXED: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in names("add sub mul truediv pow lt le gt ge eq ne")},
    "maximum": lambda a, b: a.maximum(b),
}


def operands(module: Any) -> dict[str, Any]:
    """A tensor with a dim and one without for each dtype, and the Python numbers."""
    made: dict[str, Any] = {}
    for name, value in KINDS.items():
        dtype = getattr(module, name)
        made[f"{name} (2)"], made[f"{name} ()"] = module.tensor([value, value], dtype=dtype), module.tensor(value, dtype=dtype)
    return made | {"True": True, "2": 2, "1.5": 1.5}


@pytest.mark.parametrize("name", [*MIXED, "where", "cat"])
def test_mixed_dtypes_become_what_they_become_in_pytorch(name: str, torch: Any) -> None:
    def answer(module: Any, a: Any, b: Any) -> Any:
        if name == "where":
            return module.where(module.tensor([True, False]), a, b)
        if name == "cat":
            return module.cat([a, b])
        return MIXED[name](a, b)

    ours, theirs = operands(minigrad), operands(torch)
    compared = 0
    for a, b in itertools.product(ours, ours):
        if not isinstance(ours[a], Tensor) and not isinstance(ours[b], Tensor):
            continue
        try:
            expected = answer(torch, theirs[a], theirs[b])
        except (RuntimeError, TypeError, NotImplementedError, AttributeError):
            if name == "sub" and "bool" in a + b:
                with pytest.raises(TypeError, match="~mask"):
                    answer(minigrad, ours[a], ours[b])
            continue  # maximum with a Python number, and bool minus True: PyTorch refuses, we need not
        if name == "pow" and "float" not in a + b and "1.5" not in a + b and "int64" not in a + b:
            continue  # ** on bools only: refused here
        y = answer(minigrad, ours[a], ours[b])
        assert f"torch.{y.dtype}" == str(expected.dtype), (a, b)
        np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-6, err_msg=f"{a} {b}")
        compared += 1
    assert compared >= 16


@pytest.mark.parametrize(
    ("a", "b", "dtype"),
    [
        ("float32 (2)", "float64 (2)", "float64"),
        ("float32 (2)", "float64 ()", "float32"),
        ("float32 ()", "float64 ()", "float64"),
        ("int64 (2)", "float32 ()", "float32"),
        ("int64 (2)", "float64 ()", "float64"),
        ("float32 (2)", "int64 (2)", "float32"),
        ("bool (2)", "int64 ()", "int64"),
        ("bool (2)", "2", "int64"),
        ("int64 (2)", "1.5", "float32"),
        ("float64 ()", "1.5", "float64"),
        ("float32 ()", "2", "float32"),
        ("bool ()", "True", "bool"),
    ],
)
def test_the_rule_for_mixed_dtypes_without_pytorch(a: str, b: str, dtype: str) -> None:
    made = operands(minigrad)
    for x, y in ((made[a], made[b]), (made[b], made[a])):
        assert (x + y).dtype == dtype
        assert minigrad.where(tensor([True, False]), x, y).dtype == dtype
        if getattr(x, "ndim", 0) and getattr(y, "ndim", 0):
            assert minigrad.cat([x, y]).dtype == dtype


# A lesson's own code -------------------------------------------------------------------------------------------


def attention_lesson(torch: Any) -> tuple[Any, ...]:
    """Causal attention as a lesson writes it; the module may be PyTorch or minigrad."""
    b, t, h, d = 2, 5, 3, 7
    x = torch.tensor(sample(1, b, t, h * d), requires_grad=True)
    w = torch.tensor(sample(2, h * d, 3 * h * d) / 5, requires_grad=True)
    q, k, v = (part.view(b, t, h, d).transpose(1, 2) for part in (x @ w).split(h * d, dim=2))
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    scores = scores.masked_fill(torch.tril(torch.ones(t, t)) == 0, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    y = (weights @ v).transpose(1, 2).contiguous().view(b, t, h * d)
    y = (y - y.mean(-1, keepdim=True)) / torch.sqrt(y.var(-1, unbiased=False, keepdim=True) + 1e-5)
    ids = torch.tensor(np.array([[0, 2, 4, 1, 3], [20, 1, 1, 5, 0]]))
    loss = -torch.log_softmax(y, dim=-1).gather(-1, ids.unsqueeze(-1)).squeeze(-1).mean()
    loss.backward()
    return weights, y, loss, x.grad, w.grad


def test_an_attention_lesson_gives_pytorchs_numbers(torch: Any) -> None:
    for ours, theirs in zip(attention_lesson(minigrad), attention_lesson(torch), strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(plain(ours), plain(theirs), rtol=1e-4, atol=1e-6)


def test_an_attention_lesson_keeps_its_promises() -> None:
    weights, _, loss, _, _ = attention_lesson(minigrad)
    numbers = weights.detach().numpy()
    assert (numbers[..., ~np.tri(5, dtype=bool)] == 0).all()
    np.testing.assert_allclose(numbers.sum(-1), 1, rtol=1e-6)
    assert 1 < loss.item() < 6


@pytest.mark.parametrize("name", ["sum", "all", "prod", "max", "softmax", "cumsum"])
@pytest.mark.parametrize("dim", [1, -2])
def test_a_number_has_the_dims_0_and_minus_1_only(name: str, dim: int) -> None:
    with pytest.raises(IndexError, match=f"{name}.* {dim} "):
        getattr(tensor(2.0), name)(dim)


ROWS: list[Callable[..., Any]] = [
    lambda m, x: x.sum(0), lambda m, x: x.mean(0), lambda m, x: x.var(0), lambda m, x: x.std(0), lambda m, x: x.norm(dim=0),
    lambda m, x: x.prod(0), lambda m, x: x.logsumexp(0), lambda m, x: x.max(0)[0], lambda m, x: x.all(0), lambda m, x: x.any(0),
    lambda m, x: x.cumsum(0), lambda m, x: x.softmax(0), lambda m, x: x.log_softmax(-1), lambda m, x: x.masked_fill(x > 0, 0.0),
    lambda m, x: x.triu(), lambda m, x: x.tril(), lambda m, x: m.cat([x, x]), lambda m, x: m.stack([x, x], 1),
    lambda m, x: x[0].repeat(2, 1, 1), lambda m, x: x.topk(2)[1],
]  # fmt: skip


@pytest.mark.parametrize("call", ROWS)
def test_after_a_transpose_these_lie_in_rows_again_and_can_be_viewed(call: Callable[..., Any]) -> None:
    y = call(minigrad, tensor(X).permute(2, 1, 0))
    assert y.view(-1).equal(y.reshape(-1))
    assert not tensor(X).permute(2, 1, 0).data.flags.c_contiguous


@pytest.mark.parametrize("call", ROWS)
def test_pytorch_can_view_these_too(call: Callable[..., Any], torch: Any) -> None:
    assert call(torch, torch.tensor(X).permute(2, 1, 0)).view(-1).ndim == 1


def test_writing_into_a_piece_is_an_error_that_names_the_way():
    mask = minigrad.zeros(2, 2).bool()
    with pytest.raises(RuntimeError, match=r"x\[i, j\] = value"):
        mask[1][0] = True
    mask[1, 0] = True
    assert mask.tolist() == [[False, False], [True, False]]
    x = minigrad.arange(3)
    x[1:] += 5  # a piece of x, changed, and put back
    y = x[minigrad.tensor([0, 2])]  # a copy, not a piece
    y[0] = 9
    own = x[1:].clone()
    own[0] = 1
    assert (x.tolist(), y.tolist(), own.tolist()) == ([0, 6, 7], [9, 7], [1, 7])
