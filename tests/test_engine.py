"""The engine's promises, one by one: arrays stay as they are, gradients are added up once and never shared, graphs are freed."""

import copy
import gc
import math
import operator
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigrad
from minigrad import Tensor, apply, no_grad, tensor
from minigrad.optim import SGD, Adam
from minigrad.tensor import unbroadcast


def leaf(data: Any, dtype: Any = np.float64) -> Tensor:
    return tensor(np.array(data, dtype), requires_grad=True)


def vector() -> Tensor:
    return leaf([2.0, 3.0, 5.0])


def bad_op(x: np.ndarray) -> Any:
    """An op whose gradient function breaks."""

    def dx(g: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("planted")

    return x * 1, dx


# 1. An array inside a tensor is never written to ---------------------------------------------------------------


def test_forward_backward_and_optimizer_steps_write_into_no_array(rng: np.random.Generator) -> None:
    x, w, b = tensor(rng.standard_normal((7, 3))), leaf(rng.standard_normal((3, 5))), leaf(rng.standard_normal(5))
    for optimizer in (SGD([w, b], lr=0.1, momentum=0.9, weight_decay=0.1), Adam([w, b], lr=0.1)):
        for _ in range(3):
            h = x @ w + b
            p = h.softmax(-1)
            loss = (p * p).sum() + h.relu().mean() + b.norm()
            arrays = [t.data for t in (x, w, b, h, p, loss)] + [t.grad.data for t in (w, b) if t.grad is not None]
            before = [a.copy() for a in arrays]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            for a, saved in zip(arrays, before, strict=True):
                np.testing.assert_array_equal(a, saved)


def subtract(p: Tensor) -> None:
    p -= 0.5 * p.grad


def subtract_from_data(p: Tensor) -> None:
    p.data -= 0.5 * p.grad


def rebind_data(p: Tensor) -> None:
    p.data = p.data - 0.5 * p.grad.data


@pytest.mark.parametrize("update", [subtract, subtract_from_data, rebind_data])
def test_updates_in_place_rebind_and_the_recorded_graph_stays_right(update: Callable[[Tensor], None]) -> None:
    p = leaf([1.0, 2.0], np.float32)
    (p * p).sum().backward()  # p.grad = [2, 4]
    array, y = p.data, (p * p * p).sum()
    with no_grad():
        update(p)
    assert p.is_leaf
    assert p.requires_grad
    assert p.dtype == np.float32
    assert p.tolist() == [0, 0]
    assert array.tolist() == [1, 2]
    p.grad = None
    y.backward()  # of the old values, from which y was computed
    assert p.grad.tolist() == [3, 12]


@pytest.mark.parametrize(
    ("op", "expected"), [(operator.iadd, [3, 4]), (operator.isub, [-1, 0]), (operator.imul, [2, 4]), (operator.itruediv, [0.5, 1])]
)
def test_in_place_operators_keep_the_tensor_under_no_grad_and_record_outside(op: Any, expected: list[float]) -> None:
    p = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"leaf.*no_grad"):
        op(p, 2)
    assert p.tolist() == [1, 2]
    with no_grad():
        assert op(p, 2) is p
    assert p.tolist() == expected
    h = p * 1
    h2 = op(h, 2)  # of what was computed: y = x + 2 under the old name
    assert h2.requires_grad
    assert h.tolist() == expected
    constant = tensor([1.0, 2.0])
    array = constant.data
    assert op(constant, 2) is constant
    assert array.tolist() == [1, 2]


def test_changing_in_place_what_a_gradient_needs_changes_no_gradient() -> None:
    x = vector()
    a = x * 1
    b = a * a
    a += 1
    b.sum().backward()
    assert x.grad.tolist() == [4, 6, 10]


@pytest.mark.parametrize(
    ("other", "message"), [(tensor([[1.0, 2.0], [3.0, 4.0]]), r"\(2,\).*\(2, 2\)"), (tensor([1.5, 2.5]), "int64.*float32")]
)
def test_in_place_a_tensor_keeps_its_shape_and_kind(other: Tensor, message: str) -> None:
    x = tensor([1, 2])
    with pytest.raises(ValueError, match=message):
        x += other


def test_zero_and_item_assignment_rebind() -> None:
    x = vector()
    (x * x).sum().backward()
    array = x.grad.data
    assert x.grad.zero_() is x.grad
    assert x.grad.tolist() == [0, 0, 0]
    assert array.tolist() == [4, 6, 10]
    with pytest.raises(RuntimeError, match="no_grad"):
        x.zero_()

    mask, w = tensor([1.0, 1.0, 1.0]), vector()
    y, array = (w * mask).sum(), mask.data
    mask[1] = 0
    mask[tensor([2, 2])] = 7.0
    assert mask.tolist() == [1, 0, 7]
    assert array.tolist() == [1, 1, 1]
    y.backward()
    assert w.grad.tolist() == [1, 1, 1]
    for assign in (lambda: w.__setitem__(0, 1.0), lambda: mask.__setitem__(0, w[0])):
        with pytest.raises(RuntimeError, match=r"where.*masked_fill"):
            assign()
    with no_grad():
        w[0] = 11.0
    assert (w.tolist(), w.is_leaf, w.requires_grad) == ([11, 3, 5], True, True)


@pytest.mark.parametrize("make", [tensor, Tensor, minigrad.as_tensor, minigrad.from_numpy])
def test_a_tensor_holds_a_copy_of_the_users_array(make: Callable[[Any], Tensor]) -> None:
    array = np.array([1.0, 2.0, 3.0])
    w, x = vector(), make(array)
    y = (w * x).sum()
    array[:] = 0
    y.backward()
    assert w.grad.tolist() == [1, 2, 3]
    out = x.numpy()
    out[:] = 0
    assert x.tolist() == [1, 2, 3]


# 2. Gradients are never shared --------------------------------------------------------------------------------

SHARING: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "x + y": lambda x, y: x + y,
    "x + x": lambda x, y: x + x,
    "x - y": lambda x, y: x - y,
    "x alone": lambda x, y: x,
    "reshape": lambda x, y: x.reshape(2, 2) + y.reshape(2, 2),
    "transpose": lambda x, y: x.reshape(2, 2).T + y.reshape(2, 2),
    "expand": lambda x, y: x.expand(3, 4) + y,
    "sum": lambda x, y: x.sum() + y.sum(),
    "cat": lambda x, y: minigrad.cat([x, y, x]),
    "split": lambda x, y: x.split(2)[0] + x.split(2)[1] + y[:2],
    "where": lambda x, y: minigrad.where(x > 0, x, y),
    "clone": lambda x, y: x.clone() + y.contiguous(),
    "cast": lambda x, y: x.double() + y.float().double(),
    "cumsum": lambda x, y: x.cumsum(0) + y,
    "interior": lambda x, y: kept(kept(x + y) + y),
}


def kept(t: Tensor) -> Tensor:
    t.retain_grad()
    KEPT.append(t)
    return t


KEPT: list[Tensor] = []


@pytest.mark.parametrize("name", SHARING)
def test_no_two_tensors_share_a_gradient_array(name: str) -> None:
    KEPT.clear()
    x, y = leaf([1, 2, 3, 4]), leaf([5, 6, 7, 8])
    z = SHARING[name](x, y)
    seed = tensor(np.ones(z.shape))
    z.backward(seed, retain_graph=True)
    tensors = [t for t in {x, y, z, *KEPT} if t.grad is not None]
    once = [t.grad for t in tensors]
    z.backward(seed)
    arrays = [t.data for t in (x, y, seed)] + [t.grad.data for t in tensors] + [g.data for g in once]
    for a, b in combinations(arrays, 2):
        assert not np.shares_memory(a, b)
    for t, g in zip(tensors, once, strict=True):
        np.testing.assert_array_equal(t.grad.data, 2 * g.data)


def test_a_gradient_function_that_returns_a_tensor_is_refused() -> None:
    x, mask = tensor([1.0, 2.0], requires_grad=True), tensor([1.0, 0.0])
    x.grad = tensor([5.0, 5.0])
    y = minigrad.apply(lambda a, mask: (a * mask.data, lambda g: tensor(g) * mask), x, mask=mask).sum()
    with pytest.raises(TypeError, match=r"returned a Tensor: .*mask=mask\.data") as error:
        y.backward()
    assert "gradient function 0 of <lambda>" in error.value.__notes__[0]
    assert x.grad.tolist() == [5.0, 5.0]


def test_later_gradients_keep_the_dtype_too() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3):
        minigrad.apply(lambda a: (a, lambda g: g * np.float64(0.5)), x).sum().backward()
        assert x.grad is not None
        assert x.grad.dtype == minigrad.float32
    assert x.grad is not None
    assert x.grad.tolist() == [1.5, 1.5]


# 3. dtype in = dtype out: the operators are in test_dialect.py, the ops in test_ops.py ---------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_expression_keeps_its_dtype_and_so_does_the_gradient(dtype: Any) -> None:
    x = leaf([[1.0, 2.0], [3.0, 4.0]], dtype)
    hidden = minigrad.ones(2, 2).triu(1) > 0
    y = ((x * 0.5 + 1) / math.sqrt(2) * np.float64(3) - np.pi).masked_fill(hidden, -math.inf).softmax(-1)
    z = (y.mean() * 2.0).log() + (x**2).std() + x.norm() + (x.detach() > 1).float().to(dtype).sum()
    assert (y.dtype, z.dtype) == (dtype, dtype)
    z.backward()
    assert x.grad.dtype == dtype


def test_a_gradient_has_the_dtype_of_its_leaf_whatever_the_graph_computes_in() -> None:
    x, y = leaf([1.0, 2.0], np.float32), leaf([3.0, 4.0], np.float64)
    (x * y + x.double()).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (np.float32, np.float64)
    assert x.grad.tolist() == [4, 5]
    x.grad = None
    (x * 2).backward(tensor(np.array([1.0, 1.0])))
    assert x.grad.dtype == np.float32


@pytest.mark.parametrize("data", [[1, 2], [True, False]])
def test_integers_and_bools_never_require_a_gradient(data: list[Any]) -> None:
    x = tensor(data)
    for ask in (
        lambda: tensor(data, requires_grad=True),
        lambda: Tensor(data, requires_grad=True),
        x.requires_grad_,
        lambda: setattr(x, "requires_grad", True),
    ):
        with pytest.raises(TypeError, match=rf"{x.dtype}.*1\.0.*\.float\(\)"):
            ask()
    assert not x.requires_grad
    w = leaf([1.0, 2.0])
    with pytest.raises(TypeError, match=rf"{x.dtype}.*astype"):
        w.data = np.array(data)
    constants = [w.long(), w.bool(), w > 1, w == w, w.argmax(), w.max(0).indices, w.sort().indices, w.isnan(), ~(w > 1), w.all(), w.any()]
    assert not any(c.requires_grad for c in constants)


# 4. No reference cycles, no recursion -------------------------------------------------------------------------


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("end", ["nothing", "backward", "retain_graph", "error"])
def test_a_dropped_loss_frees_its_graph_at_once(end: str) -> None:
    x = vector()
    h = (x * x).softmax(0)
    loss = apply(bad_op, (h @ x).log()) if end == "error" else (h @ x).log() + h[0] + h.std() + minigrad.cat([h, x]).sum()
    watched = [weakref.ref(h), weakref.ref(loss)]
    if end == "error":
        with pytest.raises(ZeroDivisionError):
            loss.backward()
    elif end != "nothing":
        loss.backward(retain_graph=end == "retain_graph")
    del h, loss
    assert [w() for w in watched] == [None, None]


@pytest.mark.usefixtures("no_collector")
def test_backward_frees_what_was_recorded_though_the_loss_is_kept() -> None:
    x = vector()
    h = x * x
    losses = [h.sum()]
    watched = weakref.ref(h)
    losses[0].backward()
    del h
    assert watched() is None


@pytest.mark.usefixtures("no_collector")
def test_a_chain_of_100_000_ops_runs_forward_and_backward_and_is_freed_at_once() -> None:
    x = leaf(0.0)
    y = x
    for i in range(100_000):
        y = y + 1.0
        if i == 50_000:
            watched = weakref.ref(y)
    assert y.item() == 100_000
    y.backward(retain_graph=True)
    assert x.grad.item() == 1
    assert watched() is not None
    del y
    assert watched() is None


# The walk -----------------------------------------------------------------------------------------------------


def counted(calls: list[str], name: str) -> Callable[..., Any]:
    """x * 1, which notes each time its gradient function is called."""

    def op(x: np.ndarray) -> Any:
        def dx(g: np.ndarray) -> np.ndarray:
            calls.append(name)
            return g

        return x * 1, dx

    return op


def test_each_node_is_visited_once_after_all_that_used_it() -> None:
    calls: list[str] = []
    x = leaf(2.0)
    a = apply(counted(calls, "a"), x)
    b = apply(counted(calls, "b"), a)
    c = apply(counted(calls, "c"), a * b)  # a on two ways of different length
    d = a * c * b
    d.backward()
    assert calls == ["c", "b", "a"]
    assert x.grad.item() == 4 * 2**3  # d = x**4


def test_sixty_doublings_take_sixty_steps() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(60):
        y = y + y
    y.backward()
    assert x.grad.item() == 2.0**60


def test_the_order_is_that_of_birth_not_of_the_expression() -> None:
    x = leaf(3.0)
    late = x * 2
    early_user = late * 5
    both = late + early_user  # late's turn must wait for early_user's
    both.backward()
    assert x.grad.item() == 12


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: (x * x).sum(), [4, 6, 10]),
        (lambda x: x @ x, [4, 6, 10]),
        (lambda x: (x + x).sum(), [2, 2, 2]),
        (lambda x: (x - x).sum(), [0, 0, 0]),
        (lambda x: (x / x).sum(), [0, 0, 0]),
        (lambda x: minigrad.cat([x, x]).sum(), [2, 2, 2]),
        (lambda x: minigrad.where(x > 2, x, x).sum(), [1, 1, 1]),
        (lambda x: (x**x)[0], [4 * (math.log(2) + 1), 0, 0]),
        (lambda x: minigrad.maximum(x, x).sum(), [1, 1, 1]),
    ],
)
def test_a_tensor_used_twice_by_one_op_gets_both_contributions(f: Callable[[Tensor], Tensor], expected: list[float]) -> None:
    x = vector()
    f(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("which", [0, 1])
def test_only_inputs_that_require_a_gradient_get_one(which: int) -> None:
    pair = [tensor([2.0, 3.0]), tensor([5.0, 7.0])]
    pair[which].requires_grad_()
    (pair[0] * pair[1]).sum().backward()
    assert pair[which].grad.tolist() == pair[1 - which].tolist()
    assert pair[1 - which].grad is None


def test_gradients_of_several_losses_add_up_on_leaves_only() -> None:
    x = vector()
    h = x * 2
    h.sum().backward()
    (x * x).sum().backward()
    assert x.grad.tolist() == [6, 8, 12]
    assert h.grad is None
    h = x * 2
    h.retain_grad()
    h.sum().backward()
    assert h.grad.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="retain_grad"):
        tensor([1.0]).retain_grad()


def test_a_leaf_can_be_the_loss() -> None:
    x = leaf(2.0)
    x.backward()
    x.backward()
    assert x.grad.item() == 2


def test_a_second_backward_is_an_error_that_names_retain_graph() -> None:
    x = leaf(2.0)
    y = x * x * x
    y.backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()
    assert x.grad.item() == 12


def test_with_retain_graph_leaves_add_up_and_interior_gradients_start_anew() -> None:
    x = leaf(2.0)
    y = x * x * x
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    assert x.grad.item() == 24
    x.grad = None
    y.backward()
    assert x.grad.item() == 12


def test_a_shared_part_that_was_used_up_is_an_error_and_changes_no_gradient() -> None:
    x, w = vector(), vector()
    h = x * x
    first, second = h.sum(), (h * w).sum()
    first.backward()
    with pytest.raises(RuntimeError, match=r"mul.*retain_graph=True"):
        second.backward()
    assert x.grad.tolist() == [4, 6, 10]
    assert w.grad is None


def test_a_shared_part_can_be_walked_twice_with_retain_graph() -> None:
    x = vector()
    h = x * x
    first, second = h.sum(), (h * 2).sum()
    first.backward(retain_graph=True)
    second.backward()
    assert x.grad.tolist() == [12, 18, 30]


def test_an_error_in_a_gradient_function_leaves_every_gradient_as_it_was() -> None:
    x, w, late = vector(), vector(), vector()
    (x * 2).sum().backward()
    h = apply(bad_op, x) * w  # w's gradient is known before bad_op's turn
    h.retain_grad()
    with pytest.raises(ZeroDivisionError, match="planted"):
        (h * late).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert [w.grad, late.grad, h.grad] == [None, None, None]


# What can't be done is an error with the numbers and the way out ------------------------------------------------


def test_backward_of_more_than_one_number_needs_a_gradient() -> None:
    x = vector()
    y = x * x
    with pytest.raises(RuntimeError, match=r"\(3,\).*sum\(\).*backward\(gradient\)"):
        y.backward()
    y.backward(tensor([1.0, 10.0, 100.0]))
    assert x.grad.tolist() == [4, 60, 1000]
    z = (x * x).sum().reshape(1, 1)  # one number, whatever its shape
    z.backward()
    assert x.grad.tolist() == [8, 66, 1010]


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_a_seed_of_another_dtype_becomes_that_of_its_tensor(dtype: Any) -> None:
    arrived = []

    def spy(x: np.ndarray) -> Any:
        return x * 2, lambda g: arrived.append(g) or g * 2

    apply(spy, leaf([1.0, 2.0], np.float32)).backward(tensor(np.array([3, 5], dtype)))
    assert [(g.dtype, g.tolist()) for g in arrived] == [(np.float32, [3, 5])]


@pytest.mark.parametrize("seed", [[1.0], [1.0, 1.0], [[1.0, 1.0, 1.0]], 1.0])
def test_a_seed_of_another_shape_is_an_error_even_if_it_would_broadcast(seed: Any) -> None:
    x = vector()
    with pytest.raises(RuntimeError) as error:
        (x * x).backward(tensor(seed))
    assert str(np.shape(seed)) in str(error.value)
    assert "(3,)" in str(error.value)
    assert x.grad is None


def test_backward_without_anything_to_differentiate_is_an_error() -> None:
    x = vector()
    with no_grad():
        unrecorded = x.sum()
    for y in (tensor(1.0), x.detach().sum(), unrecorded):
        with pytest.raises(RuntimeError, match="require"):
            y.backward()


def test_a_gradient_function_that_answers_in_the_wrong_shape_is_an_error() -> None:
    def crooked(x: np.ndarray) -> Any:
        return x * 1, lambda g: np.ones((5,))

    x = vector()
    with pytest.raises(ValueError, match=r"\(5,\).*\(3,\)"):
        apply(crooked, x).sum().backward()
    assert x.grad is None


def test_grad_takes_none_or_a_tensor_of_its_shape() -> None:
    x = vector()
    for wrong in (np.ones(3), 1.0, tensor([1.0])):
        with pytest.raises(TypeError, match=r"\(3,\)"):
            x.grad = wrong
    x.grad = tensor([1.0, 1.0, 1.0])
    x.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_requires_grad_can_be_switched_on_leaves_and_not_off_what_was_computed() -> None:
    x = tensor([1.0, 2.0])
    assert x.requires_grad_() is x
    y = x * 2
    with pytest.raises(RuntimeError, match="detach"):
        y.requires_grad = False
    x.requires_grad_(False)
    assert not (x * 2).requires_grad


@pytest.mark.parametrize(
    ("got", "shape", "expected"),
    [
        ((2, 3), (2, 3), [[0, 1, 2], [3, 4, 5]]),
        ((2, 3), (3,), [3, 5, 7]),
        ((2, 3), (1, 3), [[3, 5, 7]]),
        ((2, 3), (2, 1), [[3], [12]]),
        ((2, 3), (1, 1), [[15]]),
        ((2, 3), (1,), [15]),
        ((2, 3), (), 15),
        ((), (), 0),
        ((1, 1), (), 0),
        ((1, 3), (3,), [0, 1, 2]),
        ((2, 1, 3), (1, 3), [[3, 5, 7]]),
        ((2, 1, 3), (1, 1), [[15]]),
        ((0, 3), (3,), [0, 0, 0]),
        ((0, 3), (1, 3), [[0, 0, 0]]),
        ((3, 0), (3, 1), [[0], [0], [0]]),
        ((3, 0), (3, 0), [[], [], []]),
    ],
)
def test_unbroadcast_sums_over_the_repeats(got: tuple[int, ...], shape: tuple[int, ...], expected: Any) -> None:
    g = np.arange(math.prod(got), dtype=np.float32).reshape(got)
    total = unbroadcast(g, shape)
    assert (total.shape, total.dtype) == (shape, np.float32)
    np.testing.assert_array_equal(total, expected)


@pytest.mark.parametrize(("got", "shape"), [((5,), (3,)), ((3,), (2, 3)), ((), (3,)), ((2, 3), (2,)), ((2, 1), (2, 3))])
def test_unbroadcast_refuses_what_broadcasting_cannot_have_made(got: tuple[int, ...], shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="shape"):
        unbroadcast(np.ones(got), shape)


# no_grad and detach -------------------------------------------------------------------------------------------


def recording() -> bool:
    return (vector() * 2).requires_grad


def test_no_grad_nests_and_ends_with_its_block() -> None:
    with no_grad():
        assert not recording()
        with no_grad():
            assert not recording()
        assert not recording()
    assert recording()


def test_no_grad_ends_when_an_exception_leaves_the_block() -> None:
    with pytest.raises(KeyError), no_grad():
        raise KeyError
    assert recording()


def test_one_no_grad_object_can_be_entered_again() -> None:
    switch = no_grad()
    with switch, switch:
        assert not recording()
    assert recording()


@pytest.mark.parametrize("decorate", [no_grad, no_grad()], ids=["@no_grad", "@no_grad()"])
def test_no_grad_decorates_functions_and_methods(decorate: Any) -> None:
    @decorate
    def plain(a: int, *, b: int = 2) -> tuple[bool, int]:
        """Says so."""
        return recording(), a + b

    class Model:
        @decorate
        def method(self) -> bool:
            return recording()

    @decorate
    def failing() -> None:
        raise KeyError

    assert plain(1, b=3) == (False, 4)
    assert (plain.__name__, plain.__doc__) == ("plain", "Says so.")
    assert Model().method() is False
    with pytest.raises(KeyError):
        failing()
    assert recording()


@pytest.mark.parametrize("decorate", [no_grad, no_grad()], ids=["@no_grad", "@no_grad()"])
def test_no_grad_around_a_generator_function_covers_its_body_and_not_its_caller(decorate: Any) -> None:
    @decorate
    def steps() -> Iterator[bool]:
        for _ in range(2):
            yield recording()

    seen = []
    for inside in steps():
        seen.append((inside, recording()))
    assert seen == [(False, True), (False, True)]
    for _ in steps():
        break  # left before its end
    assert recording()


def test_no_grad_belongs_to_its_thread() -> None:
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(recording()))
        thread.start()
        thread.join()
        assert not recording()
    assert seen == [True]


def test_detach_gives_the_same_numbers_outside_the_graph() -> None:
    x = vector()
    y = x * 2
    c = y.detach()
    assert (c.tolist(), c.requires_grad, c.is_leaf) == ([4, 6, 10], False, True)
    (y * c).sum().backward()
    assert x.grad.tolist() == [8, 12, 20]
    total = 0.0
    for _ in range(3):
        total = total + (x * x).sum().detach()
    assert not total.requires_grad
    assert total.item() == 3 * 38


# Tensors among NumPy arrays and Python objects ----------------------------------------------------------------

X, A = [2.0, 3.0, 5.0], np.array([1.0, 2.0, 4.0])
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.matmul]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("op", OPERATORS + COMPARISONS)
@pytest.mark.parametrize("left", [True, False], ids=["array left", "array right"])
def test_an_array_beside_a_tensor_is_a_constant(op: Any, left: bool) -> None:
    x = leaf(X, np.float32)
    y = op(A, x) if left else op(x, A)
    assert isinstance(y, Tensor)
    np.testing.assert_allclose(y.detach().numpy(), op(A, np.array(X)) if left else op(np.array(X), A), rtol=1e-6)
    if op in COMPARISONS:
        assert y.dtype == np.bool_
        return
    assert y.dtype == np.float32  # float64 from the array would spread through everything
    y.sum().backward()
    twin = leaf(X, np.float32)
    constant = tensor(A.astype(np.float32))
    (op(constant, twin) if left else op(twin, constant)).sum().backward()
    assert x.grad.tolist() == twin.grad.tolist()


@pytest.mark.parametrize("op", [o for o in OPERATORS + COMPARISONS if o is not operator.matmul])
@pytest.mark.parametrize("number", [np.float64(2.5), np.float32(2.5), np.int64(2), np.array(2.5), 2.5, 2, True])
@pytest.mark.parametrize("left", [True, False], ids=["number left", "number right"])
def test_a_number_of_any_kind_takes_the_dtype_of_the_tensor(op: Any, number: Any, left: bool) -> None:
    x = leaf(X, np.float32)
    y = op(number, x) if left else op(x, number)
    assert isinstance(y, Tensor)
    assert y.dtype == (np.bool_ if op in COMPARISONS else np.float32)
    assert y.requires_grad == (op in OPERATORS)
    other = np.float32(number)
    np.testing.assert_allclose(y.detach().numpy(), op(other, x.data) if left else op(x.data, other), rtol=1e-6)


@pytest.mark.parametrize("op", [operator.and_, operator.or_])
def test_bool_arrays_beside_bool_tensors(op: Any) -> None:
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    for y in (op(a, tensor(b)), op(tensor(a), b), op(tensor(a), tensor(b))):
        assert isinstance(y, Tensor)
        assert y.tolist() == op(a, b).tolist()


def test_numpy_functions_refuse_tensors_in_a_graph_and_say_what_to_write() -> None:
    x = vector()
    for call in (lambda: np.exp(x), lambda: np.add.reduce(x), lambda: np.add(x, x, dtype=np.float64)):
        with pytest.raises(TypeError, match="detach"):
            call()
    for call in (x.numpy, lambda: np.asarray(x), lambda: np.concatenate([x, x])):
        with pytest.raises(RuntimeError, match=r"detach\(\)"):
            call()
    assert np.asarray(x.detach()).tolist() == X
    assert np.asarray(x.detach(), dtype=np.float32).dtype == np.float32
    array = A.copy()
    array += tensor([1.0, 1.0, 1.0])  # a plain array stays one
    assert array.tolist() == [2, 3, 5]


@pytest.mark.parametrize("other", ["a", None, [1.0, 2.0, 3.0], 1j])
def test_a_tensor_and_something_that_is_no_number_is_an_error(other: Any) -> None:
    with pytest.raises(TypeError, match=type(other).__name__):
        vector() + other
    with pytest.raises(TypeError, match=type(other).__name__):
        other - vector()


def test_tensors_hash_and_are_found_by_identity() -> None:
    a, b = tensor(1.0), tensor(1.0)
    assert {a: "a", b: "b"}[b] == "b"
    assert len({a, b, a}) == 2
    assert (a == b).item() is True
    assert (a == None) is False  # noqa: E711
    assert (a != "text") is True


@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda t: pickle.loads(pickle.dumps(t))])
@pytest.mark.parametrize("x", [leaf([[1.0, 2.0]], np.float32), leaf(3.0), tensor([1, 2]), tensor([True])])
def test_leaves_can_be_copied_and_pickled(duplicate: Any, x: Tensor) -> None:
    y = duplicate(x)
    assert (y.tolist(), y.dtype, y.shape, y.requires_grad, y.is_leaf) == (x.tolist(), x.dtype, x.shape, x.requires_grad, True)
    assert not np.shares_memory(x.data, y.data)


def test_a_copied_structure_keeps_one_tensor_one_and_what_was_computed_cannot_be_copied() -> None:
    x = vector()
    a, b = copy.deepcopy([x, x])
    assert a is b
    for duplicate in (copy.deepcopy, pickle.dumps):
        with pytest.raises(RuntimeError, match=r"mul.*detach"):
            duplicate(x * x)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (tensor([1.0, 2.5]), "tensor([1.0, 2.5])"),
        (tensor(3), "tensor(3)"),
        (tensor([True]), "tensor([ True])"),
        (tensor(np.array([1.0])), "tensor([1.], dtype=float64)"),
        (leaf(1.0, np.float32), "tensor(1., requires_grad=True)"),
        (leaf([1.0], np.float32) * 2, "tensor([2.], grad_fn=<mul>)"),
        (leaf([[1.0, 2.0]], np.float32).sum(1), "tensor([3.], grad_fn=<sum axis=(1,) keepdims=False>)"),
        (leaf([1.0, 2.0], np.float32).softmax(0)[0].detach(), "tensor(0.2689)"),
        (tensor([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"),
    ],
)
def test_repr_shows_the_numbers_and_the_op_that_made_them(x: Tensor, text: str) -> None:
    assert repr(x) == text
    assert f"{x}" == text


def test_what_python_may_ask_of_a_tensor() -> None:
    assert (float(tensor(2)), int(tensor([2.7])), bool(tensor([[0.0]])), f"{tensor(1.5):.2f}") == (2.0, 2, False, "1.50")
    assert [10, 11, 12][tensor(1)] == 11
    assert [t.tolist() for t in tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    assert (type(tensor(1.5).item()), type(tensor(1).item()), type(tensor(True).item())) == (float, int, bool)
    for ask in (tensor([1.0, 2.0]).item, lambda: bool(tensor([1.0, 2.0])), lambda: float(tensor([]))):
        with pytest.raises(RuntimeError, match="one number"):
            ask()
    with pytest.raises(TypeError, match="0-d"):
        len(tensor(1.0))
    with pytest.raises(TypeError, match="integer"):
        [10, 11][tensor(1.0)]


# Warnings are errors in these tests: none may come out of NumPy -------------------------------------------------


@pytest.mark.parametrize(
    ("f", "data", "value", "gradient"),
    [
        (lambda x: x.log(), [0.0, -1.0], [-math.inf, math.nan], [math.inf, -1]),
        (lambda x: x / x, [0.0, 1.0], [math.nan, 1], [math.nan, 0]),
        (lambda x: 1 / x, [0.0, 1.0], [math.inf, 1], [-math.inf, -1]),
        (lambda x: x.exp(), [1000.0, -1000.0], [math.inf, 0], [math.inf, 0]),
        (lambda x: x * x, [1e30, 1.0], [math.inf, 1], [2e30, 2]),
        (lambda x: x.sqrt(), [-1.0, 0.0], [math.nan, 0], [math.nan, math.inf]),
        (lambda x: x.rsqrt(), [0.0, 4.0], [math.inf, 0.5], [-math.inf, -0.0625]),
        (lambda x: x**-1, [0.0, 2.0], [math.inf, 0.5], [-math.inf, -0.25]),
        (lambda x: x**0.5, [-1.0, 4.0], [math.nan, 2], [math.nan, 0.25]),
        (lambda x: x.softmax(0), [-math.inf, -math.inf], [math.nan, math.nan], [math.nan, math.nan]),
        (lambda x: x.log_softmax(0), [-math.inf, -math.inf], [math.nan, math.nan], [math.nan, math.nan]),
        (lambda x: x.double() * 1e300, [1.0, 0.0], [1e300, 0], [math.inf, math.inf]),
        (lambda x: (x.double() * 1e300).float(), [1.0, 0.0], [math.inf, 0], [math.inf, math.inf]),
        (lambda x: x.sum() / 0, [1.0, -1.0], math.nan, [math.inf, math.inf]),
        (lambda x: x[:0].mean(), [1.0, 2.0], math.nan, [0, 0]),
        (lambda x: x[:1].var(), [1.0, 2.0], math.nan, [math.nan, 0]),
        (lambda x: (x - math.inf) + math.inf, [1.0, 2.0], [math.nan, math.nan], [1, 1]),
    ],
)
def test_infinities_and_nans_come_silently(f: Callable[[Tensor], Tensor], data: Any, value: Any, gradient: Any) -> None:
    x = leaf(data, np.float32)
    y = f(x)
    np.testing.assert_allclose(y.detach().numpy(), value, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-6)


def test_comparisons_and_conversions_of_nan_are_silent_too() -> None:
    x = tensor([math.nan, math.inf, 1e38])
    assert (x > 1).tolist() == [False, True, True]
    assert x.bool().tolist() == [True, True, True]
    assert x.long().dtype == np.int64
    assert tensor(1e300).item() == math.inf
    assert x.max(0).indices.item() == 0
    assert (x + x)[2].item() == pytest.approx(2e38, rel=1e-6)


def test_an_array_of_another_class_becomes_a_plain_one(tmp_path: Path) -> None:
    x = tensor([1.0])
    x.data = np.memmap(tmp_path / "numbers", dtype=np.float32, mode="w+", shape=(2, 3))
    assert type(x.data) is np.ndarray
    assert x.view(6).shape == (6,)


@pytest.mark.parametrize(
    "wrong",
    [lambda x: (x**3, 3 * x**2), lambda x: (x**3, None), lambda x: (x**3, lambda g: 2.0), lambda x: (x**3, lambda g: np.ones(2))],
    ids=["array", "nothing", "float", "shape"],
)
def test_an_error_of_a_gradient_function_names_its_op_and_place(wrong: Any) -> None:
    x, y = vector(), vector()

    def cube_and_sum(a: np.ndarray, b: np.ndarray) -> Any:
        value, vjp = wrong(b)
        return a + value, lambda g: g, vjp

    with pytest.raises((TypeError, AttributeError, ValueError)) as error:
        apply(cube_and_sum, x, y).sum().backward()
    assert error.value.__notes__ == ["in backward: gradient function 1 of cube_and_sum, which takes an array and returns one of shape (3,)"]
