"""Making tensors: values and dtypes written out by hand, the same from PyTorch, and random numbers by what they promise."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minigrad
from minigrad import Tensor, tensor

T = minigrad


def like(module: Any) -> Any:
    return module.tensor([[1, 2, 3], [4, 5, 6]])


MADE: list[tuple[Callable[[Any], Any], Any, str]] = [
    (lambda T: T.tensor(1.5), 1.5, "float32"),
    (lambda T: T.tensor(3), 3, "int64"),
    (lambda T: T.tensor(True), True, "bool"),
    (lambda T: T.tensor([1.0, 2.0]), [1, 2], "float32"),
    (lambda T: T.tensor([1, 2.5]), [1, 2.5], "float32"),
    (lambda T: T.tensor([1, 2**40]), [1, 2**40], "int64"),
    (lambda T: T.tensor([True, False]), [True, False], "bool"),
    (lambda T: T.tensor([True, 2]), [1, 2], "int64"),
    (lambda T: T.tensor(((1.0, 2.0), (3.0, 4.0))), [[1, 2], [3, 4]], "float32"),
    (lambda T: T.tensor(range(3)), [0, 1, 2], "int64"),
    (lambda T: T.tensor([]), [], "float32"),
    (lambda T: T.tensor([[]]), [[]], "float32"),
    (lambda T: T.tensor([T.tensor(1.0), T.tensor(2.0)]), [1, 2], "float32"),
    (lambda T: T.tensor(np.array([1.0, 2.0])), [1, 2], "float64"),
    (lambda T: T.tensor(np.array([1.0], np.float32)), [1], "float32"),
    (lambda T: T.tensor(np.array([1, 2], np.uint8)), [1, 2], "uint8"),
    (lambda T: T.tensor(np.float64(3)), 3, "float64"),
    (lambda T: T.tensor([1, 2], dtype=T.float64), [1, 2], "float64"),
    (lambda T: T.tensor([1.7, -1.7], dtype=T.int64), [1, -1], "int64"),
    (lambda T: T.tensor([1.7, 0.0], dtype=T.bool), [True, False], "bool"),
    (lambda T: T.tensor([1e300, -1e300]), [np.inf, -np.inf], "float32"),
    (lambda T: T.as_tensor([1.0, 2.0]), [1, 2], "float32"),
    (lambda T: T.as_tensor(np.array([1, 2]), dtype=T.float32), [1, 2], "float32"),
    (lambda T: T.from_numpy(np.array([[1.0, 2.0]])), [[1, 2]], "float64"),
    (lambda T: T.zeros(2, 3), [[0, 0, 0], [0, 0, 0]], "float32"),
    (lambda T: T.zeros((2, 1)), [[0], [0]], "float32"),
    (lambda T: T.zeros([3], dtype=T.int64), [0, 0, 0], "int64"),
    (lambda T: T.zeros(()), 0, "float32"),
    (lambda T: T.zeros(2, 0), [[], []], "float32"),
    (lambda T: T.zeros(like(T).shape), [[0, 0, 0], [0, 0, 0]], "float32"),
    (lambda T: T.ones(2, dtype=T.float64), [1, 1], "float64"),
    (lambda T: T.ones(1, 2), [[1, 1]], "float32"),
    (lambda T: T.full((2,), 3), [3, 3], "int64"),
    (lambda T: T.full((1, 2), 3.5), [[3.5, 3.5]], "float32"),
    (lambda T: T.full((2,), True), [True, True], "bool"),
    (lambda T: T.full((), 7, dtype=T.float64), 7, "float64"),
    (lambda T: T.eye(2), [[1, 0], [0, 1]], "float32"),
    (lambda T: T.eye(2, 3), [[1, 0, 0], [0, 1, 0]], "float32"),
    (lambda T: T.arange(4), [0, 1, 2, 3], "int64"),
    (lambda T: T.arange(1, 10, 3), [1, 4, 7], "int64"),
    (lambda T: T.arange(5, 0, -2), [5, 3, 1], "int64"),
    (lambda T: T.arange(3, 3), [], "int64"),
    (lambda T: T.arange(3.0), [0, 1, 2], "float32"),
    (lambda T: T.arange(1, 2, 0.25), [1, 1.25, 1.5, 1.75], "float32"),
    (lambda T: T.arange(0, 3, dtype=T.float32), [0, 1, 2], "float32"),
    (lambda T: T.linspace(0, 1, 5), [0, 0.25, 0.5, 0.75, 1], "float32"),
    (lambda T: T.linspace(1, -1, 3, dtype=T.float64), [1, 0, -1], "float64"),
    (lambda T: T.linspace(2, 5, 1), [2], "float32"),
    (lambda T: T.zeros_like(like(T)), [[0, 0, 0], [0, 0, 0]], "int64"),
    (lambda T: T.ones_like(like(T), dtype=T.float32), [[1, 1, 1], [1, 1, 1]], "float32"),
    (lambda T: T.full_like(like(T), 7), [[7, 7, 7], [7, 7, 7]], "int64"),
    (lambda T: T.full_like(T.zeros(2), 7), [7, 7], "float32"),
    (lambda T: T.zeros(2, device="cpu"), [0, 0], "float32"),
    (lambda T: T.tensor([T.inf, T.nan, T.pi]), [np.inf, np.nan, np.pi], "float32"),
]


@pytest.mark.parametrize(("make", "values", "dtype"), MADE)
def test_values_and_dtypes(make: Callable[[Any], Any], values: Any, dtype: str, torch_or_none: Any) -> None:
    x = make(minigrad)
    assert (x.dtype, x.shape, x.is_leaf, x.requires_grad) == (dtype, np.shape(values), True, False)
    np.testing.assert_array_equal(x.numpy(), np.array(values, dtype))
    if torch_or_none:
        expected = make(torch_or_none)
        assert (str(expected.dtype), tuple(expected.shape)) == (f"torch.{dtype}", x.shape)
        np.testing.assert_array_equal(expected.numpy(), x.numpy())


RANDOM = [
    lambda **k: T.rand(2, 3, **k),
    lambda **k: T.randn((2, 3), **k),
    lambda **k: T.rand_like(like(T), **k),
    lambda **k: T.randn_like(like(T), **k),
]
FILLED = [
    lambda **k: T.zeros(2, **k), lambda **k: T.ones(2, **k), lambda **k: T.full((2,), 1.0, **k), lambda **k: T.eye(2, **k),
    lambda **k: T.arange(2, **k), lambda **k: T.linspace(0, 1, 2, **k), lambda **k: T.zeros_like(like(T), **k),
    lambda **k: T.ones_like(like(T), **k), lambda **k: T.full_like(like(T), 1, **k), lambda **k: tensor([1, 2], **k),
]  # fmt: skip


@pytest.mark.parametrize("make", RANDOM + FILLED)
def test_every_maker_takes_dtype_requires_grad_and_device(make: Callable[..., Tensor]) -> None:
    x = make(dtype=T.float64, requires_grad=True, device="cpu")
    assert (x.dtype, x.requires_grad, x.is_leaf) == (np.float64, True, True)
    (x * x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.data)
    with pytest.raises(TypeError, match="int64"):
        make(dtype=T.int64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"cuda.*CPU"):
        make(dtype=T.float64, device="cuda")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: tensor([[1, 2], [3]]), ValueError, r"equally long.*\[\[1, 2\], \[3\]\]"),
        (lambda: tensor("text"), TypeError, "'text'"),
        (lambda: tensor(None), TypeError, "None"),
        (lambda: tensor([1.0, None]), TypeError, "None"),
        (lambda: tensor(1j), TypeError, "1j"),
        (lambda: tensor(2**70), TypeError, str(2**70)),
        (lambda: tensor(np.array([1.0], np.float16)), TypeError, "float16"),
        (lambda: tensor([1.0], dtype="float16"), TypeError, "float16"),
        (lambda: tensor([1.0], dtype="quux"), TypeError, "quux"),
        (lambda: T.from_numpy([1.0]), TypeError, "tensor"),
        (lambda: T.zeros(-1), ValueError, r"-1"),
        (lambda: T.zeros(2.5), TypeError, r"2\.5"),
        (lambda: T.zeros(True), TypeError, "True"),
        (lambda: T.rand(-1), ValueError, r"-1"),
        (lambda: T.randn(2, -3), ValueError, r"-3"),
        (lambda: T.eye(-1), ValueError, r"-1"),
        (lambda: T.linspace(0, 1, -1), ValueError, r"-1"),
        (lambda: T.arange(0, 1, 0), ValueError, "0"),
        (lambda: T.arange(3, 0), ValueError, "3 to 0"),
        (lambda: T.randint(3, 3, (2,)), ValueError, "3"),
        (lambda: T.randint(0, 3, 2), TypeError, "tuple"),
        (lambda: T.randint(0, 2.5, (2,)), TypeError, r"2\.5"),
        (lambda: T.randperm(-1), ValueError, r"-1"),
        (lambda: T.manual_seed(1.5), TypeError, r"1\.5"),
        (lambda: T.multinomial(tensor([1.0, 0.0]), 2), ValueError, "replacement=True"),
        (lambda: T.multinomial(tensor([0.0, 0.0]), 1), ValueError, "not all 0"),
        (lambda: T.multinomial(tensor([-1.0, 2.0]), 1), ValueError, "negative"),
        (lambda: T.multinomial(tensor([np.nan, 2.0]), 1), ValueError, "finite"),
        (lambda: T.multinomial(tensor([1.0]), 0), ValueError, "0"),
        (lambda: T.multinomial(T.ones(2, 3, 5), 1), ValueError, r"\(2, 3, 5\)"),
        (lambda: T.set_rng_state(T.zeros(3)), ValueError, r"\(3,\)"),
    ],
)
def test_what_cannot_be_made_is_an_error_with_the_value(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_a_pytorch_tensor_is_refused_with_the_way_out(torch: Any) -> None:
    with pytest.raises(TypeError, match=r"PyTorch.*numpy\(\)"):
        tensor(torch.ones(2))


def test_tensor_of_a_tensor_copies_it_and_as_tensor_does_not() -> None:
    x = tensor([1.0, 2.0])
    assert T.as_tensor(x) is x
    assert not np.shares_memory(tensor(x).data, x.data)
    y = tensor(x.requires_grad_())
    assert (y.requires_grad, y.is_leaf) == (False, True)


# Random numbers -----------------------------------------------------------------------------------------------


def draw() -> list[Any]:
    weights = tensor([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    made = [
        T.rand(3),
        T.randn(3),
        T.randint(0, 100, (5,)),
        T.randperm(7),
        T.multinomial(weights, 2),
        T.multinomial(weights, 4, replacement=True),
    ]
    return [x.tolist() for x in made]


SEEDS = [0, 1, 3, 2**31, 2**32 - 1, 2**32, 2**32 + 3, 2**40 + 3, -1]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_gives_the_same_numbers_and_another_seed_others(seed: int) -> None:
    T.manual_seed(seed)
    first, second = draw(), draw()
    T.manual_seed(seed)
    assert draw() == first
    assert first != second
    T.manual_seed(seed + 1)
    assert draw() != first


def test_no_two_seeds_give_the_same_numbers() -> None:
    firsts = []
    for seed in SEEDS:
        T.manual_seed(seed)
        firsts.append(T.rand(1).item())
    assert len(set(firsts)) == len(SEEDS)


def test_the_numbers_are_those_of_mersenne_twister_on_every_machine() -> None:
    T.manual_seed(0)
    np.testing.assert_allclose(T.rand(3).numpy(), [0.5488135, 0.71518937, 0.60276338], rtol=1e-6)
    T.manual_seed(0)
    np.testing.assert_allclose(T.randn(3).numpy(), [1.76405235, 0.40015721, 0.97873798], rtol=1e-6)
    T.manual_seed(0)
    assert T.randint(0, 10, (6,)).tolist() == np.random.RandomState(0).randint(0, 10, 6).tolist()


def test_numpys_own_generator_neither_changes_nor_matters() -> None:
    before = np.random.get_state()[1].copy()
    T.manual_seed(3)
    first = draw()
    np.testing.assert_array_equal(np.random.get_state()[1], before)
    T.manual_seed(3)
    np.random.random(5)
    assert draw() == first


def test_the_state_can_be_saved_and_put_back_also_within_a_pair_of_normals(tmp_path: Any) -> None:
    T.manual_seed(5)
    for _ in range(2):  # normals are made in pairs: after one, the second waits in the state
        T.randn(1)
        T.save(T.get_rng_state(), tmp_path / "state")
        expected = [T.randn(1).item(), *draw()]
        T.set_rng_state(T.load(tmp_path / "state"))
        assert [T.randn(1).item(), *draw()] == expected


@pytest.mark.parametrize("dtype", [T.float32, T.float64])
def test_uniform_and_normal_numbers_have_their_moments(dtype: Any) -> None:
    T.manual_seed(1)
    n = 20_000
    u, z = T.rand(n, dtype=dtype).double(), T.randn(n, dtype=dtype).double()
    assert 0 <= u.min().item() < 0.001
    assert 0.999 < u.max().item() < 1
    assert abs(u.mean().item() - 0.5) < 5 / (12 * n) ** 0.5
    counts = np.histogram(u.numpy(), 10, (0, 1))[0]
    assert abs(counts - n / 10).max() < 5 * (n * 0.09) ** 0.5
    assert abs(z.mean().item()) < 5 / n**0.5
    assert abs(z.var().item() - 1) < 5 * (2 / n) ** 0.5
    assert abs((z.abs() < 1).double().mean().item() - 0.6827) < 5 * (0.22 / n) ** 0.5


def test_a_float32_below_1_is_not_rounded_up_to_1() -> None:
    T.manual_seed(0)
    steps = T.rand(1000).double() * 2**24  # all on the grid of float32 below 1
    np.testing.assert_array_equal(steps.numpy(), np.floor(steps.numpy()))


def test_randint_reaches_both_ends_evenly_and_randperm_is_a_permutation() -> None:
    T.manual_seed(2)
    x = T.randint(-2, 3, (5000,))
    assert (x.dtype, x.shape) == (np.int64, (5000,))
    counts = np.bincount(x.numpy() + 2, minlength=5)
    assert abs(counts - 1000).max() < 5 * 800**0.5
    assert T.randint(3, (2, 5)).shape == (2, 5)
    assert T.randint(0, 3, (2,), dtype=T.float32).dtype == np.float32
    permutations = [T.randperm(11) for _ in range(20)]
    assert all(sorted(p.tolist()) == list(range(11)) for p in permutations)
    assert len({p[0].item() for p in permutations}) > 5
    assert T.randperm(0).tolist() == []


def test_multinomial_of_weights_as_small_as_they_come() -> None:
    smallest = tensor(np.array([0.0, 5e-324, 0.0]))  # half of it is rounded to all of it
    assert set(T.multinomial(smallest, 100, replacement=True).tolist()) == {1}


def test_multinomial_draws_with_the_given_weights() -> None:
    T.manual_seed(4)
    weights = tensor([[1.0, 0.0, 3.0, 4.0], [0.0, 0.0, 0.0, 0.5]])
    many = T.multinomial(weights, 8000, replacement=True).numpy()
    assert (many.shape, many.dtype) == ((2, 8000), np.int64)
    counts = np.bincount(many[0], minlength=4)
    assert counts[1] == 0
    assert abs(counts - np.array([1000, 0, 3000, 4000])).max() < 5 * 2000**0.5
    assert set(many[1]) == {3}
    first = np.array([T.multinomial(weights[0], 1).item() for _ in range(800)])
    assert abs(np.bincount(first, minlength=4) - np.array([100, 0, 300, 400])).max() < 5 * 200**0.5
    for _ in range(20):  # without replacement: all different, none of weight 0
        assert sorted(T.multinomial(weights[0], 3).tolist()) == [0, 2, 3]
