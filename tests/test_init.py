"""layers.init, the first weights of each layer, and layers.utils: statistics over large tensors, exact bounds, hand-made gradients."""

import math

import numpy as np
import pytest

import layers as nn
import minigrad
from layers import init
from layers.utils import clip_grad_norm_, warmup_cosine

OUT, IN = 251, 397  # fan_out and fan_in
TAP = (53, 31, 3, 2)  # of a weight with further axes: fan_in 31 * 6, fan_out 53 * 6
RELU, ROOT3 = math.sqrt(2.0), math.sqrt(3.0)

# name, options, shape, and the standard deviation by the paper's formula
NORMAL = [
    ("normal_", {}, (OUT, IN), 1.0),
    ("normal_", {"std": 3.0}, (OUT, IN), 3.0),
    ("xavier_normal_", {}, (OUT, IN), math.sqrt(2 / (OUT + IN))),
    ("xavier_normal_", {"gain": 5.0}, (OUT, IN), 5 * math.sqrt(2 / (OUT + IN))),
    ("xavier_normal_", {}, TAP, math.sqrt(2 / (84 * 6))),
    ("kaiming_normal_", {}, (OUT, IN), RELU / math.sqrt(IN)),
    ("kaiming_normal_", {"mode": "fan_out"}, (OUT, IN), RELU / math.sqrt(OUT)),
    ("kaiming_normal_", {"a": 2.0}, (OUT, IN), math.sqrt(2 / 5) / math.sqrt(IN)),
    ("kaiming_normal_", {"nonlinearity": "linear"}, (OUT, IN), 1 / math.sqrt(IN)),
    ("kaiming_normal_", {"nonlinearity": "relu"}, TAP, RELU / math.sqrt(31 * 6)),
]
UNIFORM = [
    ("uniform_", {"a": -2.0, "b": 2.0}, (OUT, IN), 2 / ROOT3),
    ("xavier_uniform_", {}, (OUT, IN), math.sqrt(2 / (OUT + IN))),
    ("xavier_uniform_", {"gain": 5.0}, (OUT, IN), 5 * math.sqrt(2 / (OUT + IN))),
    ("xavier_uniform_", {}, TAP, math.sqrt(2 / (84 * 6))),
    ("kaiming_uniform_", {}, (OUT, IN), RELU / math.sqrt(IN)),
    ("kaiming_uniform_", {"mode": "fan_out", "nonlinearity": "tanh"}, (OUT, IN), 5 / 3 / math.sqrt(OUT)),
    ("kaiming_uniform_", {"a": math.sqrt(5.0)}, (OUT, IN), 1 / ROOT3 / math.sqrt(IN)),
    ("kaiming_uniform_", {"mode": "fan_out"}, TAP, RELU / math.sqrt(53 * 6)),
]


def parameter(*shape):
    return nn.Parameter(minigrad.zeros(*shape))


def assert_spread(values, std, uniform):
    """Mean 0, this standard deviation, and the tails of the one distribution rather than the other."""
    assert abs(values.mean()) < 5 * std / math.sqrt(values.size)
    assert values.std() == pytest.approx(std, rel=4 / math.sqrt(values.size))
    largest = np.abs(values).max()
    if uniform:
        assert 0.999 * ROOT3 * std < largest <= ROOT3 * std * (1 + 1e-6)
    else:
        assert 3.5 * std < largest < 6 * std


@pytest.mark.parametrize(
    ("name", "options", "shape", "std", "uniform"),
    [(*row, False) for row in NORMAL] + [(*row, True) for row in UNIFORM],
)
def test_random_fill(name, options, shape, std, uniform):
    minigrad.manual_seed(7)
    assert_spread(getattr(init, name)(parameter(*shape), **options).data, std, uniform)


def test_normal_and_uniform_with_an_offset():
    minigrad.manual_seed(7)
    assert init.normal_(parameter(OUT, IN), mean=11.0, std=0.5).data.mean() == pytest.approx(11.0, abs=0.01)
    values = init.uniform_(parameter(OUT, IN), 3.0, 5.0).data
    assert 3.0 <= values.min() < 3.001
    assert 4.999 < values.max() <= 5.0


@pytest.mark.parametrize(("fill", "number"), [(init.zeros_, 0.0), (init.ones_, 1.0), (lambda t: init.constant_(t, -2.5), -2.5)])
def test_constant_fill(fill, number):
    assert (fill(nn.Parameter(np.full((2, 3), 7.0))).data == np.full((2, 3), number)).all()


FILLS = ["normal_", "uniform_", "zeros_", "ones_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FILLS)
def test_fill_keeps_the_leaf_its_dtype_and_the_recorded_graph(name, dtype):
    p = nn.Parameter(np.full((2, 3), 5.0, dtype))
    loss = (p * p).sum()
    assert getattr(init, name)(p) is p
    assert p.is_leaf
    assert p.requires_grad
    assert p.dtype == dtype
    assert (p.data != 5.0).all()
    loss.backward()  # of the graph that saw 5
    assert (p.grad.data == 10.0).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: init.xavier_uniform_(parameter(3)), ["2 dims", "(3,)"]),
        (lambda: init.kaiming_normal_(parameter(2, 3), mode="fan"), ["fan_in", "'fan'"]),
        (lambda: init.kaiming_uniform_(parameter(2, 3), nonlinearity="swish"), ["leaky_relu", "'swish'"]),
    ],
)
def test_errors(call, words):
    with pytest.raises(ValueError, match=r".") as error:
        call()
    assert all(word in str(error.value) for word in words)


# The first weights of the layers ------------------------------------------------------------------------------


def test_first_weights_of_the_layers():
    minigrad.manual_seed(7)
    linear, embedding = nn.Linear(IN, OUT), nn.Embedding(OUT, IN, padding_idx=3)
    assert_spread(linear.weight.data, 1 / math.sqrt(3 * IN), uniform=True)
    bias = np.abs(linear.bias.data)
    assert 0.9 / math.sqrt(IN) < bias.max() <= 1 / math.sqrt(IN)
    assert not embedding.weight.data[3].any()
    assert_spread(np.delete(embedding.weight.data, 3, axis=0), 1.0, uniform=False)
    for norm in (nn.LayerNorm((2, 3)), nn.RMSNorm((2, 3))):
        assert (norm.weight.data == np.ones((2, 3))).all()
    assert (nn.LayerNorm((2, 3)).bias.data == np.zeros((2, 3))).all()


@pytest.mark.parametrize("build", [lambda n: n.Linear(IN, OUT), lambda n: n.Embedding(OUT, IN), lambda n: n.LayerNorm(IN)])
def test_first_weights_are_spread_as_those_of_pytorch(build, torch):
    minigrad.manual_seed(7)
    torch.manual_seed(7)
    theirs = build(torch.nn).state_dict()
    for name, ours in build(nn).state_dict().items():
        other = theirs[name].numpy()
        assert ours.dtype == other.dtype
        assert ours.shape == other.shape
        noise = 6 / math.sqrt(other.size)
        assert ours.data.std() == pytest.approx(other.std(), rel=noise)
        assert ours.data.mean() == pytest.approx(other.mean(), abs=float(noise * other.std() + 1e-12))
        assert np.abs(ours.data).max() == pytest.approx(np.abs(other).max(), rel=0.2)


@pytest.mark.parametrize("build", [lambda: nn.Linear(2, 3), lambda: nn.Embedding(5, 2), lambda: nn.MultiHeadAttention(6, 2, bias=True)])
def test_the_seed_decides_the_weights(build):
    def weights(seed):
        minigrad.manual_seed(seed)
        return np.concatenate([p.data.ravel() for p in build().parameters()])

    first = weights(3)
    assert len(set(first.tolist())) == first.size  # no two parameters are filled with the same numbers
    assert (weights(3) == first).all()
    assert (weights(5) != first).all()


def test_the_weights_of_one_seed_are_these():
    minigrad.manual_seed(42)  # the stream of NumPy's RandomState, which never changes
    uniform = np.floor(np.random.RandomState(42).random_sample(6) * 2**24) / 2**24
    assert np.allclose(nn.Linear(2, 3).weight.data.ravel(), (2 * uniform - 1) / math.sqrt(2), atol=1e-7)
    assert uniform[:2].tolist() == pytest.approx([0.37454, 0.95071], abs=1e-5)


# clip_grad_norm_ ----------------------------------------------------------------------------------------------


def with_gradients(*gradients):
    parameters = [parameter(len(g)).double() for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = minigrad.tensor(np.array(g))
    return parameters


@pytest.mark.parametrize(
    ("norm_type", "total"),
    [(2.0, 13.0), (1.0, 19.0), (math.inf, 12.0)],  # of 3, -4 and 12
)
def test_clip_by_hand(norm_type, total):
    parameters = with_gradients([3.0, -4.0], [12.0])
    before = parameters[0].grad
    assert clip_grad_norm_((p for p in parameters), total / 2, norm_type).item() == total  # a generator, as from parameters()
    assert np.allclose(parameters[0].grad.data, [1.5, -2.0], rtol=1e-6)
    assert np.allclose(parameters[1].grad.data, [6.0], rtol=1e-6)
    assert before.tolist() == [3.0, -4.0]


def test_clip_leaves_short_gradients_alone():
    parameters = [*with_gradients([3.0, -4.0], [12.0]), parameter(2)]  # the last has no gradient yet
    assert clip_grad_norm_(parameters, 14.0).item() == 13.0
    assert [p.grad.tolist() for p in parameters[:2]] == [[3.0, -4.0], [12.0]]
    assert parameters[2].grad is None
    assert clip_grad_norm_(parameters[2:], 1.0).item() == 0.0


def test_clip_takes_one_parameter_and_keeps_float32():
    p = parameter(2)
    p.grad = minigrad.tensor([3.0, 4.0])
    assert clip_grad_norm_(p, 1.0).item() == 5.0
    assert p.grad.dtype == minigrad.float32
    assert np.allclose(p.grad.data, [0.6, 0.8])


def test_clip_does_not_hide_a_nan():
    (p,) = with_gradients([3.0, math.nan])
    assert math.isnan(clip_grad_norm_(p, 1.0).item())
    assert np.isnan(p.grad.data).all()


@pytest.mark.parametrize("norm_type", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 50.0])
def test_clip_as_pytorch(norm_type, max_norm, torch):
    gradients = [np.random.default_rng(n).standard_normal(n) for n in (2, 3, 5)]
    ours = with_gradients(*gradients)
    theirs = [torch.nn.Parameter(torch.zeros(len(g), dtype=torch.float64)) for g in gradients]
    for p, g in zip(theirs, gradients, strict=True):
        p.grad = torch.tensor(g)
    total = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    assert clip_grad_norm_(ours, max_norm, norm_type).item() == pytest.approx(total.item(), rel=1e-12)
    for p, q in zip(ours, theirs, strict=True):
        assert np.allclose(p.grad.data, q.grad.numpy(), rtol=1e-12)


def test_warm_up_and_cosine_on_paper():
    factors = [warmup_cosine(step, 11, 4, 0.2) for step in range(13)]
    down = [0.2 + 0.8 * (1 + math.cos(math.pi * i / 6)) / 2 for i in range(7)]
    assert factors == pytest.approx([0.25, 0.5, 0.75, 1.0, *down, 0.2, 0.2])
    assert down[0] == 1
    assert warmup_cosine(0, 1) == warmup_cosine(0, 5) == 1
    assert warmup_cosine(3, 4) == pytest.approx(0, abs=1e-15)
    for wrong in ((-1, 5), (0, 5, 6), (0, 5, -1)):
        with pytest.raises(ValueError, match=str(wrong[0])):
            warmup_cosine(*wrong)
