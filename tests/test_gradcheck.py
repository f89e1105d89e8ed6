"""The gradient checker can fail: it rejects planted wrong rules, and leaves everything as it was."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigrad import Tensor, apply, gradcheck, ops, tensor


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


# Wrong rules: the value is right, the gradient function isn't ---------------------------------------------------


def exp_without_gradient(x: np.ndarray) -> Any:
    return np.exp(x), lambda g: np.zeros_like(x)


def softmax_without_gradient(x: np.ndarray, axis: int) -> Any:
    return ops.softmax(x, axis)[0], lambda g: np.zeros_like(x)


def softmax_without_its_sum(x: np.ndarray, axis: int) -> Any:
    y = ops.softmax(x, axis)[0]
    return y, lambda g: y * g


def square_without_factor(x: np.ndarray) -> Any:
    return x * x, lambda g: g * x


def square_nearly_right(x: np.ndarray) -> Any:
    return x * x, lambda g: g * 2.00002 * x


def sub_without_sign(a: np.ndarray, b: np.ndarray) -> Any:
    return a - b, lambda g: g, lambda g: g


def add_without_broadcast_sum(a: np.ndarray, b: np.ndarray) -> Any:
    return a + b, lambda g: g, lambda g: g[0]  # of b's shape, but only the first of its uses


def mean_as_sum(x: np.ndarray) -> Any:
    return x.mean(), lambda g: np.broadcast_to(g, x.shape)


def pick_with_overwriting(x: np.ndarray, index: np.ndarray) -> Any:
    def dx(g: np.ndarray) -> np.ndarray:
        out = np.zeros_like(x)
        out[index] = g
        return out

    return x[index], dx


def matmul_without_transposes(a: np.ndarray, b: np.ndarray) -> Any:
    return a @ b, lambda g: g @ b, lambda g: a @ g  # square matrices: the shapes give nothing away


def permute_again(x: np.ndarray) -> Any:
    return x.transpose(1, 2, 0), lambda g: g.transpose(1, 2, 0)  # not undone, done twice


def relu_of_the_output(x: np.ndarray) -> Any:
    return np.maximum(x, 0), lambda g: np.where(g > 0, g, 0)


def nan_gradient(x: np.ndarray) -> Any:
    return x * 1, lambda g: g * np.nan


WRONG: list[tuple[Callable[..., Any], list[tuple[int, ...]], dict[str, Any]]] = [
    (exp_without_gradient, [(3,)], {}),
    (softmax_without_gradient, [(3, 5)], {"axis": 1}),
    (softmax_without_its_sum, [(3, 5)], {"axis": 1}),
    (square_without_factor, [(3,)], {}),
    (square_nearly_right, [(3,)], {}),
    (sub_without_sign, [(3,), (3,)], {}),
    (add_without_broadcast_sum, [(2, 3), (3,)], {}),
    (mean_as_sum, [(5,)], {}),
    (pick_with_overwriting, [(5,)], {"index": np.array([0, 0, 2])}),
    (matmul_without_transposes, [(3, 3), (3, 3)], {}),
    (permute_again, [(2, 2, 2)], {}),
    (relu_of_the_output, [(7,)], {}),
    (nan_gradient, [(3,)], {}),
]


@pytest.mark.parametrize(("op", "shapes", "options"), WRONG, ids=[op.__name__ for op, *_ in WRONG])
def test_a_planted_wrong_rule_is_rejected(op: Callable[..., Any], shapes: Any, options: dict[str, Any]) -> None:
    inputs = [leaf(*shape, seed=i) for i, shape in enumerate(shapes)]
    with pytest.raises(AssertionError, match=op.__name__):
        gradcheck(lambda *xs: apply(op, *xs, **options), inputs)


def test_a_wrong_rule_deep_inside_is_rejected() -> None:
    def f(x: Tensor) -> Tensor:
        return (apply(square_without_factor, x.sin()) + x).exp()

    with pytest.raises(AssertionError, match="exp"):
        gradcheck(f, leaf(3))


def test_a_result_outside_the_graph_is_rejected() -> None:
    with pytest.raises(AssertionError, match="got 0"):
        gradcheck(lambda x: x.detach() * 2, leaf(3))
    with pytest.raises(AssertionError, match=r"ratio 0\.5"):
        gradcheck(lambda x: x + x.detach(), leaf(3))


def test_a_plain_sum_would_have_hidden_the_missing_gradient_of_softmax() -> None:
    x = leaf(3, 5)
    x.softmax(1).sum().backward()
    assert np.abs(x.grad.data).max() < 1e-15  # the true gradient of the sum: a rule that returns zeros agrees with it
    with pytest.raises(AssertionError):
        gradcheck(lambda x: apply(softmax_without_gradient, x, axis=1), x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * x,
        lambda x: x.softmax(1),
        lambda x: x[np.array([0, 0, 2])],
        lambda x: (x.exp(), x.sin().sum()),
        lambda x: x.max(1),  # (values, indices): the integers are no outputs to differentiate
        lambda x: (x * x).detach() * 0.0 + x,
        lambda x: x[:0],
    ],
)
def test_right_rules_pass(f: Callable[[Tensor], Any]) -> None:
    assert gradcheck(f, leaf(3, 5)) is True
    assert gradcheck(f, [leaf(3, 5)], seed=7) is True


def test_every_output_and_every_input_counts() -> None:
    with pytest.raises(AssertionError, match="input 0"):
        gradcheck(lambda x: (x.sin(), apply(square_without_factor, x), x.cos()), leaf(3))
    with pytest.raises(AssertionError, match="input 2"):
        gradcheck(lambda a, b, c: a * b + apply(square_without_factor, c), [leaf(3), leaf(3), leaf(3)])
    constant = tensor(np.ones(3))
    assert gradcheck(lambda a, b, c: a * b + apply(square_without_factor, c), [leaf(3), leaf(3), constant])
    assert constant.grad is None


def test_the_message_holds_op_input_index_got_expected_and_ratio() -> None:
    def op(a: np.ndarray, b: np.ndarray) -> Any:
        def db(g: np.ndarray) -> np.ndarray:
            right = g * a
            right[1, 2] /= 4
            return right

        return a * b, lambda g: g * b, db

    a, b = tensor(np.full((2, 3), 3.0), requires_grad=True), leaf(2, 3)
    with pytest.raises(AssertionError) as error:
        gradcheck(lambda a, b: apply(op, a, b), [a, b])
    found = re.search(r"op: input 1, index \(1, 2\): got (\S+), expected (\S+), ratio 0\.25 \(1 of 6", str(error.value))
    assert found, error.value
    assert float(found[1]) / float(found[2]) == pytest.approx(0.25)

    with pytest.raises(AssertionError, match=r"expected 0, ratio undefined"):
        gradcheck(lambda x: apply(lambda x: (x * 0, lambda g: g), x), leaf(3))


def test_float32_is_refused_as_are_inputs_that_are_no_leaves_or_need_nothing() -> None:
    with pytest.raises(TypeError, match=r"input 1.*float32.*double"):
        gradcheck(lambda a, b: a * b, [leaf(3), tensor([1.0, 2.0, 3.0], requires_grad=True)])
    with pytest.raises(ValueError, match=r"input 0.*mul.*detach"):
        gradcheck(lambda x: x, leaf(3) * 2)
    with pytest.raises(ValueError, match="requires a gradient"):
        gradcheck(lambda x: x, tensor(np.ones(3)))


def test_the_cotangent_is_not_the_input_though_both_come_from_seed_0() -> None:
    x = tensor(np.random.default_rng(0).standard_normal(7), requires_grad=True)
    with pytest.raises(AssertionError, match="relu_of_the_output"):  # right wherever c and x agree in sign
        gradcheck(lambda x: apply(relu_of_the_output, x), x)


@pytest.mark.parametrize("case", ["right", "wrong", "error"])
def test_inputs_data_and_gradients_are_afterwards_as_before(case: str) -> None:
    calls = []

    def f(x: Tensor, w: Tensor) -> Tensor:
        calls.append(1)
        if case == "error" and len(calls) == 4:  # while an input is moved
            raise KeyError
        return apply(square_without_factor, x) * w if case == "wrong" else x * w

    x, w = leaf(3), leaf(3, seed=1)
    x.grad = tensor(np.full(3, 7.0))
    before = [x.data, x.grad, x.data.copy(), x.grad.data.copy(), w.data]
    try:
        gradcheck(f, [x, w])
        assert case == "right"
    except (AssertionError, KeyError):
        assert case != "right"
    assert x.data is before[0]
    assert x.grad is before[1]
    np.testing.assert_array_equal(x.data, before[2])
    np.testing.assert_array_equal(x.grad.data, before[3])
    assert w.data is before[4]
    assert w.grad is None
    assert x.requires_grad
    assert (x * 2).requires_grad  # recording is on again
