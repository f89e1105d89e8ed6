"""layers.Module: what it finds, what it saves and loads, and how it is switched, copied and shown."""

import copy
import operator
import pickle
import warnings
from collections import OrderedDict

import numpy as np
import pytest

import layers as nn
import minigrad
from minigrad.optim import SGD


class Block(nn.Module):
    """A weight and a buffer of its own, and two layers; without super().__init__(), which isn't needed."""

    def __init__(self):
        self.first = nn.Linear(2, 3)
        self.scale = nn.Parameter(minigrad.ones(3))
        self.register_buffer("shift", minigrad.full((3,), 5.0))
        self.last = nn.Linear(3, 2, bias=False)

    def forward(self, x):
        return self.last(self.first(x) * self.scale + self.shift)


class Tied(nn.Module):
    """One weight in two places, as embedding and as output layer."""

    def __init__(self):
        self.tokens = nn.Embedding(7, 3)
        self.head = nn.Linear(3, 7, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        return self.head(self.tokens(ids))


def holding(**parts):
    """A module with these attributes."""
    module = nn.Module()
    vars(module).update(parts)
    return module


def names(module):
    return [name for name, _ in module.named_parameters()]


def line():
    return nn.Linear(2, 2, bias=False)


# Finding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.Linear(2, 3), ["weight", "bias"]),
        (nn.Linear(2, 3, bias=False), ["weight"]),
        (Block(), ["scale", "first.weight", "first.bias", "last.weight"]),
        (holding(inner=holding(deep=holding(p=nn.Parameter([1.0])))), ["inner.deep.p"]),
        (holding(blocks=[line(), line()]), ["blocks.0.weight", "blocks.1.weight"]),
        (holding(pair=(line(), nn.Parameter([1.0]))), ["pair.1", "pair.0.weight"]),
        (holding(by_name={"a": line(), "b": [nn.Parameter([1.0])]}), ["by_name.b.0", "by_name.a.weight"]),
        (holding(blocks=nn.ModuleList([line(), line()])), ["blocks.0.weight", "blocks.1.weight"]),
        (holding(parts=nn.ModuleDict({"q": line(), "k": line()})), ["parts.q.weight", "parts.k.weight"]),
        (nn.Sequential(line(), nn.ReLU(), nn.Sequential(line())), ["0.weight", "2.0.weight"]),
        (holding(mask=minigrad.ones(2), count=3, name="x", nothing=None), []),
    ],
)
def test_parameters_are_found_and_named_by_their_path(module, expected):
    assert names(module) == expected
    assert [id(p) for p in module.parameters()] == [id(p) for _, p in module.named_parameters()]
    assert all(type(p) is nn.Parameter for p in module.parameters())


@pytest.mark.parametrize("kind", [nn.Sequential, nn.ModuleList, nn.ModuleDict])
def test_a_container_may_own_parameters_too(kind):
    class Scaled(kind):
        def __init__(self):
            super().__init__({"0": line()} if kind is nn.ModuleDict else [line()])
            self.scale = nn.Parameter([1.0])

    assert sorted(names(Scaled())) == ["0.weight", "scale"]
    assert sorted(Scaled().state_dict()) == ["0.weight", "scale"]


def test_what_is_assigned_later_is_found_and_what_is_deleted_is_not():
    block = Block()
    block.last = nn.Linear(3, 5)
    assert names(block) == ["scale", "first.weight", "first.bias", "last.weight", "last.bias"]
    del block.first
    assert names(block) == ["scale", "last.weight", "last.bias"]


def test_modules_and_children():
    model = holding(blocks=[Block()], head=line())
    assert [(name, type(m).__name__) for name, m in model.named_modules()] == [
        ("", "Module"),
        ("blocks.0", "Block"),
        ("blocks.0.first", "Linear"),
        ("blocks.0.last", "Linear"),
        ("head", "Linear"),
    ]
    assert list(model.modules()) == [m for _, m in model.named_modules()]
    assert list(model.named_children()) == [("blocks.0", model.blocks[0]), ("head", model.head)]
    assert list(model.children()) == [model.blocks[0], model.head]


def test_a_shared_module_is_listed_once():
    shared = line()
    model = holding(blocks=nn.ModuleList([nn.Linear(2, 2) for _ in range(3)]), head=shared, again=shared)
    assert len(list(model.parameters())) == 3 * 2 + 1
    assert sum(m is shared for m in model.modules()) == 1


def test_a_module_that_knows_its_parent_is_no_endless_loop():
    parent, child = nn.Module(), line()
    parent.child, child.parent = child, parent
    assert names(parent) == ["child.weight"]
    assert len(list(child.modules())) == 2


def test_a_tied_weight_is_one_parameter_with_the_gradients_of_both_uses():
    model = Tied()
    assert names(model) == ["tokens.weight"]
    weight = model.tokens.weight
    assert minigrad.gradcheck(lambda w: model(minigrad.tensor([2, 0, 2])), [model.double().tokens.weight])
    assert model.head.weight is weight
    weight.data = np.eye(7, 3)
    model(minigrad.tensor([1])).sum().backward()  # sum over j of E_1 . E_j: each E_j gets E_1, and E_1 also the sum of all
    assert weight.grad.tolist() == [[1.0, 2.0, 1.0] if j == 1 else [0.0, 1.0, 0.0] for j in range(7)]


def test_a_plain_tensor_that_requires_a_gradient_warns():
    model = holding(w=minigrad.ones(2, requires_grad=True), inner=holding(v=[minigrad.ones(2, requires_grad=True)]))
    with pytest.warns(UserWarning, match="plain Tensor") as caught:
        assert list(model.parameters()) == []
    assert [str(w.message).split()[0] for w in caught] == ["w", "inner.v.0"]
    assert "Parameter(" in str(caught[0].message)
    model = holding(w=minigrad.ones(2), y=nn.Parameter([1.0]) * 2)  # a constant; something computed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(model.parameters()) == []


def test_parameter():
    array = np.array([1.0, 2.0])
    p = nn.Parameter(array)
    array[0] = 9.0
    assert p.tolist() == [1.0, 2.0]
    assert (p.requires_grad, p.is_leaf, p.dtype) == (True, True, minigrad.float64)
    computed = nn.Parameter(p * 2)
    assert computed.is_leaf
    assert nn.Parameter([1.0]).dtype == minigrad.float32
    assert not nn.Parameter([1.0], requires_grad=False).requires_grad
    assert repr(nn.Parameter([1.0])) == "Parameter containing:\ntensor([1.], requires_grad=True)"
    assert type(p * 2) is type(p.detach()) is minigrad.Tensor
    with pytest.raises(TypeError, match=r"int64.*float"):
        nn.Parameter([1, 2])


# Saving and loading -------------------------------------------------------------------------------------------


def test_state_dict_holds_parameters_and_persistent_buffers():
    block = Block()
    block.register_buffer("cache", minigrad.zeros(2), persistent=False)
    block.register_buffer("later", None)
    block.constant = minigrad.zeros(2)
    state = block.state_dict()
    assert sorted(state) == ["first.bias", "first.weight", "last.weight", "scale", "shift"]
    assert not any(t.requires_grad or isinstance(t, nn.Parameter) for t in state.values())
    block.later = minigrad.ones(2)
    assert "later" in block.state_dict()
    assert names(block) == ["scale", "first.weight", "first.bias", "last.weight"]


def test_state_dict_is_a_snapshot():
    model = nn.Linear(2, 3)
    state, before = model.state_dict(), {name: p.tolist() for name, p in model.named_parameters()}
    optimizer = SGD(model.parameters(), lr=0.5)
    model(minigrad.ones(5, 2)).sum().backward()
    optimizer.step()
    with minigrad.no_grad():
        model.bias -= 1.0
    nn.init.zeros_(model.weight)
    assert {name: t.tolist() for name, t in state.items()} == before
    model.load_state_dict(state)
    assert {name: p.tolist() for name, p in model.named_parameters()} == before
    with minigrad.no_grad():
        model.weight += 1.0  # what was loaded isn't shared either
    assert state["weight"].tolist() == before["weight"]


@pytest.mark.parametrize(
    "given", [lambda m: m.state_dict(), lambda m: dict(m.named_parameters()), lambda m: {n: p.data for n, p in m.named_parameters()}]
)
def test_load_takes_tensors_parameters_and_arrays(given):
    source, target = nn.Linear(2, 3), nn.Linear(2, 3)
    weight = target.weight
    assert target.load_state_dict(given(source)) == ([], [])
    assert target.weight is weight  # the optimizer holds it
    assert weight.requires_grad
    assert weight.tolist() == source.weight.tolist()


def test_load_copies():
    source, target = nn.Linear(2, 3), nn.Linear(2, 3)
    target.load_state_dict(source.state_dict())
    before = source.weight.tolist()
    target.weight.data -= np.float32(1)  # NumPy's -= writes into the array
    assert source.weight.tolist() == before


def test_load_keeps_the_dtype_of_the_module():
    target = nn.Linear(2, 3).double()
    target.load_state_dict(nn.Linear(2, 3).state_dict())
    assert {p.dtype for p in target.parameters()} == {minigrad.float64}


def test_load_fills_buffers():
    target = Block()
    target.load_state_dict({**Block().state_dict(), "shift": minigrad.tensor([1.0, 2.0, 3.0])})
    assert target.shift.tolist() == [1.0, 2.0, 3.0]


WRONG = {
    "scale": minigrad.zeros(5),
    "first.bias": minigrad.zeros(3),
    "last.weight": minigrad.zeros(3, 2),
    "frist.weight": minigrad.zeros(3, 2),
}
MISSHAPEN = ["scale is (5,), here (3,)", "last.weight is (3, 2), here (2, 3)"]


@pytest.mark.parametrize(
    ("strict", "words", "silent"),
    [
        (True, ["Block", *MISSHAPEN, "missing: first.weight, shift", "unexpected: frist.weight"], []),
        (False, MISSHAPEN, ["missing", "frist.weight"]),
    ],
)
def test_load_lists_every_problem_at_once_and_then_changes_nothing(strict, words, silent):
    block = Block()
    before = {name: t.tolist() for name, t in block.state_dict().items()}
    with pytest.raises(ValueError, match="Nothing was loaded") as error:
        block.load_state_dict(WRONG, strict=strict)
    assert [word for word in words if word not in str(error.value)] == []
    assert [word for word in silent if word in str(error.value)] == []
    assert {name: t.tolist() for name, t in block.state_dict().items()} == before


@pytest.mark.parametrize(("state", "word"), [({"weight": np.ones((3, 2))}, "missing: bias"), ({"x": np.ones(1)}, "unexpected: x")])
def test_strict_refuses_a_missing_or_an_unexpected_name_alone(state, word):
    model = nn.Linear(2, 3)
    state = state if "weight" in state else {**model.state_dict(), **state}
    with pytest.raises(ValueError, match=word):
        model.load_state_dict(state)


def test_not_strict_loads_what_fits_and_tells_the_rest():
    model = nn.Linear(2, 3)
    bias = model.bias.tolist()
    keys = model.load_state_dict({"weight": np.full((3, 2), 7.0), "head": np.ones(1)}, strict=False)
    assert keys.missing_keys == ["bias"]
    assert keys.unexpected_keys == ["head"]
    assert model.weight.tolist() == [[7.0, 7.0]] * 3
    assert model.bias.tolist() == bias


def test_tied_weights_are_saved_under_both_names_and_stay_tied():
    source, target = Tied(), Tied()
    assert sorted(source.state_dict()) == ["head.weight", "tokens.weight"]
    target.load_state_dict(source.state_dict())
    assert target.head.weight is target.tokens.weight
    assert target.head.weight.tolist() == source.head.weight.tolist()


def same_model(torch, nn):
    """One model, written once, for both libraries."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(3)
            self.proj = nn.Linear(3, 3, bias=False)
            self.scale = nn.Parameter(torch.ones(3))
            self.register_buffer("mask", torch.ones(2, 2))
            self.register_buffer("cache", torch.ones(2), persistent=False)
            self.plain = torch.ones(2)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(7, 3)
            self.layers = nn.ModuleList([Layer(), Layer()])
            self.heads = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Linear(5, 7))})
            self.rms = nn.RMSNorm(3)
            self.out = nn.Linear(3, 7, bias=False)
            self.out.weight = self.tokens.weight

    return Model()


def test_state_dict_keys_are_those_of_pytorch(torch):
    ours, theirs = same_model(minigrad, nn), same_model(torch, torch.nn)
    shapes = {name: tuple(t.shape) for name, t in theirs.state_dict().items()}
    assert {name: t.shape for name, t in ours.state_dict().items()} == shapes
    assert sorted(names(ours)) == sorted(name for name, _ in theirs.named_parameters())
    assert [name for name, _ in ours.named_modules()] == [name for name, _ in theirs.named_modules()]
    ours.load_state_dict({name: t.numpy() for name, t in theirs.state_dict().items()})
    theirs.load_state_dict({name: torch.tensor(t.numpy()) for name, t in ours.state_dict().items()})


# Everything at once -------------------------------------------------------------------------------------------


def test_train_and_eval_reach_every_module():
    model = holding(blocks=[nn.Dropout(), {"x": nn.Dropout()}], seq=nn.Sequential(nn.Sequential(nn.Dropout())))
    assert all(m.training for m in model.modules())
    assert model.eval() is model
    assert len([m for m in model.modules() if not m.training]) == 6
    assert model.seq.train() is model.seq
    assert [m.training for m in model.modules()] == [False, False, False, True, True, True]
    model.train(False)
    assert not any(m.training for m in model.modules())


def test_zero_grad():
    model = Block()
    model(minigrad.ones(5, 2)).sum().backward()
    model.zero_grad(set_to_none=False)
    assert all((p.grad.data == 0).all() for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    model.zero_grad(set_to_none=False)
    assert all(p.grad is None for p in model.parameters())


def test_requires_grad_freezes():
    model = nn.Sequential(Block(), line())
    assert model[0].requires_grad_(False) is model[0]
    model(minigrad.ones(5, 2)).sum().backward()
    assert [p.grad is None for p in model.parameters()] == [True] * 4 + [False]
    model.requires_grad_()
    model(minigrad.ones(5, 2)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_apply_visits_the_parts_before_the_whole():
    seen = []
    shared = nn.GELU()
    model = nn.Sequential(line(), nn.Sequential(nn.ReLU(), nn.Tanh()), shared, shared)
    assert model.apply(lambda m: seen.append(type(m).__name__)) is model
    assert seen == ["Linear", "ReLU", "Tanh", "Sequential", "GELU", "Sequential"]
    model.apply(lambda m: nn.init.ones_(m.weight) if isinstance(m, nn.Linear) else None)
    assert model[0].weight.tolist() == [[1.0, 1.0]] * 2


@pytest.mark.parametrize(
    "convert", [lambda m: m.double(), lambda m: m.to(minigrad.float64), lambda m: m.to("float64"), lambda m: m.to(dtype=minigrad.float64)]
)
def test_conversion_reaches_parameters_gradients_and_float_buffers(convert):
    model = holding(block=Block())
    model.block.register_buffer("steps", minigrad.tensor([1, 2]))
    model.block(minigrad.ones(5, 2)).sum().backward()
    weight = model.block.scale
    assert convert(model) is model
    assert model.block.scale is weight
    assert {p.dtype for p in model.parameters()} == {p.grad.dtype for p in model.parameters()} == {minigrad.float64}
    assert (model.block.shift.dtype, model.block.steps.dtype) == (minigrad.float64, minigrad.int64)
    assert model.block(minigrad.ones(5, 2).double()).dtype == minigrad.float64
    assert {p.dtype for p in model.float().parameters()} == {minigrad.float32}


def test_there_is_one_device():
    model = Block()
    before = model.scale.data
    assert model.to("cpu") is model.cpu() is model.to(device="cpu") is model
    assert model.scale.data is before
    with pytest.raises(RuntimeError, match=r"cuda.*CPU"):
        model.to("cuda")


# Containers ---------------------------------------------------------------------------------------------------


def test_module_list():
    a, b, c, d = line(), nn.ReLU(), nn.Tanh(), line()
    items = nn.ModuleList([a])
    assert items.append(b) is items
    assert items.extend([c]) is items
    same = items
    items += [d]
    items.insert(1, line()).insert(-1, line())
    assert items is same
    assert [name for name, _ in items.named_children()] == list("012345")
    assert (list(items)[::2], items[-1]) == ([a, b, items[4]], d)
    items = nn.ModuleList([a, b, c])
    assert (len(items), list(items), items[-1]) == (3, [a, b, c], c)
    assert isinstance(items[1:], nn.ModuleList)
    assert list(items[1:]) == [b, c]
    items[2] = d
    assert names(items) == ["0.weight", "2.weight"]
    with pytest.raises(IndexError):
        items[3]
    with pytest.raises(NotImplementedError, match="ModuleList has no forward"):
        items(minigrad.ones(2))


@pytest.mark.parametrize(
    "put",
    [
        lambda: nn.ModuleList([np.tanh]),
        lambda: nn.ModuleList().append(np.tanh),
        lambda: nn.ModuleList([nn.ReLU()]).__setitem__(0, np.tanh),
        lambda: nn.Sequential(nn.ReLU(), np.tanh),
        lambda: nn.ModuleDict({"f": np.tanh}),
    ],
)
def test_containers_hold_modules_only(put):
    with pytest.raises(TypeError, match=r"(ModuleList|Sequential|ModuleDict) holds modules, got ufunc"):
        put()


def test_sequential():
    double, add = nn.Linear(1, 1, bias=False), nn.Linear(1, 1)
    nn.init.constant_(double.weight, 2.0)
    nn.init.constant_(add.weight, 1.0)
    nn.init.constant_(add.bias, 3.0)
    x = minigrad.tensor([[5.0]])
    assert nn.Sequential(double, add)(x).item() == 13.0
    assert nn.Sequential(add, double)(x).item() == 16.0
    assert nn.Sequential([double, add])(x).item() == 13.0
    assert nn.Sequential(double).append(add)(x).item() == 13.0
    assert nn.Sequential(double, add)[:1](x).item() == 10.0
    assert nn.Sequential()(x) is x


def test_sequential_with_names():
    model = nn.Sequential(OrderedDict([("fc", line()), ("act", nn.ReLU()), ("out", line())]))
    assert (names(model), list(model.state_dict())) == (["fc.weight", "out.weight"],) * 2
    assert (model.fc, model.act, model.out) == tuple(model) == (model[0], model[1], model[-1])
    assert repr(model).splitlines()[2] == "  (act): ReLU()"
    new = line()
    model.fc = new
    assert (model[0], names(model), len(model)) == (new, ["fc.weight", "out.weight"], 3)
    model[2] = nn.Tanh()
    assert model.out is model[2]
    assert model(minigrad.ones(5, 2)).tolist() == model.out(model.act(new(minigrad.ones(5, 2)))).tolist()
    other = pickle.loads(pickle.dumps(copy.deepcopy(model)))
    assert [name for name, _ in other.named_children()] == ["fc", "act", "out"]
    with pytest.raises(TypeError, match=r"Sequential holds modules, got type.*write Linear\(\.\.\.\)"):
        nn.Sequential({"fc": nn.Linear})


@pytest.mark.parametrize(
    "build",
    [
        lambda n: n.Sequential(OrderedDict([("fc", n.ReLU()), ("act", n.Tanh()), ("out", n.GELU())])),
        lambda n: n.Sequential(OrderedDict([("fc", n.ReLU()), ("act", n.Tanh()), ("out", n.GELU())]))[1:],
        lambda n: n.Sequential(OrderedDict([("fc", n.ReLU()), ("act", n.Tanh())])).append(n.GELU()),
        lambda n: n.Sequential(OrderedDict([("fc", n.ReLU())])),
        lambda n: n.Sequential(n.ReLU(), n.Tanh(), n.GELU())[1:],
        lambda n: n.Sequential(n.ReLU(), n.Tanh(), n.GELU())[::2],
        lambda n: n.Sequential(n.ReLU(), n.Tanh())[:0],
        lambda n: n.Sequential(n.ReLU(), n.Tanh(), n.GELU())[:-1].append(n.Sigmoid()),
        lambda n: n.Sequential(n.ReLU()).extend([n.Tanh(), n.GELU()]),
        lambda n: n.Sequential(n.ReLU(), n.Tanh()).insert(1, n.GELU()),
        lambda n: n.ModuleList([n.ReLU(), n.Tanh(), n.GELU()])[1:],
        lambda n: operator.iadd(n.ModuleList([n.ReLU()]), [n.Tanh(), n.GELU()]),
    ],
)
def test_containers_name_their_modules_as_pytorch_does(torch, build):
    ours, theirs = build(nn), build(torch.nn)
    assert type(ours).__name__ == type(theirs).__name__
    assert [(n, type(m).__name__) for n, m in ours.named_children()] == [(n, type(m).__name__) for n, m in theirs.named_children()]


def test_names_stay_in_a_part_of_a_sequential_and_beside_what_is_put_in():
    model = nn.Sequential({"fc": line(), "act": nn.ReLU(), "out": line()})
    assert [name for name, _ in model[1:].named_children()] == ["act", "out"]
    assert names(model.insert(0, line()).append(line())) == ["0.weight", "fc.weight", "out.weight", "4.weight"]


def test_a_part_of_a_sequential_that_grows_keeps_all_it_has():
    a, b, c = line(), nn.ReLU(), nn.Tanh()
    assert list(nn.Sequential(line(), a, b)[1:].append(c)) == [a, b, c]  # PyTorch would put c in the place of b: both are called 2


def test_module_dict():
    a, b = line(), nn.ReLU()
    parts = nn.ModuleDict({"a": a})
    parts["b"] = b
    assert (list(parts), list(parts.keys()), list(parts.values()), list(parts.items())) == (
        ["a", "b"],
        ["a", "b"],
        [a, b],
        [("a", a), ("b", b)],
    )
    assert (len(parts), parts["b"], "a" in parts, "c" in parts) == (2, b, True, False)
    assert list(nn.ModuleDict()) == []
    with pytest.raises(KeyError):
        parts["c"]
    assert parts != nn.ModuleDict({"a": a, "b": b})
    assert parts in {parts}


# Showing, copying, misusing -----------------------------------------------------------------------------------


def test_repr():
    model = holding(
        tokens=nn.Embedding(7, 6, padding_idx=2),
        blocks=nn.ModuleList([nn.Sequential(nn.LayerNorm(6), nn.MultiHeadAttention(6, 2))]),
        heads={"a": nn.Linear(6, 3, bias=False)},
        drop=nn.Dropout(0.1),
    )
    assert repr(model) == (
        """Module(
  (tokens): Embedding(7, 6, padding_idx=2)
  (blocks): ModuleList(
    (0): Sequential(
      (0): LayerNorm(6, eps=1e-05)
      (1): MultiHeadAttention(
        d_model=6, num_heads=2, causal=True
        (W_q): Linear(in_features=6, out_features=6, bias=False)
        (W_k): Linear(in_features=6, out_features=6, bias=False)
        (W_v): Linear(in_features=6, out_features=6, bias=False)
        (W_o): Linear(in_features=6, out_features=6, bias=False)
      )
    )
  )
  (heads.a): Linear(in_features=6, out_features=3, bias=False)
  (drop): Dropout(p=0.1)
)"""
    )


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_is_equal_tied_alike_and_independent(duplicate):
    model = Tied().eval()
    other = duplicate(model)
    ids = minigrad.tensor([1, 5])
    assert other(ids).tolist() == model(ids).tolist()
    assert other.head.weight is other.tokens.weight
    assert type(other.head.weight) is nn.Parameter
    assert other.head.weight.requires_grad
    assert not other.head.training
    assert {id(m) for m in other.modules()}.isdisjoint({id(m) for m in model.modules()})
    before = model.tokens.weight.tolist()
    other(ids).sum().backward()
    SGD(other.parameters(), lr=1.0).step()
    assert model.tokens.weight.tolist() == before
    assert model.tokens.weight.grad is None
    assert other.tokens.weight.tolist() != before


def test_a_misspelt_attribute_names_the_nearest():
    with pytest.raises(AttributeError, match=r"Linear has no attribute 'wieght'; did you mean 'weight'\?"):
        nn.Linear(2, 3).wieght  # noqa: B018
    with pytest.raises(AttributeError, match=r"did you mean 'named_parameters'\?"):
        nn.Linear(2, 3).named_paramters()
    with pytest.raises(AttributeError, match=r"'zzz'$"):
        nn.Linear(2, 3).zzz  # noqa: B018
    assert not hasattr(nn.Linear(2, 3), "wieght")


def test_a_module_without_forward_says_so():
    class Half(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match=r"Half has no forward\(\)"):
        Half()(1)


def test_super_init_may_be_called_and_forward_gets_every_argument():
    class Scaled(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = nn.Parameter([factor])

        def forward(self, x, *more, power=1):
            return (x * self.factor) ** power + sum(more)

    model = Scaled(3.0)
    assert names(model) == ["factor"]
    assert model(minigrad.tensor([2.0]), 5.0, 7.0, power=2).tolist() == [48.0]


def test_a_plain_tensor_cannot_take_the_place_of_a_parameter():
    layer = line()
    with pytest.raises(TypeError, match=r"weight is a Parameter.*Parameter\(\.\.\.\)"):
        layer.weight = minigrad.zeros(1, 1)
    assert isinstance(layer.weight, nn.Parameter)
    layer.weight = nn.Parameter(minigrad.zeros(1, 1))
    layer.bias = None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]


def test_an_error_inside_a_property_is_told_as_such():
    class Broken(nn.Module):
        @property
        def size(self):
            return self.nothing

    with pytest.raises(AttributeError, match=r"Broken.size failed inside"):
        _ = Broken().size
