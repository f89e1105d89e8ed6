"""Positions by their properties, the decoder layer by its formula, the language model by what must hold of it, and the cache."""

import copy
import math
from collections import Counter

import numpy as np
import pytest

import layers as nn
import layers.attention
import layers.functional
import minigrad
from layers.decoder import Cache, SelfAttention, rotary, sinusoidal_positions
from minigrad.attention import attention

KINDS = ("learned", "sinusoidal", "rotary")
every_kind = pytest.mark.parametrize("kind", KINDS)


def model(kind="learned", dtype="float64", **options):
    minigrad.manual_seed(5)
    sizes = {"vocab_size": 11, "d_model": 12, "num_heads": 3, "num_layers": 2, "max_length": 17}
    return nn.TinyTransformer(**{**sizes, **options}, positions=kind).to(dtype)


def ids(*shape, seed=0):
    return minigrad.tensor(np.random.default_rng(seed).integers(0, 11, shape))


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=0, atol=tolerance)


# Positions ------------------------------------------------------------------------------------------------------


def test_sinusoidal_positions_on_paper():
    p = sinusoidal_positions(3, 4)
    expected = [[f(t / w) for w in (1.0, 100.0) for f in (math.sin, math.cos)] for t in range(3)]
    assert p.dtype == "float32"
    np.testing.assert_allclose(p.numpy(), expected, rtol=1e-6)


def test_sinusoidal_positions_differ_by_a_rotation_that_only_the_distance_decides():
    p = sinusoidal_positions(97, 6).numpy().reshape(97, 3, 2)
    for k in (1, 5, 31):
        for i in range(3):
            angle = k / 10000 ** (i / 3)
            turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
            np.testing.assert_allclose(p[k:, i], p[:-k, i] @ turn.T, atol=1e-5)
    assert np.unique(p.reshape(97, 6).round(4), axis=0).shape == (97, 6)  # no two are alike


def test_rotary_on_paper():
    x = minigrad.tensor([[1.0, 10.0, 2.0, 20.0]] * 3)  # the pairs are (1, 2) and (10, 20)
    turned = [[1 * math.cos(t) - 2 * math.sin(t), 1 * math.sin(t) + 2 * math.cos(t)] for t in range(3)]
    slowly = [[10 * math.cos(t / 100) - 20 * math.sin(t / 100), 10 * math.sin(t / 100) + 20 * math.cos(t / 100)] for t in range(3)]
    expected = [[a[0], b[0], a[1], b[1]] for a, b in zip(turned, slowly, strict=True)]
    np.testing.assert_allclose(rotary(x).numpy(), expected, rtol=1e-6)


def test_rotary_scores_depend_on_the_difference_of_positions_only():
    q, k = np.random.default_rng(1).standard_normal((2, 6))

    def scores(start):  # of one query and one key, standing at all pairs of places from start on
        Q, K = (rotary(minigrad.tensor(np.tile(v, (7, 1))), start).numpy() for v in (q, k))
        return Q @ K.T

    s = scores(0)
    for start in (1, 1000, 100_000):
        np.testing.assert_allclose(scores(start), s, atol=1e-9)
    for difference in range(-6, 7):
        assert np.ptp(s.diagonal(difference)) < 1e-12
    assert len({round(float(s.diagonal(difference)[0]), 6) for difference in range(-6, 7)}) == 13
    np.testing.assert_allclose(s[0, 0], q @ k)


def test_rotary_starts_where_it_is_told_keeps_lengths_and_has_a_gradient():
    x = minigrad.tensor(np.random.default_rng(2).standard_normal((2, 7, 6)), requires_grad=True)
    close(rotary(x)[:, 3:], rotary(x[:, 3:], 3))
    close(rotary(x).norm(dim=-1), x.norm(dim=-1))
    assert minigrad.gradcheck(lambda x: rotary(x, 5), [x])
    assert rotary(x.float()).dtype == "float32"


def test_self_attention_with_rotary_positions_query_by_query():
    layer = SelfAttention(12, 3, rotary=True).double()
    x = minigrad.randn(5, 12, dtype="float64")
    y, weights = layer(x, return_weights=True)
    expected, maps = np.zeros((5, 12)), np.zeros((3, 5, 5))
    for h in range(3):
        Q, K, V = (W(x).detach().numpy()[:, 4 * h : 4 * h + 4] for W in (layer.W_q, layer.W_k, layer.W_v))
        for i in range(5):
            s = []
            for j in range(i + 1):
                angles = (i - j) / 10000 ** (np.arange(2) / 2)
                a, b = Q[i, :2] * K[j, :2] + Q[i, 2:] * K[j, 2:], Q[i, 2:] * K[j, :2] - Q[i, :2] * K[j, 2:]
                s.append((a * np.cos(angles) - b * np.sin(angles)).sum() / 2)  # the turned product; / sqrt(4)
            p = np.exp(s) / np.exp(s).sum()
            maps[h, i, : i + 1] = p
            expected[i, 4 * h : 4 * h + 4] = p @ V[: i + 1]
    np.testing.assert_allclose(weights.detach().numpy(), maps, atol=1e-12)
    np.testing.assert_allclose(y.detach().numpy(), expected @ layer.W_o.weight.data.T, atol=1e-12)
    close(layer(x), y)


# The layer --------------------------------------------------------------------------------------------------------


def test_swiglu_on_paper():
    layer, ln3 = nn.SwiGLU(2, 3), math.log(3.0)
    weights = {"W_gate": [[1, 0], [0, 0], [-1, 0]], "W_up": [[0, 1], [0, 1], [0, 2]], "W_down": [[4, 7, 0], [0, 1, 4]]}
    layer.load_state_dict({f"{name}.weight": np.array(w, float) for name, w in weights.items()})
    x = minigrad.tensor([[ln3, 5.0], [0.0, 5.0]])  # silu(ln 3) = 3/4 ln 3, silu(0) = 0, silu(-ln 3) = -1/4 ln 3
    np.testing.assert_allclose(layer(x).tolist(), [[15 * ln3, -10 * ln3], [0, 0]], rtol=1e-6)


def test_a_layer_adds_attention_and_then_an_mlp_to_what_comes_in():
    layer, x = nn.DecoderLayer(12, 3, 7).double(), minigrad.randn(2, 5, 12, dtype="float64")
    for norm in (layer.norm1, layer.norm2):
        norm.weight.data = np.random.default_rng(0).standard_normal(12)
    h = x + layer.attention(layer.norm1(x))
    close(layer(x), h + layer.mlp(layer.norm2(h)))
    assert layer.mlp.W_gate.weight.shape == layer.mlp.W_up.weight.shape == layer.mlp.W_down.weight.shape[::-1] == (7, 12)
    assert nn.DecoderLayer(12, 3).mlp.W_up.weight.shape == (24, 12)
    for W in (layer.attention.W_o, layer.mlp.W_down):
        nn.init.zeros_(W.weight)
    assert layer(x).equal(x)


# The language model -----------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shapes_and_dtypes(kind, dtype):
    net, batch = model(kind, dtype), ids(3, 7)
    y = net(batch)
    assert (y.shape, y.dtype) == ((3, 7, 11), dtype)
    for row, logits in zip(batch, y, strict=True):
        assert net(row).shape == (7, 11)
        close(net(row), logits, 1e-5)


@every_kind
def test_a_later_token_changes_no_earlier_logits_and_every_earlier_one_changes_the_last(kind):
    net, a = model(kind), ids(9)
    y = net(a)
    for i in range(9):
        b = a.clone()
        b[i] = (int(a[i]) + 1) % 11
        changed = (net(b) - y).abs().max(-1).values
        assert changed[:i].equal(minigrad.zeros(i))
        assert changed[i:].min() > 1e-6


@every_kind
def test_the_order_of_tokens_is_seen_and_only_through_positions(kind, monkeypatch):
    net, a = model(kind, num_layers=1), minigrad.tensor([4, 7, 1, 3])
    swapped = a[[1, 0, 2, 3]]
    assert (net(a) - net(swapped)).abs()[2:].min() > 1e-6
    if kind == "rotary":
        monkeypatch.setattr("layers.decoder.rotary", lambda x, start: x)
    else:
        net.positions = net.waves = None
    close(net(a)[2:], net(swapped)[2:])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tied", [False, True])
def test_the_first_loss_is_that_of_guessing(kind, tied):
    net, a = model(kind, vocab_size=101, d_model=48, num_heads=4, tied=tied), ids(8, 17)
    loss = layers.functional.cross_entropy(net(a[:, :-1]).reshape(-1, 101), a[:, 1:].reshape(-1))
    assert loss.item() == pytest.approx(math.log(101), abs=0.4)


def test_names_and_number_of_weights():
    layer = [
        "norm1.weight",
        *(f"attention.W_{x}.weight" for x in "qkvo"),
        "norm2.weight",
        *(f"mlp.W_{x}.weight" for x in ("gate", "up", "down")),
    ]
    names = [
        "positions",
        "embedding.weight",
        *(f"layers.{i}.{name}" for i in (0, 1) for name in layer),
        "norm.weight",
        "head.weight",
        "head.bias",
    ]
    assert [name for name, _ in model("learned").named_parameters()] == names
    assert set(model("learned").state_dict()) == set(names)
    for kind in KINDS:
        d, v = 12, 11
        count = v * d + (17 * d if kind == "learned" else 0) + 2 * (4 * d * d + 3 * d * 2 * d + 2 * d) + d + d * v + v
        assert sum(p.numel() for p in model(kind).parameters()) == count


def test_tied_weights_are_one_parameter_with_the_gradients_of_both_uses():
    net, a = model(tied=True), ids(2, 5)
    assert net.head.weight is net.embedding.weight
    assert [name for name, _ in net.named_parameters()].count("embedding.weight") == 1
    assert "head.bias" not in net.state_dict()
    untied = model(tied=False)
    untied.load_state_dict({**net.state_dict(), "head.bias": np.zeros(11)})
    g = minigrad.randn(2, 5, 11, dtype="float64")
    net(a).backward(g)
    untied(a).backward(g)
    close(net.embedding.weight.grad, untied.embedding.weight.grad + untied.head.weight.grad)
    net.load_state_dict(model(tied=True, kind="learned").state_dict())
    assert net.head.weight is net.embedding.weight


def test_it_learns_under_an_optimizer_of_its_own_parameters():
    net, a = model(dtype="float32"), ids(4, 9)
    optimizer = minigrad.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(60):
        loss = layers.functional.cross_entropy(net(a[:, :-1]).reshape(-1, 11), a[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: model("relative"), ValueError, ["learned", "'relative'"]),
        (lambda: model("rotary", d_model=6, num_heads=2), ValueError, ["even", "6 / 2"]),
        (lambda: model("sinusoidal", d_model=3, num_heads=1), ValueError, ["even number", "got 3"]),
        (lambda: model(num_layers=0), ValueError, ["at least 1", "0 and 17"]),
        (lambda: model(max_length=0), ValueError, ["at least 1", "2 and 0"]),
        (lambda: model(num_heads=5), ValueError, ["12", "5"]),
        (lambda: model()(ids(18)), ValueError, ["18 tokens", "max_length is 17", "ids[..., -n:]"]),
        (lambda: model()(ids(3).sum()), ValueError, ["single id", "unsqueeze"]),
        (lambda: model()([1, 2]), TypeError, ["TinyTransformer takes a Tensor", "[1, 2]"]),
        (lambda: model()(minigrad.tensor([11])), IndexError, ["id 11", "[0, 10]"]),
        (lambda: model()(minigrad.tensor([1.0])), TypeError, ["integer", ".long()"]),
        (lambda: model()(ids(0)), ValueError, ["empty sequence"]),
        (lambda: rotary(minigrad.ones(2, 3)), ValueError, ["even number", "got 3"]),
    ],
)
def test_what_cannot_be_is_refused_with_the_numbers(make, error, words):
    with pytest.raises(error) as raised:
        make()
    assert [word for word in words if word not in str(raised.value)] == []


# The cache --------------------------------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("lead", [(), (3,)])
def test_logits_with_the_cache_are_those_without(kind, dtype, tolerance, lead):
    net, a = model(kind, dtype), ids(*lead, 17)
    whole = net(a)
    for pieces in ([1] * 17, [5, 1, 1, 7, 3], [17]):
        cache = Cache()
        parts = [net(piece, cache) for piece in a.split(pieces, dim=-1)]
        assert [part.shape[-2] for part in parts] == pieces
        close(minigrad.cat(parts, dim=-2), whole, tolerance)


@every_kind
def test_gradients_flow_through_the_cache_as_without(kind):
    net, a, g = model(kind), ids(2, 7), minigrad.randn(2, 7, 11, dtype="float64")
    net(a).backward(g)
    whole = [p.grad for p in net.parameters()]
    net.zero_grad()
    cache = Cache()
    minigrad.cat([net(piece, cache) for piece in a.split([3, 4], dim=1)], dim=1).backward(g)
    for p, grad in zip(net.parameters(), whole, strict=True):
        close(p.grad, grad)


def test_attention_weights_with_a_cache():
    layer, x, cache = SelfAttention(6, 2, rotary=False), minigrad.randn(5, 6), Cache()
    _, whole = layer(x, return_weights=True)
    layer(x[:3], cache)
    _, last = layer(x[3:], cache, return_weights=True)
    close(last, whole[:, 3:], 1e-6)
    assert cache.length(layer) == 5


def test_a_cache_serves_each_model_by_itself_and_each_text_needs_its_own():
    one, other, cache, a = model(), model(), Cache(), ids(4)
    one(a, cache)
    close(other(a, cache), other(a))  # the other model has seen nothing yet
    for wrong in (ids(3, 1), ids(1, 1)):
        with pytest.raises(ValueError, match="start a new one"):
            one(wrong, cache)
    with pytest.raises(ValueError, match="float32"):
        one.float()(ids(1), cache)
    other(ids(13), cache)
    with pytest.raises(ValueError, match="17 in the cache and 1 new"):
        other(ids(1), cache)


def test_a_cache_left_halfway_is_noticed(monkeypatch):
    net, cache, a = model(), Cache(), ids(4)
    net(a, cache)
    with monkeypatch.context() as patch:
        patch.setattr(net.layers[1], "forward", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            net(ids(1), cache)
    with pytest.raises(RuntimeError, match="out of step"):
        net(ids(1), cache)


def work(monkeypatch, run):
    """Multiplications in linear maps and in attention while run() runs: where the time of a large model goes."""
    done, apply = Counter(), minigrad.apply

    def counting(op, *inputs, **options):
        if op is minigrad.ops.linear:
            done["linear"] += inputs[0].numel() * inputs[1].shape[0]
        if op is attention:
            Q, K, V = inputs[:3]
            done["attention"] += Q.numel() * K.shape[-2] + math.prod(Q.shape[:-1]) * V.shape[-2] * V.shape[-1]
        return apply(op, *inputs, **options)

    with monkeypatch.context() as patch:
        patch.setattr(minigrad, "apply", counting)
        patch.setattr(layers.functional, "apply", counting)
        run()
    return done


@every_kind
def test_with_the_cache_a_token_costs_its_own_maps_and_one_look_at_each_earlier_one(kind, monkeypatch):
    d, v, net, cache = 64, 11, model(kind, "float32", d_model=64, num_heads=4, max_length=200), Cache()
    a, costs = ids(200), {}
    with minigrad.no_grad():
        for t in (19, 20, 199, 200):
            net(a[cache.length(net.layers[0].attention) : t - 1], cache) if t in (19, 199) else None
            costs[t] = work(monkeypatch, lambda t=t: net(a[t - 1 : t], cache))
    for t, cost in costs.items():
        assert cost == {"linear": 2 * (4 * d * d + 3 * d * 2 * d) + d * v, "attention": 2 * 2 * t * d}
    assert costs[200].total() < 1.6 * costs[20].total()
    without = work(monkeypatch, lambda: net(a))
    assert without["linear"] == 200 * costs[200]["linear"]
    assert without["attention"] == 200 * costs[200]["attention"]


def test_a_copied_cache_goes_on_by_itself():
    model = nn.TinyTransformer(5, 8, 2, 2)
    cache = Cache()
    model(minigrad.tensor([1, 2, 3]), cache)
    other = copy.deepcopy(cache)
    assert model(minigrad.tensor([4]), other).equal(model(minigrad.tensor([4]), cache))
