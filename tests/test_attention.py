"""Attention: against a loop over heads and queries, by its properties, on paper, and against PyTorch.

Masks here: True = hidden. Letters: b batch, h heads, n queries, m keys, t tokens, d features.
"""

import math

import numpy as np
import pytest

import layers as nn
import minigrad
from layers import MultiHeadAttention, causal_mask, scaled_dot_product_attention

B, T = 2, 7
SIZES = [(5, 1), (6, 2), (6, 3), (10, 5), (7, 7)]  # d_model, num_heads
sizes = pytest.mark.parametrize(("d_model", "num_heads"), SIZES)


def normal(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


def leaf(array):
    return minigrad.tensor(array, requires_grad=True)


def made(d_model=6, num_heads=2, **options):
    """A layer in float64 whose weights are large enough to make heads differ."""
    layer = MultiHeadAttention(d_model, num_heads, **options).double()
    for i, p in enumerate(layer.parameters()):
        p.data = normal(100 + i, *p.shape)
    return layer


def reference(q, k, v, hidden):
    """One head, one query after the other: (n, d), (m, d), (m, e), (n, m) -> (n, e), (n, m)."""
    output, weights = np.zeros((len(q), v.shape[1])), np.zeros(hidden.shape)
    for i in range(len(q)):
        seen = [j for j in range(len(k)) if not hidden[i, j]]
        fit = np.array([sum(q[i] * k[j]) / math.sqrt(q.shape[1]) for j in seen])
        fit = np.exp(fit - fit.max())
        for j, weight in zip(seen, fit / fit.sum(), strict=True):
            weights[i, j] = weight
            output[i] += weight * v[j]
    return output, weights


def reference_heads(layer, x, context, hidden):
    """One sequence through all heads: (n, d), (m, d), (h, n, m) -> (n, d), (h, n, m)."""

    def affine(linear, rows, features):
        bias = 0 if linear.bias is None else linear.bias.data[features]
        return rows @ linear.weight.data[features].T + bias

    outputs, weights = [], []
    for head in range(layer.num_heads):
        own = slice(head * layer.d_head, (head + 1) * layer.d_head)
        parts = affine(layer.W_q, x, own), affine(layer.W_k, context, own), affine(layer.W_v, context, own)
        output, weight = reference(*parts, hidden[head])
        outputs.append(output)
        weights.append(weight)
    return affine(layer.W_o, np.concatenate(outputs, axis=1), slice(None)), np.array(weights)


def future(n, m):
    """What the causal mask hides, written out: query i sees keys j <= i + (m - n)."""
    return np.array([[j > i + (m - n) for j in range(m)] for i in range(n)])


# The mask -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "hidden"),
    [
        ((1,), ["."]),
        ((3,), [".##", "..#", "..."]),
        ((2, 5), ["....#", "....."]),  # the last two of five tokens
        ((1, 4), ["...."]),
        ((3, 2), ["##", ".#", ".."]),
        ((0, 3), []),
    ],
)
def test_causal_mask(sizes, hidden):
    mask = causal_mask(*sizes)
    assert mask.dtype == minigrad.bool
    assert mask.shape == (sizes[0], sizes[-1])
    assert ["".join(".#"[cell] for cell in row) for row in mask.tolist()] == hidden


# The four steps -----------------------------------------------------------------------------------------------

LN3 = math.log(3.0)


def test_attention_on_paper():
    Q = minigrad.tensor([[0.0] * 4, [2 * LN3, 0.0, 0.0, 0.0], [0.0, -2 * LN3, 0.0, 0.0]])  # sqrt(d) = 2
    K = minigrad.tensor([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 5.0, 0.0], [0.0, 0.0, 0.0, 7.0]])
    V = minigrad.tensor([[0.0, 40.0], [20.0, 0.0], [60.0, 20.0]])
    output, weights = scaled_dot_product_attention(Q, K, V)
    assert np.allclose(weights.data, [[1, 0, 0], [3 / 4, 1 / 4, 0], [1 / 5, 1 / 5, 3 / 5]])
    assert np.allclose(output.data, [[0, 40], [5, 30], [40, 20]])
    output, weights = scaled_dot_product_attention(Q, K, V, causal=False)
    assert np.allclose(weights.data, [[1 / 3] * 3, [3 / 5, 1 / 5, 1 / 5], [1 / 5, 1 / 5, 3 / 5]])
    assert np.allclose(output.data, [[80 / 3, 20], [16, 28], [40, 20]], rtol=1e-6)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("leading", "n", "m"), [((), 5, 5), ((), 3, 5), ((2,), 5, 5), ((2, 3), 1, 5), ((2, 3), 5, 7)])
def test_attention_is_the_loop(leading, n, m, causal):
    Q, K, V = leaf(normal(0, *leading, n, 11)), leaf(normal(1, *leading, m, 11)), leaf(normal(2, *leading, m, 13))
    output, weights = scaled_dot_product_attention(Q, K, V, causal=causal)
    assert (output.shape, weights.shape) == ((*leading, n, 13), (*leading, n, m))
    for place in np.ndindex(leading):
        expected = reference(Q.data[place], K.data[place], V.data[place], future(n, m) & causal)
        assert np.allclose(output.data[place], expected[0], rtol=1e-12)
        assert np.allclose(weights.data[place], expected[1], rtol=1e-12)
        assert (weights.data[place] == 0).tolist() == (future(n, m) & causal).tolist()  # exactly 0, and nowhere else
    assert np.allclose(weights.data.sum(-1), 1, rtol=1e-14)


@pytest.mark.parametrize("shape", [(3, 5), (1, 5), (3, 1), (2, 3, 5), (2, 1, 5)])
@pytest.mark.parametrize("causal", [True, False])
def test_a_mask_hides_where_it_is_true(shape, causal):
    hidden = normal(3, *shape) > 0.3
    hidden[..., 0] = False  # no query goes blind
    Q, K, V = leaf(normal(0, 2, 3, 4)), leaf(normal(1, 2, 5, 4)), leaf(normal(2, 2, 5, 6))
    output, weights = scaled_dot_product_attention(Q, K, V, causal=causal, mask=minigrad.tensor(hidden))
    for b, mask in enumerate(np.broadcast_to(hidden, (2, 3, 5)) | (future(3, 5) & causal)):
        expected = reference(Q.data[b], K.data[b], V.data[b], mask)
        assert np.allclose(output.data[b], expected[0], rtol=1e-12)
        assert np.allclose(weights.data[b], expected[1], rtol=1e-12)
        assert (weights.data[b][mask] == 0).all()
    assert minigrad.gradcheck(lambda *x: scaled_dot_product_attention(*x, causal=causal, mask=minigrad.tensor(hidden)), [Q, K, V])


@pytest.mark.parametrize("size", [1e-3, 10.0, 1e3])
def test_scores_of_any_size(size):
    Q, K, V = leaf(size * normal(0, 5, 7)), leaf(size * normal(1, 5, 7)), leaf(normal(2, 5, 11))
    output, weights = scaled_dot_product_attention(Q, K, V)
    expected = reference(Q.data, K.data, V.data, future(5, 5))
    assert np.allclose(output.data, expected[0], rtol=1e-8)
    assert np.allclose(weights.data, expected[1], rtol=1e-8)
    assert np.allclose(nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=True).data, expected[0], rtol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_stays(dtype):
    x = leaf(normal(0, B, T, 6).astype(dtype))
    layer = MultiHeadAttention(6, 2, bias=True).to(dtype)
    hidden = minigrad.zeros(T, T).bool()
    for output, weights in (layer(x, mask=hidden, return_weights=True), scaled_dot_product_attention(x, x, x, mask=hidden)):
        assert output.dtype == weights.dtype == dtype
        (output.sum() + weights.sum()).backward()
    assert x.grad.dtype == dtype
    assert {p.grad.dtype for p in layer.parameters()} == {np.dtype(dtype)}


# Many heads against the loop ----------------------------------------------------------------------------------


@sizes
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("m", [T, 11])
def test_heads_are_the_loop(d_model, num_heads, causal, m):
    layer = made(d_model, num_heads, causal=causal, bias=True)
    x, context = normal(0, B, T, d_model), normal(1, B, m, d_model)
    context = x if m == T else context
    output, weights = layer(
        minigrad.tensor(x), context=None if m == T else minigrad.tensor(context), return_weights=True
    )  # (b, n, d), (b, h, n, m)
    hidden = np.broadcast_to(future(T, m) & causal, (num_heads, T, m))
    for b in range(B):
        expected = reference_heads(layer, x[b], context[b], hidden)
        assert np.allclose(output.data[b], expected[0], rtol=1e-10)
        assert np.allclose(weights.data[b], expected[1], rtol=1e-10)
    assert np.allclose(layer(minigrad.tensor(x), minigrad.tensor(context)).data, output.data, rtol=1e-12)  # without the weights
    assert (weights.data[..., np.array(future(T, m) & causal)] == 0).all()
    assert np.allclose(weights.data.sum(-1), 1, rtol=1e-14)


H, M = 3, 5
MASKS = {  # what (b, h, n, m) becomes when the mask is given with fewer axes
    "(n, m)": (lambda mask: mask[0, 0], (1, 1, T, M)),
    "(b, n, m)": (lambda mask: mask[:, 0], (B, 1, T, M)),
    "(b, 1, n, m)": (lambda mask: mask, (B, 1, T, M)),
    "(b, h, n, m)": (lambda mask: mask, (B, H, T, M)),
    "(1, h, n, m)": (lambda mask: mask, (1, H, T, M)),
    "(b, 1, m): padding": (lambda mask: mask[:, 0], (B, 1, 1, M)),
    "(b, 1, 1, m): padding": (lambda mask: mask, (B, 1, 1, M)),
}


@pytest.mark.parametrize(("given", "shape"), MASKS.values(), ids=MASKS)
def test_masks_of_every_shape_are_the_loop(given, shape):
    layer = made(6, H, causal=False)
    x, context = normal(0, B, T, 6), normal(1, B, M, 6)
    mask = normal(5, *shape) > 0.2
    mask[..., 2] = False  # a key that all may see
    hidden = np.broadcast_to(mask, (B, H, T, M))
    arguments = (minigrad.tensor(x), minigrad.tensor(context), minigrad.tensor(given(mask)))
    output, weights = layer(*arguments, return_weights=True)
    assert np.allclose(layer(*arguments).data, output.data, rtol=1e-12)
    for b in range(B):
        expected = reference_heads(layer, x[b], context[b], hidden[b])
        assert np.allclose(output.data[b], expected[0], rtol=1e-10)
        assert np.allclose(weights.data[b], expected[1], rtol=1e-10)


def test_a_mask_and_the_causal_one_hide_together():
    layer, x = made(6, 2), normal(0, 1, T, 6)
    mask = normal(5, T, T) > 0.5
    mask[:, 0] = False
    output = layer(minigrad.tensor(x), mask=minigrad.tensor(mask))
    expected = reference_heads(layer, x[0], x[0], np.broadcast_to(mask | future(T, T), (2, T, T)))
    assert np.allclose(output.data[0], expected[0], rtol=1e-10)


@sizes
def test_leading_axes_change_nothing(d_model, num_heads):
    layer = made(d_model, num_heads)
    x = normal(0, 2, 3, T, d_model)
    output, weights = layer(minigrad.tensor(x), return_weights=True)  # (a, b, t, d)
    assert (output.shape, weights.shape) == (x.shape, (2, 3, num_heads, T, T))
    batch, batch_weights = layer(minigrad.tensor(x[1]), return_weights=True)  # (b, t, d)
    one, one_weights = layer(minigrad.tensor(x[1, 2]), return_weights=True)  # (t, d)
    assert one_weights.shape == (num_heads, T, T)
    for a, b in ((output.data[1], batch.data), (batch.data[2], one.data)):
        assert np.allclose(a, b, rtol=1e-12, atol=1e-12)
    for a, b in ((weights.data[1], batch_weights.data), (batch_weights.data[2], one_weights.data)):
        assert np.allclose(a, b, rtol=1e-12, atol=1e-12)


def test_masks_with_two_leading_axes():
    layer, x = made(6, 2, causal=False), normal(0, 2, 3, T, 6)
    mask = normal(5, 2, 3, T, T) > 0.5
    mask[..., 1] = False
    output = layer(minigrad.tensor(x), mask=minigrad.tensor(mask))
    for place in np.ndindex(2, 3):
        alone = layer(minigrad.tensor(x[place]), mask=minigrad.tensor(mask[place]))
        assert np.allclose(output.data[place], alone.data, rtol=1e-12, atol=1e-12)


def test_one_sequence_of_queries_may_read_a_batch_of_contexts():
    layer, x, context = made(6, 2, causal=False), normal(0, T, 6), normal(1, 2, M, 6)  # b = h = 2: a mask might be taken for the other
    mask = normal(5, 2, T, M) > 0.5
    mask[..., 1] = False
    output = layer(minigrad.tensor(x), minigrad.tensor(context), minigrad.tensor(mask))
    for b in range(2):
        assert np.allclose(output.data[b], reference_heads(layer, x, context[b], np.array([mask[b]] * 2))[0], rtol=1e-10)


# Properties ---------------------------------------------------------------------------------------------------


@sizes
def test_a_later_token_changes_no_earlier_output(d_model, num_heads):
    layer, x = made(d_model, num_heads), normal(0, B, T, d_model)
    before = layer(minigrad.tensor(x)).data
    for t in range(T):
        changed = x.copy()
        changed[:, t] += 100.0
        after = layer(minigrad.tensor(changed)).data
        assert (after[:, :t] == before[:, :t]).all()
        assert (after[:, t:] != before[:, t:]).any(axis=-1).all()  # and every later one, token 0 the last too


@sizes
def test_no_gradient_reaches_a_later_token(d_model, num_heads):
    layer = made(d_model, num_heads)
    for t in range(T):
        x = leaf(normal(0, B, T, d_model))
        layer(x)[:, t].sum().backward()
        reached = np.abs(x.grad.data).sum(-1)
        assert (reached[:, t + 1 :] == 0).all()
        assert (reached[:, : t + 1] > 0).all()


@sizes
def test_without_a_mask_permuted_tokens_give_permuted_outputs(d_model, num_heads):
    x, order = normal(0, B, T, d_model), [3, 0, 4, 6, 1, 5, 2]
    for causal, same in ((False, True), (True, False)):
        layer = made(d_model, num_heads, causal=causal)
        permuted, output = layer(minigrad.tensor(x[:, order])).data, layer(minigrad.tensor(x)).data
        assert np.allclose(permuted, output[:, order], rtol=1e-10, atol=1e-12) == same


def test_one_head_is_plain_attention():
    layer, x = made(5, 1), minigrad.tensor(normal(0, B, T, 5))
    output, weights = layer(x, return_weights=True)
    plain, plain_weights = scaled_dot_product_attention(layer.W_q(x), layer.W_k(x), layer.W_v(x))
    assert (weights.data[:, 0] == plain_weights.data).all()
    assert (output.data == layer.W_o(plain).data).all()


def test_heads_on_numbered_features():
    layer = MultiHeadAttention(6, 2)
    x = minigrad.tensor([[0.0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15]])
    heads = layer.split_heads(x)  # (h, t, d_head)
    assert heads.tolist() == [[[0, 1, 2], [10, 11, 12]], [[3, 4, 5], [13, 14, 15]]]
    assert layer.merge_heads(heads).tolist() == x.tolist()
    numbers = minigrad.arange(2 * 3 * 7 * 6).reshape(2, 3, 7, 6)
    assert layer.split_heads(numbers)[1, 2, 1, 5].tolist() == numbers[1, 2, 5, 3:].tolist()
    assert layer.merge_heads(layer.split_heads(numbers)).tolist() == numbers.tolist()


def test_queries_that_ask_nothing_average_what_they_see():
    layer = MultiHeadAttention(6, 2)
    for linear, weight in ((layer.W_q, 0), (layer.W_k, 0), (layer.W_v, 1), (layer.W_o, 1)):
        linear.weight.data = weight * np.eye(6, dtype=np.float32)
    x = minigrad.tensor([[0.0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15], [20, 21, 22, 23, 24, 25]])
    assert np.allclose(layer(x).data, [[0, 1, 2, 3, 4, 5], [5, 6, 7, 8, 9, 10], [10, 11, 12, 13, 14, 15]])


def test_each_head_is_scaled_by_its_own_size():
    layer = MultiHeadAttention(8, 2, causal=False)  # d_head 4: scores are halved
    for linear in (layer.W_q, layer.W_k, layer.W_v, layer.W_o):
        linear.weight.data = np.eye(8, dtype=np.float32)
    x = np.zeros((2, 8), np.float32)
    x[0, 0], x[0, 4] = math.sqrt(2 * LN3), math.sqrt(4 * LN3)  # token 0 fits itself with 2 ln 3 in head 0 and 4 ln 3 in head 1
    _, weights = layer(minigrad.tensor(x), return_weights=True)
    assert np.allclose(weights.data[:, 0], [[3 / 4, 1 / 4], [9 / 10, 1 / 10]])
    assert np.allclose(weights.data[:, 1], 1 / 2)


@sizes
def test_the_last_tokens_alone_are_decoding_with_a_cache(d_model, num_heads):
    layer, x = made(d_model, num_heads), minigrad.tensor(normal(0, B, T, d_model))
    whole = layer(x)
    for n in (1, 3):
        assert np.allclose(layer(x[:, T - n :], context=x).data, whole.data[:, T - n :], rtol=1e-12, atol=1e-12)


def test_context_gives_keys_and_values_only():
    layer = made(6, 2, causal=False)
    x, context = leaf(normal(0, B, T, 6)), leaf(normal(1, B, M, 6))
    output, weights = layer(x, context, return_weights=True)
    assert (output.shape, weights.shape) == ((B, T, 6), (B, 2, T, M))
    other = layer(x, context[:, [3, 1, 4, 0, 2]])
    assert np.allclose(other.data, output.data, rtol=1e-10)  # in any order
    assert minigrad.gradcheck(lambda x, context: layer(x, context), [x, context])


def test_padding_is_as_if_it_were_not_there():
    layer, lengths = made(6, 2), [7, 4]
    x = normal(0, B, T, 6)
    padding = np.array([[t >= length for t in range(T)] for length in lengths])[:, None]  # (b, 1, t)
    output = layer(minigrad.tensor(x), mask=minigrad.tensor(padding)).data
    for b, length in enumerate(lengths):
        assert np.allclose(output[b, :length], layer(minigrad.tensor(x[b, :length])).data, rtol=1e-12, atol=1e-12)
    layer.causal = False
    x = leaf(x)
    output = layer(x, mask=minigrad.tensor(padding))
    output[1, :4].sum().backward()
    assert not x.grad.data[1, 4:].any()
    assert x.grad.data[1, :4].all()


@pytest.mark.parametrize("bias", [False, True])
def test_the_number_of_heads_changes_no_parameter(bias):
    for num_heads in (1, 2, 3, 4, 6, 12):
        layer = MultiHeadAttention(12, num_heads, bias=bias)
        assert sum(p.numel() for p in layer.parameters()) == 4 * 12**2 + 4 * 12 * bias
        assert layer.d_head * num_heads == 12


# PyTorch ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-5)])
@pytest.mark.parametrize(("causal", "bias", "m"), [(True, False, T), (False, True, T), (False, True, 11)])
@sizes
def test_values_and_gradients_are_those_of_pytorch(d_model, num_heads, causal, bias, m, dtype, tolerance, torch):
    ours = MultiHeadAttention(d_model, num_heads, causal, bias).to(dtype)
    for i, p in enumerate(ours.parameters()):
        p.data = normal(100 + i, *p.shape).astype(dtype) / math.sqrt(d_model)
    theirs = torch.nn.MultiheadAttention(d_model, num_heads, bias=bias, batch_first=True, dtype=getattr(torch, dtype))
    names = ["W_q", "W_k", "W_v"]
    state = {name: t.numpy() for name, t in ours.state_dict().items()}
    translated = {f"out_proj.{kind}": state[f"W_o.{kind}"] for kind in ("weight", "bias")[: 1 + bias]}
    translated |= {f"in_proj_{kind}": np.concatenate([state[f"{n}.{kind}"] for n in names]) for kind in ("weight", "bias")[: 1 + bias]}
    theirs.load_state_dict({name: torch.tensor(array) for name, array in translated.items()})

    arrays = [normal(0, B, T, d_model).astype(dtype)] + ([normal(1, B, m, d_model).astype(dtype)] if m != T else [])
    a, b = [leaf(x) for x in arrays], [torch.tensor(x, requires_grad=True) for x in arrays]
    hidden = torch.ones(T, m).triu(1).bool() if causal else None  # nn.MultiheadAttention: True = hidden
    y, weights = ours(*a, return_weights=True)
    z, their_weights = theirs(b[0], b[-1], b[-1], attn_mask=hidden, average_attn_weights=False)
    g = normal(2, *y.shape).astype(dtype)
    y.backward(minigrad.tensor(g))
    z.backward(torch.tensor(g))

    def same(array, tensor):
        return np.allclose(array, tensor.detach().numpy(), rtol=tolerance, atol=tolerance)

    assert same(y.data, z)
    assert same(weights.data, their_weights)
    assert all(same(p.grad.data, q.grad) for p, q in zip(a, b, strict=True))
    assert same(np.concatenate([getattr(ours, n).weight.grad.data for n in names]), theirs.in_proj_weight.grad)
    assert same(ours.W_o.weight.grad.data, theirs.out_proj.weight.grad)
    if bias:
        assert same(np.concatenate([getattr(ours, n).bias.grad.data for n in names]), theirs.in_proj_bias.grad)
        assert same(ours.W_o.bias.grad.data, theirs.out_proj.bias.grad)


@pytest.mark.parametrize(("n", "m"), [(5, 5), (3, 7)])
def test_the_four_steps_are_pytorchs_fused_attention(n, m, torch):
    arrays = [normal(0, B, 3, n, 11), normal(1, B, 3, m, 11), normal(2, B, 3, m, 13)]
    ours, theirs = [leaf(x) for x in arrays], [torch.tensor(x, requires_grad=True) for x in arrays]
    y, _ = scaled_dot_product_attention(*ours)
    z = torch.nn.functional.scaled_dot_product_attention(*theirs, attn_mask=~torch.tensor(future(n, m)))  # there True = may attend
    g = normal(3, *y.shape)
    y.backward(minigrad.tensor(g))
    z.backward(torch.tensor(g))
    assert np.allclose(y.data, z.detach().numpy(), rtol=1e-9)
    assert all(np.allclose(a.grad.data, b.grad.numpy(), rtol=1e-9) for a, b in zip(ours, theirs, strict=True))


# Errors -------------------------------------------------------------------------------------------------------


def ones(*shape):
    return minigrad.ones(*shape)


def blind(*shape):
    """A mask that hides everything from the query at this place, the last numbers being its place."""
    *lengths, query = shape
    hidden = np.zeros(lengths, bool)
    hidden[..., query, :] = True
    return minigrad.tensor(hidden)


def plain(n, m, **options):
    return scaled_dot_product_attention(ones(2, n, 7), ones(2, m, 7), ones(2, m, 11), **options)


heads = MultiHeadAttention(6, 2, causal=False)
ERRORS = [
    (lambda: plain(3, 5, mask=blind(3, 5, 1)), ValueError, ["query 1", "nothing", "True = hidden", "3 queries, 5 keys"]),
    (lambda: plain(3, 5, mask=blind(2, 3, 5, 2), causal=False), ValueError, ["query 2", "causal=False"]),
    (lambda: plain(5, 3), ValueError, ["query 0", "causal=True", "5 queries, 3 keys"]),
    (lambda: plain(3, 3, mask=minigrad.tensor([[True, False, False]])), ValueError, ["query 0", "causal=True"]),  # key 0 is all it had
    (lambda: plain(3, 5, mask=minigrad.tensor([[[False]] * 3, [[False], [False], [True]]])), ValueError, ["query 2"]),  # in one batch
    (lambda: heads(ones(2, 7, 6), mask=blind(2, 7, 7, 3)), ValueError, ["query 3"]),
    (lambda: heads(ones(2, 7, 6), mask=blind(2, 2, 7, 7, 4)), ValueError, ["query 4"]),
    (lambda: MultiHeadAttention(6, 2)(ones(2, 5, 6), context=ones(2, 3, 6)), ValueError, ["query 0", "causal=True", "5 queries, 3 keys"]),
    (lambda: plain(3, 5, mask=ones(3, 5)), TypeError, ["bool", "float32", "mask.bool()"]),
    (lambda: plain(3, 5, mask=ones(3, 5).long()), TypeError, ["bool", "int64", "mask.bool()"]),
    (lambda: plain(3, 5, mask=np.zeros((3, 5), bool)), TypeError, ["bool tensor", "ndarray"]),
    (lambda: heads(ones(2, 7, 6), mask=np.zeros((2, 7, 7), bool)), TypeError, ["bool tensor", "ndarray"]),
    (lambda: heads(ones(2, 7, 6), mask=[[False]]), TypeError, ["bool tensor", "list"]),
    (lambda: plain(3, 5, mask=ones(5, 3).bool()), ValueError, ["(3, 5)", "(5, 3)"]),
    (lambda: plain(3, 5, mask=ones(5).bool()), ValueError, ["(3, 5)", "(5,)"]),
    (lambda: plain(3, 5, mask=minigrad.zeros(3, 3, 5).bool()), ValueError, ["(2, 3, 5)", "(3, 3, 5)"]),
    (lambda: scaled_dot_product_attention(ones(3, 7), ones(5, 2), ones(5, 7)), ValueError, ["(3, 7)", "(5, 2)", "(5, 7)"]),
    (lambda: scaled_dot_product_attention(ones(3, 7), ones(5, 7), ones(3, 7)), ValueError, ["(3, 7)", "(5, 7)"]),
    (lambda: scaled_dot_product_attention(ones(7), ones(5, 7), ones(5, 7)), ValueError, ["(7,)", "(5, 7)"]),
    (lambda: scaled_dot_product_attention(ones(2, 3, 7), ones(3, 5, 7), ones(3, 5, 7)), ValueError, ["(2, 3, 7)", "(3, 7, 5)"]),
    (lambda: scaled_dot_product_attention(np.ones((3, 7)), ones(5, 7), ones(5, 7)), TypeError, ["Tensors", "ndarray"]),
    (lambda: scaled_dot_product_attention(ones(3, 7), ones(0, 7), ones(0, 7)), ValueError, ["empty", "(0, 7)"]),
    (lambda: heads(ones(2, 0, 6)), ValueError, ["empty"]),
    (lambda: heads(ones(2, 7, 5)), ValueError, ["must be 6", "(2, 7, 5)"]),
    (lambda: heads(ones(2, 7, 6), context=ones(2, 7, 5)), ValueError, ["must be 6", "(2, 7, 5)"]),
    (lambda: heads(ones(6)), ValueError, ["(..., t, 6)", "(6,)"]),
    (lambda: heads(ones(2, 7, 6).double()), TypeError, ["float64", "float32"]),
    (lambda: MultiHeadAttention(7, 3), ValueError, ["d_model = 7", "num_heads = 3", "divisible"]),
    (lambda: MultiHeadAttention(6, 0), ValueError, ["d_model = 6", "num_heads = 0"]),
    (lambda: MultiHeadAttention(6, -2), ValueError, ["d_model = 6", "num_heads = -2"]),
]


@pytest.mark.parametrize(("call", "kind", "words"), ERRORS)
def test_errors_say_what_was_wrong(call, kind, words):
    with pytest.raises(kind) as error:
        call()
    assert [word for word in words if word not in str(error.value)] == []


def test_a_parameter_of_every_projection_is_found():
    assert [name for name, _ in MultiHeadAttention(6, 2).named_parameters()] == [f"W_{x}.weight" for x in "qkvo"]
    assert isinstance(MultiHeadAttention(6, 2).W_o, nn.Linear)


@pytest.mark.parametrize("return_weights", [False, True])
def test_with_fewer_keys_than_queries_the_first_query_sees_nothing(return_weights):
    attention = nn.MultiHeadAttention(6, 2)
    with pytest.raises(ValueError, match="query 0 may look at nothing"):
        attention(minigrad.ones(5, 6), context=minigrad.ones(3, 6), return_weights=return_weights)
