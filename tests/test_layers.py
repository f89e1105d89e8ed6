"""Every layer class of one table: gradients by differences, results on paper, and agreement with PyTorch."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import layers as nn
import minigrad


def case(build, *inputs, torch=True):
    """build: the layer, from our package or torch.nn. inputs: shapes of random floats, or lists of ids."""
    return SimpleNamespace(build=build, inputs=inputs, torch=torch)


CASES = {
    "Linear": case(lambda n: n.Linear(5, 3), (2, 7, 5)),
    "Linear of a vector": case(lambda n: n.Linear(5, 3), (5,)),
    "Linear without bias": case(lambda n: n.Linear(5, 3, bias=False), (2, 5)),
    "Embedding": case(lambda n: n.Embedding(7, 3), [[5, 0], [5, 5], [2, 6]]),
    "Embedding with padding, unused": case(lambda n: n.Embedding(7, 3, padding_idx=1), [5, 0]),
    "LayerNorm": case(lambda n: n.LayerNorm(5), (2, 3, 5)),
    "LayerNorm over two dims": case(lambda n: n.LayerNorm((3, 5), eps=0.1), (2, 3, 5)),
    "LayerNorm without bias": case(lambda n: n.LayerNorm(5, bias=False), (3, 5)),
    "LayerNorm without weights": case(lambda n: n.LayerNorm(5, elementwise_affine=False), (3, 5)),
    "RMSNorm": case(lambda n: n.RMSNorm(5), (2, 3, 5)),
    "RMSNorm over two dims": case(lambda n: n.RMSNorm((3, 5), eps=0.1), (2, 3, 5)),
    "RMSNorm without weights": case(lambda n: n.RMSNorm(5, elementwise_affine=False), (3, 5)),
    "ReLU": case(lambda n: n.ReLU(), (2, 3)),
    "GELU": case(lambda n: n.GELU(), (2, 3)),
    "GELU by tanh": case(lambda n: n.GELU(approximate="tanh"), (2, 3)),
    "SiLU": case(lambda n: n.SiLU(), (2, 3)),
    "Tanh": case(lambda n: n.Tanh(), (2, 3)),
    "Sigmoid": case(lambda n: n.Sigmoid(), (2, 3)),
    "Softmax": case(lambda n: n.Softmax(dim=1), (2, 3, 5)),
    "Dropout": case(lambda n: n.Dropout(0.3), (5, 7), torch=False),
    "Dropout in eval": case(lambda n: n.Dropout(0.3).eval(), (5, 7)),
    "CrossEntropyLoss": case(lambda n: n.CrossEntropyLoss(), (3, 5), [4, 0, 2]),
    "CrossEntropyLoss of sequences": case(lambda n: n.CrossEntropyLoss(reduction="none"), (2, 5, 3), [[4, 0, 2], [1, 1, 3]]),
    "CrossEntropyLoss, options": case(lambda n: n.CrossEntropyLoss(ignore_index=2, label_smoothing=0.3), (3, 5), [4, 0, 2]),
    "MSELoss": case(lambda n: n.MSELoss(), (2, 3), (2, 3)),
    "MSELoss, summed": case(lambda n: n.MSELoss(reduction="sum"), (2, 3), (2, 3)),
    "MultiHeadAttention": case(lambda n: n.MultiHeadAttention(6, 2), (2, 5, 6), torch=False),
    "MultiHeadAttention, context": case(lambda n: n.MultiHeadAttention(6, 3, causal=False, bias=True), (2, 5, 6), (2, 7, 6), torch=False),
    "SwiGLU": case(lambda n: n.SwiGLU(5, 7), (2, 3, 5), torch=False),
    "DecoderLayer": case(lambda n: n.DecoderLayer(6, 3, 5), (2, 3, 6), torch=False),
    "DecoderLayer, rotary": case(lambda n: n.DecoderLayer(4, 1, 3, rotary=True), (3, 4), torch=False),
    "TinyTransformer": case(lambda n: n.TinyTransformer(5, 4, 2, 1, max_length=7, d_ff=3), [[3, 0, 2], [4, 4, 1]], torch=False),
    "TinyTransformer, tied": case(lambda n: n.TinyTransformer(5, 4, d_ff=3, positions="rotary", tied=True), [4, 0, 4], torch=False),
    "Sequential": case(lambda n: n.Sequential(n.Linear(5, 7), n.GELU(), n.LayerNorm(7), n.Linear(7, 3)), (2, 5)),
}
everywhere = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def made(case, dtype="float64"):
    """The layer with random weights (those it starts with, ones and zeros, would hide errors), and its inputs."""
    random = np.random.default_rng(0)
    layer = case.build(nn).to(dtype)
    for p in layer.parameters():
        p.data = random.standard_normal(p.shape).astype(dtype)
    arrays = [random.standard_normal(i).astype(dtype) if isinstance(i, tuple) else np.array(i) for i in case.inputs]
    return layer, [minigrad.tensor(a, requires_grad=a.dtype == dtype) for a in arrays]


def run(layer, inputs):
    minigrad.manual_seed(3)  # dropout draws the same mask each time
    return layer(*inputs)


def cotangent(y):
    return np.random.default_rng(1).standard_normal(y.shape).astype(y.dtype)


def test_the_table_has_every_layer():
    exported = {c for c in vars(nn).values() if isinstance(c, type) and issubclass(c, nn.Module) and c.forward is not nn.Module.forward}
    assert {type(case.build(nn)) for case in CASES.values()} == exported
    assert len(exported) >= 15


@everywhere
def test_gradients_of_inputs_and_parameters(case):
    layer, inputs = made(case)
    wanted = [t for t in [*inputs, *layer.parameters()] if t.requires_grad]
    assert minigrad.gradcheck(lambda *_: run(layer, inputs), wanted)


@everywhere
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_gradient_reaches_everything_and_the_dtype_stays(case, dtype):
    layer, inputs = made(case, dtype)
    y = run(layer, inputs)
    assert y.dtype == dtype
    y.backward(minigrad.tensor(cotangent(y)))
    for t in [*layer.parameters(), *(t for t in inputs if t.requires_grad)]:
        assert t.grad.data.any()
        assert t.grad.dtype == dtype


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 1e-5)])
@pytest.mark.parametrize("case", [c for c in CASES.values() if c.torch], ids=[name for name, c in CASES.items() if c.torch])
def test_values_and_gradients_are_those_of_pytorch(case, dtype, tolerance, torch):
    layer, inputs = made(case, dtype)
    other = case.build(torch.nn).to(getattr(torch, dtype))
    other.load_state_dict({name: torch.tensor(t.numpy()) for name, t in layer.state_dict().items()})
    others = [torch.tensor(t.detach().numpy(), requires_grad=t.requires_grad) for t in inputs]

    y, z = layer(*inputs), other(*others)
    g = cotangent(y)
    y.backward(minigrad.tensor(g))
    z.backward(torch.tensor(g))
    assert np.allclose(y.data, z.detach().numpy(), tolerance, tolerance)
    pairs = list(zip([*inputs, *layer.parameters()], [*others, *other.parameters()], strict=True))
    for ours, theirs in pairs:
        if ours.requires_grad:
            assert np.allclose(ours.grad.data, theirs.grad.numpy(), tolerance, tolerance)


# On paper -----------------------------------------------------------------------------------------------------


def with_weights(layer, **weights):
    layer.load_state_dict({name: np.array(value, float) for name, value in weights.items()})
    return layer


LN3 = math.log(3.0)
ON_PAPER = {
    "LayerNorm: mean 2, variance 1": (with_weights(nn.LayerNorm(2, eps=0.0), weight=[2, 3], bias=[10, 20]), [1.0, 3.0], [8, 23]),
    "LayerNorm: 1 + 3 in the root": (with_weights(nn.LayerNorm(2, eps=3.0), weight=[2, 3], bias=[10, 20]), [1.0, 3.0], [9, 21.5]),
    "RMSNorm: mean square 25": (with_weights(nn.RMSNorm(2, eps=0.0), weight=[5, 10]), [1.0, 7.0], [1, 14]),
    "RMSNorm: 25 + 11 in the root": (with_weights(nn.RMSNorm(2, eps=11.0), weight=[6, 12]), [1.0, 7.0], [1, 14]),
    "ReLU": (nn.ReLU(), [-2.0, 0.0, 3.0], [0, 0, 3]),
    "GELU: 68.27% within one sigma": (nn.GELU(), [-1.0, 0.0, 1.0], [-0.158655, 0, 0.841345]),
    "GELU by tanh": (nn.GELU("tanh"), [-1.0, 0.0, 1.0], [-0.158808, 0, 0.841192]),
    "SiLU": (nn.SiLU(), [-LN3, 0.0, LN3], [-LN3 / 4, 0, 3 * LN3 / 4]),
    "Tanh": (nn.Tanh(), [0.0, math.log(2.0)], [0, 0.6]),
    "Sigmoid": (nn.Sigmoid(), [-LN3, 0.0, LN3], [0.25, 0.5, 0.75]),
    "Softmax": (nn.Softmax(dim=0), [[0.0, 0.0], [LN3, 0.0]], [[0.25, 0.5], [0.75, 0.5]]),
    "Sequential": (
        nn.Sequential(with_weights(nn.Linear(2, 1), weight=[[1, -2]], bias=[3]), nn.ReLU()),
        [[5.0, 1.0], [1.0, 7.0]],
        [[6], [0]],
    ),
}


@pytest.mark.parametrize(("layer", "x", "expected"), ON_PAPER.values(), ids=ON_PAPER)
def test_results_on_paper(layer, x, expected):
    y = layer(minigrad.tensor(x))
    assert y.shape == np.shape(expected)
    assert np.allclose(y.data, expected, atol=1e-6)


def test_linear_on_paper():
    layer = with_weights(nn.Linear(2, 3), weight=[[1, 2], [3, 4], [5, 6]], bias=[1, -1, 2])
    x = minigrad.tensor([[1.0, -1.0], [2.0, 0.0]], requires_grad=True)
    y = layer(x)
    assert y.tolist() == [[0, -2, 1], [3, 5, 12]]
    y.backward(minigrad.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]]))
    assert x.grad.tolist() == [[11, 14], [14, 18]]
    assert layer.weight.grad.tolist() == [[1, -1], [6, 0], [4, -2]]
    assert layer.bias.grad.tolist() == [1, 3, 3]


def test_linear_without_bias_has_one_parameter():
    layer = nn.Linear(3, 2, bias=False)
    assert layer.bias is None
    assert [p.shape for p in layer.parameters()] == [(2, 3)]
    layer(minigrad.ones(5, 3)).sum().backward()
    assert layer.weight.grad.tolist() == [[5.0] * 3] * 2


def test_norms_have_the_parameters_they_were_asked_for():
    for layer, names in (
        (nn.LayerNorm(3), ["weight", "bias"]),
        (nn.LayerNorm(3, bias=False), ["weight"]),
        (nn.LayerNorm(3, elementwise_affine=False), []),
        (nn.RMSNorm(3), ["weight"]),
        (nn.RMSNorm(3, elementwise_affine=False), []),
    ):
        assert [name for name, _ in layer.named_parameters()] == names


def test_the_eps_of_rms_norm_is_that_of_the_dtype():
    assert nn.RMSNorm(1)(minigrad.tensor([1e-30])).item() / 1e-30 == pytest.approx(2**11.5, rel=1e-6)


def test_embedding_on_paper():
    layer = with_weights(nn.Embedding(3, 2), weight=[[1, 2], [3, 4], [5, 6]])
    y = layer(minigrad.tensor([[2, 0], [2, 2]]))
    assert y.tolist() == [[[5, 6], [1, 2]], [[5, 6], [5, 6]]]
    y.backward(minigrad.tensor([[[1.0, 2.0], [3.0, 4.0]], [[10.0, 20.0], [100.0, 200.0]]]))
    assert layer.weight.grad.tolist() == [[3, 4], [0, 0], [111, 222]]


@pytest.mark.parametrize("padding_idx", [3, -2])
def test_the_padding_row_starts_at_zero_and_gets_no_gradient(padding_idx):
    layer = nn.Embedding(5, 2, padding_idx)
    assert [row.any() for row in layer.weight.data] == [True, True, True, False, True]
    y = layer(minigrad.tensor([3, 1, 3, 1]))
    y.backward(minigrad.tensor([[1.0, 2.0]] * 4))
    assert layer.weight.grad.tolist() == [[0, 0], [2, 4], [0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("reduction", "loss", "gradient"),
    [
        ("mean", 15 / 4, [[-1 / 2, 1], [-3 / 2, -1 / 2]]),
        ("sum", 15, [[-2, 4], [-6, -2]]),
        ("none", [[1, 4], [9, 1]], [[-2, 4], [-6, -2]]),
    ],
)
def test_mse_loss_on_paper(reduction, loss, gradient):
    x = minigrad.tensor([[1.0, 4.0], [3.0, 0.0]], requires_grad=True)
    y = nn.MSELoss(reduction)(x, minigrad.tensor([[2.0, 2.0], [6.0, 1.0]]))
    assert y.tolist() == loss
    y.sum().backward()
    assert x.grad.tolist() == gradient


@pytest.mark.parametrize(
    ("options", "loss", "gradient"),  # of softmax 1/4, 3/4 with target 0, and 1/2, 1/2 with target 1
    [
        ({}, math.log(8) / 2, [[-3 / 8, 3 / 8], [1 / 4, -1 / 4]]),
        ({"reduction": "sum"}, math.log(8), [[-3 / 4, 3 / 4], [1 / 2, -1 / 2]]),
        ({"ignore_index": 1}, math.log(4), [[-3 / 4, 3 / 4], [0, 0]]),
        ({"label_smoothing": 1.0, "ignore_index": 1}, (math.log(4) + math.log(4 / 3)) / 2, [[-1 / 4, 1 / 4], [0, 0]]),
    ],
)
def test_cross_entropy_loss_on_paper(options, loss, gradient):
    x = minigrad.tensor([[0.0, LN3], [0.0, 0.0]], requires_grad=True)
    y = nn.CrossEntropyLoss(**options)(x, minigrad.tensor([0, 1]))
    y.backward()
    assert y.item() == pytest.approx(loss, rel=1e-6)
    assert np.allclose(x.grad.data, gradient, atol=1e-6)


def test_dropout_drops_in_training_only():
    layer, x = nn.Dropout(0.75), minigrad.ones(101)
    assert set(layer(x).tolist()) == {0.0, 4.0}
    assert layer.eval()(x) is x
    assert set(layer.train()(x).tolist()) == {0.0, 4.0}


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: nn.Linear(0, 3), ["Linear", "at least 1", "0 and 3"]),
        (lambda: nn.Linear(3, -2), ["Linear", "at least 1", "3 and -2"]),
        (lambda: nn.Dropout(1.5), ["Dropout", "[0, 1]", "1.5"]),
        (lambda: nn.Dropout(-0.1), ["Dropout", "[0, 1]", "-0.1"]),
        (lambda: nn.Embedding(5, 2, padding_idx=5), ["padding_idx 5", "5 rows"]),
        (lambda: nn.Embedding(5, 2, padding_idx=-6), ["padding_idx -6", "5 rows"]),
    ],
)
def test_impossible_sizes(build, words):
    with pytest.raises(ValueError, match=r".") as error:
        build()
    assert [word for word in words if word not in str(error.value)] == []
