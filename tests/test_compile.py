"""`minigrad.compile`: what is played must be what the function computes, whatever changes around it."""

import collections
import copy
import functools
import itertools
import pickle
import queue
import random
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import soak

import layers as nn
import layers.functional as F
import minigrad as mg
from minigrad import Tensor
from minigrad.tape import Tape, Untraceable


def leaf(*shape: int) -> Tensor:
    return mg.randn(*shape, requires_grad=True)


def bits(x: Tensor | None) -> Any:
    return None if x is None else (str(x.dtype), x.shape, x.detach().numpy().tobytes())


def gradients(y: Tensor, leaves: list[Tensor]) -> list[Any]:
    for x in leaves:
        x.grad = None
    y.backward()
    return [bits(y), *(bits(x.grad) for x in leaves)]


class Count:
    """How often the body of a function ran, where nothing that it reads is seen to change."""

    def __init__(self) -> None:
        self.iterator = itertools.count()

    @property
    def runs(self) -> int:
        return int(repr(self.iterator)[6:-1])


def times(count: Any) -> Any:
    next(count.iterator)


def counted() -> tuple[Any, Tensor, Count]:
    """(x * w).sum() compiled, its w, and how often its body ran."""
    w, count = leaf(3), Count()

    def f(x: Tensor) -> Tensor:
        times(count)
        return (x * w).sum()

    return mg.compile(f), w, count


# The same numbers ---------------------------------------------------------------------------------------------


def test_numbers_without_a_dim() -> None:
    for f in (F.gelu, mg.exp, lambda x: mg.stack([x, x * 2]).softmax(0)[0]):
        g = mg.compile(f)
        for _ in range(3):
            x = leaf()
            assert gradients(g(x), [x]) == gradients(f(x), [x])


class Model(nn.Module):
    def __init__(self) -> None:
        self.tokens, self.attention = nn.Embedding(11, 6), nn.MultiHeadAttention(6, 2)
        self.norm, self.feed, self.out = nn.LayerNorm(6), nn.Sequential(nn.Linear(6, 13), nn.GELU(), nn.Linear(13, 6)), nn.Linear(6, 11)
        self.dropout = nn.Dropout(0.25)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        x = x + self.attention(self.norm(x))
        return self.out(self.dropout(self.feed(x)) + x)


def trained(compiled: bool, steps: int = 7) -> list[Any]:
    mg.manual_seed(3)
    model, seen = Model(), []
    optimizer = mg.optim.AdamW(model.parameters(), lr=0.01)

    def loss_of(ids: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(model(ids).reshape(-1, 11), targets.reshape(-1))

    run = mg.compile(loss_of) if compiled else loss_of
    for step in range(steps):
        ids = mg.randint(0, 11, (3 if step != 4 else 5, 7))
        loss = run(ids, mg.randint(0, 11, ids.shape))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen += [bits(loss), *map(bits, model.parameters()), bits(mg.get_rng_state())]
    return seen


def test_training_is_the_same_bit_for_bit_dropout_included() -> None:
    assert trained(compiled=True) == trained(compiled=False)


@pytest.mark.parametrize("fused", [True, False])
def test_a_long_sequence_whose_weights_are_computed_again(fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minigrad.attention.KEEP", 0)
    monkeypatch.setattr("minigrad.attention.ROWS", 3)
    q, k, v = leaf(2, 7, 5), leaf(2, 11, 5), leaf(2, 11, 3)
    bias = leaf(7, 11)

    def f() -> Tensor:
        return (F.scaled_dot_product_attention(q, k, v, bias if fused else None, is_causal=not fused) ** 2).sum()

    g = mg.compile(f)
    for _ in range(4):
        assert gradients(g(), [q, k, v, bias]) == gradients(f(), [q, k, v, bias])
        q.data, bias.data = q.data + 0.5, bias.data * 2


def test_the_body_runs_in_two_calls_and_then_only_its_recording_plays() -> None:
    g, w, count = counted()
    for i in range(5):
        x = mg.randn(3)
        assert bits(g(x)) == bits((x * w).sum())
        assert count.runs == (1 if i == 0 else 3)  # the second call runs as it is and is recorded
    for _ in range(3):
        g(mg.randn(2, 3))  # another kind of call
    assert count.runs == 6
    for _ in range(3):
        with mg.no_grad():
            g(mg.randn(3))
    assert count.runs == 9


def test_what_python_sees_as_equal_is_another_argument() -> None:
    seen = []
    f = mg.compile(lambda x, c, flip=False: x * (7 if c is True else c) * (-1 if flip else 1))
    x = mg.tensor([3, 5])
    for c, flip in [*itertools.product((1, True, 1.0, 2.0, 0.0, -0.0), (True, False))] * 3:
        y = f(x, c, flip=flip)
        assert y.dtype == (mg.float32 if isinstance(c, float) else mg.int64)
        seen.append(str(y.tolist()))
    assert seen[:12] == seen[12:24] == seen[24:]
    assert seen[0] == "[-3, -5]"
    assert seen[2] == "[-21, -35]"
    assert seen[9] == "[0.0, 0.0]"
    assert seen[11] == "[-0.0, -0.0]"
    g = mg.compile(lambda x, plus=0, times=1: x * times + plus)
    assert [g(x, **{name: 2}).tolist() for name in ("plus", "times") * 4] == [[5, 7], [6, 10]] * 4


def test_gradients_reach_arguments_and_what_they_were_made_from() -> None:
    w, x = leaf(4, 3), leaf(5, 3)
    f = mg.compile(lambda z: F.linear(z, w).tanh())
    for _ in range(4):
        fast, slow = f(f(x * 2)[:, :3]).exp().sum(), F.linear(F.linear(x * 2, w).tanh()[:, :3], w).tanh().exp().sum()
        assert gradients(fast, [x, w]) == gradients(slow, [x, w])
    assert mg.gradcheck(
        mg.compile(lambda a, b: (a @ b).softmax(-1)),
        (mg.randn(2, 3, dtype=mg.float64, requires_grad=True), mg.randn(3, 4, dtype=mg.float64, requires_grad=True)),
    )


# What is in use isn't overwritten -----------------------------------------------------------------------------


def test_results_and_gradients_are_nobodys_memory() -> None:
    w = leaf(3)
    f = mg.compile(lambda x: x * w)
    kept = [f(mg.tensor([float(i)] * 3)) for i in range(6)]
    kept += [f(mg.tensor([float(i)] * 3)) for i in range(6)]  # more than there are recordings
    for i, y in enumerate(kept):
        assert bits(y) == bits(w * float(i % 6))
    for y in reversed(kept):
        y.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [30.0] * 3


def test_the_next_call_changes_no_result_and_no_gradient_on_its_way() -> None:
    w, x = leaf(3), leaf(3)
    f = mg.compile(lambda z: z * w)
    for _ in range(2):
        f(x * 1).sum().backward()
    with mg.no_grad():
        for _ in range(2):
            f(x)
        y = f(x)
        before = bits(y)
        assert bits(f(leaf(3))) != before
    assert bits(y) == before

    def disturbed(a: Any) -> Any:  # an op that calls the function while a gradient is on its way from there
        def vjp(g: Any) -> Any:
            for _ in range(3):
                f(leaf(3) * 1).sum().backward()
            return g

        return a * 1, vjp

    for _ in range(3):
        x.grad = None
        f(mg.apply(disturbed, x)).sum().backward()
        assert bits(x.grad) == bits(w)


def test_a_graph_can_be_walked_again_and_later() -> None:
    w = leaf(3)
    f = mg.compile(lambda x: (x * w * w).sum())
    f(mg.ones(3)), f(mg.ones(3))
    a = f(mg.full((3,), 2.0))
    b = f(mg.full((3,), 5.0))
    a.backward(retain_graph=True)
    b.backward()
    a.backward()
    assert w.grad is not None
    assert np.allclose(w.grad.numpy(), 2 * w.detach().numpy() * (2 + 5 + 2))
    with pytest.raises(RuntimeError, match="used it up"):
        a.backward()
    h = mg.compile(lambda x: ((x * w).exp().tanh() * w).exp().sum())
    for _ in range(4):
        y, w.grad = h(mg.ones(3)), None
        y.backward(retain_graph=True)
        once, w.grad = w.grad, None
        y.backward(retain_graph=True)
        assert bits(w.grad) == bits(once)


def test_losses_that_are_kept_hold_no_recording() -> None:
    (g, _, count), losses = counted(), []
    for _ in range(20):
        losses.append(g(mg.ones(3)))
        losses[-1].backward()
    assert count.runs == 3


def test_many_that_wait_for_their_backward_run_as_they_are() -> None:
    g, w, count = counted()
    waiting = [g(mg.full((3,), float(i))) for i in range(12)]
    assert count.runs == 12  # each of the first needs a recording of its own
    assert [len(kind.alive) for kind in g._variants[0].kinds.values()] == [4]
    for y in waiting:
        y.backward()
    del waiting, y
    g(mg.ones(3)), g(mg.ones(3))
    assert count.runs == 12
    assert w.grad is not None
    assert w.grad.tolist() == [66.0] * 3


def test_a_compiled_function_is_freed() -> None:
    with soak.no_collector():
        model = nn.Linear(3, 3)
        f = mg.compile(model)
        for _ in range(3):
            f(mg.randn(2, 3)).sum().backward()
        gone = [weakref.ref(model), weakref.ref(f)]
        del model, f
        assert [ref() for ref in gone] == [None, None]


# What it reads changes ----------------------------------------------------------------------------------------


def follows(f: Callable[..., Tensor], change: Callable[[], Any], *args: Tensor, leaves: Any = ()) -> None:
    """After the change, the compiled function computes what the function does."""
    g = mg.compile(f)
    for _ in range(3):
        g(*args)
    for _ in range(3):
        change()
        for _ in range(3):
            y, wanted = g(*args), f(*args)
            assert bits(y) == bits(wanted)
            assert y.requires_grad == wanted.requires_grad
            if y.requires_grad:
                assert gradients(y.sum(), [*leaves]) == gradients(wanted.sum(), [*leaves])
    assert not g._why


SCALE, TABLE = 2.0, [mg.ones(3)]


def test_other_weights_other_constants_other_settings() -> None:
    global SCALE
    x, w, c = mg.randn(5, 3), leaf(3), mg.randn(3)
    parts, names, number, chosen = [w, c], {"w": w}, SimpleNamespace(), w

    def rebind() -> None:
        nonlocal chosen
        chosen = leaf(3)

    def scale() -> None:
        global SCALE
        SCALE += 1

    follows(lambda x: x * w, lambda: setattr(w, "data", w.data + 1), x, leaves=[w])
    follows(lambda x: x * w + c, lambda: setattr(c, "data", c.data + 1), x, leaves=[w])
    follows(lambda x: x * w * c.masked_fill(c > 0, 2.0), lambda: c.__setitem__(1, mg.randn(())), x, leaves=[w])
    follows(lambda x: x * w, lambda: w.requires_grad_(not w.requires_grad), x, leaves=[])
    w.requires_grad_()
    follows(lambda x: x * chosen, rebind, x)
    follows(lambda x: x * w * SCALE, scale, x, leaves=[w])
    follows(lambda x: x * TABLE[0], lambda: TABLE.__setitem__(0, mg.randn(3)), x)
    follows(lambda x: x * sum(parts), lambda: parts.append(mg.randn(3)), x, leaves=[w])
    follows(lambda x: sum(x * v for v in names.values()), lambda: names.update(w=leaf(3)), x)
    frozen = mg.randn(3)
    follows(lambda x: x * frozen, lambda: frozen.requires_grad_(not frozen.requires_grad), x)
    follows(lambda x: x * (w > 0), lambda: setattr(w, "data", -w.data), x)
    number.w = w
    follows(lambda x: x * number.w, lambda: setattr(w, "data", w.data + 1), x, leaves=[w])  # found where nobody looks for changes


class Powers(nn.Module):
    def __init__(self) -> None:
        self.factors = [1.0]

    def forward(self, x: Tensor) -> Tensor:
        return sum((x * c for c in self.factors), x)


def test_weights_nobody_finds_and_lists_that_grow() -> None:
    w, x, powers = leaf(3), mg.randn(5, 3), Powers()
    hidden = itertools.repeat(w)  # only its gradient leads there
    follows(lambda x: x * next(hidden), lambda: setattr(w, "data", w.data + 1), x, leaves=[w])
    follows(powers, lambda: powers.factors.append(2.0), x)


def test_only_weights_that_are_read_are_copied() -> None:
    model = [leaf(3), leaf(1000, 1000)]
    f = mg.compile(lambda x: x * model[0])
    for _ in range(3):
        f(mg.ones(3))
    (kind,) = f._variants[0].kinds.values()
    assert [recording.leaves for recording in kind.ready] == [model[:1]]


def test_arguments_with_and_without_gradient_and_weights_of_another_shape() -> None:
    g, w, count = counted()
    for i in range(12):
        x = mg.randn(3).requires_grad_(i % 3 == 2)
        assert g(x).requires_grad
        wanted, x.grad = gradients((x * w).sum(), [x] if i % 3 == 2 else []), None
        assert gradients(g(x), [x] if i % 3 == 2 else []) == wanted
    old, w.data, runs = w.data, np.ones((2, 3), np.float32), count.runs
    for _ in range(3):
        assert g(mg.ones(3)).item() == 6
    assert count.runs == runs + 3  # as it is
    w.data = old
    g(mg.ones(3))
    assert count.runs == runs + 3
    w.data = np.ones((2, 3), np.float32)
    for _ in range(20):
        assert g(mg.ones(3)).item() == 6
    assert count.runs == runs + 3 + 5 + 2  # recorded anew: the 3 from before, but for the one that was played, count too


def test_modules_their_modes_and_parts() -> None:
    model, ids = Model(), mg.randint(0, 11, (2, 5))
    modes = itertools.cycle([False, True])
    model.dropout.p = 0.0
    follows(model, lambda: model.train(next(modes)), ids, leaves=[*model.parameters()])
    follows(model, lambda: setattr(model, "out", nn.Linear(6, 11)), ids)
    follows(model, lambda: setattr(model.out, "weight", nn.Parameter(mg.randn(11, 6))), ids)
    follows(model.forward, lambda: setattr(model.out, "bias", None), ids)
    state = Model().state_dict()
    model.out = nn.Linear(6, 11)
    follows(model, lambda: model.load_state_dict(state), ids, leaves=[*model.parameters()])
    follows(model, lambda: setattr(model.attention, "causal", not model.attention.causal), ids, leaves=[*model.parameters()])
    with mg.no_grad():
        follows(model, lambda: setattr(model.out.weight, "data", model.out.weight.data + 1), ids)


def test_eval_switches_dropout_off_in_a_compiled_model() -> None:
    drop = nn.Dropout(0.5)
    f = mg.compile(drop)
    x = mg.ones(1000)
    assert len({f(x).sum().item() for _ in range(6)}) > 3
    drop.eval()
    assert [f(x).sum().item() for _ in range(4)] == [1000.0] * 4


def test_what_changes_again_and_again_is_no_longer_recorded() -> None:
    state = {"step": 0}

    def f(x: Tensor) -> Tensor:
        state["step"] += 1000
        return x * state["step"]

    g, x = mg.compile(f), mg.ones(2)
    with pytest.warns(UserWarning, match="it changes a variable, an attribute, a list or a dict of its surroundings"):
        got = [g(x).tolist() for _ in range(99)]
    assert got == [[1000.0 * (i + 1)] * 2 for i in range(99)]


# What Python looks at -----------------------------------------------------------------------------------------


def test_a_branch_on_numbers_takes_the_right_way_each_time() -> None:
    w = leaf(3)

    def f(x: Tensor) -> Tensor:
        return (x * w).sum() if x.sum() > 0 else (x - w).sum() * float(x[0]) / x[1].item()

    g = mg.compile(f)
    for i in range(60):
        x = mg.randn(3) if i % 5 else mg.ones(3)
        assert gradients(g(x), [w]) == gradients(f(x), [w])


def test_ignored_targets_and_other_counts() -> None:
    w = leaf(4, 3)

    def f(x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(x, w), y)

    g = mg.compile(f)
    for i in range(40):
        x, y = mg.randn(7, 3), mg.randint(0, 4, (7,))
        if i > 20:
            y[: i % 4] = -100
        assert gradients(g(x, y), [w]) == gradients(f(x, y), [w])


def test_what_is_picked_by_its_numbers_has_another_length() -> None:
    def f(x: Tensor) -> Tensor:
        return x[x > 0] * 2

    g = mg.compile(f)
    for i in range(60):
        x = mg.arange(6).float() - float(i % 6)
        assert bits(g(x)) == bits(f(x))


def test_a_number_that_changes_for_good_is_recorded_anew() -> None:
    count = Count()

    def f(x: Tensor) -> Tensor:
        times(count)
        return x if x.sum() > 0 else x * 2

    g = mg.compile(f)
    for sign in (1, -1):
        for i in range(30):
            x = mg.full((3,), float(sign * (i + 1)))
            assert g(x).tolist() == (x if sign > 0 else x * 2).tolist()
    assert count.runs == 3 + 7 + 2


def test_large_scores_in_attention() -> None:
    q = leaf(1, 5, 3)

    def f() -> Tensor:
        return F.scaled_dot_product_attention(q, q, q, is_causal=True).sum()

    g = mg.compile(f)
    for i in range(30):
        q.data = mg.randn(1, 5, 3).data * (1000.0 if 3 < i < 20 else 1.0)
        assert gradients(g(), [q]) == gradients(f(), [q])


def test_looking_at_what_is_different_in_each_call_ends_in_a_warning() -> None:
    g = mg.compile(lambda x: x * x.sum().item())
    inputs = [mg.randn(3) for _ in range(200)]
    with pytest.warns(UserWarning, match="different each time"):
        got = [bits(g(x)) for x in inputs]
    assert got == [bits(x * x.sum().item()) for x in inputs]


def test_a_wrong_call_ends_in_its_own_error_and_the_next_goes_on() -> None:
    w, count = leaf(4, 3), Count()

    def f(ids: Tensor) -> Tensor:
        times(count)
        return F.embedding(ids, w).sum()

    g = mg.compile(f)
    for _ in range(2):
        for bad in ([4], [-1], [0.5]):
            with pytest.raises((IndexError, TypeError)):
                g(mg.tensor(bad))
        for _ in range(4):
            g(mg.tensor([3])).backward()
    runs = count.runs
    g(mg.tensor([3]))
    assert count.runs == runs
    assert not g._why


# What can't be recorded ---------------------------------------------------------------------------------------


def outside() -> Any:
    w = leaf(3)
    h = w * 2
    return lambda x: (x * h).sum()


def updating() -> Any:
    w = leaf(3)

    def f(x: Tensor) -> Tensor:
        nonlocal w
        with mg.no_grad():
            w *= 0.5
        return (x * w).sum()

    return f


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: lambda x: (x, x), "it returns a tuple"),
        (lambda: lambda x: x.sum().item(), "it returns a float"),
        (lambda: lambda x: x * mg.tensor(x.numpy()), "leave as a NumPy array"),
        (outside, "a tensor that was computed outside of it"),
        (updating, "it changes the data of an argument, a weight or another tensor"),
    ],
    ids=["two-results", "a-number", "numpy", "outside", "updating"],
)
def test_what_cannot_be_recorded_runs_as_it_is(make: Any, why: str) -> None:
    mg.manual_seed(0)
    f, x = make(), mg.tensor([1.0, 2.0, 4.0])
    wanted = [f(x) for _ in range(4)]
    mg.manual_seed(0)
    g = mg.compile(make())
    with pytest.warns(UserWarning, match=f"runs as it is from now on: .*{why}") as heard:
        got = [g(x) for _ in range(4)]
    assert len(heard) == 1
    assert heard[0].filename == __file__
    assert len(got) == len(wanted)
    if make not in (outside, updating):
        assert str(got) == str(wanted)


def test_lists_are_no_arguments() -> None:
    f = mg.compile(lambda xs: xs[0] + xs[1])
    with pytest.warns(UserWarning, match="an argument is list"):
        assert f([mg.ones(2), mg.ones(2)]).tolist() == [2.0, 2.0]


def test_too_many_kinds_of_calls() -> None:
    f = mg.compile(lambda x, n: x * n)
    with pytest.warns(UserWarning, match=r"its arguments have other shapes or values \(numbers that change may be tensors\) each time"):
        assert [f(mg.ones(1), n).item() for n in range(70)] == list(range(70))


def test_training_and_evaluation_in_turn_are_recorded_once_each() -> None:
    drop, count, x = nn.Dropout(0.3), Count(), mg.ones(1000)

    def f(x: Tensor) -> Tensor:
        times(count)
        return drop(x).sum()

    g = mg.compile(f)
    for _ in range(100):
        drop.train()
        assert g(x).item() != 1000
        drop.eval()
        assert g(x).item() == 1000
    assert count.runs == 6


def test_more_shapes_than_are_kept() -> None:
    f = mg.compile(lambda x: x.sum())
    for n in [*range(1, 200, 2), *range(1, 50)]:
        for _ in range(5):
            assert f(mg.ones(n)).item() == n
    assert len(f._variants[0].kinds) == 64
    for n in range(300, 400):
        assert f(mg.ones(n)).item() == n  # once each, as a generated text does: what was recorded stays
    assert not f._why


def test_a_tensor_that_was_kept_inside_says_so() -> None:
    kept = queue.SimpleQueue[Tensor]()

    def f(x: Tensor) -> Tensor:
        y = x * 2
        kept.put(y)
        return y * 3

    g = mg.compile(f)
    assert [g(mg.ones(2)).tolist() for _ in range(3)] == [[6.0, 6.0]] * 3
    with pytest.raises(Untraceable, match="the compiled function kept a tensor for later"):
        [kept.get() + 1 for _ in range(3)]


def test_an_error_while_recording_leaves_weights_and_random_numbers_as_they_were() -> None:
    w, runs = leaf(3), Count()
    w.grad = mg.ones(3)

    def f(x: Tensor) -> Tensor:
        times(runs)
        mg.rand(3)
        if runs.runs == 3:
            raise KeyboardInterrupt
        return x * w

    g, before = mg.compile(f), bits(w)
    g(mg.ones(3))
    random = mg.get_rng_state()
    mg.rand(3)
    state = bits(mg.get_rng_state())  # after the call as it is
    mg.set_rng_state(random)
    with pytest.raises(KeyboardInterrupt):
        g(mg.ones(3))
    assert bits(w) == before
    assert type(w.data) is np.ndarray
    assert bits(w.grad) == bits(mg.ones(3))
    assert bits(mg.get_rng_state()) == state
    assert bits(g(mg.ones(3))) == bits(w * 1.0)
    (w * 2).sum().backward()


def test_a_recording_says_what_it_plays() -> None:
    w = leaf(3, 2)

    def loss(x: Tensor) -> Tensor:
        return (x @ w).T.exp().sum() / 2.0

    f = mg.compile(loss)
    assert repr(f) == "compiled loss: nothing is recorded yet"
    for _ in range(3):
        f(mg.randn(5, 3)).backward()
    forward = ["matmul (5, 3) (3, 2) (5, 2)", "exp (2, 5) (2, 5)", "sum (2, 5) ()", "divide () () ()"]
    backward = ["divide () () ()", "setitem () (2, 5)", "multiply (2, 5) (2, 5) (2, 5)", "matmul (3, 5) (5, 2) (3, 2)"]
    lines = ["compiled loss", "forward, 4 calls:", *("    " + c for c in forward), "backward, 4 calls:", *("    " + c for c in backward)]
    assert repr(f) == "\n".join(lines)
    g = mg.compile(lambda ids: F.embedding(ids, w)[ids > 0].mean(0).sum())
    for _ in range(3):
        g(mg.tensor([0, 2, 1])).backward()
    assert "    reach (3,): still False?" in repr(g)
    assert "    getitem (3, 2) (3,) (2, 2)" in repr(g)
    assert "    add.at (3,) (3,) (3,)" in repr(g)
    h = mg.compile(lambda x: (x, x))
    with pytest.warns(UserWarning, match="returns a tuple"):
        h(w)
    assert repr(h).startswith("compiled <lambda>, which runs as it is: it returns a tuple")


def test_inside_each_other_and_with_the_attributes_of_the_module() -> None:
    model = nn.Linear(3, 3)
    inner = mg.compile(model)
    outer = mg.compile(lambda x: inner(inner(x)).sum())
    assert [*inner.parameters()] == [*model.parameters()]
    for _ in range(4):
        x = mg.randn(2, 3)
        assert gradients(outer(x), [*model.parameters()]) == gradients(model(model(x)).sum(), [*model.parameters()])

    @mg.compile
    def named(x: Tensor) -> Tensor:
        """Its text."""
        return x * 2

    assert named.__name__ == "named"
    assert named.__doc__ == "Its text."
    assert "grad_fn=<compiled>" in repr([outer(mg.randn(2, 3)) for _ in range(3)][-1])


def test_copies_and_methods() -> None:
    model = mg.compile(nn.Linear(3, 2))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert [bits(p) for p in twin.parameters()] == [bits(p) for p in model.parameters()]
        assert twin.weight is not model.weight
        for _ in range(3):
            assert bits(twin(mg.ones(3))) == bits(model(mg.ones(3)))
    with pytest.raises((TypeError, RuntimeError)) as error:  # Python 3.11 wraps it

        class Wrong(nn.Module):
            @mg.compile
            def forward(self, x: Tensor) -> Tensor:
                return x

    assert "wrong = minigrad.compile(...)" in str(error.value.__cause__ or error.value)


def test_threads_play_recordings_of_their_own() -> None:
    w, wrong = leaf(50), list[Any]()
    f = mg.compile(lambda x: (x * w).sum())
    wanted = [bits((w * float(i)).sum()) for i in range(400)]
    for _ in range(3):
        f(mg.ones(50))

    def work(k: int) -> None:
        for i in range(k, 400, 4):
            y = f(mg.full((50,), float(i)))
            if bits(y) != wanted[i]:
                wrong.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_threads_share_a_compiled_function_from_its_first_call_on() -> None:
    wrong, interval = list[Any](), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(25):
            w = leaf(50)
            f = mg.compile(lambda x, w=w: sum(((w * x).exp() * w for _ in range(20)), x).sum())
            wanted = bits(sum(((w * 1.0).exp() * w for _ in range(20)), mg.ones(50)).sum())

            def work(f: Any = f, wanted: Any = wanted) -> None:
                for _ in range(4):
                    try:
                        if bits(f(mg.ones(50))) != wanted:
                            wrong.append("other numbers")
                    except Exception as error:
                        wrong.append(repr(error))

            threads = [threading.Thread(target=work) for _ in range(4)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_memory_goes_from_hand_to_hand_and_views_cost_nothing() -> None:
    tape, a = Tape(), np.arange(1000.0).reshape(20, 50)
    x = first = tape.copied(a)
    for _ in range(40):
        x = (x + 1).T
    assert len(tape.calls) == 40
    rooms = {call.args[-1].base.__array_interface__["data"][0] for call in tape.calls}
    assert len(rooms) == 2
    for call in tape.calls:
        call()
    assert np.array_equal(x.array, a + 40)
    assert np.array_equal(first.array, a)
    assert (tape.copied(a).T + 1).strides == (a.T + 1).strides  # a result lies as it would


def test_arrays_of_a_recording_begin_with_a_line_of_the_cache() -> None:
    tape, lengths = Tape(), [1, 5, 16, 17, 1000, 100_000]
    places = [tape.copied(np.ones(length, dtype)) for dtype in (np.float32, np.float64, bool) for length in lengths]
    assert not any(place.array.__array_interface__["data"][0] % 64 for place in places)


def test_a_recording_can_not_be_read_from_another_thread() -> None:
    tape = Tape()
    x, found = tape.copied(np.ones(3)), list[BaseException]()

    def read() -> None:
        try:
            x + 1
        except Untraceable as error:
            found.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert "being made in another thread" in str(found[0])


def test_nothing_is_said_where_all_is_well() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = mg.compile(lambda x: (x / 0).log().sum())
        for _ in range(4):
            assert f(mg.ones(3) * 0).isnan().item()


# Whole steps of training --------------------------------------------------------------------------------------


class Trained:
    """A model with its optimizers, and what a step can change of them."""

    def __init__(self, kind: Callable[..., mg.optim.Optimizer] = mg.optim.Adam) -> None:
        mg.manual_seed(0)
        self.model, self.count = Model(), Count()
        self.weights = list(self.model.parameters())
        self.optimizer = kind(self.weights, lr=0.01)
        self.second = mg.optim.SGD(self.weights[:2], lr=0.1, momentum=0.5)

    def loss(self, ids: Tensor) -> Tensor:
        times(self.count)
        return F.cross_entropy(self.model(ids).flatten(0, 1), ids.flatten())

    def numbers(self) -> Any:
        states = [optimizer.state_dict()["state"] for optimizer in (self.optimizer, self.second)]
        remembered = [{k: bits(x) if isinstance(x, Tensor) else x for k, x in part.items()} for state in states for part in state.values()]
        return [bits(p) for p in self.weights], [bits(p.grad) for p in self.weights], remembered, bits(mg.get_rng_state())


def usual(t: Trained, ids: Tensor) -> Tensor:
    loss = t.loss(ids)
    t.optimizer.zero_grad()
    loss.backward()
    t.optimizer.step()
    return loss.detach()


def zeroed_at_the_end(t: Trained, ids: Tensor) -> Tensor:
    loss = t.loss(ids)
    loss.backward()
    t.optimizer.step()
    t.optimizer.zero_grad()
    return loss.detach()


def zeros_and_the_loss_itself(t: Trained, ids: Tensor) -> Tensor:
    t.optimizer.zero_grad(set_to_none=False)
    loss = t.loss(ids)
    loss.backward()
    t.optimizer.step()
    return loss


def clipped(t: Trained, ids: Tensor) -> Tensor:
    t.model.zero_grad()
    loss = t.loss(ids)
    loss.backward()
    nn.utils.clip_grad_norm_(t.model.parameters(), 0.1)
    t.optimizer.step()
    return loss.detach()


def two_losses(t: Trained, ids: Tensor) -> Tensor:
    for p in t.weights:
        p.grad = None
    first, second = t.loss(ids), t.loss(ids + 1)
    first.backward(retain_graph=True)
    first.backward()
    second.backward()
    found = (first - second).detach()
    t.optimizer.step()
    return found


def two_optimizers(t: Trained, ids: Tensor) -> Tensor:
    t.optimizer.zero_grad()
    loss = t.loss(ids)
    loss.backward()
    t.second.step()
    for p in t.weights[3:]:
        p.grad = None
    t.optimizer.step()
    return loss.detach()


def scaled_gradients(t: Trained, ids: Tensor) -> Tensor:
    t.optimizer.zero_grad()
    loss = t.loss(ids)
    loss.backward()
    for p in t.weights:
        p.grad = p.grad * 0.5
    t.optimizer.step()
    return loss.detach()


def gradients_only(t: Trained, ids: Tensor) -> Tensor:
    t.optimizer.zero_grad()
    loss = t.loss(ids)
    loss.backward()
    return loss.detach()


def accumulating(t: Trained, ids: Tensor) -> Tensor:
    loss = t.loss(ids)
    loss.backward()
    return loss.detach()


def penalty_on_the_last_gradients(t: Trained, ids: Tensor) -> Tensor:
    loss = t.loss(ids)
    for p in t.weights:
        if p.grad is not None:
            loss = loss + (p.grad * p).sum()
    t.optimizer.zero_grad()
    loss.backward()
    t.optimizer.step()
    return loss


def loss_with_a_graph(t: Trained, ids: Tensor) -> Tensor:
    t.optimizer.zero_grad()
    return t.loss(ids)


def another_graph(t: Trained, ids: Tensor) -> Tensor:
    gradients_only(t, ids)
    return t.loss(ids)


def a_mean_of_logits(t: Trained, ids: Tensor) -> Tensor:
    times(t.count)
    t.optimizer.zero_grad()
    loss = t.model(ids).sum()
    loss.backward()
    t.second.step()
    return loss


def freezing_for_a_while(t: Trained, ids: Tensor) -> Tensor:
    t.weights[0].requires_grad_(False)
    loss = usual(t, ids)
    t.weights[0].requires_grad_(True)
    return loss


STEPS = [
    loss_with_a_graph,
    another_graph,
    a_mean_of_logits,
    freezing_for_a_while,
    accumulating,
    penalty_on_the_last_gradients,
    usual,
    zeroed_at_the_end,
    zeros_and_the_loss_itself,
    clipped,
    two_losses,
    two_optimizers,
    scaled_gradients,
    gradients_only,
]


def meddle(t: Trained, i: int) -> None:
    """What may happen between two steps."""
    t.optimizer.param_groups[0]["lr"] = 0.01 / (1 + i)
    if i == 6:
        t.optimizer.load_state_dict(t.optimizer.state_dict())
    if i == 7:
        t.weights[3].data = t.weights[3].data * 2
    if i in (8, 12):
        t.model.train(i == 12)
    if i == 10:
        t.optimizer.zero_grad()
    if i in (5, 14) and t.weights[2].grad is not None:
        t.weights[2].grad = t.weights[2].grad.double() if i == 5 else t.weights[2].grad.T.contiguous().T


def twins(
    step_of: Callable[[Trained], Callable[..., Tensor]], inputs: Sequence[tuple[Any, ...]], before: Any = lambda t, i: None
) -> tuple[Trained, Trained]:
    """Train a model with the step as it is, and its twin with the step compiled: after each call all must be the same."""
    plain, other = Trained(), Trained()
    played = mg.compile(step_of(other))
    for i, args in enumerate(inputs):
        found = []
        for t, function in ((plain, step_of(plain)), (other, played)):
            before(t, i)
            mg.manual_seed(i)
            y = function(*args)
            found.append((bits(y), y.requires_grad, t.numbers(), t.model.training))
        assert found[0] == found[1], i
    return plain, other


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
@pytest.mark.parametrize("kind", [mg.optim.SGD, mg.optim.AdamW], ids=["SGD", "AdamW"])
def test_a_whole_step_of_training(step: Any, kind: Any) -> None:
    plain, other = Trained(kind), Trained(kind)
    played = mg.compile(lambda ids: step(other, ids))
    for i in range(26):
        ids = mg.tensor([[i % 7, 3, 5], [1, 2, i % 3]])
        found = []
        for t, function in ((plain, functools.partial(step, plain)), (other, played)):
            meddle(t, i)
            mg.manual_seed(i)
            y = function(ids)
            found.append((bits(y), y.requires_grad, t.numbers()))
            if step in (loss_with_a_graph, another_graph):
                y.backward()
                found[-1] += (t.numbers(),)
        assert found[0] == found[1], i
    assert other.count.runs <= plain.count.runs - 6  # played, but around the meddling
    if y.requires_grad and not y._pairs:
        with pytest.raises(RuntimeError, match=r"has already been through this graph"):
            y.backward()


def computing_after(t: Trained, ids: Tensor) -> Tensor:
    usual(t, ids)
    return t.loss(ids).detach()


def asking_for_the_norm(t: Trained, ids: Tensor) -> Tensor:
    gradients_only(t, ids)
    return nn.utils.clip_grad_norm_(t.weights, 0.1) * 2


def looking_after(t: Trained, ids: Tensor) -> Tensor:
    gradients_only(t, ids)
    if nn.utils.clip_grad_norm_(t.weights, 0.1) < 3.0:
        t.optimizer.step()
    return ids.detach()


def a_graph_after_a_step(t: Trained, ids: Tensor) -> Tensor:
    t.optimizer.zero_grad()
    loss = t.loss(ids)
    loss.backward(retain_graph=True)
    t.optimizer.step()
    return loss


def the_norm(t: Trained, ids: Tensor) -> Tensor:
    gradients_only(t, ids)
    return nn.utils.clip_grad_norm_(t.weights, 0.1)


def a_weight(t: Trained, ids: Tensor) -> Tensor:
    usual(t, ids)
    return t.weights[2].detach()


def a_gradient(t: Trained, ids: Tensor) -> Any:
    gradients_only(t, ids)
    found = t.weights[3].grad
    t.optimizer.step()
    return found


def a_new_optimizer(t: Trained, ids: Tensor) -> Tensor:
    loss = gradients_only(t, ids)
    mg.optim.Adam(t.weights).step()
    return loss


def the_optimizer_s_state(t: Trained, ids: Tensor) -> Tensor:
    loss = gradients_only(t, ids)
    if not t.optimizer.state or t.optimizer.state[t.weights[3]]["step"] < 3:
        t.optimizer.step()
    return loss


def a_rate_of_its_own(t: Trained, ids: Tensor) -> Tensor:
    t.optimizer.param_groups[0]["lr"] *= 0.5
    return usual(t, ids)


class Counting(mg.optim.Adam):
    steps = 0

    def zero_grad(self, set_to_none: bool = True) -> None:
        Counting.steps += 1
        super().zero_grad(set_to_none)


def a_counting_class(t: Trained, ids: Tensor) -> Tensor:
    if not isinstance(t.optimizer, Counting):
        t.optimizer = Counting(t.weights, lr=0.01)
        Counting.steps = 0
    loss = usual(t, ids)
    return loss + Counting.steps


def freezing(t: Trained, ids: Tensor) -> Tensor:
    t.weights[2].requires_grad = not t.weights[2].requires_grad
    return usual(t, ids)


def clipping_what_it_makes(t: Trained, ids: Tensor) -> Tensor:
    t.optimizer.zero_grad()
    logits = t.model(ids)
    logits.retain_grad()
    logits.sum().backward()
    nn.utils.clip_grad_norm_([logits], 1.0)
    return logits.grad.detach()


def rolling_dice(t: Trained, ids: Tensor) -> Tensor:
    random.random()
    return usual(t, ids)


def a_constant(t: Trained, ids: Tensor) -> Tensor:
    loss = gradients_only(t, ids)
    t.weights[0].grad = mg.ones(11, 6)
    return loss


def what_it_did_not_compute(t: Trained, ids: Tensor) -> Tensor:
    usual(t, ids)
    return TABLE[0].detach()  # a frozen weight that has a gradient moves too


def zeros_at_the_end(t: Trained, ids: Tensor) -> Tensor:
    loss = usual(t, ids)
    t.optimizer.zero_grad(set_to_none=False)
    return loss


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (computing_after, "computes or reads something after step() or clip_grad_norm_()"),
        (asking_for_the_norm, "computes or reads something after step() or clip_grad_norm_()"),
        (looking_after, "computes or reads something after step() or clip_grad_norm_()"),
        (a_graph_after_a_step, "returns a tensor with a graph: return loss.detach()"),
        (the_norm, "it returns a weight, a gradient or a norm, which a step changes"),
        (a_weight, "it returns a weight, a gradient or a norm, which a step changes"),
        (a_gradient, "it returns a weight, a gradient or a norm, which a step changes"),
        (a_new_optimizer, "it makes an optimizer"),
        (the_optimizer_s_state, "it reads the state of an optimizer"),
        (a_rate_of_its_own, "it changes a variable, an attribute, a list or a dict of its surroundings: 'lr'"),
        (a_counting_class, "it changes a variable, an attribute, a list or a dict of its surroundings: 'steps'"),
        (freezing, "it changes requires_grad of"),
        (clipping_what_it_makes, "clip_grad_norm_ on tensors that are made in it"),
        (rolling_dice, "it draws random numbers from another library"),
        (a_constant, "sets a gradient to something that it didn't compute"),
        (what_it_did_not_compute, "returns a constant, which may be among what is moved"),
        (zeros_at_the_end, "computes or reads something after step()"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_step_that_cannot_be_recorded_runs_as_it_is(step: Any, why: str) -> None:
    plain, other = Trained(), Trained()
    played = mg.compile(lambda ids: step(other, ids))
    ids, found = mg.tensor([[0, 3, 5], [1, 2, 4]]), []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for t, function in ((plain, functools.partial(step, plain)), (other, played)):
            mg.manual_seed(1)
            found.append([(bits(function(ids)), t.numbers()) for _ in range(5)])
    assert found[0] == found[1]
    assert [why in str(w.message) for w in heard] == [True]


def test_a_step_through_an_argument_is_not_recorded() -> None:
    w, x = leaf(3), leaf(3)

    def step(x: Tensor) -> Tensor:
        w.grad = None
        loss = (x * w).sum()
        loss.backward()
        return loss.detach()

    played = mg.compile(step)
    played(x)
    with pytest.warns(UserWarning, match="it sets or reads the gradient of an argument"):
        played(x)
    played(x)
    assert np.allclose(x.grad.data, 3 * w.data)


def test_a_step_under_no_grad_is_an_error_that_stays() -> None:
    t = Trained()
    played, ids = mg.compile(lambda ids: usual(t, ids)), mg.tensor([[1, 2, 3]])
    found = []
    for function in (functools.partial(usual, t), played):
        mg.manual_seed(1)
        with mg.no_grad(), pytest.raises(RuntimeError, match=r"backward\(\) on a tensor that doesn't require a gradient"):
            function(ids)
        found.append(t.numbers())
    assert found[0] == found[1]
    runs = []
    for _ in range(5):
        played(ids)
        runs.append(t.count.runs)
    assert runs[2:] == runs[-1:] * 3  # played


def test_errors_in_a_step_are_those_of_the_plain_step() -> None:
    plain, other = Trained(), Trained()
    played, good, bad = mg.compile(lambda ids: usual(other, ids)), mg.tensor([[1, 2, 3]]), mg.tensor([[1, 2, 11]])
    for i in range(14):
        ids, found = bad if i in (6, 8) else good, []
        for t, function in ((plain, functools.partial(usual, plain)), (other, played)):
            t.optimizer.param_groups[0]["lr"] = float("nan") if i in (7, 11) else 0.01
            mg.manual_seed(i)
            runs = t.count.runs
            try:
                found.append((bits(function(ids)), t.numbers()))
            except (IndexError, ValueError) as error:
                found.append((str(error), t.numbers()))
        assert found[0] == found[1], i
        assert (type(found[0][0]) is str) == (i in (6, 7, 8, 11))
        assert i < 2 or t.count.runs - runs == (ids is bad)  # which runs as it is


def test_where_another_branch_is_taken_there_is_one_step() -> None:
    def step(t: Trained, ids: Tensor) -> Tensor:
        loss = gradients_only(t, ids)
        if ids.sum() > 6:  # after backward()
            t.optimizer.step()
        return loss

    twins(lambda t: functools.partial(step, t), [(mg.tensor([[1, 2, 3 + (i > 3) * (i % 2)]]),) for i in range(12)])


def test_weights_that_a_step_first_meets_in_backward() -> None:
    hidden = [None] * 2000 + [leaf(3)]  # too long a list to be looked through
    count = Count()

    def step(x: Tensor) -> Tensor:
        times(count)
        w = hidden[-1]
        w.grad = None
        loss = ((x * w) ** 2).sum()
        loss.backward()
        return loss.detach()

    played = mg.compile(step)
    for _ in range(6):
        x = mg.randn(3)
        loss = played(x)
        w = hidden[-1]
        assert np.allclose(w.grad.data, 2 * x.data**2 * w.data)
        assert np.allclose(loss.data, ((x.data * w.data) ** 2).sum())
        w.data = w.data - 0.1 * w.grad.data
    assert count.runs == 5


def test_a_recorded_step_says_what_it_does() -> None:
    w = leaf(3)
    optimizer = mg.optim.Adam([w])

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (x * w).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(w, 1.0)
        optimizer.step()
        return loss

    played = mg.compile(step)
    for _ in range(3):
        played(mg.ones(3))
    lines = repr(played).splitlines()
    assert lines[:4] == ["compiled step", "forward and backward, 4 calls:", "    multiply (3,) (3,) (3,)", "    sum (3,) ()"]
    assert lines[-2:] == ["then set 1 gradient, clip_grad_norm_", "then Adam.step"]
    assert lines[-3] == "then Adam.zero_grad"


def test_gradients_that_were_none_are_none_again() -> None:
    w, count = leaf(3), Count()

    def loss(x: Tensor) -> Tensor:
        times(count)
        w.grad = None
        return (w * x).sum()

    played = mg.compile(loss)
    for i in range(6):
        played(mg.ones(3) * i)
    for i in range(6):
        played(mg.ones(3) * i).backward()
        assert w.grad.tolist() == [i] * 3
    assert count.runs <= 4


def test_a_step_that_forgets_gradients_plays_whether_there_were_any_or_not() -> None:
    t = Trained()
    played, ids = mg.compile(lambda ids: usual(t, ids)), mg.tensor([[1, 2, 3]])
    for i in range(12):
        if i in (3, 4, 7):
            t.optimizer.zero_grad()
        played(ids)
    assert t.count.runs == 3


def test_a_gradient_that_is_read() -> None:
    for frozen in (False, True):
        w = leaf(3)
        w.requires_grad = not frozen
        hidden = MappingProxyType({"w": w})
        for read in (lambda w=w: w, lambda hidden=hidden: hidden["w"]):
            played = mg.compile(lambda x, read=read: x.sum() if read().grad is None else (read().grad * x).sum())
            for i in range(12):
                w.grad = None if i in (0, 1, 2, 7, 8) else mg.randn(3)
                x = mg.randn(3)
                assert played(x).item() == (x.sum() if w.grad is None else (w.grad * x).sum()).item()


def test_a_gradient_from_before_that_is_handed_on() -> None:
    w, v = leaf(3), leaf(3)

    def same(x: Tensor) -> Tensor:
        w.grad = w.grad
        return x * w

    def moved(x: Tensor) -> Tensor:
        v.grad, w.grad = w.grad, None
        return x * w

    for f, holder in ((same, w), (moved, v)):
        played = mg.compile(f)
        for i in range(6):
            w.grad = mg.tensor([i + 1.0, 2.0, 3.0])
            played(mg.ones(3))
            assert holder.grad is not None
            assert holder.grad.tolist() == [i + 1, 2, 3]
        assert not played._why


def both(make: Callable[[Tensor, mg.optim.Optimizer], Any], calls: int = 8, lr: float = 0.1, between: Any = None) -> list[str]:
    """Compare a step made of a weight and an optimizer, as it is and compiled, on the same inputs; returns the warnings."""
    found: list[Any] = [[], []]
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for k in (0, 1):
            mg.manual_seed(0)
            w = leaf(2)
            optimizer = mg.optim.SGD([w], lr=lr, momentum=0.5)
            step = make(w, optimizer)
            step = mg.compile(step) if k else step
            for i in range(calls):
                if between:
                    between(i, w, optimizer)
                try:
                    y = bits(step(mg.tensor([i + 1.0, 2.0])))
                except RuntimeError as error:
                    y = str(error)
                found[k].append((y, bits(w), bits(w.grad)))
    assert found[0] == found[1]
    return [str(w.message).partition(" from now on: ")[2] for w in heard]


def test_under_no_grad_a_step_changes_what_the_plain_one_does() -> None:
    w = leaf(2)
    optimizer, model, before = mg.optim.SGD([w], lr=0.1), mg.compile(lambda x: w * x), bits(w)

    def step(x: Tensor) -> Tensor:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    compiled = mg.compile(step)
    for outer in (compiled, mg.compile(lambda x: compiled(x) * 1)):
        for _ in range(2):
            with mg.no_grad(), pytest.raises(RuntimeError, match="doesn't require a gradient"):
                outer(mg.ones(2))
            assert w.grad is None
            assert bits(w) == before

    def make(w: Tensor, optimizer: Any) -> Any:
        def step_first(x: Tensor) -> Tensor:
            w.grad = x if w.grad is None else w.grad * 0.5
            optimizer.step()
            loss = (w * x).sum()
            loss.backward()
            return loss.detach()

        return mg.no_grad()(step_first)

    both(make)


def test_gradients_that_share_an_array_are_not_written_into() -> None:
    def make(w: Tensor, optimizer: Any) -> Any:
        b = mg.zeros(2, requires_grad=True)

        def step(x: Tensor) -> Tensor:
            w.grad = b.grad = None
            ((w + b) * x).sum().backward()
            np.clip(w.grad.data, -3, 3, out=w.grad.data)
            return b.grad * 2

        return step

    assert "writes into the array of a gradient" in both(make)[0]


def test_a_gradient_function_that_answers_a_constant() -> None:
    def make(w: Tensor, optimizer: Any) -> Any:
        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = mg.apply(lambda a: (a * 2, lambda g: np.ones(2, np.float32)), w).sum()
            loss.backward()
            optimizer.step()
            return loss

        return step

    assert "sets a gradient to something that it didn't compute" in both(make)[0]


def test_hidden_weights_that_are_frozen() -> None:
    def make(w: Tensor, optimizer: Any) -> Any:
        hidden, other = MappingProxyType({"w": w}), leaf(2)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = (hidden["w"] * x).sum() + other.sum()
            loss.backward()
            return loss.detach()

        return step

    def freeze(i: int, w: Tensor, optimizer: Any) -> None:
        w.requires_grad = i < 5

    both(make, between=freeze)


def test_attributes_named_by_text() -> None:
    mode = SimpleNamespace(factor=2.0)
    played = mg.compile(lambda x: x * getattr(mode, "factor"))  # noqa: B009
    for factor in (2.0, 2.0, 2.0, 3.0, 3.0, 3.0):
        mode.factor = factor
        assert played(mg.ones(1)).item() == factor


def test_an_object_that_gets_another_dict() -> None:
    class Settings:
        factor: float

    settings = Settings()
    settings.factor = 2.0
    played = mg.compile(lambda x: x * settings.factor)
    for _ in range(3):
        assert played(mg.ones(1)).item() == 2
    settings.__dict__ = {"factor": 3.0}
    for factor in (3.0, 3.0, 3.0, 4.0, 4.0, 4.0):
        settings.factor = factor
        assert played(mg.ones(1)).item() == factor


@pytest.mark.parametrize("constants", ["q", "k", "v", "kv"])
def test_attention_over_constants(constants: str) -> None:
    given = {name: mg.randn(5, 4, requires_grad=name not in constants) for name in "qkv"}
    inputs = [x for x in given.values() if x.requires_grad]

    def f(*inputs: Tensor) -> Tensor:
        rest = iter(inputs)
        return F.scaled_dot_product_attention(*[given[name] if name in constants else next(rest) for name in "qkv"]).sum()

    played = mg.compile(f)
    for _ in range(4):
        y, wanted = played(*inputs), f(*inputs)
        assert bits(y) == bits(wanted)
        assert gradients(y, inputs) == gradients(wanted, inputs)
    assert "backward" in repr(played)
    assert not played._why


def test_gradients_with_a_graph_are_not_recorded() -> None:
    def make(w: Tensor, optimizer: Any) -> Any:
        def step(x: Tensor) -> Tensor:
            w.grad = w * x
            return x

        return step

    assert "a gradient that requires a gradient itself" in both(make)[0]


def test_one_gradient_of_two_tensors_is_not_recorded() -> None:
    def make(w: Tensor, optimizer: Any) -> Any:
        v = leaf(2)

        def step(x: Tensor) -> Tensor:
            w.grad = x * 2
            v.grad = w.grad
            return x + v.grad

        return step

    def double(i: int, w: Tensor, optimizer: Any) -> None:
        if w.grad is not None:
            w.grad *= 2

    assert "one gradient that of two tensors" in both(make, between=double)[0]


def test_a_loss_that_is_used_up_can_be_printed() -> None:
    def make(w: Tensor, optimizer: Any) -> Any:
        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = (w * x).sum()
            loss.backward()
            optimizer.step()
            return loss

        played = mg.compile(step)
        return lambda x: mg.tensor(float(len(repr(played(x)))))

    both(make)


step = 0


def test_global_names_of_a_loop_are_not_those_of_attributes() -> None:
    global step
    t = Trained()
    played, ids = mg.compile(lambda ids: usual(t, ids)), mg.tensor([[1, 2, 3]])
    for number in range(9):
        step = number  # and usual() says t.optimizer.step()
        played(ids)
    assert t.count.runs == 3
    assert step == 8


def test_a_number_with_the_name_of_a_method_is_not_read() -> None:
    t = Trained()
    trainer = SimpleNamespace(t=t, step=0)
    played, ids = mg.compile(lambda ids: usual(trainer.t, ids)), mg.tensor([[1, 2, 3]])
    for _ in range(9):
        played(ids)
        trainer.step += 1  # and usual() says t.optimizer.step()
    assert t.count.runs == 3


def test_the_way_that_was_recorded_may_be_the_rare_one() -> None:
    t = Trained()

    def accumulate(ids: Tensor) -> Tensor:
        loss = t.loss(ids)
        loss.backward()
        return loss.detach()

    def early(ids: Tensor) -> Tensor:
        loss = t.loss(ids)
        if ids.sum() > 9:
            return loss.detach()
        t.optimizer.zero_grad()
        loss.backward()
        return loss.detach()

    for function in (accumulate, early):
        played = mg.compile(function)
        runs = t.count.runs
        for i in range(80):
            if i % 4 == 1:
                t.optimizer.zero_grad()
            played(mg.tensor([[1, 2, 9 if i % 4 == 1 else 3]]))
        assert t.count.runs < runs + 45
    assert [len(kind.alive) for kind in played._variants[0].kinds.values()] == [1]


def test_gradients_of_many_kinds() -> None:
    weights = [leaf(2) for _ in range(3)]

    def step(x: Tensor) -> Tensor:
        for w in weights:
            (w * x).sum().backward()
        return x

    played = mg.compile(step)
    for i in range(40):
        for k, w in enumerate(weights):
            w.grad = mg.ones(2) if i >> k & 1 else None
        played(mg.ones(2) * i)
        assert [w.grad.tolist() for w in weights] == [[i + float(i >> k & 1)] * 2 for k in range(3)]
    assert [len(kind.alive) <= 4 for kind in played._variants[0].kinds.values()] == [True]


def test_gradients_from_before_are_changed_once() -> None:
    def make(w: Tensor, optimizer: Any) -> Any:
        w.grad = mg.ones(2)

        def step(x: Tensor) -> Tensor:
            w.grad *= 0.5
            (w * x).sum().backward()
            optimizer.step()
            return x

        return step

    assert both(make) == []


VARIABLE: Any = None


def test_what_is_assigned_for_a_while_is_put_back() -> None:
    """Where a recording ends in the middle, the world is as it was before it."""
    thing, cell, many = SimpleNamespace(a=1), 0, [1, 2]
    others, names, queue_ = {1, 2}, {"a": 1}, collections.deque([1])

    class Kind:
        a = 1

    def f(x: Tensor) -> Tensor:
        global VARIABLE
        nonlocal cell
        VARIABLE, thing.a, cell, Kind.a, names["a"] = 2, 2, 2, 2, 2
        many.append(3)
        others.add(3)
        queue_.append(2)
        seen.append((VARIABLE, thing.a, cell, Kind.a, names["a"], len(many), len(others), len(queue_)))
        np.asarray(x.numpy())
        VARIABLE, thing.a, cell, Kind.a, names["a"] = None, 1, 0, 1, 1
        many.pop()
        others.discard(3)
        queue_.pop()
        return x

    seen: list[Any] = [None] * 2000  # too long to be looked through
    played = mg.compile(f)
    played(mg.ones(1))
    with pytest.warns(UserWarning, match="leave as a NumPy array"):
        played(mg.ones(1))
    assert (VARIABLE, thing.a, cell, Kind.a, names) == (None, 1, 0, 1, {"a": 1})
    assert (many, others, list(queue_)) == ([1, 2], {1, 2}, [1])
    assert seen[2000:] == [(2, 2, 2, 2, 2, 3, 3, 2)] * 3


def test_the_gradient_of_an_argument_is_not_read() -> None:
    x = leaf(3)
    x.grad = mg.ones(3)
    played = mg.compile(lambda x: x if x.grad is None else x.detach() * 2)
    assert bits(played(x)) == bits(x * 2)
    with pytest.warns(UserWarning, match="it sets or reads the gradient of an argument"):
        assert bits(played(x)) == bits(x * 2)


def test_a_learning_rate_set_inside() -> None:
    def step(t: Trained, ids: Tensor, lr: float) -> Tensor:
        t.optimizer.param_groups[0]["lr"] = lr
        return usual(t, ids)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twins(lambda t: functools.partial(step, t), [(mg.tensor([[1, 2, 3]]), [0.1, 0.01][i // 3 % 2]) for i in range(24)])


def test_gradients_that_come_out_differently() -> None:
    w, numbers = leaf(3), itertools.count()

    def step(x: Tensor) -> Tensor:
        w.grad = x * float(next(numbers))
        return x

    played = mg.compile(step)
    played(mg.ones(3))
    with pytest.warns(UserWarning, match="it gave other numbers"):
        played(mg.ones(3))
    assert w.grad.tolist() == [1.0] * 3


@pytest.mark.skipif(sys.gettrace() is not None, reason="needs sys.settrace for itself")
def test_ctrl_c_in_a_compiled_step() -> None:
    assert soak.compiled_steps(every=97) > 50


def test_recordings_of_several_kinds_say_which_they_are() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.5))
    played = mg.compile(model)
    for rows in (4, 5, 4, 5, 4, 5):
        played(mg.ones(rows, 2))
    model.eval()
    played(mg.ones(4, 2))
    lines = repr(played).splitlines()
    assert [line for line in lines if line.startswith("for arguments")] == [
        "for arguments of shapes (4, 2):",
        "for arguments of shapes (5, 2):",
    ]


def test_a_parameter_that_joins_the_optimizer_later_is_zeroed_too() -> None:
    t, q = Trained(), leaf(3)
    played, ids = mg.compile(lambda ids: usual(t, ids)), mg.tensor([[1, 2, 3]])
    for _ in range(3):
        played(ids)
    t.optimizer.add_param_group({"params": [q]})
    q.grad, before = mg.ones(3), bits(q)
    played(ids)
    assert q.grad is None
    assert bits(q) == before


class Static:
    model: Any = None

    @staticmethod
    def loss(ids: Tensor) -> Tensor:
        return model_of_static(ids).sum()

    @classmethod
    def halved(cls, ids: Tensor) -> Tensor:
        return cls.loss(ids) / 2


model_of_static: Any = None


def test_what_static_and_class_methods_read_is_seen() -> None:
    global model_of_static
    model_of_static = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    played, x = mg.compile(lambda x: Static.halved(x)), mg.ones(2, 3)
    for train in (True, True, True, False, False, True):
        model_of_static.train(train)
        mg.manual_seed(0)
        wanted = Static.halved(x)
        mg.manual_seed(0)
        assert bits(played(x)) == bits(wanted)


def test_what_is_put_into_a_deque_is_taken_out_again() -> None:
    t, losses = Trained(), collections.deque[Tensor]()

    def step(ids: Tensor) -> Tensor:
        loss = usual(t, ids)
        losses.append(loss)
        return loss

    played = mg.compile(step)
    with pytest.warns(UserWarning, match="it changes a variable, an attribute, a list"):
        found = [played(mg.tensor([[1, 2, 3]])).item() for _ in range(4)]
    assert [loss.item() for loss in losses] == found


def test_gradients_of_a_model_that_cannot_be_seen() -> None:
    def step_of(t: Trained) -> Any:
        hidden = MappingProxyType({"t": t})
        return lambda ids: usual(hidden["t"], ids)

    twins(step_of, [(mg.tensor([[1, 2, 3]]),)] * 6)


def test_a_mode_that_a_step_sets_itself() -> None:
    def step(t: Trained, ids: Tensor) -> Tensor:
        t.model.train()
        return usual(t, ids)

    def evaluate_now_and_then(t: Trained, i: int) -> None:
        if i % 5 == 0:
            t.model.eval()

    _, other = twins(lambda t: functools.partial(step, t), [(mg.tensor([[1, 2, 3]]),)] * 30, evaluate_now_and_then)
    assert other.count.runs <= 12  # two when it is recorded, and one after each eval()


# Found by an attack -------------------------------------------------------------------------------------------


def agrees(
    f: Callable[..., Tensor], calls: list[tuple[Any, ...]], leaves: list[Tensor], between: Callable[[int], Any] = lambda i: None
) -> Any:
    """Compiled or not, each call gives the same; `between` happens before it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compile: ")
        g = mg.compile(f)
        for i, args in enumerate(calls):
            between(i)
            y, wanted = g(*args), f(*args)
            assert bits(y) == bits(wanted), i
            assert y.requires_grad == wanted.requires_grad, i
            if y.requires_grad:
                assert gradients((y * (i + 1.0)).sum(), leaves) == gradients((wanted * (i + 1.0)).sum(), leaves), i
    return g


def test_a_recording_that_is_used_again_while_its_gradients_are_on_their_way() -> None:
    lin = nn.Linear(3, 3)
    block = mg.compile(lambda x: lin(x).tanh())

    def checkpoint(a: Any) -> Any:
        with mg.no_grad():
            y = block(Tensor(a)).numpy()

        def vjp(g: Any) -> Any:
            x = Tensor(a, requires_grad=True)
            block(x).backward(mg.tensor(g))
            assert x.grad is not None
            return x.grad.numpy()

        return y, vjp

    x = leaf(2, 3)
    for _ in range(8):
        lin.zero_grad()
        block(mg.apply(checkpoint, x)).sum().backward()
        got = [p.grad for p in lin.parameters()]
        lin.zero_grad()
        inner = lin(x.detach()).tanh().detach().requires_grad_()
        lin(inner).tanh().sum().backward()
        outer_gradients = [p.grad for p in lin.parameters()]
        lin.zero_grad()
        lin(x.detach()).tanh().backward(inner.grad)
        for outer, p, all_of_it in zip(outer_gradients, lin.parameters(), got, strict=True):
            assert np.allclose((outer + p.grad).numpy(), all_of_it.numpy(), rtol=1e-5, atol=1e-6)


def test_weights_that_are_first_met_later() -> None:
    v, w = leaf(3), leaf(3)
    hidden = itertools.repeat(v)
    signs = [-1.0, 1, 1, 1, 1, -1, -1, 1, 1]
    g = agrees(
        lambda x: x * next(hidden) if x.sum() > 0 else x * w,
        [(mg.ones(3) * s,) for s in signs] + [(mg.ones(3),)] * 20,
        [w, v],
        lambda i: setattr(v, "data", v.data + 1),
    )
    assert not g._why
    count = Count()
    h = mg.compile(lambda x: [times(count), x * next(hidden) if x.sum() > 0 else x * w][1])
    for sign in [-1.0, 1, 1, 1, 1, 1, 1, 1]:
        h(mg.ones(3) * sign)
    assert count.runs == 1 + 2 + 2  # as it is; met; recorded with it
    with mg.no_grad():
        agrees(lambda x: x * next(hidden), [(mg.ones(3),)] * 6, [], lambda i: setattr(v, "data", v.data + 1))


def test_the_weight_itself_its_view_and_its_shape() -> None:
    w, x = leaf(3, 2), mg.ones(2)

    def turn(a: Any) -> Any:
        return a.T, lambda g: g.T

    for f in (
        lambda x: w,
        lambda x: w.detach(),
        lambda x: w.T,
        lambda x: mg.apply(turn, w),
        lambda x: x,
        lambda x: mg.ones(3),
        lambda x: w[0],
    ):
        agrees(f, [(x,)] * 6, [w], lambda i: setattr(w, "data", w.data + 1))
    agrees(lambda x: x * w.shape[0], [(x,)] * 9, [], lambda i: setattr(w, "data", np.ones((3 + i // 3, 2), np.float32)))


class Settings:
    rate = 2.0

    def __init__(self) -> None:
        self.scale, self.seen = 3.0, 0

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.scale * self.rate * LEVEL


LEVEL = 1.0


def helped(x: Tensor) -> Tensor:
    return x * LEVEL


class Configured(nn.Module):
    factor = 1.5

    def __init__(self) -> None:
        self.settings, self.w = Settings(), nn.Parameter(mg.ones(3))

    def inner(self, x: Tensor) -> Tensor:
        return x * LEVEL * self.settings.scale * self.factor

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) * self.w


def test_whatever_its_code_names_is_watched() -> None:
    x, settings, model = mg.ones(3), Settings(), Configured()
    table: dict[float, int] = {2.0: 1, 5.0: 1}
    first, second, chosen = [1.0], [2.0, 3.0], {2.0}

    def level(i: int) -> None:
        global LEVEL
        LEVEL = float(i // 3 + 1)

    @mg.no_grad()
    def decorated(x: Tensor) -> Tensor:
        return helped(x)

    def with_default(x: Tensor, c: float = 2.0) -> Tensor:
        return x * c

    def keys(i: int) -> None:
        if i == 3:
            del table[2.0]
            table[3.0] = 1

    def moved(i: int) -> None:
        if i == 3:
            first.insert(0, second.pop())

    calls: list[tuple[Any, ...]] = [(x,)] * 10
    served = [
        agrees(settings, calls, [], lambda i: setattr(settings, "scale", 1.0 + i // 3)),
        agrees(settings, calls, [], lambda i: setattr(Settings, "rate", 1.0 + i // 3)),
        agrees(settings, calls, [], level),
        agrees(model, calls, [model.w], level),
        agrees(model, calls, [model.w], lambda i: setattr(model.settings, "scale", 1.0 + i // 3)),
        agrees(model, calls, [model.w], lambda i: setattr(Configured, "factor", 1.0 + i // 3)),
        agrees(functools.partial(helped), calls, [], level),
        agrees(decorated, calls, [], level),
        agrees(with_default, calls, [], lambda i: setattr(with_default, "__defaults__", (1.0 + i // 3,))),
        agrees(lambda x: x * next(iter(table)), calls, [], keys),
        agrees(lambda x: x * first[0] - x * sum(second), calls, [], moved),
        agrees(lambda x: x * sum(chosen), calls, [], lambda i: chosen.add(float(i // 3))),
        agrees(lambda x: settings(x), calls, [], lambda i: setattr(settings, "seen", i)),  # no code names it
    ]
    assert not any(g._why for g in served)


def test_what_a_recording_put_somewhere_is_taken_out_again() -> None:
    class Running(nn.Module):
        def __init__(self, in_place: bool) -> None:
            self.run, self.in_place = mg.ones(3), in_place

        def forward(self, x: Tensor) -> Tensor:
            if self.in_place:
                self.run *= 0.5
            else:
                self.run = self.run * 0.5
            return x * self.run

    for in_place in (True, False):
        model, plain = Running(in_place), Running(in_place)
        played = mg.compile(model)
        with pytest.warns(UserWarning, match="it changes"):
            got = [played(mg.ones(3)).tolist() for _ in range(5)]
        assert got == [plain(mg.ones(3)).tolist() for _ in range(5)]
        assert model(mg.ones(3)).tolist() == plain(mg.ones(3)).tolist()
    seen: list[Tensor] = []
    keeping = mg.compile(lambda x: [seen.append(x * 2), x * 3][1])
    with pytest.warns(UserWarning, match="it changes a variable, an attribute, a list or a dict"):
        got = [keeping(mg.ones(1)).item() for _ in range(4)]
    assert got == [3.0] * 4
    assert [y.item() for y in seen] == [2.0] * 4
    twice = mg.compile(lambda x: x.__imul__(2.0))
    inputs = [mg.ones(3) for _ in range(4)]
    with pytest.warns(UserWarning, match="it changes the data of an argument"), mg.no_grad():
        list(map(twice, inputs[:2]))
    with mg.no_grad():
        list(map(twice, inputs[2:]))
    assert [x.tolist() for x in inputs] == [[2.0] * 3] * 4


TURN = 0


def test_variables_that_are_set_inside() -> None:
    turn, w = 0, leaf(3)

    def f(x: Tensor) -> Tensor:
        global TURN
        nonlocal turn
        TURN += 1
        turn += 1
        return (x * w).sum() * (TURN + turn)

    g = mg.compile(f)
    with pytest.warns(UserWarning, match="it changes a variable"):
        got = [bits(g(mg.ones(3))) for _ in range(5)]
    assert got == [bits((mg.ones(3) * w).sum() * (2 * i)) for i in range(1, 6)]
    assert (TURN, turn) == (5, 5)


class Slotted:
    __slots__ = ("_scale",)

    @property
    def scale(self) -> float:
        return self._scale


def test_slots_properties_and_queues() -> None:
    slotted, items, calls = Slotted(), collections.deque([1.0]), [(mg.ones(3),)] * 12

    def scale(i: int) -> None:
        if i % 4 == 0:
            slotted._scale = 1.0 + i

    def item(i: int) -> None:
        if i % 4 == 0:
            items[0] = 1.0 + i

    for f, change in ((lambda x: x * slotted.scale, scale), (lambda x: x * items[0], item)):
        g = agrees(f, calls, [], change)
        assert not g._why
        assert "multiply" in repr(g)


def test_other_steps_of_an_optimizer_change_nothing() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model, self.seen, self.losses = nn.Linear(3, 1), 0, list[float]()
            self.optimizer = mg.optim.Adam(self.model.parameters())

        def loss(self, x: Tensor) -> Tensor:
            times(count)
            return self.model(x).relu().sum()

    trainer, count = Trainer(), Count()
    loss = mg.compile(trainer.loss)
    for _ in range(10):
        trainer.optimizer.zero_grad()
        y = loss(mg.randn(2, 3))
        y.backward()
        trainer.losses.append(y.item())
        trainer.optimizer.step()
        trainer.seen += 1
    assert count.runs == 3


def test_text_and_other_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Tensor, dtype: Any, dim: tuple[int, ...]) -> Tensor:
        print(x)
        return x.to(dtype).sum(dim)

    g = mg.compile(f)
    for dtype in (mg.float64, mg.float32) * 3:
        for dim in ((0,), (0, 1)):
            x = mg.randn(2, 3)
            assert bits(g(x, dtype, dim=dim)) == bits(x.to(dtype).sum(dim))
    assert capsys.readouterr().out.count("tensor([[") == 4 * 3
    assert not g._why


def swallowing(x: Tensor) -> Tensor:
    try:
        scale = float(x.detach().numpy().astype(np.float64).tolist()[0])
    except Exception:
        scale = 100.0
    return x * scale


def restoring(x: Tensor) -> Tensor:
    state = mg.get_rng_state()
    y = x * mg.rand(3)
    mg.set_rng_state(state)
    return y


def drawing(x: Tensor) -> Tensor:
    return mg.tensor(x.numpy()) * mg.rand(3)


@pytest.mark.parametrize(
    ("f", "why"),
    [(swallowing, "several results"), (restoring, "state of the random generator"), (drawing, "leave as a NumPy array")],
)
def test_errors_that_are_swallowed_and_random_numbers_of_what_cannot_be_recorded(f: Any, why: str) -> None:
    played, numbers = mg.compile(f), []
    for run in (f, played):
        mg.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            numbers.append([bits(run(mg.full((3,), float(i)))) for i in range(6)])
    assert numbers[0] == numbers[1]
    assert why in played._why


def test_random_numbers_of_a_call_that_fails_or_takes_another_way() -> None:
    drop, table = nn.Dropout(0.5), leaf(4, 3)

    def f(x: Tensor, ids: Tensor) -> Tensor:
        y = drop(x)
        return F.embedding(ids, table) * y if x.sum() > 0 else y

    numbers = []
    for run in (f, mg.compile(f)):
        mg.manual_seed(0)
        numbers.append([])
        for i in range(30):
            try:
                numbers[-1].append(bits(run(mg.ones(3) * (-1.0 if i % 7 == 5 else 1.0), mg.tensor([9 if i % 7 == 3 else 2]))))
            except IndexError:
                numbers[-1].append("wrong id")
    assert numbers[0] == numbers[1]
    assert "wrong id" in numbers[0]


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (lambda x: (np.clip(x * 1, -1, 1, y := x * 1), lambda g: g + y * 0)[0:2], "clip writes into one of its arguments"),
        (lambda x: (lambda y: (np.nan_to_num(y, copy=False), lambda g: g))(x / x), "nan_to_num writes into one of its arguments"),
        (lambda x: (np.add(x, 1, np.empty(3, np.float32)), lambda g: g), "add writes into an array that isn't traced"),
        (lambda x: (np.full_like(x, x.max()), lambda g: g), ""),
        (lambda x: (np.full_like(x, [1.0, 2.0, 3.0]) * x, lambda g: g), ""),
        (lambda x: (x * (1.0 if isinstance(x, np.ndarray) else 2.0), lambda g: g), "it gave other numbers"),
        (lambda x: (x * 1, lambda g: g * float((g * g).sum())), "a gradient function looks at numbers"),
        (lambda x: ((np.ones_like(x) + np.zeros_like(x)) * x, lambda g: g), ""),
        (lambda x: (np.maximum(np.minimum(x, 1), 0), lambda g: g), ""),
        (lambda x: (np.ones(3) / x[0].item(), lambda g: g) if x[0].item() == 0 else (x * 1, lambda g: g), ""),
    ],
    ids=[
        "clip-out",
        "nan_to_num",
        "untraced-out",
        "full_like",
        "full_like-list",
        "isinstance",
        "looking-backwards",
        "ones_like",
        "maximum",
        "signed-zero",
    ],
)
def test_ops_of_ones_own(op: Any, why: str) -> None:
    x = leaf(3)
    inputs = itertools.cycle([[0.5, 2.0, -3.0], [0.0, 1.0, 5.0], [-0.0, 1.0, 4.0], [7.0, 0.25, 1.0]])
    with np.errstate(all="ignore"):
        g = agrees(lambda: mg.apply(op, x * 1.0), [()] * 24, [x], lambda i: setattr(x, "data", np.array(next(inputs), np.float32)))
    assert why in g._why
    assert bool(why) == bool(g._why)


def test_the_same_tensor_twice_and_other_layouts() -> None:
    w, v = leaf(3, 3), leaf(3, 3)
    calls = [(w, w), (w, v), (v, v), (v, w)] * 4
    agrees(lambda a, b: a * 2 if a is b else a * b, calls, [w, v])
    agrees(lambda a, b: (a @ b).sum(), calls, [w, v])
    a = mg.randn(37, 41)
    layouts = [a, a.T.contiguous().T, a.T, mg.randn(37, 1).expand(37, 41)]
    for f in (lambda x: x.sum(), lambda x: x.mean(1), lambda x: x.std(), lambda x: x.logsumexp(0)):
        agrees(f, [(x,) for x in layouts] * 4, [])


def test_compiled_modules_in_modules() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            self.block, self.head = mg.compile(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))), nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.block(x))

    model = Outer()
    assert [name for name, _ in model.named_parameters()] == ["block.0.weight", "block.0.bias", "head.weight", "head.bias"]
    model.eval()
    agrees(model, [(mg.randn(2, 3),) for _ in range(6)], [*model.parameters()])
    assert [m.training for m in model.modules()] == [False] * 5
    inner = mg.compile(model.head)
    outer = mg.compile(lambda x: inner(x).sum())
    for i in range(80):
        if i % 40 == 20:
            model.head.bias = None if i == 20 else nn.Parameter(mg.ones(1))
        x = mg.randn(2, 3)
        assert bits(model.head(x).sum()) == bits(outer(x)) == bits(inner(x).sum())
    assert not outer._why
    inner.bias = None
    assert model.head.bias is None


def test_a_frozen_table() -> None:
    table, w = mg.randn(5, 3), leaf(3)
    g = agrees(lambda ids: F.embedding(ids, table) * w, [(mg.randint(0, 5, (4,)),) for _ in range(6)], [w])
    assert not g._why
