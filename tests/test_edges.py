"""Numbers at the edges: float32 results against the formulas in (at least) float64, from 1e-40 to 1e30.

An error is counted in ulps, the distance of neighbouring float32 numbers, at a size that the reference states: that of the
result, as a rule. Where terms cancel it is their sum without signs; where exp takes a rounded difference d, whose last place
is worth d ulps of the result, it is (1 + d) times the result. TABLE holds the bound of each function in this measure.
"""

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import test_dialect
import test_functional
import test_layers

import layers as nn
import layers.functional as F
import minigrad
from minigrad import Tensor, tensor

Wide = np.longdouble  # 64 bits of mantissa where the machine has them, else float64
TINY = 2.0**-126  # below, float32 numbers are denormal: they have fewer digits
erfc = np.vectorize(math.erfc, otypes=[float])


def ulps(got: Any, expected: Any, size: Any) -> float:
    """The largest error, in float32 ulps at the sizes given; inf and NaN must be where they are expected."""
    with np.errstate(all="ignore"):
        unit = np.spacing(np.clip(np.abs(np.asarray(size, float)), TINY, 3e38).astype(np.float32)).astype(Wide)
        error = np.abs(np.asarray(got, Wide) - expected) / unit
        as_it_should = (got == np.asarray(expected).astype(np.float32)) | (np.isnan(got) & np.isnan(expected))
    return float(np.where(as_it_should, 0, np.nan_to_num(error, nan=math.inf)).max(initial=0))


# Rows in, rows out --------------------------------------------------------------------------------------------


def rows(hidden: bool) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    for size, _ in itertools.product((1e-40, 1e-30, 1e-20, 1e-10, 1e-3, 1, 5, 30, 100, 1e3, 1e10, 1e18, 1e20, 1e30), range(5)):
        yield rng.standard_normal(11) * size
    for _ in range(50):
        yield rng.standard_normal(11) * 10 ** rng.uniform(-30, 30, 11)  # all sizes in one row
    for value, length in itertools.product((0, 0.1, -1 / 3, 7.7, 1e30, -1e30, 1e-30, 1e-40), (1, 2, 3, 5, 7, 49, 100)):
        yield np.full(length, value)  # all equal; rows of one
    for offset in (1e3, 1e5, 1e7):
        yield offset + rng.standard_normal(11)  # far from zero, close to each other
    for size, seen in itertools.product((1e-30, 1, 30, 1e30), range(1, 11) if hidden else ()):
        row = rng.standard_normal(11) * size
        row[rng.permutation(11)[seen:]] = -math.inf
        yield row


def distance(x: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(x), x.max() - x, 0)


def p_of(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def log_p_of(x: np.ndarray) -> np.ndarray:
    top = x.argmax()
    return x - x[top] - np.log1p(np.exp(np.delete(x, top) - x[top]).sum())


def softmax(x: np.ndarray, g: np.ndarray) -> Any:
    p = p_of(x)
    size = p * (1 + distance(x)) + TINY
    return p, size, p * (g - (g * p).sum()), size * (np.abs(g) + (np.abs(g) * p).sum())


def log_softmax(x: np.ndarray, g: np.ndarray) -> Any:
    y, p = log_p_of(x), p_of(x)  # float64 sums hold 1 + 2**-53 at best
    return y, np.abs(y) + 2.0**-29, g - p * g.sum(), np.abs(g) + (p * (1 + distance(x)) + TINY) * np.abs(g).sum()


def cross_entropy(x: np.ndarray, g: np.ndarray) -> Any:
    y, hot = -log_p_of(x)[-1], np.arange(len(x)) == len(x) - 1
    return y, y + 2.0**-29, g * (p_of(x) - hot), np.abs(g) * (p_of(x) * (1 + distance(x)) + TINY + hot)


def logsumexp(x: np.ndarray, g: np.ndarray) -> Any:
    y = x.max() + np.log(np.exp(x - x.max()).sum())
    return y, np.maximum(np.abs(y), 1), g * p_of(x), np.abs(g) * (p_of(x) * (1 + distance(x)) + TINY)


def normed(x: np.ndarray, root: Any, g: np.ndarray, mean_g: Any) -> Any:
    y = x / root
    dx = (g - mean_g - y * (g * y).mean()) / root
    return y, np.abs(y), dx, (np.abs(g) + np.abs(g).mean() + np.abs(y) * np.abs(g * y).mean()) / root


def layer_norm(x: np.ndarray, g: np.ndarray) -> Any:
    x = x - x.mean()
    return normed(x, np.sqrt((x * x).mean() + Wide(1e-5)), g, g.mean())


def rms_norm(x: np.ndarray, g: np.ndarray) -> Any:
    return normed(x, np.sqrt((x * x).mean() + Wide(2.0**-23)), g, 0)


def gate(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    small = np.exp(-np.abs(u))
    return np.where(u >= 0, 1, small) / (1 + small), small / (1 + small) ** 2  # sigmoid and its derivative


def sigmoid(x: np.ndarray, g: np.ndarray) -> Any:
    y, slope = gate(x)
    return y, y, g * slope, np.abs(g) * (slope + TINY)


def gated(x: np.ndarray, p: np.ndarray, slope: np.ndarray, g: np.ndarray, exponent: Any = 0, inner: Any = 1) -> Any:
    """y = x * p(u): silu and gelu; slope = dp/du, inner = du/dx, and p is like exp(-exponent) where it is small."""
    bent = np.where(slope > 0, x * slope * inner, 0)
    size = np.abs(g) * (p + np.abs(bent)) * (1 + exponent)
    rest = np.maximum(np.abs(g), 1) * (1 + np.where(slope > 0, np.abs(x * inner), 0)) * TINY
    return x * p, np.abs(x) * (p * (1 + exponent) + TINY), g * (p + bent), size + rest


def silu(x: np.ndarray, g: np.ndarray) -> Any:
    return gated(x, *gate(x), g)


def gelu(x: np.ndarray, g: np.ndarray) -> Any:
    p, density = erfc((-x / np.sqrt(Wide(2))).astype(float)) / 2, np.exp(-x * x / 2) / np.sqrt(2 * Wide(np.pi))
    return gated(x, p, density, g, np.where(density > 0, x * x, 0))


def gelu_tanh(x: np.ndarray, g: np.ndarray) -> Any:
    c, k = np.sqrt(8 / Wide(np.pi)), Wide(0.044715)
    u = c * (x + k * x**3)
    p, slope = gate(u)
    return gated(x, p, slope, g, np.where(slope > 0, np.abs(u), 0), c * (1 + 3 * k * x * x))


def norm(x: np.ndarray, g: np.ndarray) -> Any:
    y = np.sqrt((x * x).sum())
    direction = x / y if y else x
    return y, y, g * direction, np.abs(g) * (np.abs(direction) + TINY)


def std(x: np.ndarray, g: np.ndarray) -> Any:
    centered = x - x[0] - (x - x[0]).mean()
    length, freedom = np.sqrt((centered * centered).sum()), Wide(len(x) - 1)
    direction = centered / length if length else centered
    return length / np.sqrt(freedom), length / np.sqrt(freedom), g * direction / np.sqrt(freedom), np.abs(g) / np.sqrt(freedom)


TABLE: dict[str, tuple[Callable[[Tensor], Tensor], Callable[..., Any], bool, float, float]] = {
    # what is called, its reference, whether -inf may stand in the row, bounds in ulps: of the value, of the gradient
    "softmax": (lambda x: x.softmax(-1), softmax, True, 4, 4),
    "log_softmax": (lambda x: x.log_softmax(-1), log_softmax, True, 6, 4),
    "logsumexp": (lambda x: x.logsumexp(-1), logsumexp, True, 4, 4),
    "cross_entropy": (lambda x: F.cross_entropy(x, tensor(x.numel() - 1)), cross_entropy, False, 4, 4),
    "layer_norm": (lambda x: F.layer_norm(x, x.shape), layer_norm, False, 1, 4),
    "rms_norm": (lambda x: F.rms_norm(x, x.shape), rms_norm, False, 1, 4),
    "sigmoid": (Tensor.sigmoid, sigmoid, True, 4, 6),
    "silu": (F.silu, silu, False, 4, 6),
    "gelu": (F.gelu, gelu, False, 4, 6),
    "gelu, tanh": (lambda x: F.gelu(x, "tanh"), gelu_tanh, False, 4, 6),
    "norm": (Tensor.norm, norm, False, 4, 4),
    "std": (Tensor.std, std, False, 4, 4),
}


def errors(name: str) -> tuple[float, float]:
    """The largest errors over all rows, in ulps: of the value and of the gradient."""
    f, reference, hidden, *_ = TABLE[name]
    rng, worst = np.random.default_rng(1), [0.0, 0.0]
    for row, size in zip(rows(hidden), itertools.cycle((1, 1e-6, 1e6))):
        x = tensor(row.astype(np.float32), requires_grad=True)
        with np.errstate(all="raise"):
            y = f(x)
            g = np.asarray(rng.standard_normal(y.shape) * size, np.float32)
            y.backward(tensor(g))
        with np.errstate(all="ignore"):
            value, value_size, gradient, gradient_size = reference(x.data.astype(Wide), g.astype(Wide))
        assert y.dtype == x.grad.dtype == np.float32
        found = ulps(y.data, value, value_size), ulps(x.grad.data, gradient, gradient_size)
        worst = [max(pair) for pair in zip(worst, found, strict=True)]
    return worst[0], worst[1]


@pytest.mark.parametrize("name", TABLE)
def test_float32_rows_are_right_to_a_few_ulps(name: str) -> None:
    value, gradient = errors(name)
    assert value <= TABLE[name][3]
    assert gradient <= TABLE[name][4]


# Attention ----------------------------------------------------------------------------------------------------

# Queries and keys are small whole numbers times a power of two, and d = 4, so all scores are exact, whatever their size.
SIZES = [  # exponents of queries, keys and values
    *[(0, 0, 0), (0, 1, 0), (0, 3, 0), (2, 4, 0), (-50, -50, -20), (50, 50, 30), (100, -100, 0), (-100, 100, 0), (0, 0, 100)],
    *[(0, 0, -100), (20, 60, 30), (-60, 10, -30)],
]
FLOOR = 2.0**-90  # a weight below it may have been made from a denormal exp


def attended(q: Any, k: Any, v: Any, bias: Any, g: Any, size_of_g: Any) -> tuple[list[Any], list[Any]]:
    """softmax(q k^T / 2 + bias) v and the gradients of q, k and v; with the sizes: the same sums without signs."""
    scores = q @ k.T / 2 + bias
    top = scores.max(-1, keepdims=True, initial=-math.inf)
    p = np.exp(scores - np.where(np.isinf(top), 0, top))
    p = p / np.maximum(p.sum(-1, keepdims=True), 1e-300)  # a row that sees nothing: zeros
    dp, size_of_dp = g @ v.T, size_of_g @ np.abs(v).T
    ds, weight = p * (dp - (p * dp).sum(-1, keepdims=True)), np.where(bias == -math.inf, 0, p + FLOOR)
    size_of_ds = weight * (size_of_dp + (p * size_of_dp).sum(-1, keepdims=True))
    values = [p @ v, ds @ k / 2, ds.T @ q / 2, p.T @ g]
    return values, [weight @ np.abs(v), size_of_ds @ np.abs(k) / 2, size_of_ds.T @ np.abs(q) / 2, weight.T @ size_of_g]


def whole(rng: np.random.Generator, exponent: int, *shape: int) -> np.ndarray:
    return (rng.integers(-4, 5, shape) * 2.0**exponent).astype(np.float32)


def bias_of(mask: np.ndarray) -> np.ndarray:
    return np.where(mask, -math.inf, 0.0)


FUTURE, CACHED = np.triu(np.ones((5, 7), bool), 1), np.triu(np.ones((5, 7), bool), 3)
HIDDEN = np.random.default_rng(2).random((5, 7)) < 0.6
HIDDEN[1] = True  # this query sees nothing
ONE_EACH = np.arange(7) != np.arange(5)[:, None]
FLOATS = np.where(HIDDEN, -math.inf, np.random.default_rng(3).integers(-9, 9, (5, 7)) * 0.25).astype(np.float32)
ATTENTIONS: dict[str, tuple[Callable[..., Tensor], np.ndarray]] = {
    "F: all": (F.scaled_dot_product_attention, bias_of(FUTURE & False)),
    "F: is_causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), bias_of(FUTURE)),
    "F: bool mask": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, tensor(~HIDDEN)), bias_of(HIDDEN)),
    "F: float mask": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, tensor(FLOATS)), FLOATS),
    "F: one key each": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, tensor(~ONE_EACH)), bias_of(ONE_EACH)),
    "nn: all": (lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, causal=False)[0], bias_of(FUTURE & False)),
    "nn: causal": (lambda q, k, v: nn.scaled_dot_product_attention(q, k, v)[0], bias_of(CACHED)),
    "nn: mask": (lambda q, k, v: nn.scaled_dot_product_attention(q, k, v, False, tensor(ONE_EACH))[0], bias_of(ONE_EACH)),
}


def attention_errors(name: str) -> list[float]:
    """The largest errors of the output and of the gradients of queries, keys and values, in ulps."""
    f, bias = ATTENTIONS[name]
    rng, worst = np.random.default_rng(4), [0.0] * 4
    for (a, b, c), _ in itertools.product(SIZES, range(4)):
        b = -a if bias is FLOATS else b  # a float mask must not be lost beside the scores
        arrays = [whole(rng, a, 5, 4), whole(rng, b, 7, 4), (rng.standard_normal((7, 3)) * 2.0**c).astype(np.float32)]
        q, k, v = (tensor(x, requires_grad=True) for x in arrays)
        g = rng.standard_normal((5, 3)).astype(np.float32)
        with np.errstate(all="raise"):
            y = f(q, k, v)
            y.backward(tensor(g))
        with np.errstate(all="ignore"):
            values, sizes = attended(*(x.astype(Wide) for x in arrays), bias.astype(Wide), g.astype(Wide), np.abs(g).astype(Wide))
        found = [ulps(x, *pair) for x, *pair in zip([y.data, q.grad.data, k.grad.data, v.grad.data], values, sizes, strict=True)]
        worst = [max(pair) for pair in zip(worst, found, strict=True)]
    return worst


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_in_float32_is_right_to_a_few_ulps(name: str) -> None:
    assert max(attention_errors(name)) <= 8


def heads_errors(causal: bool) -> list[float]:
    """The largest errors of MultiHeadAttention's output and of the gradient of its input, in ulps: on its fused path, then on
    the path that returns the weights."""
    layer, rng = nn.MultiHeadAttention(8, 2, causal), np.random.default_rng(5)
    for p in layer.parameters():
        p.data = rng.integers(-1, 2, p.shape).astype(np.float32)
    wq, wk, wv, wo = (p.data.astype(Wide) for p in layer.parameters())
    worst, heads = [0.0] * 4, (slice(0, 4), slice(4, 8))
    for exponent, _ in itertools.product((-60, -30, -1, 0, 2, 15, 30), range(4)):
        array, g = whole(rng, exponent, 5, 8), rng.standard_normal((5, 8)).astype(np.float32)
        x, y, dx, size_of_y, size_of_dx = array.astype(Wide), 0, 0, 0, 0
        for part in heads:
            q, k, v, out = x @ wq[part].T, x @ wk[part].T, x @ wv[part].T, wo[:, part]
            values, sizes = attended(q, k, v, bias_of(FUTURE[:, :5] & causal), g @ out, np.abs(g) @ np.abs(out))
            y, size_of_y = y + values[0] @ out.T, size_of_y + sizes[0] @ np.abs(out).T
            for weight, dz, size in zip((wq, wk, wv), values[1:], sizes[1:], strict=True):
                dx, size_of_dx = dx + dz @ weight[part], size_of_dx + size @ np.abs(weight[part])
        for i, options in enumerate(({}, {"return_weights": True})):
            leaf = tensor(array, requires_grad=True)
            with np.errstate(all="raise"):
                output = layer(leaf, **options)
                output = output[0] if options else output
                output.backward(tensor(g))
            worst[2 * i] = max(worst[2 * i], ulps(output.data, y, size_of_y))
            worst[2 * i + 1] = max(worst[2 * i + 1], ulps(leaf.grad.data, dx, size_of_dx))
    return worst


@pytest.mark.parametrize("causal", [False, True])
def test_heads_in_float32_are_right_to_a_few_ulps(causal: bool) -> None:
    assert max(heads_errors(causal)) <= 6


# Optimizers and clipping --------------------------------------------------------------------------------------

Optimizer = minigrad.optim.Optimizer
STEPS = 5
OPTIMIZERS: dict[str, Any] = {
    "SGD": (minigrad.optim.SGD, {"lr": 0.1}),
    "SGD, momentum and decay": (minigrad.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "Adam": (minigrad.optim.Adam, {"lr": 0.1}),
    "Adam, decay": (minigrad.optim.Adam, {"lr": 0.1, "weight_decay": 0.01}),
    "AdamW": (minigrad.optim.AdamW, {"lr": 0.1}),
    "Adam, eps=0": (minigrad.optim.Adam, {"lr": 0.1, "eps": 0.0}),
}


def stepped(kind: Any, p: np.ndarray, gradients: list[np.ndarray], o: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The parameter after these steps, and the size of what was added up on the way."""
    lr, decay, size = o["lr"], o.get("weight_decay", 0.01 if kind is minigrad.optim.AdamW else 0), np.abs(p)
    v, m, s = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(gradients, 1):
        if kind is minigrad.optim.AdamW:
            p = p - lr * decay * p
        else:
            g = g + decay * p
        if kind is minigrad.optim.SGD:
            v = o.get("momentum", 0) * v + g
            step = lr * v
        else:
            m, s = 0.9 * m + (1 - Wide(0.9)) * g, 0.999 * s + (1 - Wide(0.999)) * g * g
            step = lr * (m / (1 - Wide(0.9) ** t)) / (np.sqrt(s / (1 - Wide(0.999) ** t)) + o.get("eps", 1e-8))
        p, size = p - step, size + np.abs(step)
    return p, size


def optimizer_error(name: str) -> float:
    kind, options = OPTIMIZERS[name]
    rng, worst = np.random.default_rng(6), 0.0
    for p_size, g_size in itertools.product((1e-30, 1e-10, 1, 1e10, 1e30), (1e-30, 1e-20, 1e-10, 1, 1e10, 1e18, 1e20, 1e30)):
        if "eps=0" in name and g_size < 1e-10:
            continue  # g * g is 0 in float32, and eps is there for that
        start = (rng.standard_normal(11) * p_size).astype(np.float32)
        gradients = [(rng.standard_normal(11) * g_size * 10 ** rng.uniform(-2, 0, 11)).astype(np.float32) for _ in range(STEPS)]
        p = tensor(start, requires_grad=True)
        optimizer = kind([p], **options)
        with np.errstate(all="raise"):
            for g in gradients:
                p.grad = tensor(g)
                optimizer.step()
        with np.errstate(all="ignore"):
            expected, size = stepped(kind, start.astype(Wide), [g.astype(Wide) for g in gradients], options)
        worst = max(worst, ulps(p.data, expected, size))
    return worst


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_five_steps_in_float32_are_right_to_a_few_ulps(name: str) -> None:
    assert optimizer_error(name) <= 8


def test_adam_survives_one_huge_gradient() -> None:
    p = tensor([1.0], requires_grad=True)
    optimizer = minigrad.optim.Adam([p], lr=0.1)
    for g in (1e30, 1e30):  # its square is inf in float32
        p.grad = tensor([g])
        optimizer.step()
    assert p.item() == pytest.approx(0.8)


@pytest.mark.parametrize("kind", [2.0, 1.0, math.inf])
@pytest.mark.parametrize("size", [1e-30, 1e-20, 1.0, 1e20, 1e30])
def test_clipping_gradients_of_any_size(size: float, kind: float) -> None:
    rng = np.random.default_rng(7)
    gradients = [(rng.standard_normal(n) * size).astype(np.float32) for n in (3, 5, 7)]
    parameters = [minigrad.zeros(len(g), requires_grad=True) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = tensor(g)
    with np.errstate(all="raise"):
        total = nn.utils.clip_grad_norm_(parameters, 1.0, kind)
    exact = np.linalg.norm(np.concatenate(gradients).astype(float), kind)
    assert ulps(total.data, exact, exact) <= 3
    for p, g in zip(parameters, gradients, strict=True):
        expected = g.astype(float) * min(1, 1 / (exact + 1e-6))
        assert ulps(p.grad.data, expected, expected) <= 4


# Equal rows, rows of one, and silence -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [2, 3, 7, 11, 49, 100])
def test_equal_numbers_have_no_spread_at_all(length: int, dtype: Any) -> None:
    for value in (0.1, 1 / 3, 7.7, -1e30, 1e-30):  # the mean of 7 times 0.1 isn't 0.1
        x = tensor(np.full((2, length), value, dtype), requires_grad=True)
        for f in (lambda x: x.std(1), lambda x: x.var(1), lambda x: x.std(), lambda x: x.var((0, 1))):
            y = f(x)
            y.sum().backward()
            assert not y.data.any()
            assert not x.grad.data.any()


def test_a_row_of_one() -> None:
    for value in (0.0, 1e-40, -1e30):
        x = tensor([[value]], requires_grad=True)
        for f, expected in ((lambda x: x.softmax(1), 1), (lambda x: x.log_softmax(1), 0), (lambda x: F.layer_norm(x, 1), 0)):
            x.grad = None
            y = f(x)
            y.sum().backward()
            assert (y.item(), x.grad.item()) == (expected, 0)
        assert x.logsumexp(1).item() == x.item()


def test_a_small_loss_is_not_rounded_to_zero() -> None:
    for gap in (5.0, 15.0, 30.0):
        assert F.cross_entropy(tensor([gap, 0.0]), tensor(0)).item() == pytest.approx(math.log1p(math.exp(-gap)), rel=1e-6)


def test_nothing_is_said_about_infinities_and_underflow_whatever_numpy_was_told() -> None:
    huge, small = tensor([1e30, -1e30, 1e-30, 1.0], requires_grad=True), np.array([1e-300, 1e300, 1.0])
    model = nn.Linear(4, 4)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for f in (Tensor.exp, Tensor.log, Tensor.sqrt, Tensor.rsqrt, lambda x: x * x * x, lambda x: x / 0, lambda x: 1e-30 * x, Tensor.var):
            f(huge).sum().backward()
        assert tensor(small.tolist()).tolist() == tensor(small, dtype="float32").tolist() == [0, math.inf, 1]
        assert minigrad.full((2,), 1e-300).tolist() == minigrad.linspace(1e-300, 2e-300, 2).tolist() == [0, 0]
        assert minigrad.arange(0, 3e-300, 1e-300).tolist() == [0, 0, 0]
        assert minigrad.as_tensor(small).float().tolist() == [0, math.inf, 1]
        assert (minigrad.ones(3) * small).tolist() == (small * minigrad.ones(3)).tolist() == [0, math.inf, 1]
        x = minigrad.ones(3)
        x[:] = tensor(small)
        x[1] = 1e300
        x *= tensor(small)
        assert x.tolist() == [0, math.inf, 1]
        y = minigrad.ones(3, requires_grad=True)
        (y * 1).backward(tensor(small))
        assert y.grad.tolist() == [0, math.inf, 1]
        holes = tensor([math.nan, math.inf, -math.inf])
        assert ((holes < 1).tolist(), (holes != holes).tolist()) == ([False, False, True], [True, False, False])
        assert holes.bool().tolist() == [True, True, True]
        assert holes.long().dtype == np.int64
        assert not holes.allclose(holes)
        assert not tensor(small).allclose(tensor(np.array([1e-306, 1.0, 1.0])))
        assert holes.sort().indices.tolist() == [2, 1, 0]
        assert "nan" in f"{holes!r} {tensor(small)!r}"
        model.load_state_dict({"weight": np.full((4, 4), 1e300), "bias": np.full(4, 1e-300)})
        assert model.bias.tolist() == [0] * 4
        nn.init.constant_(model.weight, 1e-300)
        nn.init.normal_(model.weight, std=1e-40)
        assert minigrad.multinomial(tensor(np.array([5e-324, 1.0])), 2).tolist() == [1, 0]
        tiny = tensor(np.array([1e-160, 2.0]), requires_grad=True)
        assert minigrad.gradcheck(lambda x: x * 1e-310, tiny)
        for optimizer in (minigrad.optim.SGD([tiny], lr=1e-300), minigrad.optim.Adam([tiny], lr=1e-300)):
            (tiny * tiny).sum().backward()
            optimizer.step()


def walk() -> int:
    """Every public function, method and layer, forward and backward; the number of tensors that came out."""
    outputs: list[Any] = []
    for call in test_dialect.CALLS:
        for answer in call.answers(minigrad, lambda a: tensor(a, requires_grad=a.dtype.kind == "f")):
            outputs += answer
    for f, *inputs in test_functional.CASES.values():
        outputs.append(f(F, *test_functional.made(inputs, "float32")))
    for case in test_layers.CASES.values():
        layer, arguments = test_layers.made(case, "float32")
        outputs.append(layer(*arguments))
    for y in outputs:
        if isinstance(y, Tensor) and y.requires_grad:
            y.sum().backward(retain_graph=True)  # some of the answers are parts of one graph
    return len(outputs)


def test_every_public_call_is_silent_whatever_numpy_was_told() -> None:
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert walk() > 500
