"""The optimizers against steps worked out by hand and against PyTorch, and training that is interrupted and goes on."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minigrad
from minigrad import Tensor, tensor
from minigrad.optim import SGD, Adam, AdamW


def leaf(*values: float, dtype: Any = np.float64) -> Tensor:
    return tensor(np.array(values, dtype), requires_grad=True)


ROOT = math.sqrt(76 / 7)  # of the second step below: s = 0.75 * 1 + 0.25 * 16 = 4.75, s^ = 4.75 / (1 - 0.75**2) = 76/7


@pytest.mark.parametrize(
    ("make", "gradients", "expected"),
    [
        (lambda ps: SGD(ps, lr=0.5), [2, 4], [0, -2]),
        (lambda ps: SGD(ps, lr=0.5, momentum=0.5), [2, 4], [0, -2.5]),  # v = 2, then 0.5 * 2 + 4 = 5
        (lambda ps: SGD(ps, lr=0.5, weight_decay=0.5), [2, 4], [-0.25, -2.1875]),  # g = 2.5, then 4 - 0.125
        (lambda ps: SGD(ps, lr=0.5, momentum=0.5, weight_decay=0.5), [2, 4], [-0.25, -2.8125]),  # v = 2.5, then 1.25 + 3.875
        (lambda ps: Adam(ps, lr=0.1, eps=0), [2, 2], [0.9, 0.8]),  # a constant gradient moves by lr, whatever its size
        (lambda ps: Adam(ps, lr=0.1), [-1e6, -1e6], [1.1, 1.2]),
        (lambda ps: Adam(ps, lr=1, betas=(0.5, 0.75), eps=0), [2, 4], [0, -10 / 3 / ROOT]),
        (lambda ps: Adam(ps, lr=1, betas=(0.5, 0.75), eps=2), [2, 4], [0.5, 0.5 - 10 / 3 / (ROOT + 2)]),
        (
            lambda ps: Adam(ps, lr=1, betas=(0.5, 0.75), eps=2, weight_decay=1),
            [1, 0],
            [0.5, 0.5 - 1 / (math.sqrt(13 / 7) + 2)],
        ),  # g = 2, then 0.5
        (lambda ps: AdamW(ps, lr=0.5, eps=0, weight_decay=0.5), [2, 2], [0.25, -0.3125]),  # 0.75 * p - 0.5
        (lambda ps: AdamW(ps, lr=0.5, eps=0), [2, 2], [0.495, -0.007475]),  # weight_decay is 0.01
    ],
)
def test_two_steps_from_1_worked_out_by_hand(make: Callable[[Any], Any], gradients: list[float], expected: list[float]) -> None:
    p = leaf(1.0)
    optimizer = make([p])
    for g, e in zip(gradients, expected, strict=True):
        p.grad = tensor(np.array([float(g)]))
        optimizer.step()
        np.testing.assert_allclose(p.data, [e], rtol=1e-9, atol=1e-12)


OPTIMIZERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "SGD": lambda T, w, b: T.optim.SGD([w, b], lr=0.1),
    "SGD, momentum": lambda T, w, b: T.optim.SGD([w, b], lr=0.05, momentum=0.9),
    "SGD, decay": lambda T, w, b: T.optim.SGD([w, b], lr=0.1, weight_decay=0.1),
    "SGD, groups": lambda T, w, b: T.optim.SGD([{"params": [w], "lr": 0.01}, {"params": b, "momentum": 0.5}], lr=0.1, weight_decay=0.01),
    "Adam": lambda T, w, b: T.optim.Adam([w, b], lr=0.05),
    "Adam, all": lambda T, w, b: T.optim.Adam([w, b], lr=0.05, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1),
    "AdamW": lambda T, w, b: T.optim.AdamW([w, b], lr=0.05),
    "AdamW, groups": lambda T, w, b: T.optim.AdamW([{"params": [w], "weight_decay": 0.2}, {"params": [b], "betas": (0.5, 0.9)}], lr=0.05),
}
every_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)


def start(T: Any, dtype: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return tuple(T.tensor(rng.standard_normal(shape).astype(dtype), requires_grad=True) for shape in ((3, 5), (5,)))  # type: ignore[return-value]


def train(T: Any, optimizer: Any, w: Any, b: Any, steps: range) -> None:
    """A little logistic regression; b has no gradient in every third step."""
    for step in steps:
        rng = np.random.default_rng(step)
        x = T.tensor(rng.standard_normal((7, 3)).astype(str(w.dtype).removeprefix("torch.")))
        logits = x @ w + b if step % 3 else x @ w
        loss = (logits.sigmoid() - 0.3).pow(2).sum() + logits.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 15:
            optimizer.param_groups[0]["lr"] *= 0.5


@every_optimizer
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-4)])
def test_thirty_steps_give_what_pytorch_gives(name: str, dtype: Any, tolerance: float, torch: Any) -> None:
    results = []
    for T in (minigrad, torch):
        w, b = start(T, dtype)
        train(T, OPTIMIZERS[name](T, w, b), w, b, range(30))
        results.append((w.detach().numpy(), b.detach().numpy()))
    for ours, theirs, before in zip(*results, start(minigrad, dtype), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
        assert np.abs(ours - before.data).max() > 0.1


@every_optimizer
def test_saved_and_loaded_training_goes_on_to_exactly_the_same_numbers(name: str, tmp_path: Path) -> None:
    w, b = start(minigrad, np.float32)
    optimizer = OPTIMIZERS[name](minigrad, w, b)
    train(minigrad, optimizer, w, b, range(11))
    minigrad.save({"w": w, "b": b, "optimizer": optimizer.state_dict()}, tmp_path / "checkpoint")
    train(minigrad, optimizer, w, b, range(11, 20))

    saved = minigrad.load(tmp_path / "checkpoint")
    w2, b2 = saved["w"].requires_grad_(), saved["b"].requires_grad_()
    other = OPTIMIZERS[name](minigrad, w2, b2)
    for group in other.param_groups:
        group["lr"] = 99.0  # the saved one must come back
    other.load_state_dict(saved["optimizer"])
    train(minigrad, other, w2, b2, range(11, 20))
    assert w2.tolist() == w.tolist()
    assert b2.tolist() == b.tolist()
    assert [{**g, "params": 0} for g in other.param_groups] == [{**g, "params": 0} for g in optimizer.param_groups]


@every_optimizer
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_and_state_keep_their_dtype_and_arrays_are_rebound(name: str, dtype: Any) -> None:
    w, b = start(minigrad, dtype)
    optimizer = OPTIMIZERS[name](minigrad, w, b)
    train(minigrad, optimizer, w, b, range(1, 3))
    arrays = [w.data, b.data, *(v for s in optimizer.state.values() for v in s.values() if isinstance(v, np.ndarray))]
    assert {a.dtype for a in arrays} == {np.dtype(dtype)}
    saved = [a.copy() for a in arrays]
    train(minigrad, optimizer, w, b, range(1, 3))
    for a, before in zip(arrays, saved, strict=True):
        np.testing.assert_array_equal(a, before)
    assert (w.is_leaf, w.requires_grad) == (True, True)


def test_a_parameter_without_gradient_is_skipped_with_its_state() -> None:
    p, q = leaf(1.0), leaf(1.0)
    optimizer = Adam([p, q], lr=0.1, weight_decay=0.5)
    p.grad = tensor(np.array([1.0]))
    optimizer.step()
    assert q.tolist() == [1]
    assert q not in optimizer.state
    assert optimizer.state[p]["step"] == 1


def test_zero_grad_forgets_or_zeroes() -> None:
    p, q = leaf(1.0), leaf(1.0)
    optimizer = SGD([p, q], lr=0.1)
    p.grad = tensor(np.array([3.0]))
    array = p.grad.data
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0]
    assert (q.grad, array.tolist()) == (None, [3])
    optimizer.zero_grad()
    assert p.grad is None
    with pytest.warns(UserWarning, match="no parameter has a gradient"):
        optimizer.step()
    assert p.tolist() == [1]


def test_a_group_can_be_added_and_takes_over_what_it_leaves_out() -> None:
    p, q = leaf(1.0), leaf(1.0)
    optimizer = SGD([p], lr=0.5, momentum=0.5)
    optimizer.add_param_group({"params": [q], "lr": 0.25})
    p.grad, q.grad = tensor(np.array([1.0])), tensor(np.array([1.0]))
    optimizer.step()
    assert (p.tolist(), q.tolist()) == ([0.5], [0.75])
    assert optimizer.param_groups[1]["momentum"] == 0.5
    with pytest.raises(ValueError, match="twice"):
        optimizer.add_param_group({"params": [p]})
    assert len(optimizer.param_groups) == 2


def test_parameters_may_come_from_a_generator() -> None:
    p = leaf(1.0)
    optimizer = SGD((x for x in [p]), lr=1.0)
    for _ in range(2):
        p.grad = tensor(np.array([1.0]))
        optimizer.step()
    assert p.tolist() == [-1]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: SGD([], lr=0.1), ValueError, "no parameters"),
        (lambda: SGD((x for x in ()), lr=0.1), ValueError, "generator"),
        (lambda: SGD(leaf(1.0), lr=0.1), TypeError, r"list.*\[p\]"),
        (lambda: SGD([leaf(1.0) * 2], lr=0.1), TypeError, "leaves.*parameter 0"),
        (lambda: SGD([tensor([1.0])], lr=0.1), TypeError, "parameter 0"),
        (lambda: SGD([np.ones(3)], lr=0.1), TypeError, "parameter 0"),
        (lambda: SGD([P, P], lr=0.1), ValueError, r"\(1,\).*twice"),
        (lambda: SGD([{"params": [P]}, {"params": [P]}], lr=0.1), ValueError, "twice"),
        (lambda: SGD([P], lr=-0.1), ValueError, r"-0\.1"),
        (lambda: SGD([P], lr=math.nan), ValueError, "nan"),
        (lambda: SGD([{"params": [P], "lr": -1}]), ValueError, "-1"),
        (lambda: SGD([{"params": [P], "learning_rate": 1}]), TypeError, r"learning_rate.*lr"),
        (lambda: SGD([P], momentum=-1), ValueError, "-1"),
        (lambda: SGD([P], weight_decay=-1), ValueError, "-1"),
        (lambda: Adam([P], betas=(1.0, 0.9)), ValueError, r"1\.0"),
        (lambda: Adam([P], betas=(0.9, -0.1)), ValueError, r"-0\.1"),
        (lambda: AdamW([P], eps=-1), ValueError, "-1"),
    ],
)
def test_what_an_optimizer_refuses(make: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


P = leaf(1.0)


def test_a_step_that_fails_changes_no_parameter() -> None:
    p, q = leaf(1.0), leaf(1.0)
    optimizer = Adam([{"params": [p]}, {"params": [q]}], lr=0.1)
    optimizer.param_groups[1]["lr"] = "fast"
    p.grad, q.grad = tensor(np.array([1.0])), tensor(np.array([1.0]))
    with pytest.raises(TypeError):
        optimizer.step()
    assert (p.tolist(), q.tolist(), optimizer.state) == ([1], [1], {})


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    def trained(*params: Tensor) -> SGD:
        optimizer = SGD(params, lr=0.5, momentum=0.9)
        for p in params:
            p.grad = tensor(np.ones(p.shape))
        optimizer.step()
        return optimizer

    optimizer = trained(leaf(1.0))
    before = optimizer.state_dict()
    with pytest.raises(ValueError, match=r"\[2\].*\[1\]"):
        optimizer.load_state_dict(trained(leaf(1.0), leaf(1.0)).state_dict())
    with pytest.raises(ValueError, match=r"velocity.*\(2,\).*\(1,\)"):
        optimizer.load_state_dict(trained(leaf(1.0, 2.0)).state_dict())
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert after["state"]["0"]["velocity"].tolist() == before["state"]["0"]["velocity"].tolist() == [1]


def test_an_infinite_gradient_warns_about_nothing() -> None:
    p = leaf(1.0, 1.0, dtype=np.float32)
    for optimizer in (SGD([p], lr=0.1, momentum=0.9), Adam([p], lr=0.1)):
        p.grad = tensor([math.inf, 1e38])
        optimizer.step()
        optimizer.step()
    assert not np.isfinite(p.data[0])


def test_a_step_starts_from_the_data_that_is_there_and_not_from_those_it_left():
    p, q = leaf(1.0), leaf(1.0)
    optimizer = SGD([p, q], lr=0.5)
    p.grad, q.grad = tensor(np.array([1.0])), tensor(np.array([1.0]))
    optimizer.step()
    p.data = np.array([7.0])  # clipped, say, or loaded
    optimizer.step()
    assert (p.tolist(), q.tolist()) == ([6.5], [0.0])


def test_a_loaded_state_takes_the_place_of_all_that_was_remembered():
    p = leaf(1.0)
    optimizer = SGD([p], lr=0.5, momentum=0.5)
    unused = optimizer.state_dict()
    p.grad = tensor(np.array([1.0]))
    optimizer.step()
    optimizer.load_state_dict(unused)
    optimizer.step()
    assert p.tolist() == [0.0]  # -0.25 with the old velocity


def test_frozen_parameters_stay_beside_those_that_move():
    frozen, p = leaf(1.0), leaf(1.0)
    frozen.requires_grad = False
    optimizer = SGD([frozen, p], lr=0.5)
    (frozen * p).sum().backward()
    optimizer.step()
    assert (frozen.item(), p.item()) == (1.0, 0.5)


@pytest.mark.parametrize("spoil", ["gradient", "state", "betas"])
def test_whatever_comes_in_float64_a_float32_parameter_stays_float32(spoil):
    p = minigrad.tensor([1.0, 2.0], requires_grad=True)
    optimizer = Adam([p], lr=0.1, betas=(np.float64(0.9), 0.999) if spoil == "betas" else (0.9, 0.999))
    p.grad = minigrad.tensor([1.0, 1.0], dtype="float64" if spoil == "gradient" else None)
    optimizer.step()
    if spoil == "state":
        state = optimizer.state_dict()
        state["state"]["0"] = {k: v.double() if isinstance(v, minigrad.Tensor) else v for k, v in state["state"]["0"].items()}
        optimizer.load_state_dict(state)
        optimizer.step()
    assert p.dtype == minigrad.float32
    assert all(v.dtype == minigrad.float32 for v in optimizer.state_dict()["state"]["0"].values() if isinstance(v, minigrad.Tensor))


def test_parameters_may_come_and_go_in_two_groups():
    """Each parameter moves as if it had an optimizer of its own, whatever the others do."""
    shapes, rng = [(2, 3), (4,), (3, 2), (5,)], np.random.default_rng(0)
    together, alone = ([Tensor(np.ones(shape), True) for shape in shapes] for _ in range(2))
    optimizer = Adam([{"params": together[:2]}, {"params": together[2:], "lr": 0.5}], lr=0.1)
    singles = [Adam([p], lr=0.1 if i < 2 else 0.5) for i, p in enumerate(alone)]
    for step, present in enumerate(["0123", "0123", "013", "0123", "23", "2", "0123", "1", "0123", "0123"]):
        for i in range(4):
            g = rng.standard_normal(shapes[i])
            together[i].grad, alone[i].grad = (Tensor(g) if str(i) in present else None for _ in range(2))
            if str(i) in present:
                singles[i].step()
        optimizer.step()
        if step == 7:
            together[3].data = together[3].data + 1
            alone[3].data = alone[3].data + 1
        for p, q, single in zip(together, alone, singles, strict=True):
            assert np.allclose(p.data, q.data, rtol=1e-12)
            assert optimizer.state.get(p, {}).keys() == single.state.get(q, {}).keys()
            for name, value in single.state.get(q, {}).items():
                assert np.allclose(optimizer.state[p][name], value, rtol=1e-12)


def test_a_parameter_that_changed_its_shape_is_an_error_and_moves_nothing():
    p, q = (minigrad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True) for _ in range(2))
    optimizer = Adam([p, q])
    (p.sum() + q.sum()).backward()
    optimizer.step()
    p.data = np.ones((3, 2), np.float32)
    optimizer.zero_grad()
    (p.sum() + q.sum()).backward()
    before = q.tolist()
    with pytest.raises(ValueError, match=r"mean .*\(2, 2\).*\(3, 2\).*new optimizer"):
        optimizer.step()
    assert (q.tolist(), optimizer.state[p]["mean"].shape) == (before, (2, 2))


def test_what_does_not_move_stops_nobody_and_costs_nothing():
    p, q = (minigrad.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    optimizer = Adam([p, q])
    (p.sum() + q.sum()).backward()
    optimizer.step()
    p.grad = None
    p.data = np.ones(5, np.float32)
    optimizer.step()
    optimizer.step()
    assert (optimizer.state[p]["step"], optimizer.state[q]["step"]) == (1, 3)
    assert not optimizer.state[p]["mean"].base  # nothing of the vector it was part of


def test_rows_of_several_dtypes_and_ages_stay_from_step_to_step():
    ps = [minigrad.tensor(np.ones(3, dtype), requires_grad=True) for dtype in ("f4", "f8", "f4")]
    optimizer = Adam(ps)
    for step in range(4):
        for p in ps[: 2 + (step > 1)]:
            p.grad = minigrad.ones(3, dtype=p.dtype)
        optimizer.step()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["minigrad.optim"], "_joined", None)  # nothing is joined anew
        optimizer.step()
    assert [optimizer.state[p]["step"] for p in ps] == [5, 5, 3]


def test_the_state_can_be_read_and_not_written():
    p = minigrad.tensor([1.0], requires_grad=True)
    optimizer = Adam([p])
    p.sum().backward()
    optimizer.step()
    for write in (lambda: optimizer.state.clear(), lambda: setattr(optimizer, "state", {})):
        with pytest.raises(AttributeError):
            write()
    with pytest.raises(TypeError, match="assignment"):
        optimizer.state[p]["step"] = 100
