"""Attention as one op: against the four visible steps, central differences and PyTorch, cut into blocks of every kind.

Masks here: True = hidden. Letters: n queries, m keys, d and e features of a key and a value.
"""

import math
import sys
import tracemalloc

import numpy as np
import pytest

import layers as nn
import layers.functional as F
import minigrad
from minigrad.attention import attention, multi_head

module = sys.modules["minigrad.attention"]

SHAPES = {  # leading axes of q, k and v, then n, m, d, e
    "one head": ((), (), (), 7, 5, 3, 2),
    "heads": ((2, 3), (2, 3), (2, 3), 7, 7, 5, 5),
    "more keys": ((2, 3), (2, 3), (2, 3), 5, 11, 7, 3),
    "more queries": ((3,), (3,), (3,), 11, 5, 2, 7),
    "stretched": ((2, 3), (3,), (2, 1), 5, 7, 3, 2),
    "small": ((2,), (), (1,), 3, 5, 2, 2),
    "one query": ((2, 1), (5,), (2, 5), 1, 13, 3, 2),
    "larger": ((2,), (2,), (2,), 65, 67, 11, 13),
}
CUTS = {  # BLOCK, ROWS, KEEP
    "whole": (2**17, 64, 2**23),
    "whole, recomputed": (2**17, 64, 0),
    "rows": (1, 1, 2**23),
    "rows, recomputed": (30, 2, 0),
    "heads": (80, 3, 2**23),
}


def seldom(rng, shape):  # hides a quarter
    return rng.random(shape) < 0.25


MASKS = {  # (rng, leading axes, n, m) -> options of the op
    "none": lambda rng, lead, n, m: {},
    "top left": lambda rng, lead, n, m: {"offset": 0},
    "bottom right": lambda rng, lead, n, m: {"offset": m - n},
    "far": lambda rng, lead, n, m: {"offset": 2 - n},  # most queries see nothing
    "hidden": lambda rng, lead, n, m: {"hidden": seldom(rng, (n, m))},
    "hidden keys": lambda rng, lead, n, m: {"hidden": seldom(rng, (*lead[:1], *(1 for _ in lead[1:]), 1, m))},
    "hidden, offset": lambda rng, lead, n, m: {"hidden": seldom(rng, (*lead, n, m)), "offset": m - n},
    "all hidden": lambda rng, lead, n, m: {"hidden": np.ones((n, 1), bool)},
    "bias": lambda rng, lead, n, m: {"bias": rng.standard_normal((n, m))},
    "bias of heads": lambda rng, lead, n, m: {"bias": rng.standard_normal((*lead[-1:], 1, m))},
    "bias, offset": lambda rng, lead, n, m: {"bias": rng.standard_normal((*lead, n, m)), "offset": 0},
    "bias with -inf": lambda rng, lead, n, m: {"bias": np.where(seldom(rng, (n, m)), -math.inf, rng.standard_normal((n, m)))},
}


def cut(monkeypatch, name):
    for constant, value in zip(("BLOCK", "ROWS", "KEEP"), CUTS[name], strict=True):
        monkeypatch.setattr(module, constant, value)


def case(rng, shape, mask, size=1.0):
    """q, k, v and the options of the op, in float64; and the leading axes."""
    lead_q, lead_k, lead_v, n, m, d, e = SHAPES[shape]
    lead = np.broadcast_shapes(lead_q, lead_k, lead_v)
    arrays = [rng.standard_normal((*lead_q, n, d)) * size, rng.standard_normal((*lead_k, m, d)), rng.standard_normal((*lead_v, m, e))]
    return arrays, MASKS[mask](rng, lead, n, m), lead


def steps(q, k, v, bias=None, *, scale, hidden=None, offset=None):
    """The four visible steps, with every kind of mask: tensors -> tensor. A row of hidden scores gets zero weights."""
    n, m = q.shape[-2], k.shape[-2]
    gone = np.zeros((n, m), bool) if hidden is None else hidden
    if offset is not None:
        gone = gone | (np.arange(m) > np.arange(n)[:, None] + offset)
    if bias is not None:
        gone = gone | (bias.data == -math.inf)
    blind = minigrad.tensor(gone.all(-1, keepdims=True))
    scores = q @ k.mT * scale  # 1.
    if bias is not None:
        scores = scores + bias.masked_fill(blind, 0.0)
    scores = scores.masked_fill(minigrad.tensor(gone) & ~blind, -math.inf)  # 2.
    weights = scores.softmax(-1).masked_fill(blind, 0.0)  # 3.
    return weights @ v  # 4.


def run(function, arrays, options, dtype=np.float64, seed=7):
    """The value and the gradients of q, k, v (and the bias) for a random cotangent."""
    options = dict(options)
    bias = [options.pop("bias")] if "bias" in options else []
    inputs = [minigrad.tensor(x.astype(dtype), requires_grad=True) for x in (*arrays, *bias)]
    y = function(*inputs, **options)
    y.backward(minigrad.tensor(np.random.default_rng(seed).standard_normal(y.shape).astype(dtype)))
    return [y.detach().numpy(), *(x.grad.numpy() for x in inputs)]


def fused(*inputs, **options):
    return minigrad.apply(attention, *inputs, **options)


def close(got, expected, tolerance):
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max(initial=0) <= tolerance * max(1.0, np.abs(b).max(initial=0))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES)
def test_same_numbers_as_the_four_steps(shape, mask, rng, monkeypatch):
    arrays, options, _ = case(rng, shape, mask)
    arrays, options = [x.astype(np.float32) for x in arrays], {"scale": 0.7, **options}
    if "bias" in options:
        options["bias"] = options["bias"].astype(np.float32)
    expected = run(steps, arrays, options)
    for cut_name in CUTS:
        cut(monkeypatch, cut_name)
        close(run(fused, arrays, options), expected, 1e-13)
    single = run(fused, arrays, options, np.float32)
    assert all(x.dtype == np.float32 for x in single)
    close(single, expected, 3e-6)


@pytest.mark.parametrize("cut_name", ["whole", "rows, recomputed"])
@pytest.mark.parametrize("mask", MASKS)
def test_central_differences(mask, cut_name, rng, monkeypatch):
    arrays, options, _ = case(rng, "small", mask)
    cut(monkeypatch, cut_name)
    bias = options.pop("bias", None)
    inputs = [minigrad.tensor(x, requires_grad=True) for x in arrays]
    if bias is not None:  # a difference at -inf says nothing: its gradient is checked against the steps
        inputs.append(minigrad.tensor(bias, requires_grad=bool(np.isfinite(bias).all())))
    assert minigrad.gradcheck(lambda *x: fused(*x, scale=0.7, **options), inputs)


@pytest.mark.parametrize("mask", ["none", "top left", "hidden", "bias", "bias with -inf", "all hidden"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", ["heads", "more keys", "more queries"])
def test_same_numbers_as_pytorch(shape, dtype, mask, rng, torch, monkeypatch):
    arrays, options, _ = case(rng, shape, mask)
    cut(monkeypatch, "rows, recomputed")
    attn_mask = options.get("bias", ~options["hidden"] if "hidden" in options else None)  # PyTorch's True = may attend
    if attn_mask is not None:
        arrays.append(np.broadcast_to(attn_mask, (arrays[0].shape[-2], arrays[1].shape[-2])))

    def on(lib, function, tensors):
        inputs = [lib.tensor(x if x.dtype == bool else x.astype(dtype)) for x in tensors]
        for x in inputs:
            x.requires_grad_(x.dtype != lib.bool)
        y = function(*inputs, is_causal="offset" in options)
        y.backward(lib.tensor(np.random.default_rng(7).standard_normal(y.shape).astype(dtype)))
        return [y.detach().numpy(), *(x.grad.numpy() for x in inputs if x.requires_grad)]

    expected = on(torch, torch.nn.functional.scaled_dot_product_attention, arrays)
    close(on(minigrad, F.scaled_dot_product_attention, arrays), expected, 1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("size", [1.0, 1e3, 1e30])
def test_kept_and_recomputed_weights_are_the_same_bits(mask, size, rng, monkeypatch):
    arrays, options, _ = case(rng, "heads", mask, size)
    both = []
    for name in ("whole", "whole, recomputed"):
        cut(monkeypatch, name)
        both.append(run(fused, arrays, {"scale": 0.7, **options}, np.float32))
    assert all(np.array_equal(a, b) for a, b in zip(*both, strict=True))


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("size", [30.0, 1e3, 1e30])  # sums of exp(S): some out of range, most of them, all of them
@pytest.mark.parametrize("cut_name", ["whole", "rows, recomputed"])
def test_scores_of_any_size(mask, size, cut_name, rng, monkeypatch):
    arrays, options, _ = case(rng, "heads", mask, size)
    options = {"scale": 1.0, **options}
    cut(monkeypatch, cut_name)
    got, expected = run(fused, arrays, options), run(steps, arrays, options)
    assert all(np.isfinite(x).all() for x in got)
    for result in (got, expected):
        result[2] /= size  # dK = scale * dS^T Q, so the rounding in dS is multiplied by the size of Q
    close(got, expected, 1e-11)


@pytest.mark.parametrize("base", [-1e4, -100.0, -95.0, -87.0, -30.0, 0.0, 30.0, 70.0, 87.0, 89.0, 1e4])  # float32's exp: -87 to 88
def test_a_row_may_lie_anywhere(base):
    k = base + np.array([[0.0], [0.25], [0.75], [-0.5]])
    weights = np.exp(k[:, 0] - base) / np.exp(k[:, 0] - base).sum()
    y, *_ = run(fused, [np.ones((2, 1)), k, np.eye(4)], {"scale": 1.0}, np.float32)
    assert np.allclose(y, weights, rtol=5e-7)


def test_infinite_scores_that_are_hidden_do_no_harm():
    q, k = np.array([[1e30], [1e30]]), np.array([[1.0], [1e30]])  # in float32 the product of 1e30 and 1e30 is inf
    y, *grads = run(fused, [q, k, np.eye(2)], {"scale": 1.0, "hidden": np.array([[False, True], [False, True]])}, np.float32)
    assert np.array_equal(y, [[1.0, 0.0]] * 2)
    assert all(np.isfinite(x).all() for x in grads)


@pytest.mark.parametrize("mask", ["all hidden", "far", "bias with -inf"])
@pytest.mark.parametrize("cut_name", CUTS)
def test_a_query_that_sees_nothing_gets_zeros(mask, cut_name, rng, monkeypatch):
    arrays, options, _ = case(rng, "heads", mask)
    if "bias" in options:
        options["bias"][2] = -math.inf
    cut(monkeypatch, cut_name)
    y, dq, *others = run(fused, arrays, {"scale": 0.7, **options})
    blind = slice(None) if mask == "all hidden" else slice(0, 5) if mask == "far" else 2
    assert not y[..., blind, :].any()
    assert not dq[..., blind, :].any()
    assert all(np.isfinite(x).all() for x in others)


def test_later_keys_may_be_anything(rng):
    (q, k, v), _, _ = case(rng, "heads", "none")
    before = fused(*(minigrad.tensor(x) for x in (q, k, v)), scale=0.7, offset=0).data
    k[..., 4:, :] = math.nan
    after = fused(*(minigrad.tensor(x) for x in (q, k, v)), scale=0.7, offset=0).data
    assert np.array_equal(after[..., :4, :], before[..., :4, :])


@pytest.mark.parametrize("cut_name", CUTS)
@pytest.mark.parametrize("change", [1.0, 1e30])
def test_later_tokens_reach_nothing_earlier_not_even_the_rounding(cut_name, change, rng, monkeypatch):
    (q, k, v), _, _ = case(rng, "heads", "none")
    cut(monkeypatch, cut_name)
    before = fused(*(minigrad.tensor(x) for x in (q, k, v)), scale=0.7, offset=0).data
    assert np.array_equal(before[..., 0, :], v[..., 0, :])  # the first token sees itself only
    for t in range(1, 7):
        changed = [x.copy() for x in (q, k, v)]
        for x in changed:
            x[..., t:, :] += change
        inputs = [minigrad.tensor(x, requires_grad=True) for x in changed]
        y = fused(*inputs, scale=0.7, offset=0)
        assert np.array_equal(y.data[..., :t, :], before[..., :t, :])
        y[..., :t, :].sum().backward()
        assert not any(x.grad.data[..., t:, :].any() for x in inputs)


@pytest.mark.parametrize("cut_name", CUTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("offset", [None, -20, -2, 0, 3, 20])
def test_blocks_cover_every_pair_that_is_seen_once(cut_name, shape, offset, monkeypatch):
    lead_q, lead_k, lead_v, n, m, _, _ = SHAPES[shape]
    lead = np.broadcast_shapes(lead_q, lead_k, lead_v)
    cut(monkeypatch, cut_name)
    count, rows_count = np.zeros((*lead, n, m), int), np.zeros((*lead, n, 1), int)
    for rows, _, _, pairs in module._blocks(lead, n, m, offset, module.ROWS, module.BLOCK):
        assert count[pairs].size <= max(module.BLOCK, module.ROWS * m)
        count[pairs] += 1
        rows_count[rows] += 1
    assert (rows_count == 1).all()
    assert count.max() <= 1
    seen = True if offset is None else np.arange(m) <= np.arange(n)[:, None] + offset
    assert (count[..., :, :] >= seen).all()
    if offset == 0 and module.ROWS == 1:
        assert (count == seen).all()  # with single rows, nothing that is hidden is computed


@pytest.mark.parametrize(("lead", "n", "m"), [((2, 3), 0, 5), ((2, 3), 5, 0), ((0, 3), 5, 7)])
@pytest.mark.parametrize("offset", [None, 0])
def test_nothing_to_attend_to(lead, n, m, offset):
    shapes = [(*lead, n, 2), (*lead, m, 2), (*lead, m, 3)]
    y, *grads = run(fused, [np.ones(s) for s in shapes], {"scale": 1.0, "offset": offset})
    assert y.shape == (*lead, n, 3)
    assert not y.any()
    assert [x.shape for x in grads] == shapes
    assert not any(x.any() for x in grads)


def test_gradients_are_computed_once_for_each_incoming_one(rng):
    arrays, _, _ = case(rng, "heads", "none")
    y, *vjps = attention(*arrays, scale=0.7)
    g = rng.standard_normal(y.shape)
    first = [vjp(g) for vjp in vjps]
    assert all(vjp(g) is x for vjp, x in zip(vjps, first, strict=True))
    assert all(np.allclose(vjp(2 * g), 2 * x) for vjp, x in zip(vjps, first, strict=True))


def test_one_tensor_as_query_key_and_value(rng):
    x = rng.standard_normal((2, 5, 3))
    one = minigrad.tensor(x, requires_grad=True)
    y = fused(one, one, one, scale=0.7, offset=0)
    y.backward(minigrad.tensor(rng.standard_normal(y.shape)))
    three = [minigrad.tensor(x, requires_grad=True) for _ in range(3)]
    y = fused(*three, scale=0.7, offset=0)
    rng = np.random.default_rng(0)
    rng.standard_normal((2, 5, 3))
    y.backward(minigrad.tensor(rng.standard_normal(y.shape)))
    assert np.allclose(one.grad.data, sum(t.grad.data for t in three), rtol=1e-12)


def test_memory_grows_with_the_tokens_not_with_their_square(rng, monkeypatch):
    n = 2001  # scores of 15 MiB in float32
    monkeypatch.setattr(module, "KEEP", 2**20)
    inputs = [minigrad.tensor(rng.standard_normal((n, 4)).astype(np.float32), requires_grad=True) for _ in range(3)]
    tracemalloc.start()
    try:
        F.scaled_dot_product_attention(*inputs, is_causal=True).sum().backward()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20


def test_keys_are_copied_in_columns_only_where_it_pays():
    keys = np.arange(600.0).reshape(3, 100, 2)
    for x, rows in [(keys, 63), (keys, 49), (np.broadcast_to(keys[:1], keys.shape), 64), (np.zeros((3, 129, 2)), 64)]:
        assert np.shares_memory(module._columns(x, rows), x)
    columns = module._columns(keys, 64)
    assert columns.flags.c_contiguous
    assert np.array_equal(columns, keys.swapaxes(-1, -2))


# The layers that use it ---------------------------------------------------------------------------------------


def used(y):
    """The names of the ops a tensor was computed with."""
    names, waiting = set(), [y]
    while waiting:
        x = waiting.pop()
        names.add(x._op_name())
        waiting += [parent for parent, _ in x._pairs]
    return names


@pytest.mark.parametrize("mask", [None, (5, 7), (2, 5, 7), (2, 3, 5, 7)])
@pytest.mark.parametrize("causal", [True, False])
def test_multi_head_attention_is_the_same_with_and_without_its_weights(causal, mask, rng):
    layer = nn.MultiHeadAttention(6, 3, causal=causal, bias=True).double()
    x, context = rng.standard_normal((2, 5, 6)), rng.standard_normal((2, 7, 6))
    hidden = None if mask is None else seldom(rng, mask)
    if mask is not None:
        hidden[..., 0] = False  # nobody is blind
        hidden = minigrad.tensor(hidden)
    g, results = minigrad.tensor(rng.standard_normal((2, 5, 6))), []
    for return_weights in (True, False):
        inputs = [minigrad.tensor(a, requires_grad=True) for a in (x, context)]
        layer.zero_grad()
        y = layer(*inputs, mask=hidden, return_weights=return_weights)
        y = y[0] if return_weights else y
        assert ("attention" in used(y)) is not return_weights
        y.backward(g)
        results.append([y.detach().numpy(), *(t.grad.numpy() for t in (*inputs, *layer.parameters()))])
    close(*results, 1e-13)


# Multi-head attention as one op --------------------------------------------------------------------------------


class Visible(nn.MultiHeadAttention):
    """A subclass that changed a method takes the way through its methods."""

    def project(self, x, context):
        return super().project(x, context)


def both(d_model, num_heads, **options):
    """The same weights in the layer that may be one op and in the one that is many."""
    layers = [kind(d_model, num_heads, **options).double() for kind in (nn.MultiHeadAttention, Visible)]
    layers[1].load_state_dict(layers[0].state_dict())
    return layers


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("num_heads", [1, 2, 5])
@pytest.mark.parametrize("causal", [True, False])
def test_multi_head_attention_in_one_op_has_the_numbers_of_its_steps(causal, num_heads, lead, dtype, rng):
    layers = both(10, num_heads, causal=causal)
    x, g = (rng.standard_normal((*lead, 7, 10)).astype(dtype) for _ in range(2))
    results = []
    for layer, of_which in zip(layers, ["multi_head", "attention"], strict=True):
        inputs = minigrad.tensor(x, requires_grad=True)
        y = layer.to(dtype)(inputs)
        assert of_which in used(y)
        y.backward(minigrad.tensor(g))
        results.append([y.detach().numpy(), *(t.grad.numpy() for t in (inputs, *layer.parameters()))])
        assert all(array.dtype == dtype for array in results[-1])
    close(*results, 1e-13 if dtype == "float64" else 2e-6)
    close([results[0][0]], [layers[0](minigrad.tensor(x), return_weights=True)[0].detach().numpy()], 1e-13 if dtype == "float64" else 2e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_central_differences_of_multi_head_attention(causal, rng):
    inputs = [minigrad.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((2, 3, 4), *[(4, 4)] * 4)]
    assert minigrad.gradcheck(lambda *x: minigrad.apply(multi_head, *x, num_heads=2, causal=causal), inputs)


@pytest.mark.parametrize("frozen", range(5))
def test_what_is_frozen_gets_no_gradient_and_the_others_keep_theirs(frozen, rng):
    arrays = [rng.standard_normal(shape) for shape in ((2, 3, 4), *[(4, 4)] * 4)]
    gradients = []
    for without in (None, frozen):
        inputs = [minigrad.tensor(x, requires_grad=i != without) for i, x in enumerate(arrays)]
        minigrad.apply(multi_head, *inputs, num_heads=2, causal=True).sum().backward()
        gradients.append([x.grad for x in inputs])
    assert gradients[1].pop(frozen) is None
    del gradients[0][frozen]
    assert all(a.equal(b) for a, b in zip(*gradients, strict=True))


class Doubled(nn.Linear):
    def forward(self, x):
        return 2.0 * super().forward(x)


@pytest.mark.parametrize("name", ["W_q", "W_k", "W_v", "W_o"])
def test_a_map_that_was_replaced_is_used(name, rng):
    layer = nn.MultiHeadAttention(6, 2).double()
    x = minigrad.tensor(rng.standard_normal((2, 5, 6)))
    doubled = Doubled(6, 6, bias=False)
    doubled.weight.data = getattr(layer, name).weight.data / 2.0
    expected = layer(x)
    setattr(layer, name, doubled)
    assert layer(x).allclose(expected, 1e-12)
    biased = nn.Linear(6, 6).double()
    biased.weight.data, biased.bias.data = doubled.weight.data * 2.0, np.ones(6)
    setattr(layer, name, biased)
    shifted = layer(x)
    assert shifted.allclose(expected + 1.0) if name == "W_o" else name == "W_k" or not shifted.allclose(expected)  # K's bias cancels


@pytest.mark.parametrize("of", ["object", "class"])
@pytest.mark.parametrize("name", ["project", "attend", "split_heads", "merge_heads", "forward of W_k"])
def test_a_method_that_was_replaced_is_used(name, of, monkeypatch):
    layer, x = nn.MultiHeadAttention(6, 2).double(), minigrad.randn(5, 6, dtype="float64")
    owner, name = (layer.W_k, "forward") if " " in name else (layer, name)
    owner = type(owner) if of == "class" else owner
    method, calls = getattr(owner, name), []
    monkeypatch.setattr(owner, name, lambda *args: calls.append(args) or method(*args))
    expected = nn.MultiHeadAttention.attend(layer, *nn.MultiHeadAttention.project(layer, x, x))
    calls.clear()
    assert layer(x).allclose(expected, 1e-12)
    assert calls


@pytest.mark.parametrize("context", [False, True])
def test_without_one_op_the_steps_are_what_runs(context, rng, monkeypatch):
    layer, x = nn.MultiHeadAttention(6, 2).double(), minigrad.tensor(rng.standard_normal((2, 5, 6)))
    expected = layer(x, x if context else None)
    monkeypatch.setattr(sys.modules["layers.attention"], "ONE_OP", False)
    y = layer(x, x if context else None)
    assert "softmax" in used(y)
    assert not {"attention", "multi_head"} & used(y)
    assert y.allclose(expected, 1e-12)


def test_a_map_that_does_not_fit_is_refused_in_our_words(rng):
    layer = nn.MultiHeadAttention(6, 2)
    with pytest.raises(TypeError, match="the input is float64, the weight float32"):
        layer(minigrad.tensor(rng.standard_normal((5, 6))))
    x = minigrad.randn(5, 6)
    layer.W_k = nn.Linear(6, 4, bias=False)
    with pytest.raises(ValueError, match=r"view: shape \(5, 2, 3\) doesn't fit a tensor of shape \(5, 4\)"):
        layer(x)
    layer = nn.MultiHeadAttention(6, 2)
    layer.num_heads = 3
    with pytest.raises(ValueError, match=r"view: shape \(5, 3, 3\) doesn't fit a tensor of shape \(5, 6\)"):
        layer(x)
    layer = nn.MultiHeadAttention(6, 2)
    layer.W_o.weight = np.ones((6, 6), np.float32)
    with pytest.raises(TypeError, match="linear, as its weight, takes a Tensor, got ndarray"):
        layer(x)


class Joint(nn.MultiHeadAttention):
    """One map for queries, keys and values."""

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        del self.W_q, self.W_k, self.W_v
        self.W = nn.Linear(d_model, 3 * d_model, bias=False)

    def project(self, x, context):
        return tuple(self.split_heads(y.contiguous()) for y in self.W(x).chunk(3, -1))


def test_a_subclass_needs_no_map_that_it_does_not_use():
    layer, x = Joint(6, 2).double(), minigrad.randn(5, 6, dtype="float64")
    assert layer(x).allclose(layer(x, return_weights=True)[0], 1e-12)


def test_with_something_frozen_the_steps_are_taken():
    layer, x = nn.MultiHeadAttention(6, 2), minigrad.randn(5, 6)
    layer.W_q.weight.requires_grad = False
    assert "multi_head" not in used(layer(x))


def nodes(y):
    """How many ops a tensor was computed with."""
    found, waiting = set(), [y]
    while waiting:
        x = waiting.pop()
        if x._op and x not in found:
            found.add(x)
            waiting += [parent for parent, _ in x._pairs]
    return len(found)


def test_one_op_is_one_and_not_thirteen():  # as the README says
    x = minigrad.randn(5, 6)
    assert (nodes(nn.MultiHeadAttention(6, 2)(x)), nodes(Visible(6, 2)(x))) == (1, 13)


@pytest.mark.parametrize("options", [{}, {"context": True}, {"mask": True}, {"return_weights": True}])
def test_one_op_only_without_context_mask_and_weights(options, rng):
    layer, x = nn.MultiHeadAttention(6, 2), minigrad.randn(5, 6)
    values = {"context": x, "mask": minigrad.zeros(5, 5).bool(), "return_weights": True}
    y = layer(x, **{name: values[name] for name in options})
    assert ("multi_head" in used(y[0] if "return_weights" in options else y)) is not bool(options)


def test_the_chapters_attention_is_the_fused_one(rng):
    q, k, v = (minigrad.tensor(rng.standard_normal((2, 3, t, 7))) for t in (5, 11, 11))
    output, _ = nn.scaled_dot_product_attention(q, k, v)  # causal, the last query sees all keys
    assert np.allclose(fused(q, k, v, scale=1 / math.sqrt(7), offset=6).data, output.data, rtol=1e-13)
    seen = minigrad.tensor(np.tril(np.ones((5, 11), bool), 6))
    assert np.allclose(F.scaled_dot_product_attention(q, k, v, attn_mask=seen).data, output.data, rtol=1e-13)


def test_heads_merge_without_a_copy():
    x = minigrad.tensor(np.ones((2, 5, 6)), requires_grad=True)
    heads = x.view(2, 5, 3, 2).transpose(1, 2)  # (b, h, t, d)
    y = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    assert y.transpose(1, 2).view(2, 5, 6).shape == (2, 5, 6)  # view raises where it would need a copy


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_functional_attention_is_one_op_unless_weights_are_dropped(dropout, rng):
    q = minigrad.tensor(rng.standard_normal((5, 3)), requires_grad=True)
    assert ("attention" in used(F.scaled_dot_product_attention(q, q, q, dropout_p=dropout))) is (dropout == 0.0)


def test_mixed_dtypes_and_a_scale_that_learns_take_the_visible_steps(rng):
    q = minigrad.tensor(rng.standard_normal((5, 3)), requires_grad=True)
    k = minigrad.ones(7, 3, requires_grad=True)
    y = F.scaled_dot_product_attention(q, k, k)
    y.sum().backward()
    assert (y.dtype, k.grad.dtype) == (minigrad.float64, minigrad.float32)
    scale = minigrad.tensor(0.5, dtype=minigrad.float64, requires_grad=True)
    F.scaled_dot_product_attention(q, q, q, scale=scale).sum().backward()
    assert scale.grad is not None


@pytest.mark.parametrize(
    ("shapes", "mask"),
    [([(2, 5, 3), (3, 7, 3), (3, 7, 3)], None), ([(5, 3), (7, 3), (7, 3)], (5, 2)), ([(1, 3), (7, 3), (7, 3)], (5, 7))],
)
def test_shapes_that_do_not_fit_are_named(shapes, mask):
    inputs = [minigrad.ones(s) for s in shapes]
    attn_mask = None if mask is None else minigrad.ones(mask).bool()
    with pytest.raises(ValueError, match="don't fit") as error:
        F.scaled_dot_product_attention(*inputs, attn_mask=attn_mask)
    assert all(str(s) in str(error.value) for s in (*shapes, *([] if mask is None else [mask])))
