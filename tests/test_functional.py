"""Every function of layers.functional: gradients by differences, PyTorch's numbers, the corners, and the words of the errors."""

import inspect
import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import layers.functional as F
import minigrad
from layers import scaled_dot_product_attention as chapter_attention

INF = math.inf
IDS = [[5, 0], [5, 5], [2, 6]]
TARGETS = [[4, 0, 2], [1, 1, 3]]
SEEN = [[True, False, True], [False, False, True], [True, True, True], [False, True, False], [True, True, False]]
ONE_BLIND = [[True, False, True], [False, False, False], [True, True, True], [False, True, False], [True, True, False]]
QKV = ((2, 5, 7), (2, 3, 7), (2, 3, 11))  # n = 5 queries, m = 3 keys of 7 features, values of 11


def sdpa(**options):
    return lambda f, q, k, v, *mask: f.scaled_dot_product_attention(q, k, v, *mask, **options)


# Calls that read alike in both libraries. Inputs are shapes of random floats, or arrays as they are (floats get a gradient).
CASES = {
    "linear": (lambda f, x, w, b: f.linear(x, w, b), (2, 7, 5), (3, 5), (3,)),
    "linear: no bias": (lambda f, x, w: f.linear(x, w), (5,), (3, 5)),
    "embedding": (lambda f, i, w: f.embedding(i, w), IDS, (7, 3)),
    "relu": (lambda f, x: f.relu(x), (2, 3)),
    "gelu": (lambda f, x: f.gelu(x), (2, 3)),
    "gelu: tanh": (lambda f, x: f.gelu(x, approximate="tanh"), (2, 3)),
    "silu": (lambda f, x: f.silu(x), (2, 3)),
    "sigmoid": (lambda f, x: f.sigmoid(x), (2, 3)),
    "tanh": (lambda f, x: f.tanh(x), (2, 3)),
    "softmax": (lambda f, x: f.softmax(x, dim=1), (2, 3, 5)),
    "log_softmax": (lambda f, x: f.log_softmax(x, dim=-2), (2, 3, 5)),
    "layer_norm": (lambda f, x, w, b: f.layer_norm(x, (5,), w, b), (2, 3, 5), (5,), (5,)),
    "layer_norm: two dims, eps": (lambda f, x, w, b: f.layer_norm(x, (3, 5), w, b, 0.1), (2, 3, 5), (3, 5), (3, 5)),
    "layer_norm: bare": (lambda f, x: f.layer_norm(x, (5,)), (3, 5)),
    "rms_norm": (lambda f, x, w: f.rms_norm(x, (5,), w), (2, 3, 5), (5,)),
    "rms_norm: two dims, eps": (lambda f, x, w: f.rms_norm(x, (3, 5), w, 0.1), (2, 3, 5), (3, 5)),
    "rms_norm: bare": (lambda f, x: f.rms_norm(x, (5,)), (3, 5)),
    "dropout: none": (lambda f, x: f.dropout(x, p=0.0), (2, 3)),
    "dropout: all": (lambda f, x: f.dropout(x, p=1.0), (2, 3)),
    "dropout: eval": (lambda f, x: f.dropout(x, p=0.7, training=False), (2, 3)),
    "cross_entropy: (v)": (lambda f, x, t: f.cross_entropy(x, t), (5,), 3),
    "cross_entropy: (n, v)": (lambda f, x, t: f.cross_entropy(x, t), (3, 5), [4, 0, 2]),
    "cross_entropy: (n, v, l)": (lambda f, x, t: f.cross_entropy(x, t), (2, 5, 3), TARGETS),
    "cross_entropy: (n, v, l, l)": (lambda f, x, t: f.cross_entropy(x, t), (1, 5, 2, 3), [TARGETS]),
    "cross_entropy: -100": (lambda f, x, t: f.cross_entropy(x, t), (3, 5), [4, -100, 2]),
    "cross_entropy: ignore_index": (lambda f, x, t: f.cross_entropy(x, t, ignore_index=2), (3, 5), [4, 0, 2]),
    "cross_entropy: all ignored": (lambda f, x, t: f.cross_entropy(x, t, reduction="sum"), (3, 5), [-100] * 3),
    "cross_entropy: sum": (lambda f, x, t: f.cross_entropy(x, t, reduction="sum"), (3, 5), [4, -100, 2]),
    "cross_entropy: none": (lambda f, x, t: f.cross_entropy(x, t, reduction="none"), (2, 5, 3), [[4, 0, -100], [1, 1, 3]]),
    "cross_entropy: smooth": (lambda f, x, t: f.cross_entropy(x, t, label_smoothing=0.3), (2, 5, 3), TARGETS),
    "cross_entropy: both": (lambda f, x, t: f.cross_entropy(x, t, ignore_index=2, label_smoothing=0.3), (3, 5), [4, 0, 2]),
    "nll_loss": (lambda f, x, t: f.nll_loss(x, t), (3, 5), [4, 0, 2]),
    "nll_loss: options": (lambda f, x, t: f.nll_loss(x, t, ignore_index=1, reduction="sum"), (2, 5, 3), TARGETS),
    "mse_loss": (lambda f, x, y: f.mse_loss(x, y), (2, 3), (2, 3)),
    "mse_loss: sum": (lambda f, x, y: f.mse_loss(x, y, reduction="sum"), (2, 3), (2, 3)),
    "mse_loss: none": (lambda f, x, y: f.mse_loss(x, y, reduction="none"), (2, 3), (2, 3)),
    "one_hot": (lambda f, i: f.one_hot(i, num_classes=7), IDS),
    "one_hot: as many as there are": (lambda f, i: f.one_hot(i), IDS),
    "scaled_dot_product_attention": (sdpa(), *QKV),
    "scaled_dot_product_attention: no batch": (sdpa(), (5, 7), (3, 7), (3, 11)),
    "scaled_dot_product_attention: heads": (sdpa(), (2, 3, 5, 7), (2, 3, 5, 7), (2, 3, 5, 11)),
    "scaled_dot_product_attention: causal": (sdpa(is_causal=True), (2, 3, 5, 7), (2, 3, 5, 7), (2, 3, 5, 11)),
    "scaled_dot_product_attention: causal, n > m": (sdpa(is_causal=True), *QKV),
    "scaled_dot_product_attention: causal, n < m": (sdpa(is_causal=True), (2, 3, 7), (2, 5, 7), (2, 5, 11)),
    "scaled_dot_product_attention: bool mask": (sdpa(), *QKV, np.array(SEEN)),
    "scaled_dot_product_attention: a mask for each batch": (sdpa(), *QKV, np.array([SEEN, ONE_BLIND])),
    "scaled_dot_product_attention: keys hidden": (sdpa(), *QKV, np.array([[[True, True, False]], [[True, False, False]]])),
    "scaled_dot_product_attention: blind row": (sdpa(), *QKV, np.array(ONE_BLIND)),
    "scaled_dot_product_attention: float mask": (sdpa(), *QKV, (5, 3)),
    "scaled_dot_product_attention: float mask, -inf": (sdpa(), *QKV, np.where(ONE_BLIND, 0.5, -INF)),
    "scaled_dot_product_attention: scale": (sdpa(scale=2.0), *QKV),
}
named_cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def made(inputs, dtype="float64"):
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(i) if isinstance(i, tuple) else np.array(i) for i in inputs]
    return [minigrad.tensor(a.astype(dtype) if a.dtype.kind == "f" else a, requires_grad=a.dtype.kind == "f") for a in arrays]


def leaf(data):
    return minigrad.tensor(data, requires_grad=True)


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def test_the_table_has_every_function():
    public = {name for name, f in inspect.getmembers(F, inspect.isfunction) if f.__module__ == F.__name__ and name[0] != "_"}
    assert {name.partition(":")[0] for name in CASES} == public


@named_cases
def test_gradients(case):
    call, *inputs = case
    tensors = made(inputs)
    wanted = [t for t in tensors if t.requires_grad]
    if wanted:
        assert minigrad.gradcheck(lambda *_: call(F, *tensors), wanted)
    else:
        assert not call(F, *tensors).requires_grad


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-5)])
@named_cases
def test_values_and_gradients_are_those_of_pytorch(case, dtype, tolerance, torch):
    call, *inputs = case
    ours = made(inputs, dtype)
    theirs = [torch.tensor(t.detach().numpy(), requires_grad=t.requires_grad) for t in ours]
    y, z = call(F, *ours), call(torch.nn.functional, *theirs)
    assert str(z.dtype) == f"torch.{y.dtype}"
    assert np.allclose(y.data, z.detach().numpy(), tolerance, tolerance)
    if y.requires_grad:
        g = normal(1, *y.shape).astype(dtype)
        y.backward(minigrad.tensor(g))
        z.backward(torch.tensor(g))
        for a, b in zip(ours, theirs, strict=True):
            if a.requires_grad:
                assert a.grad.dtype == dtype
                assert np.allclose(a.grad.data, b.grad.numpy(), tolerance, tolerance)


# Activations --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "formula"),
    [
        (F.relu, lambda x: max(x, 0.0)),
        (F.sigmoid, lambda x: 1 / (1 + math.exp(-x))),
        (F.tanh, lambda x: (math.exp(2 * x) - 1) / (math.exp(2 * x) + 1)),
        (F.silu, lambda x: x / (1 + math.exp(-x))),
        (F.gelu, lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
        (partial(F.gelu, approximate="tanh"), lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
    ],
)
def test_activations_by_their_formulas(function, formula):
    x = np.linspace(-5.0, 5.0, 23)
    assert np.allclose(function(minigrad.tensor(x)).data, [formula(v) for v in x], rtol=1e-12, atol=1e-15)


# Losses -------------------------------------------------------------------------------------------------------


def reference_loss(logits, targets, smoothing=0.0):
    """The loss of each row, by the textbook formula."""
    log_p = np.log(np.exp(logits) / np.exp(logits).sum(-1, keepdims=True))
    return -(1 - smoothing) * log_p[np.arange(len(targets)), targets] - smoothing * log_p.mean(-1)


@pytest.mark.parametrize("smoothing", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("targets", "options"), [([1, -100, 2], {}), ([1, -1, 2], {"ignore_index": -1}), ([1, 3, 2], {"ignore_index": 3})])
def test_ignored_targets_count_nowhere(targets, options, smoothing):
    x = leaf(normal(3, 3, 5))
    y = F.cross_entropy(x, minigrad.tensor(targets), label_smoothing=smoothing, **options)
    assert y.item() == pytest.approx(reference_loss(x.data[[0, 2]], [1, 2], smoothing).mean())
    y.backward()
    assert [row.any() for row in x.grad.data] == [True, False, True]


def test_one_sample_is_a_row():
    logits, targets = minigrad.tensor(normal(3, 3, 5)), minigrad.tensor([4, 0, 2])
    losses = F.cross_entropy(logits, targets, reduction="none")
    assert losses.tolist() == pytest.approx([F.cross_entropy(logits[i], targets[i]).item() for i in range(3)])


def test_sequences_are_flattened_rows():
    logits, targets = minigrad.tensor(normal(3, 2, 3, 5)), minigrad.tensor(TARGETS)  # (b, t, v), (b, t)
    flat = F.cross_entropy(logits.reshape(-1, 5), targets.reshape(-1))
    assert flat.item() == pytest.approx(reference_loss(logits.data.reshape(6, 5), np.ravel(TARGETS)).mean())
    assert F.cross_entropy(logits.transpose(1, 2), targets).item() == pytest.approx(flat.item())  # (b, v, t)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_loss_of_log_probabilities_is_cross_entropy(reduction):
    x, targets = minigrad.tensor(normal(3, 2, 5, 3)), minigrad.tensor([[4, -100, 2], [1, 1, 3]])
    expected = F.cross_entropy(x, targets, reduction=reduction)
    assert np.allclose(F.nll_loss(F.log_softmax(x, dim=1), targets, reduction=reduction).data, expected.data, rtol=1e-12)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_everything_ignored_is_nan_for_the_mean_and_0_for_the_sum(smoothing):
    for reduction, expected in (("mean", math.nan), ("sum", 0.0), ("none", [0.0, 0.0])):
        x = leaf(normal(3, 2, 3))
        y = F.cross_entropy(x, minigrad.tensor([-100, -100]), reduction=reduction, label_smoothing=smoothing)
        assert np.array_equal(y.data, expected, equal_nan=True)
        y.sum().backward()
        assert not x.grad.data.any()


def test_large_logits_neither_overflow_nor_are_clamped():
    x = leaf([[1000.0, 0.0], [0.0, -1000.0]])
    y = F.cross_entropy(x, minigrad.tensor([1, 1]), reduction="sum")
    y.backward()
    assert y.item() == 2000.0
    assert x.grad.tolist() == [[1.0, -1.0], [1.0, -1.0]]


def test_log_softmax_is_finite_where_the_softmax_underflows():
    x = leaf([[0.0, -200.0]])
    y = F.log_softmax(x, dim=-1)
    assert y.tolist() == [[0.0, -200.0]]
    y[0, 1].backward()
    assert x.grad.tolist() == [[-1.0, 1.0]]


@pytest.mark.parametrize(("x", "y"), [((5, 1), (5,)), ((5,), (5, 1)), ((3, 5), (5,))])
def test_mse_loss_warns_of_shapes_that_differ(x, y):
    with pytest.warns(UserWarning, match=r"mse_loss: input \({}.*target \({}".format(*map(str, (x[0], y[0])))) as caught:
        F.mse_loss(minigrad.zeros(x), minigrad.zeros(y))
    assert all(str(shape) in str(caught[0].message) for shape in (x, y))
    assert caught[0].filename == __file__


def test_one_hot():
    y = F.one_hot(minigrad.tensor([2, 0]), num_classes=5)
    assert y.tolist() == [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0]]
    assert y.dtype == minigrad.int64
    assert F.one_hot(minigrad.tensor([[2], [0]])).shape == (2, 1, 3)


# Dropout ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.1, 0.5, 0.75])
def test_dropout_drops_this_share_and_keeps_the_mean(p):
    minigrad.manual_seed(7)
    y = F.dropout(minigrad.ones(211, 307), p).data
    assert (y == 0).mean() == pytest.approx(p, abs=0.01)
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / (1 - p))}
    assert y.mean() == pytest.approx(1.0, abs=0.03)
    for axis in (0, 1):  # each number has its own lot, not each row or column
        assert (y == 0).mean(axis).std() < 0.1


def test_dropout_of_nothing_everything_and_in_eval():
    x = leaf(normal(3, 5, 7))
    assert F.dropout(x, 0.0) is x
    assert F.dropout(x, 0.7, training=False) is x
    y = F.dropout(x, 1.0)
    y.sum().backward()
    assert not y.data.any()
    assert not x.grad.data.any()


def test_the_gradient_of_dropout_has_the_same_holes():
    x = leaf(np.full((11, 13), 3.0))
    y = F.dropout(x, 0.5)
    y.sum().backward()
    assert (x.grad.data == y.data / 3).all()
    assert 0 < (y.data == 0).sum() < 143


def test_dropout_draws_anew_but_the_seed_decides():
    def draw():
        return F.dropout(minigrad.ones(5, 7)).tolist()

    minigrad.manual_seed(7)
    first, second = draw(), draw()
    minigrad.manual_seed(7)
    assert draw() == first != second


def test_a_dropped_inf_is_gone():
    x = leaf(np.full(64, INF))
    y = F.dropout(x, 0.5)
    assert set(y.tolist()) == {0.0, INF}
    y.sum().backward()
    assert set(x.grad.tolist()) == {0.0, 2.0}


# Normalisation ------------------------------------------------------------------------------------------------


def test_layer_norm_takes_the_biased_variance_and_eps_inside_the_root():
    x = np.array([[3.0, 0.0, 0.0, 0.0], [0.0, 1e-3, 0.0, 0.0], [1.0, 2.0, -5.0, 7.0]])
    mean = x.sum(-1, keepdims=True) / 4
    expected = (x - mean) / np.sqrt(((x - mean) ** 2).sum(-1, keepdims=True) / 4 + 1e-5)
    assert np.allclose(F.layer_norm(minigrad.tensor(x), 4).data, expected, rtol=1e-12)


def test_rms_norm_takes_eps_inside_the_root():
    x = np.array([[3.0, 0.0, 0.0, 0.0], [0.0, 1e-3, 0.0, 0.0], [1.0, 2.0, -5.0, 7.0]])
    expected = x / np.sqrt((x**2).sum(-1, keepdims=True) / 4 + 1e-5)
    assert np.allclose(F.rms_norm(minigrad.tensor(x), 4, eps=1e-5).data, expected, rtol=1e-12)
    for dtype in (np.float32, np.float64):  # by default the eps of the dtype
        tiny = F.rms_norm(minigrad.tensor(np.array([1e-30], dtype)), 1)
        assert tiny.item() / 1e-30 == pytest.approx(1 / math.sqrt(np.finfo(dtype).eps), rel=1e-6)


def test_a_constant_row_becomes_the_bias_with_finite_gradients():
    x, weight, bias = leaf([[5.0, 5.0, 5.0]]), leaf([2.0, 2.0, 2.0]), leaf([7.0, 8.0, 9.0])
    y = F.layer_norm(x, 3, weight, bias)
    assert y.tolist() == [[7.0, 8.0, 9.0]]
    y.backward(minigrad.tensor([[1.0, 2.0, 3.0]]))
    assert np.allclose(x.grad.data, 2 * np.array([[-1.0, 0.0, 1.0]]) / math.sqrt(1e-5))
    assert weight.grad.tolist() == [0.0, 0.0, 0.0]
    assert bias.grad.tolist() == [1.0, 2.0, 3.0]


def test_rows_of_length_1():
    x, weight, bias = leaf([[2.0], [3.0]]), leaf([5.0]), leaf([7.0])
    y = F.layer_norm(x, 1, weight, bias)
    y.sum().backward()
    assert y.tolist() == [[7.0], [7.0]]
    assert (x.grad.tolist(), weight.grad.tolist(), bias.grad.tolist()) == ([[0.0], [0.0]], [0.0], [2.0])
    assert np.allclose(F.rms_norm(minigrad.tensor([[2.0], [-3.0]]), 1, eps=0.0).data, [[1.0], [-1.0]])


@pytest.mark.parametrize("size", [1e-30, 1e-8, 1e8, 1e30])
@pytest.mark.parametrize("norm", [F.layer_norm, F.rms_norm])
def test_norms_of_very_small_and_very_large_float32(norm, size):
    values = size * normal(3, 2, 5)
    x = leaf(values.astype(np.float32))
    y = norm(x, 5, eps=1e-12)
    exact = values - values.mean(-1, keepdims=True) if norm is F.layer_norm else values
    exact = exact / np.sqrt((exact**2).mean(-1, keepdims=True) + 1e-12)
    assert np.allclose(y.data, exact, rtol=1e-5, atol=1e-6 * np.abs(exact).max())
    y.backward(minigrad.tensor(normal(4, 2, 5).astype(np.float32)))
    assert np.isfinite(x.grad.data).all()
    assert x.grad.data.any()


@pytest.mark.parametrize("norm", [F.layer_norm, F.rms_norm])
def test_two_dims_are_normalised_as_one_row(norm):
    x = minigrad.tensor(normal(3, 2, 3, 5))
    assert np.allclose(norm(x, (3, 5), eps=0.1).data, norm(x.reshape(2, 15), 15, eps=0.1).data.reshape(2, 3, 5), rtol=1e-12)


@pytest.mark.parametrize("norm", [F.layer_norm, F.rms_norm])
def test_norms_take_an_int_a_tuple_or_a_list(norm):
    x = minigrad.tensor(normal(3, 2, 5))
    assert norm(x, 5).tolist() == norm(x, (5,)).tolist() == norm(x, [5]).tolist()


# Embedding ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding_idx", [5, -2])
def test_embedding_of_repeated_ids_and_of_padding(padding_idx):
    weight = leaf(np.arange(14.0).reshape(7, 2))
    y = F.embedding(minigrad.tensor([[5, 0], [0, 5]]), weight, padding_idx)
    assert y.tolist() == [[[10, 11], [0, 1]], [[0, 1], [10, 11]]]
    y.backward(minigrad.tensor([[[1.0, 2.0], [10.0, 20.0]], [[100.0, 200.0], [3.0, 4.0]]]))
    assert weight.grad.tolist() == [[110, 220], *[[0, 0]] * 6]


# Attention: PyTorch's meaning ---------------------------------------------------------------------------------


def attend(q, k, v, **options):
    return F.scaled_dot_product_attention(*(minigrad.tensor(x, dtype=minigrad.float64) for x in (q, k, v)), **options)


NOTHING_ASKED = np.zeros((2, 3))  # queries of zeros: all scores are 0
KEYS, VALUES = normal(5, 2, 3), [[4.0], [8.0]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[6], [6]]),
        ({"attn_mask": minigrad.tensor([[True, False], [True, True]])}, [[4], [6]]),  # True = may attend
        ({"attn_mask": minigrad.tensor([[True, False], [False, False]])}, [[4], [0]]),
        ({"attn_mask": minigrad.tensor([[0.0, math.log(3)], [-INF, 0.0]])}, [[7], [8]]),  # added: weights 1/4 and 3/4
        ({"attn_mask": minigrad.tensor([[-INF, -INF], [-INF, 0.0]])}, [[0], [8]]),
        ({"is_causal": True}, [[4], [6]]),
        ({"dropout_p": 1.0}, [[0], [0]]),
    ],
)
def test_attention_on_paper(options, expected):
    assert np.allclose(attend(NOTHING_ASKED, KEYS, VALUES, **options).data, expected, rtol=1e-7)


def test_scale():
    q, k, v = [[2.0, 0.0, 0.0, 0.0]], [[0.0] * 4, [math.log(3), 0, 0, 0]], [[4.0], [8.0]]
    assert attend(q, k, v).item() == pytest.approx(7.0)  # the score 2 ln 3 by sqrt 4
    assert attend(q, k, v, scale=1.0).item() == pytest.approx(7.6)  # weights 1/10, 9/10
    assert attend(q, k, v, scale=0.0).item() == pytest.approx(6.0)
    tensors, scale = made(QKV), leaf(np.array(0.7))  # a scale to learn
    assert minigrad.gradcheck(lambda q, k, v, scale: F.scaled_dot_product_attention(q, k, v, scale=scale), [*tensors, scale])
    fixed = F.scaled_dot_product_attention(*tensors, scale=0.7)
    assert np.allclose(F.scaled_dot_product_attention(*tensors, scale=scale).data, fixed.data, rtol=1e-12)


@pytest.mark.parametrize("mask", [np.array(ONE_BLIND), np.where(ONE_BLIND, 0.0, -INF)], ids=["bool", "float"])
def test_a_blind_row_is_zeros_and_all_gradients_are_finite(mask):
    q, k, v = made(QKV)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=minigrad.tensor(mask))
    y.backward(minigrad.tensor(normal(1, *y.shape)))
    assert not y.data[:, 1].any()
    assert y.data[:, [0, 2, 3, 4]].all()
    assert not q.grad.data[:, 1].any()
    assert all(np.isfinite(x.grad.data).all() and x.grad.data.any() for x in (q, k, v))


@pytest.mark.parametrize(("n", "m"), [(5, 5), (1, 3), (2, 3), (5, 3)])
def test_is_causal_counts_from_the_top_left(n, m):
    q, k, v = made([(2, n, 7), (2, m, 7), (2, m, 11)])
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    seen = minigrad.tensor(np.tril(np.ones((n, m), bool)))
    assert np.allclose(y.data, F.scaled_dot_product_attention(q, k, v, attn_mask=seen).data, rtol=1e-12)
    assert (y.data[:, 0] == v.data[:, 0]).all()  # the first query sees the first key only, wherever n and m stand
    y[:, 0].sum().backward()
    assert not k.grad.data[:, 1:].any()
    assert not v.grad.data[:, 1:].any()
    assert (v.grad.data[:, 0] == 1).all()


def test_masks_mean_the_opposite_of_the_chapters():
    q, k, v = made(QKV)
    hidden = minigrad.tensor(~np.array(SEEN))
    ours, _ = chapter_attention(q, k, v, causal=False, mask=hidden)
    assert np.allclose(F.scaled_dot_product_attention(q, k, v, attn_mask=~hidden).data, ours.data, rtol=1e-12)


def test_leading_axes_broadcast():
    q, k, v = made([(2, 1, 5, 7), (3, 3, 7), (3, 11)])
    y = F.scaled_dot_product_attention(q, k, v)
    assert y.shape == (2, 3, 5, 11)
    one = F.scaled_dot_product_attention(q[1, 0], k[2], v)
    assert np.allclose(y.data[1, 2], one.data, rtol=1e-12)
    assert minigrad.gradcheck(F.scaled_dot_product_attention, [q, k, v])


ATTENTION = {name.partition(": ")[2] or "plain": case for name, case in CASES.items() if name.startswith("scaled")}


@pytest.mark.parametrize("case", ATTENTION.values(), ids=ATTENTION)
def test_attention_with_dropout_takes_other_steps_to_the_same_numbers(case):
    call, *inputs = case
    dropping = SimpleNamespace(scaled_dot_product_attention=partial(F.scaled_dot_product_attention, dropout_p=1e-30))
    results = []
    for functional in (F, dropping):
        tensors = made(inputs)
        y = call(functional, *tensors)
        y.backward(minigrad.tensor(normal(1, *y.shape)))
        results.append([y.data, *(t.grad.data for t in tensors if t.requires_grad)])
    assert all(np.allclose(a, b, rtol=1e-10, atol=1e-12) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("mask", [None, minigrad.ones(4).bool()], ids=["plain", "mask"])
def test_attention_drops_weights_not_outputs(mask):
    minigrad.manual_seed(7)
    y = F.scaled_dot_product_attention(minigrad.zeros(301, 1), minigrad.zeros(4, 1), minigrad.ones(4, 1), mask, dropout_p=0.5)
    assert set(y.data.ravel().tolist()) == {0.0, 0.5, 1.0, 1.5, 2.0}  # the sum of four weights of 1/4, each doubled or dropped
    assert y.data.mean() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_float_mask_does_not_change_the_dtype(dtype, dropout_p):
    q, k, v = made(QKV, "float32")
    mask = minigrad.tensor(np.zeros((5, 3), dtype))
    assert F.scaled_dot_product_attention(q, k, v, mask, dropout_p).dtype == minigrad.float32


# Errors -------------------------------------------------------------------------------------------------------


def ones(*shape):
    return minigrad.ones(*shape)


def ids(*numbers):
    return minigrad.tensor(list(numbers))


SEEING = minigrad.ones(5, 3).bool()
ERRORS = [
    (lambda: F.linear(ones(5, 2), ones(2, 3)), ValueError, ["linear", "must be 3", "(5, 2)", "(2, 3)"]),
    (lambda: F.linear(ones(5, 4), ones(2, 3), ones(2)), ValueError, ["in_features", "must be 3", "(5, 4)"]),
    (lambda: F.linear(ones(5, 3), ones(2, 3), ones(3)), ValueError, ["(2, 3)", "bias (3,)"]),
    (lambda: F.linear(minigrad.tensor(2.0), ones(2, 3)), ValueError, ["must be 3", "()"]),
    (lambda: F.linear(ones(5, 3).double(), ones(2, 3)), TypeError, ["float64", "float32", "x.to(weight.dtype)"]),
    (lambda: F.linear(ones(5, 3), ones(2, 3), ones(2).double()), TypeError, ["bias", "float64", "float32"]),
    (lambda: F.linear(ids(1, 2, 3), ones(2, 3)), TypeError, ["int64", "float32"]),
    (lambda: F.linear(np.ones(3), ones(2, 3)), TypeError, ["linear takes a Tensor, got ndarray"]),
    (lambda: F.embedding(ids(1, 7), ones(7, 2)), IndexError, ["id 7", "0 to 6"]),
    (lambda: F.embedding(ids(1, -1), ones(7, 2)), IndexError, ["id -1", "0 to 6"]),
    (lambda: F.embedding(ones(3), ones(7, 2)), TypeError, ["float32", ".long()"]),
    (lambda: F.embedding([1], ones(7, 2)), TypeError, ["embedding takes a Tensor, got list"]),
    (lambda: F.embedding(ids(1), ones(7)), ValueError, ["(num_embeddings, dim)", "(7,)"]),
    (lambda: F.embedding(ids(1), ones(7, 2), padding_idx=7), IndexError, ["padding_idx 7", "7 rows"]),
    (lambda: F.embedding(ids(1), ones(7, 2), padding_idx=-8), IndexError, ["padding_idx -8", "7 rows"]),
    (lambda: F.cross_entropy(ones(2, 3, 5), minigrad.zeros(2, 3).long()), ValueError, ["(2, 3, 5)", "(2, 5)", "(2, 3)", "reshape(-1, v)"]),
    (lambda: F.cross_entropy(ones(3, 5), ids(0, 1)), ValueError, ["(3, 5)", "(3,)", "(2,)"]),
    (lambda: F.cross_entropy(ones(2, 5), ids(0, 5)), IndexError, ["target 5", "0 to 4"]),
    (lambda: F.cross_entropy(ones(2, 5), ids(0, -1)), IndexError, ["target -1", "0 to 4"]),
    (lambda: F.cross_entropy(ones(2, 5), ids(0, -100), ignore_index=3), IndexError, ["target -100", "0 to 4"]),
    (lambda: F.cross_entropy(ones(2, 5), ones(2)), TypeError, ["float32", ".long()"]),
    (lambda: F.cross_entropy(ones(2, 5), [0, 1]), TypeError, ["target", "list"]),
    (lambda: F.cross_entropy(ones(2, 5), ids(0, 1), reduction="avg"), ValueError, ["'mean', 'sum' or 'none'", "'avg'"]),
    (lambda: F.cross_entropy(ones(2, 5), ids(0, 1), label_smoothing=1.5), ValueError, ["[0, 1]", "1.5"]),
    (lambda: F.nll_loss(ones(2, 5), ids(0, 7)), IndexError, ["target 7", "0 to 4"]),
    (lambda: F.nll_loss(minigrad.tensor(1.0), minigrad.tensor(0)), ValueError, ["()"]),
    (lambda: F.mse_loss(ones(2), ones(2), reduction="avg"), ValueError, ["'mean', 'sum' or 'none'", "'avg'"]),
    (lambda: F.mse_loss(ones(2), [1.0, 1.0]), TypeError, ["target", "list"]),
    (lambda: F.one_hot(ids(0, 5), num_classes=5), IndexError, ["id 5", "0 to 4"]),
    (lambda: F.one_hot(ids(0, -1)), IndexError, ["id -1", "0 to 0"]),
    (lambda: F.one_hot(ones(2)), TypeError, ["float32", ".long()"]),
    (lambda: F.one_hot([1, 2]), TypeError, ["one_hot takes a Tensor, got list"]),
    (lambda: F.dropout(ones(2), p=1.5), ValueError, ["[0, 1]", "1.5"]),
    (lambda: F.dropout(ones(2), p=-0.5), ValueError, ["[0, 1]", "-0.5"]),
    (lambda: F.gelu(ones(2), approximate="fast"), ValueError, ["'none' or 'tanh'", "'fast'"]),
    (lambda: F.layer_norm(ones(2, 3), 2), ValueError, ["layer_norm", "(2,)", "(2, 3)"]),
    (lambda: F.layer_norm(ones(3), (2, 3)), ValueError, ["layer_norm", "(2, 3)", "(3,)"]),
    (lambda: F.layer_norm(ones(2, 3), 3, ones(1)), ValueError, ["layer_norm", "(3,)", "(1,)"]),
    (lambda: F.layer_norm(ones(2, 3), 3, ones(3), ones(2, 3)), ValueError, ["layer_norm", "(3,)", "(2, 3)"]),
    (lambda: F.rms_norm(ones(2, 3), 3, ones(2, 1)), ValueError, ["rms_norm", "(3,)", "(2, 1)"]),
    (lambda: F.rms_norm(ones(2, 3), 2), ValueError, ["rms_norm", "(2,)", "(2, 3)"]),
    (lambda: F.rms_norm(ids(1, 2), 2), TypeError, ["int64", "x.float()"]),
    (lambda: F.scaled_dot_product_attention(ones(5, 7), ones(3, 2), ones(3, 7)), ValueError, ["(5, 7)", "(3, 2)", "(3, 7)"]),
    (lambda: F.scaled_dot_product_attention(ones(5, 7), ones(3, 7), ones(2, 7)), ValueError, ["(5, 7)", "(3, 7)", "(2, 7)"]),
    (lambda: F.scaled_dot_product_attention(ones(7), ones(3, 7), ones(3, 7)), ValueError, ["(7,)", "(3, 7)"]),
    (
        lambda: F.scaled_dot_product_attention(ones(5, 7), ones(3, 7), ones(3, 7), attn_mask=SEEING, is_causal=True),
        ValueError,
        ["attn_mask", "is_causal", "not both"],
    ),
    (
        lambda: F.scaled_dot_product_attention(ones(5, 7), ones(3, 7), ones(3, 7), SEEING.long()),
        TypeError,
        ["int64", "True = may attend", ".bool()"],
    ),
    (lambda: F.scaled_dot_product_attention(ones(5, 7), ones(3, 7), ones(3, 7), SEEING.numpy()), TypeError, ["attn_mask", "ndarray"]),
    (lambda: F.scaled_dot_product_attention(ones(5, 7), ones(3, 7), ones(3, 7), SEEING[:2]), ValueError, ["(5, 3)", "(2, 3)"]),
    *[
        (lambda f=f: f([1.0]), TypeError, [f"{f.__name__} takes a Tensor, got list"])
        for f in (F.relu, F.gelu, F.silu, F.sigmoid, F.tanh, F.dropout)
    ],
]


@pytest.mark.parametrize(("call", "kind", "words"), ERRORS)
def test_errors_say_what_was_wrong(call, kind, words):
    with pytest.raises(kind) as error:
        call()
    assert [word for word in words if word not in str(error.value)] == []


@pytest.mark.parametrize("smoothing", [np.float64(0.1), np.float32(0.1), minigrad.tensor(0.1)])
def test_a_smoothing_of_any_kind_is_a_number_and_changes_no_dtype(smoothing):
    x, targets = minigrad.tensor(normal(3, 2, 5)).float(), minigrad.tensor([1, 4])
    loss = F.cross_entropy(x, targets, label_smoothing=smoothing)
    assert (loss.dtype, loss.item()) == (minigrad.float32, pytest.approx(F.cross_entropy(x, targets, label_smoothing=0.1).item()))


def test_bool_targets_are_refused_even_where_some_are_ignored() -> None:
    with pytest.raises(TypeError, match=r"target must be an integer, got bool; write \.long\(\)"):
        F.cross_entropy(minigrad.randn(2, 3), minigrad.tensor([True, False]), ignore_index=1)
