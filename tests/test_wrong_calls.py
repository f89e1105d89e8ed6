"""The catalogue of wrong calls: what a learner types by mistake, and the words that must come back.

Each row of the table is (call, exception, words the message must hold). Every public name has at least one. A message is one
sentence or two that say what was wrong, with the numbers, shapes, dtypes or names, and what to write instead; it comes from
minigrad or layers, never out of the inside of NumPy; and afterwards nothing has changed.
"""

import copy
import inspect
import math
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import layers as nn
import layers.functional as F
import minigrad as mg
from layers import init, sampling, utils
from minigrad import Tensor, no_grad, ones, optim, tensor, zeros

inf, nan = math.inf, math.nan


class Foreign:
    """What minigrad takes for a tensor of PyTorch, also where PyTorch isn't installed."""


Foreign.__module__, Foreign.__name__ = "torch", "Tensor"
FOREIGN = Foreign()


def leaf(*size: int) -> Tensor:
    return ones(*size, requires_grad=True)


def with_grad(*size: int) -> Tensor:
    p = leaf(*size)
    p.grad = ones(*size)
    return p


def used_up() -> Iterator[Tensor]:
    steps = iter([leaf(2)])
    next(steps)
    return steps


def assign(x: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(x, name, value)


def put(x: Any, index: Any, value: Any) -> Callable[[], None]:
    return lambda: x.__setitem__(index, value)


def stepped(kind: type[optim.Optimizer], p: Tensor, **options: Any) -> optim.Optimizer:
    optimizer = kind([p], **options)
    optimizer.step()
    return optimizer


ADAM = {"step": 1, "mean": zeros(2), "root": zeros(2)}


def remembering(state: dict[str, Any]) -> dict[str, Any]:
    return {**optim.Adam([leaf(2)]).state_dict(), "state": {"0": state}}


def scheduled(lr: Any) -> optim.Optimizer:
    optimizer = optim.SGD([with_grad(2)], lr=0.1)
    optimizer.param_groups[0]["lr"] = lr
    return optimizer


def under_no_grad() -> Tensor:
    with no_grad():
        return (leaf(2) * 2).sum()


def twice() -> None:
    loss = (leaf(2) * 2).sum()
    loss.backward()
    loss.backward()


def grown() -> optim.Optimizer:
    optimizer = optim.SGD([with_grad(2)], lr=0.1)
    optimizer.param_groups[0]["params"][0].data = np.ones(3, np.float32)
    return optimizer


class NoForward(nn.Module):
    def foward(self, x: Tensor) -> Tensor:
        return x


LOWER = mg.tril(ones(3, 3)).bool()  # True on and below the diagonal: "may attend", or what hides all but the future
QKV = ones(3, 4), ones(3, 4), ones(3, 4)
BOTH_WAYS = ("True = may attend", "True = hidden", "~mask")
HERE = Path(__file__).parent

Row = tuple[Any, ...]  # call, exception, words...
WRONG: dict[str, list[Row]] = {
    # Making tensors -----------------------------------------------------------------------------------------------
    "minigrad.tensor": [
        (lambda: tensor(None), TypeError, "numbers or bools", "None"),
        (lambda: tensor("abc"), TypeError, "numbers or bools", "'abc'"),
        (lambda: tensor([1, "a"]), TypeError, "numbers or bools", "[1, 'a']"),
        (lambda: tensor({1, 2}), TypeError, "numbers or bools", "set ({1, 2})"),
        (lambda: tensor(i for i in range(3)), TypeError, "numbers or bools", "generator"),
        (lambda: tensor([[1, 2], [3]]), ValueError, "equally long", "[[1, 2], [3]]"),
        (lambda: tensor([ones(2), ones(3)]), ValueError, "equally long"),
        (lambda: tensor([leaf(2), leaf(2)]), RuntimeError, "leave the graph", "minigrad.stack"),
        (lambda: tensor(10**30), TypeError, "64 bits", str(10**30), "float"),
        (lambda: tensor([2**63]), TypeError, "64 bits", str(2**63)),
        (lambda: tensor(1, requires_grad=True), TypeError, "int64", "1.0", ".float()"),
        (lambda: tensor([1.0], dtype="float16"), TypeError, "'float16'", "float32, float64, int64, bool"),
        (lambda: tensor(np.ones(2, np.float16)), TypeError, "float16", "float32, float64, int64, bool"),
        (lambda: tensor(1.0, 2.0), TypeError, "2.0 is not one of minigrad's dtypes"),
        (lambda: tensor([1.0], device="cuda"), RuntimeError, "'cuda'", "CPU"),
    ],
    "minigrad.Tensor": [
        (lambda: Tensor(None), TypeError, "None"),
        (lambda: Tensor(2, 3), TypeError, "requires_grad must be True or False", "3", "minigrad.zeros(2, 3)"),
        (lambda: Tensor(FOREIGN), TypeError, "PyTorch", "minigrad.tensor(x.detach().numpy())"),
    ],
    "minigrad.as_tensor": [
        (lambda: mg.as_tensor([1, [2]]), ValueError, "equally long", "[1, [2]]"),
        (lambda: mg.as_tensor(ones(2), dtype="flaot32"), TypeError, "'flaot32'", "float32"),
        (lambda: mg.as_tensor(ones(2), device="mps"), RuntimeError, "'mps'", "CPU"),
    ],
    "minigrad.from_numpy": [
        (lambda: mg.from_numpy([1.0]), TypeError, "from_numpy", "NumPy array", "list ([1.0])", "tensor(...)"),
        (lambda: mg.from_numpy(np.array(["a"])), TypeError, "numbers or bools", "ndarray", "<U1"),
    ],
    "minigrad.zeros": [
        (lambda: zeros(-1), ValueError, "negative", "(-1,)"),
        (lambda: zeros(2.0), TypeError, "zeros: a size must be an int", "2.0"),
        (lambda: zeros((2, 3), 4), TypeError, "zeros: a size must be an int", "(2, 3)"),
        (lambda: zeros(10**12, 10**12), ValueError, "no memory", str(10**12)),
        (lambda: zeros(2, dtype=mg.int64, requires_grad=True), TypeError, "int64", "floats"),
    ],
    "minigrad.ones": [
        (lambda: ones(2, mg.float32), TypeError, "ones: a size must be an int", "float32"),
        (lambda: ones(2, -3), ValueError, "(2, -3)"),
    ],
    "minigrad.full": [
        (lambda: mg.full((2,), "a"), TypeError, "'a'"),
        (lambda: mg.full((2,), [1, 2]), TypeError, "full: the fill value must be one number", "[1, 2]"),
        (lambda: mg.full(-2, 1.0), ValueError, "(-2,)"),
    ],
    "minigrad.eye": [
        (lambda: mg.eye((2, 3)), TypeError, "eye: n must be an int", "(2, 3)"),
        (lambda: mg.eye(-1), ValueError, "negative", "-1"),
    ],
    "minigrad.arange": [
        (lambda: mg.arange(3, 0), ValueError, "steps of 1", "from 3 to 0"),
        (lambda: mg.arange(0, 3, 0), ValueError, "steps of 0"),
        (lambda: mg.arange("a"), TypeError, "arange: end must be a number", "'a'"),
        (lambda: mg.arange(0, nan), ValueError, "arange: end", "finite", "nan"),
        (lambda: mg.arange(ones(2)), TypeError, "arange: end must be a number", "shape (2,)"),
        (lambda: mg.arange(10**30), ValueError, "no memory"),
    ],
    "minigrad.linspace": [
        (lambda: mg.linspace(0, 1, 2.5), TypeError, "linspace: steps must be an int", "2.5"),
        (lambda: mg.linspace("a", 1, 2), TypeError, "linspace: start must be a number", "'a'"),
        (lambda: mg.linspace(0, inf, 2), ValueError, "linspace: end", "finite", "inf"),
        (lambda: mg.linspace(0, 1, -1), ValueError, "negative"),
    ],
    "minigrad.zeros_like": [(lambda: mg.zeros_like(np.ones(2)), TypeError, "zeros_like takes a Tensor", "ndarray", "float64")],
    "minigrad.ones_like": [(lambda: mg.ones_like((2, 3)), TypeError, "ones_like takes a Tensor", "(2, 3)")],
    "minigrad.full_like": [
        (lambda: mg.full_like([1.0], 2.0), TypeError, "full_like takes a Tensor", "[1.0]"),
        (lambda: mg.full_like(ones(3), None), TypeError, "None"),
    ],
    "minigrad.rand": [
        (lambda: mg.rand("a"), TypeError, "rand: a size must be an int", "'a'"),
        (lambda: mg.rand(2, dtype=mg.int64), TypeError, "rand draws floats", "int64", "randint"),
    ],
    "minigrad.randn": [
        (lambda: mg.randn(2.5), TypeError, "randn: a size must be an int", "2.5"),
        (lambda: mg.randn(2, -1), ValueError, "(2, -1)"),
    ],
    "minigrad.rand_like": [(lambda: mg.rand_like(tensor([1])), TypeError, "floats", "int64")],
    "minigrad.randn_like": [(lambda: mg.randn_like(None), TypeError, "randn_like takes a Tensor", "None")],
    "minigrad.randint": [
        (lambda: mg.randint(0, 10, 3), TypeError, "size must be a tuple", "(2, 3)", "got 3"),
        (lambda: mg.randint(5, 5, (2,)), ValueError, "from 5 to 5 - 1"),
        (lambda: mg.randint(0, 1.5, (2,)), TypeError, "randint: high must be an int", "1.5"),
        (lambda: mg.randint(0, 10**30, (2,)), ValueError, "int64", str(10**30)),
    ],
    "minigrad.randperm": [(lambda: mg.randperm(2.5), TypeError, "randperm: n must be an int", "2.5")],
    "minigrad.multinomial": [
        (lambda: mg.multinomial([0.5, 0.5], 1), TypeError, "multinomial takes a Tensor", "[0.5, 0.5]"),
        (lambda: mg.multinomial(tensor([nan, 1.0]), 1), ValueError, "finite", "got nan"),
        (lambda: mg.multinomial(tensor([-1.0, 2.0]), 1), ValueError, "not negative", "got -1.0"),
        (lambda: mg.multinomial(tensor([inf, 2.0]), 1), ValueError, "finite", "got inf"),
        (lambda: mg.multinomial(tensor([[1.0, 1.0], [0.0, 0.0]]), 1), ValueError, "not all 0", "a row of zeros"),
        (lambda: mg.multinomial(tensor([1.0, 0.0]), 2), ValueError, "2 different ids", "replacement=True"),
        (lambda: mg.multinomial(tensor([]), 1), ValueError, "(0,)"),
        (lambda: mg.multinomial(ones(2), 0), ValueError, "at least one sample", "0"),
        (lambda: mg.multinomial(ones(2, 2, 2), 1), ValueError, "(v) or (n, v)", "(2, 2, 2)"),
    ],
    "minigrad.manual_seed": [(lambda: mg.manual_seed(1.5), TypeError, "the seed must be an int", "1.5")],
    "minigrad.get_rng_state": [(lambda: mg.get_rng_state(3), TypeError, "get_rng_state()", "0 positional arguments")],
    "minigrad.set_rng_state": [
        (lambda: mg.set_rng_state(None), TypeError, "set_rng_state takes a Tensor", "None"),
        (lambda: mg.set_rng_state(ones(3)), ValueError, "628 integers", "get_rng_state()", "float32", "(3,)"),
        (lambda: mg.set_rng_state(ones(628).long() * 10**6), ValueError, "628 integers"),  # would read past the end of the keys
        (lambda: mg.set_rng_state(ones(628).long() * -1), ValueError, "628 integers"),
    ],
    "minigrad.device": [(lambda: mg.device("cuda:0"), RuntimeError, "'cuda:0'", "CPU", "device='cpu'")],
    "minigrad.cuda": [(lambda: mg.cuda.device_count(), AttributeError, "cuda", "device_count")],
    # Elementwise --------------------------------------------------------------------------------------------------
    "minigrad.exp": [
        (lambda: mg.exp(2.0), TypeError, "exp takes a Tensor", "float (2.0)", "minigrad.tensor(...)"),
        (lambda: mg.exp(FOREIGN), TypeError, "PyTorch tensor", "x.detach().numpy()"),
        (lambda: ones(2).exp(1), TypeError, "Tensor.exp()", "2 were given"),
        (lambda: np.exp(ones(2)), TypeError, "np.exp", "t.exp()", "t.detach().numpy()"),
    ],
    "minigrad.abs": [(lambda: mg.abs([-1.0]), TypeError, "abs takes a Tensor", "[-1.0]")],
    "minigrad.log": [(lambda: mg.log(None), TypeError, "log takes a Tensor", "None")],
    "minigrad.sqrt": [(lambda: mg.sqrt("4"), TypeError, "sqrt takes a Tensor", "'4'")],
    "minigrad.rsqrt": [(lambda: mg.rsqrt(np.ones(2)), TypeError, "rsqrt takes a Tensor", "ndarray")],
    "minigrad.sin": [(lambda: mg.sin(1), TypeError, "sin takes a Tensor", "int (1)")],
    "minigrad.cos": [(lambda: mg.cos((1.0,)), TypeError, "cos takes a Tensor", "(1.0,)")],
    "minigrad.tanh": [(lambda: mg.tanh({}), TypeError, "tanh takes a Tensor", "dict")],
    "minigrad.sigmoid": [(lambda: mg.sigmoid(FOREIGN), TypeError, "sigmoid takes a Tensor", "PyTorch")],
    "minigrad.relu": [(lambda: mg.relu(nn.ReLU()), TypeError, "relu takes a Tensor", "ReLU()")],
    "minigrad.pow": [
        (lambda: mg.pow(ones(2), "2"), TypeError, "'2'", "make it a tensor first"),
        (lambda: tensor([2]) ** -1, ValueError, "pow", "negative", "x.float()"),
        (lambda: tensor([True]) ** tensor([True]), TypeError, "** on a bool tensor", "mask.long()"),
    ],
    "minigrad.add": [
        (lambda: mg.add(ones(2), ones(3)), ValueError, "add: shapes (2,) and (3,)", "equal or 1"),
        (lambda: ones(2, 3) + ones(2), ValueError, "(2, 3) and (2,)", "from the right"),
        (lambda: ones(2) + np.ones(3), ValueError, "(2,) and (3,)"),
        (lambda: np.ones(3) + ones(2), ValueError, "(3,) and (2,)"),
        (lambda: ones(2) + [1.0, 2.0], TypeError, "can't be combined with list ([1.0, 2.0])", "minigrad.tensor(...)"),
        (lambda: None + ones(2), TypeError, "can't be combined with NoneType"),
        (lambda: ones(2) + FOREIGN, TypeError, "can't be combined with a PyTorch tensor", "x.detach().numpy()"),
        (lambda: tensor([1]) + 10**30, OverflowError, "add", str(10**30), "int64"),
        (lambda: ones(2) + 10**400, OverflowError, "too large", "float32"),
    ],
    "minigrad.mul": [
        (lambda: mg.mul(ones(2, 3), ones(4, 3)), ValueError, "mul: shapes (2, 3) and (4, 3)"),
        (lambda: ones(2) * None, TypeError, "None"),
        (lambda: 1 - tensor([True]), TypeError, "bool", "~mask"),
        (lambda: -tensor([True]), TypeError, "bool", "~mask"),
        (lambda: ones(2) / (1, 2), TypeError, "tuple ((1, 2))"),
        (lambda: ones(2) // 2, TypeError, "//", "'Tensor' and 'int'"),
        (lambda: ~tensor([1]), TypeError, "~ needs a bool tensor", "int64", ".bool()"),
        (lambda: ones(2) & tensor([True, False]), TypeError, "bool tensors", "float32", "comparison"),
        (lambda: ones(2) > ones(3), ValueError, "greater: shapes (2,) and (3,)"),
        (lambda: ones(2) < "a", TypeError, "'a'"),
        (lambda: 0 < ones(2) < 2, RuntimeError, "(2,)", "not one number", "all() or any()"),
    ],
    "minigrad.clamp": [
        (lambda: mg.clamp(ones(2)), ValueError, "clamp: give min, max or both"),
        (lambda: mg.clamp(ones(2), min=ones(2)), TypeError, "numbers", "x.maximum(low).minimum(high)"),
        (lambda: mg.clamp(ones(2), "a"), TypeError, "'a'"),
    ],
    "minigrad.maximum": [(lambda: mg.maximum(ones(2), ones(3)), ValueError, "maximum: shapes (2,) and (3,)")],
    "minigrad.minimum": [(lambda: mg.minimum(1.0, ones(2)), TypeError, "minimum takes a Tensor", "1.0")],
    "minigrad.isnan": [(lambda: mg.isnan(nan), TypeError, "isnan takes a Tensor", "nan")],
    "minigrad.isinf": [(lambda: mg.isinf([inf]), TypeError, "isinf takes a Tensor", "[inf]")],
    "minigrad.where": [
        (lambda: mg.where(ones(2), 1.0, 2.0), TypeError, "where: the condition must be a bool tensor", "float32", "comparison"),
        (lambda: mg.where(np.array([True]), 1.0, 2.0), TypeError, "bool tensor", "ndarray", "minigrad.tensor(...)"),
        (lambda: mg.where(ones(2) > 0, ones(3), ones(2)), ValueError, "where: shapes", "(3,)", "(2,)"),
        (lambda: mg.where(ones(2) > 0, None, ones(2)), TypeError, "None"),
        (lambda: ones(2).where(True, 0.0), TypeError, "bool tensor", "bool (True)"),
    ],
    "minigrad.matmul": [
        (lambda: ones(2, 3) @ ones(2, 3), ValueError, "matmul: shapes (2, 3) and (2, 3)", "on the left (3)", "on the right (2)"),
        (lambda: ones(3) @ ones(4), ValueError, "shapes (3,) and (4,)", "only one on the right (4)"),
        (lambda: ones(2, 3) @ ones(2), ValueError, "shapes (2, 3) and (2,)"),
        (lambda: ones(3, 2, 4) @ ones(2, 4, 5), ValueError, "in front of the last two", "(3, 2, 4) and (2, 4, 5)"),
        (lambda: ones(2) @ 3, ValueError, "at least one dim", "(2,) and ()"),
        (lambda: 3 @ ones(2), ValueError, "at least one dim", "() and (2,)"),
        (lambda: mg.matmul(ones(2, 3), [[1.0]]), TypeError, "[[1.0]]"),
    ],
    # Reducing -----------------------------------------------------------------------------------------------------
    "minigrad.sum": [
        (lambda: mg.sum(ones(2, 3), 2), IndexError, "sum: dim 2", "[-2, 1]"),
        (lambda: ones(2, 3).sum(0, 1), TypeError, "keepdim must be True or False", "int (1)", "dim=(0, 1)"),
        (lambda: ones(2, 3).sum((0, -2)), ValueError, "(0, -2)", "twice"),
        (lambda: ones(2).sum("a"), TypeError, "sum: dim must be an int", "'a'"),
        (lambda: ones(2).sum(axis=0), TypeError, "Tensor.sum()", "'axis'"),
        (lambda: mg.sum([ones(2), ones(3)]), TypeError, "sum takes a Tensor", "list"),
    ],
    "minigrad.mean": [
        (lambda: mg.mean(tensor([1, 2])), TypeError, "mean: needs floats", "int64", "x.float().mean()"),
        (lambda: ones(2).mean(3), IndexError, "dim 3", "[-1, 0]"),
    ],
    "minigrad.var": [
        (lambda: mg.var(tensor([1, 2])), TypeError, "var: needs floats", "int64"),
        (lambda: ones(2).var(False), TypeError, "var: dim must be an int", "False"),
    ],
    "minigrad.std": [(lambda: mg.std(ones(2), 4), IndexError, "std: dim 4", "[-1, 0]")],
    "minigrad.max": [
        (lambda: mg.max(zeros(0)), ValueError, "no max of nothing", "(0,)"),
        (lambda: mg.max(ones(2), 7), IndexError, "max: dim 7", "[-1, 0]"),
        (lambda: mg.max(ones(2), ones(3)), ValueError, "(2,) and (3,)"),
        (lambda: ones(2, 2).max((0, 1)), TypeError, "max: dim must be an int", "(0, 1)"),
    ],
    "minigrad.min": [(lambda: mg.min(zeros(2, 0), 1), ValueError, "no min of nothing", "(2, 0)")],
    "minigrad.argmax": [(lambda: mg.argmax(zeros(0)), ValueError, "no argmax of nothing", "(0,)")],
    "minigrad.argmin": [(lambda: mg.argmin(ones(2), "a"), TypeError, "argmin: dim must be an int", "'a'")],
    "minigrad.all": [(lambda: mg.all([True]), TypeError, "all takes a Tensor", "[True]")],
    "minigrad.any": [(lambda: mg.any(ones(2), 4), IndexError, "any: dim 4", "[-1, 0]")],
    "minigrad.norm": [
        (lambda: mg.norm(ones(2), 3), ValueError, "p must be 1, 2 or inf", "3"),
        (lambda: mg.norm(tensor([3, 4])), TypeError, "norm: needs floats", "int64"),
        (lambda: mg.norm(zeros(0), inf), ValueError, "no norm of nothing", "(0,)"),
    ],
    "minigrad.logsumexp": [
        (lambda: mg.logsumexp(ones(2)), TypeError, "Tensor.logsumexp()", "'dim'"),
        (lambda: mg.logsumexp(ones(2), 3), IndexError, "logsumexp: dim 3"),
    ],
    "minigrad.cumsum": [(lambda: mg.cumsum(ones(2), None), TypeError, "cumsum: dim must be an int", "None")],
    "minigrad.prod": [(lambda: mg.prod(ones(2), (0,)), TypeError, "prod: dim must be an int", "(0,)")],
    "minigrad.topk": [
        (lambda: mg.topk(ones(3), 4), ValueError, "k = 4", "3 values"),
        (lambda: mg.topk(ones(3), 1.5), TypeError, "topk: k must be an int", "1.5"),
    ],
    "minigrad.sort": [(lambda: mg.sort(ones(3), 4), IndexError, "sort: dim 4", "[-1, 0]")],
    "minigrad.softmax": [
        (lambda: mg.softmax(ones(3)), TypeError, "softmax()", "'dim'"),
        (lambda: mg.softmax(ones(3), 1), IndexError, "softmax: dim 1", "[-1, 0]"),
    ],
    "minigrad.log_softmax": [(lambda: mg.log_softmax(ones(3), None), TypeError, "log_softmax: dim must be an int", "None")],
    # Shape --------------------------------------------------------------------------------------------------------
    "minigrad.reshape": [
        (lambda: mg.reshape(ones(6), (4,)), ValueError, "reshape: shape (4,)", "(6,)", "6 elements"),
        (lambda: ones(6).reshape(-1, -1), ValueError, "(-1, -1)"),
        (lambda: ones(6).reshape(2.0, 3), TypeError, "reshape: a size must be an int", "2.0"),
    ],
    "Tensor.view": [
        (lambda: ones(6).view(4), ValueError, "view: shape (4,)", "(6,)"),
        (lambda: ones(2, 3).T.view(6), RuntimeError, "view: (3, 2)", ".reshape(...)"),
    ],
    "minigrad.transpose": [
        (lambda: mg.transpose(ones(2, 3), 0, 2), IndexError, "transpose: dim 2", "[-2, 1]"),
        (lambda: ones(2, 3).transpose(), TypeError, "Tensor.transpose()", "'dim0' and 'dim1'"),
    ],
    "minigrad.swapaxes": [(lambda: mg.swapaxes(ones(2, 3), "a", 1), TypeError, "dim must be an int", "'a'")],
    "minigrad.permute": [
        (lambda: mg.permute(ones(2, 3), (0, 0)), ValueError, "permute: (0, 0)", "2 dims once"),
        (lambda: ones(2, 3).permute(0, 1, 2), IndexError, "permute: dim 2"),
    ],
    "minigrad.t": [(lambda: mg.t(ones(2, 3, 4)), ValueError, "(2, 3, 4)", ".mT")],
    "minigrad.flatten": [(lambda: mg.flatten(ones(2, 3), 1, 0), ValueError, "start_dim 1", "end_dim 0")],
    "minigrad.squeeze": [(lambda: mg.squeeze(ones(2, 1), 4), IndexError, "squeeze: dim 4", "[-2, 1]")],
    "minigrad.unsqueeze": [(lambda: mg.unsqueeze(ones(2), None), TypeError, "unsqueeze: dim must be an int", "None")],
    "minigrad.split": [
        (lambda: mg.split(ones(5), [2, 2]), ValueError, "split: pieces of [2, 2]", "length 5"),
        (lambda: mg.split(ones(5), 0), ValueError, "pieces of 0"),
        (lambda: tensor(1.0).split(1), IndexError, "split: a 0-d tensor has no dim 0"),
    ],
    "minigrad.chunk": [(lambda: mg.chunk(ones(5), 0), ValueError, "at least 1 chunk", "0")],
    "minigrad.clone": [(lambda: mg.clone([1.0]), TypeError, "clone takes a Tensor", "[1.0]")],
    "Tensor.expand": [(lambda: ones(2, 3).expand(2, 4), ValueError, "(2, 3)", "(2, 4)", "length 1")],
    "Tensor.expand_as": [(lambda: ones(3).expand_as([1.0]), TypeError, "expand_as takes a Tensor", "[1.0]")],
    "Tensor.repeat": [
        (lambda: ones(2, 3).repeat(2), ValueError, "(2,)", "(2, 3)"),
        (lambda: ones(2).repeat(1.5), TypeError, "repeat: a count must be an int", "1.5"),
    ],
    "Tensor.size": [
        (lambda: ones(2).size(3), IndexError, "size: dim 3", "[-1, 0]"),
        (lambda: tensor(1.0).size(0), IndexError, "0-d"),
    ],
    "minigrad.cat": [
        (lambda: mg.cat([]), ValueError, "at least one tensor"),
        (lambda: mg.cat(ones(2), ones(3)), TypeError, "list of tensors", "cat([a, b])"),
        (lambda: mg.cat([ones(2, 3), ones(3, 2)]), ValueError, "except along dim 0", "(2, 3), (3, 2)"),
        (lambda: mg.cat([ones(2), np.ones(2)]), TypeError, "cat takes a Tensor", "ndarray"),
        (lambda: mg.cat(None), TypeError, "cat takes a list of tensors", "None"),
    ],
    "minigrad.stack": [
        (lambda: mg.stack([ones(2), ones(3)]), ValueError, "one shape", "(2,), (3,)"),
        (lambda: mg.stack([]), ValueError, "an empty list"),
        (lambda: mg.stack([ones(2), ones(2)], 3), IndexError, "stack: dim 3", "[-2, 1]"),
    ],
    # Picking ------------------------------------------------------------------------------------------------------
    "Tensor.__getitem__": [
        (lambda: ones(2)[5], IndexError, "index 5", "(2,)"),
        (lambda: ones(2)[tensor([-3])], IndexError, "-3", "(2,)"),
        (lambda: ones(2)[0, 0], IndexError, "too many indices: 2", "(2,)"),
        (lambda: tensor(1.0)[0], IndexError, "too many indices: 1", "()"),
        (lambda: ones(2)["a"], IndexError, "ints, slices", "'a'"),
        (lambda: ones(2)[ones(2)], IndexError, "int or bool tensors", "float32"),
        (lambda: ones(2)[tensor([True, False, True])], IndexError, "2", "3", "(2,)"),
        (lambda: ones(3)[::-1], ValueError, "slice step -1", "positive", "arange"),
        (lambda: ones(3)[0:"a"], TypeError, "a slice bound must be an int", "'a'"),
        (lambda: ones(2)[[[0], [0, 1]]], IndexError, "[[0], [0, 1]]"),
        (lambda: ones(2)[10**30], IndexError, str(10**30), "out of range", "(2,)"),
    ],
    "Tensor.__setitem__": [
        (put(ones(2), 5, 1.0), IndexError, "index 5", "(2,)"),
        (put(ones(2), 0, ones(2)), ValueError, "shape (2,)", "place of shape ()"),
        (put(ones(2), slice(None), ones(3)), ValueError, "shape (3,)", "place of shape (2,)"),
        (put(ones(2), 0, "a"), TypeError, "'a'"),
        (put(ones(2), 0, [1.0, 2.0]), TypeError, "[1.0, 2.0]", "tensor first"),
        (put(leaf(2), 0, 1.0), RuntimeError, "leave the graph", "masked_fill"),
        (put(leaf(2) * 2, 0, 1.0), RuntimeError, "leave the graph"),
        (put(ones(2), 0, leaf(1)), RuntimeError, "leave the graph"),
        (put(tensor([1]), 0, nan), ValueError, "NaN", "int64"),
        (put(tensor([1]), 0, 10**30), OverflowError, str(10**30), "too large", "int64"),
    ],
    "minigrad.masked_fill": [
        (lambda: mg.masked_fill(ones(2), ones(2), 0.0), TypeError, "masked_fill: the mask must be a bool tensor", "float32", "mask.bool()"),
        (lambda: mg.masked_fill(ones(2), [True, False], 0.0), TypeError, "bool tensor", "[True, False]"),
        (lambda: mg.masked_fill(ones(2), ones(3) > 0, 0.0), ValueError, "masked_fill: shapes (2,) and (3,)"),
        (lambda: mg.masked_fill(ones(2), ones(2) > 0, ones(2)), ValueError, "one number", "(2,)", "where"),
        (lambda: mg.masked_fill(tensor([1, 2]), ones(2) > 0, -inf), TypeError, "int64", "-inf", "x.float()"),
        (lambda: mg.masked_fill(tensor([1, 2]), ones(2) > 0, 10**30), OverflowError, str(10**30), "int64"),
    ],
    "minigrad.triu": [(lambda: mg.triu(ones(3)), ValueError, "triu: needs at least 2 dims", "(3,)")],
    "minigrad.tril": [(lambda: mg.tril(ones(3, 3), 0.5), TypeError, "tril: diagonal must be an int", "0.5")],
    "minigrad.gather": [
        (lambda: mg.gather(ones(2, 3), 0, tensor([[2]])), IndexError, "gather index 2", "[0, 1]"),
        (lambda: mg.gather(ones(2, 3), 0, tensor([[-1]])), IndexError, "gather index -1", "[0, 1]"),
        (lambda: mg.gather(ones(2, 3), 0, tensor([0])), ValueError, "(1,)", "(2, 3)", "dim 0"),
        (lambda: mg.gather(ones(2, 3), 0, ones(1, 1)), TypeError, "integer", "float32", ".long()"),
        (lambda: mg.gather(ones(2, 3), 0, [[0]]), TypeError, "gather, as its index,", "[[0]]"),
        (lambda: mg.gather(ones(2, 3), 0, np.array([[0]])), TypeError, "gather, as its index,", "ndarray"),
    ],
    "minigrad.scatter": [
        (lambda: mg.scatter(ones(2, 3), 0, tensor([[5]]), 1.0), IndexError, "scatter index 5", "[0, 1]"),
        (lambda: mg.scatter(ones(2, 3), 0, tensor([[0, 1]]), ones(1, 1)), ValueError, "(1, 1)", "(1, 2)"),
        (lambda: mg.scatter(ones(2, 3), 0, tensor([[0]]), None), TypeError, "None"),
        (lambda: mg.scatter(ones(2, 3), 0, tensor([[0]]), "a"), TypeError, "'a'"),
    ],
    "minigrad.index_select": [
        (lambda: mg.index_select(ones(2, 3), 0, tensor([2])), IndexError, "index_select index 2", "[0, 1]"),
        (lambda: mg.index_select(ones(2, 3), 0, tensor([[0]])), ValueError, "1-d", "(1, 1)"),
        (lambda: mg.index_select(ones(2, 3), 0, [0]), TypeError, "index_select, as its index,", "[0]"),
        (lambda: mg.index_select(tensor(1.0), 0, tensor([0])), IndexError, "0-d"),
    ],
    "minigrad.allclose": [
        (lambda: mg.allclose(ones(2), ones(3)), ValueError, "allclose: shapes (2,) and (3,)"),
        (lambda: mg.allclose(ones(2), np.ones(2)), TypeError, "allclose takes a Tensor", "ndarray"),
        (lambda: mg.allclose(ones(2), ones(2), "a"), TypeError, "allclose: rtol must be a number", "'a'"),
    ],
    "minigrad.equal": [(lambda: mg.equal(ones(2), [1.0, 1.0]), TypeError, "equal takes a Tensor", "[1.0, 1.0]")],
    # Out to Python and NumPy --------------------------------------------------------------------------------------
    "Tensor.item": [
        (lambda: ones(2).item(), RuntimeError, "(2,)", "not one number", "sum(), mean()"),
        (lambda: float(ones(2)), RuntimeError, "float()", "(2,)"),
        (lambda: bool(ones(2)), RuntimeError, "`if`", "(2,)"),
        (lambda: [0, 1][ones(1)], TypeError, "integer tensor", "float32"),
        (lambda: len(tensor(1.0)), TypeError, "0-d"),
        (lambda: list(tensor(1.0)), TypeError, "0-d"),
    ],
    "Tensor.numpy": [
        (lambda: leaf(2).numpy(), RuntimeError, "leave the graph", ".detach().numpy()"),
        (lambda: np.concatenate([ones(2), leaf(2)]), RuntimeError, ".detach().numpy()", "stack or cat"),
        (lambda: np.maximum(ones(2), 0), TypeError, "np.maximum", "write a method"),
        (lambda: np.ones(3).__iadd__(ones(2)), ValueError, "add: shapes (3,) and (2,)"),
        (lambda: np.ones(1).__iadd__(ones(3)), ValueError, "(3,)", "(1,)"),
    ],
    "Tensor.to": [
        (lambda: ones(2).to("cuda"), RuntimeError, "'cuda'", "CPU"),
        (lambda: ones(2).to("float16"), TypeError, "'float16'", "float32"),
        (lambda: ones(2).to(3), TypeError, "3", "dtypes"),
    ],
    "copy.deepcopy": [(lambda: copy.deepcopy(leaf(2) * 2), RuntimeError, "leaves", "mul", "detach()")],
    # Gradients ----------------------------------------------------------------------------------------------------
    "Tensor.backward": [
        (lambda: ones(2).sum().backward(), RuntimeError, "doesn't require a gradient", "requires_grad=True"),
        (lambda: under_no_grad().backward(), RuntimeError, "doesn't require a gradient", "no_grad()"),
        (lambda: leaf(2).sum().detach().backward(), RuntimeError, "nothing it was computed from does", "detach()"),
        (lambda: leaf(2).argmax().backward(), RuntimeError, "int64", "only floats", "argmax"),
        (lambda: (leaf(2) > 0).sum().backward(), RuntimeError, "int64", "comparisons"),
        (lambda: tensor(3).backward(), RuntimeError, "int64", "only floats"),
        (lambda: (leaf(2) * 2).backward(), RuntimeError, "(2,)", "y.sum().backward()"),
        (lambda: (leaf(2) * 2).backward(ones(3)), RuntimeError, "(3,)", "(2,)"),
        (lambda: (leaf(2) * 2).backward("a"), TypeError, "'a'"),
        (lambda: (leaf(2) * 2).backward(FOREIGN), TypeError, "PyTorch", "numpy()"),
        (twice, RuntimeError, "sum", "used it up", "retain_graph=True"),
    ],
    "Tensor.requires_grad_": [
        (lambda: tensor([1]).requires_grad_(), TypeError, "int64", "1.0", ".float()"),
        (lambda: (leaf(2) * 2).requires_grad_(False), RuntimeError, "computed (by mul)", "detach()"),
        (assign(tensor([True]), "requires_grad", True), TypeError, "bool", "floats"),
    ],
    "Tensor.retain_grad": [(lambda: ones(2).retain_grad(), RuntimeError, "doesn't require a gradient", "requires_grad=True")],
    "Tensor.grad": [
        (assign(leaf(2), "grad", ones(3)), TypeError, "shape (2,)", "(3,)"),
        (assign(leaf(2), "grad", np.ones(2)), TypeError, "Tensor of shape (2,)", "ndarray"),
        (assign(leaf(2), "grad", 1.0), TypeError, "Tensor of shape (2,)", "1.0"),
    ],
    "Tensor.data": [
        (assign(leaf(2), "data", np.array([1, 2])), TypeError, "int64", ".astype(np.float32)"),
        (assign(ones(2), "data", "a"), TypeError, "'a'"),
        (assign(ones(2), "data", [1, [2]]), ValueError, "equally long"),
        (assign(ones(2), "data", FOREIGN), TypeError, "PyTorch"),
    ],
    "Tensor.zero_": [(lambda: leaf(2).zero_(), RuntimeError, "zero_()", "leaf", "no_grad()")],
    "in place": [
        (lambda: leaf(2).__iadd__(1), RuntimeError, "leaf that requires a gradient", "`with no_grad():`"),
        (lambda: ones(2).__iadd__(ones(3, 2)), ValueError, "(2,)", "(3, 2)", "x = x + ..."),
        (lambda: tensor([1]).__itruediv__(2), ValueError, "int64", "float32"),
        (lambda: ones(2).__isub__("a"), TypeError, "'a'"),
        (lambda: ones(2).exp_(), AttributeError, "no in-place exp_()", "x = x.exp(...)"),
        (lambda: ones(2).masked_fill_(ones(2) > 0, 0.0), AttributeError, "masked_fill_", "x = x.masked_fill(...)"),
        (lambda: ones(2).normal_(), AttributeError, "normal_", "layers.init.normal_(x)"),
        (lambda: ones(2).fill_(0.0), AttributeError, "fill_", "layers.init.constant_(x, value)"),
        (lambda: ones(2).copy_(ones(2)), AttributeError, "copy_", "x.data = y.data"),
    ],
    "minigrad.no_grad": [
        (lambda: no_grad()(3), TypeError, "`with no_grad():`", "@no_grad()", "int (3)"),
        (lambda: no_grad("a"), TypeError, "`with no_grad():`", "'a'"),
    ],
    "minigrad.apply": [
        (lambda: mg.apply(mg.exp, ones(2)), TypeError, "exp takes a Tensor", "ndarray"),
        (lambda: mg.apply(mg.ops.exp, ones(2), axis=0), TypeError, "exp()", "'axis'"),
        (lambda: mg.apply(lambda a: a * 2, leaf(2)), TypeError, "(value, vjp, ...)", "2 in all", "<lambda> returned ndarray"),
        (
            lambda: mg.apply(lambda a, b: (a * b, lambda g: g * b), leaf(2), leaf(2)),
            TypeError,
            "each of its inputs",
            "3 in all",
            "a tuple of 2",
        ),
        (lambda: mg.apply(lambda a: (a.sum(), lambda g: np.ones(3)), leaf(2)).backward(), ValueError, "(3,)", "(2,)"),
    ],
    "minigrad.compile": [
        (lambda: mg.compile(3), TypeError, "a function or a module", "int (3)"),
        (lambda: mg.compile(ones(2)), TypeError, "a function or a module", "Tensor of dtype float32 and shape (2,)"),
    ],
    "minigrad.gradcheck": [
        (lambda: mg.gradcheck(mg.exp, ones(2)), ValueError, "none of the inputs requires a gradient"),
        (lambda: mg.gradcheck(mg.exp, leaf(2)), TypeError, "input 0 is float32", "x.double()"),
        (lambda: mg.gradcheck(mg.exp, 3), TypeError, "a tensor or a list of them", "3"),
        (lambda: mg.gradcheck(mg.exp, [1.0]), TypeError, "input 0", "1.0"),
        (lambda: mg.gradcheck(lambda x: None, leaf(2).double().detach().requires_grad_()), TypeError, "fn must return a tensor", "None"),
        (lambda: mg.gradcheck(mg.argmax, leaf(2).double().detach().requires_grad_()), ValueError, "tensor of floats", "int64"),
        (lambda: mg.gradcheck(mg.exp, leaf(2).double().detach().requires_grad_(), eps=0), ValueError, "eps", "0"),
        (
            lambda: no_grad()(mg.gradcheck)(mg.exp, leaf(2).double().detach().requires_grad_()),
            RuntimeError,
            "under no_grad()",
            "outside",
        ),
    ],
    # Misspelt names -----------------------------------------------------------------------------------------------
    "names": [
        (lambda: ones(2).rehsape(2), AttributeError, "a tensor", "'rehsape'", "'reshape'"),
        (lambda: ones(2).gard, AttributeError, "'gard'", "'grad'"),
        (lambda: ones(2).mm(ones(2)), AttributeError, "'mm'", "'matmul'"),
        (lambda: ones(2).astype(float), AttributeError, "'astype'", "'to'"),
        (lambda: ones(2).sub(1), AttributeError, "'sub'", "x - y"),
        (lambda: ones(2).cuda(), AttributeError, "'cuda'", "CPU"),
        (assign(ones(2), "requires_gard", True), AttributeError, "'requires_gard'"),
        (lambda: mg.sofmax, AttributeError, "'minigrad'", "'sofmax'", "'softmax'"),
        (lambda: mg.Tensr, AttributeError, "'Tensr'", "'Tensor'"),
        (lambda: mg.concatenate, AttributeError, "'concatenate'", "'cat'"),
        (lambda: mg.nn, AttributeError, "'nn'", "import layers as nn"),
        (lambda: optim.Adm, AttributeError, "'minigrad.optim'", "'Adam'"),
        (lambda: optim.sgd, AttributeError, "'sgd'", "'SGD'"),
        (lambda: nn.Linaer, AttributeError, "'layers'", "'Linear'"),
        (lambda: nn.MultiheadAttention, AttributeError, "'MultiheadAttention'", "'MultiHeadAttention'"),
        (lambda: F.sofmax, AttributeError, "'layers.functional'", "'softmax'"),
        (lambda: F.crossentropy, AttributeError, "'cross_entropy'"),
        (lambda: init.xavier_unifrom_, AttributeError, "'layers.init'", "'xavier_uniform_'"),
        (lambda: utils.clip_grad_norm, AttributeError, "'layers.utils'", "'clip_grad_norm_'"),
        (lambda: nn.Linear(2, 3).wieght, AttributeError, "Linear", "'wieght'", "'weight'"),
        (lambda: nn.Linear(2, 3).cuda(), AttributeError, "'cuda'", "CPU"),
        (lambda: nn.MultiHeadAttention(4, 2).Wq, AttributeError, "MultiHeadAttention", "'W_q'"),
        (lambda: optim.SGD([leaf(2)]).zero_gard(), AttributeError, "'zero_gard'"),
    ],
    # Optimizers ---------------------------------------------------------------------------------------------------
    "minigrad.optim.Optimizer": [
        (lambda: optim.Optimizer(leaf(2), {}), TypeError, "list of parameters", "(2,)", "write [p]"),
        (lambda: optim.Optimizer(nn.Linear(2, 3), {}), TypeError, "model.parameters()", "Linear"),
        (lambda: optim.Optimizer(nn.Linear(2, 3).parameters, {}), TypeError, "model.parameters()", "method"),
        (lambda: optim.Optimizer(nn.Linear(2, 3).state_dict(), {}), TypeError, "model.parameters()", "dict"),
        (lambda: optim.Optimizer(nn.Linear(2, 3).named_parameters(), {}), TypeError, "parameter 0", "('weight'"),
        (lambda: optim.Optimizer(None, {}), TypeError, "list of parameters", "None"),
    ],
    "minigrad.optim.SGD": [
        (lambda: optim.SGD([], 0.1), ValueError, "no parameters", "empty list"),
        (lambda: optim.SGD(used_up(), 0.1), ValueError, "no parameters", "generator", "used up"),
        (lambda: optim.SGD([{"params": used_up()}], 0.1), ValueError, "no parameters"),
        (lambda: optim.SGD([np.ones(2)], 0.1), TypeError, "parameter 0", "ndarray", "require a gradient"),
        (lambda: optim.SGD([ones(2)], 0.1), TypeError, "parameter 0", "(2,)", "requires_grad=True"),
        (lambda: optim.SGD([leaf(2) * 2], 0.1), TypeError, "leaves", "parameter 0", "computed by mul"),
        (lambda: optim.SGD([FOREIGN], 0.1), TypeError, "parameter 0", "PyTorch"),
        (lambda: optim.SGD([leaf(2)] * 2, 0.1), ValueError, "parameter 1", "(2,)", "twice"),
        (lambda: optim.SGD([leaf(2)], nan), ValueError, "lr", "finite", "nan"),
        (lambda: optim.SGD([leaf(2)], inf), ValueError, "lr", "inf"),
        (lambda: optim.SGD([leaf(2)], -1), ValueError, "lr", ">= 0", "-1"),
        (lambda: optim.SGD([leaf(2)], "0.1"), TypeError, "lr must be a number", "'0.1'"),
        (lambda: optim.SGD([leaf(2)], 0.1, momentum=nan), ValueError, "momentum", "nan"),
        (lambda: optim.SGD([leaf(2)], 0.1, nesterov=True), TypeError, "'nesterov'"),
        (lambda: optim.SGD([{"param": [leaf(2)]}], 0.1), TypeError, '"params"', "param"),
        (lambda: optim.SGD([{"params": [leaf(2)], "momentum": -3}], 0.1), ValueError, "momentum", "-3"),
        (lambda: optim.SGD([{"params": [leaf(2)], "learning_rate": 1}], 0.1), TypeError, "learning_rate", "lr"),
        (lambda: optim.SGD([leaf(2)]).add_param_group({"params": [leaf(2)], "lrr": 1}), TypeError, "lrr", "lr"),
        (lambda: optim.SGD([leaf(2)]).add_param_group([leaf(2)]), TypeError, '"params"', "list"),
        (lambda: optim.SGD([leaf(2)]).step(), UserWarning, "no parameter has a gradient", "loss.backward()"),
        (lambda: scheduled(nan).step(), ValueError, "lr", "nan"),
        (lambda: scheduled("fast").step(), TypeError, "lr", "'fast'"),
        (lambda: grown().step(), ValueError, "(2,)", "(3,)"),
    ],
    "minigrad.optim.Adam": [
        (lambda: optim.Adam([leaf(2)], betas=0.9), ValueError, "two numbers in [0, 1)", "0.9"),
        (lambda: optim.Adam([leaf(2)], betas=(0.9, 1.0)), ValueError, "[0, 1)", "1.0"),
        (lambda: optim.Adam([leaf(2)], betas=(0.9, nan)), ValueError, "[0, 1)", "nan"),
        (lambda: optim.Adam([leaf(2)], eps=-1), ValueError, "eps", "-1"),
        (lambda: optim.Adam([leaf(2)]).load_state_dict({}), ValueError, "not what Adam.state_dict() gave"),
        (lambda: optim.Adam([leaf(2)]).load_state_dict(np.ones(2)), ValueError, "Adam.state_dict()", "ndarray"),
        (
            lambda: optim.Adam([leaf(2)]).load_state_dict(remembering({"step": 3})),
            ValueError,
            "step, mean, root",
            "parameter 0 has step = 3",
        ),
        (lambda: optim.Adam([leaf(2)]).load_state_dict(remembering(ADAM | {"step": -1})), ValueError, "counting from 1", "step = -1"),
        (lambda: optim.Adam([leaf(2)]).load_state_dict(remembering(ADAM | {"step": nan})), ValueError, "counting from 1", "step = nan"),
        (lambda: optim.Adam([leaf(2)]).load_state_dict(remembering(ADAM | {"step": "x"})), ValueError, "Adam.state_dict()"),
        (lambda: optim.Adam([leaf(2)]).load_state_dict(None), ValueError, "Adam.state_dict()", "None"),
        (lambda: optim.Adam([leaf(2)]).load_state_dict(nn.Linear(2, 3).state_dict()), ValueError, "Adam.state_dict()", "'weight'"),
        (
            lambda: optim.Adam([leaf(2)]).load_state_dict(stepped(optim.SGD, with_grad(2)).state_dict()),
            ValueError,
            "momentum",
            "another optimizer",
        ),
        (
            lambda: optim.Adam([leaf(2)]).load_state_dict(stepped(optim.Adam, with_grad(3)).state_dict()),
            ValueError,
            "parameter 0",
            "(3,)",
            "(2,)",
        ),
    ],
    "minigrad.optim.AdamW": [
        (lambda: optim.AdamW([leaf(2)], weight_decay=-1), ValueError, "weight_decay", ">= 0", "-1"),
        (lambda: optim.AdamW([leaf(2)], weight_decay="a"), TypeError, "weight_decay must be a number", "'a'"),
    ],
    # Files --------------------------------------------------------------------------------------------------------
    "minigrad.save": [
        (lambda: mg.save("weights.npz", ones(2)), TypeError, "save(obj, path)", "string or a pathlib.Path", "Tensor"),
        (lambda: mg.save(ones(2), None), TypeError, "path", "None"),
        (lambda: mg.save(nn.Linear(2, 3), "x"), TypeError, "Linear", "state_dict()"),
        (lambda: mg.save({"a": [{1, 2}]}, "x"), TypeError, "{1, 2}", "a/0", "lists and dicts"),
        (lambda: mg.save({1: ones(2)}, "x"), TypeError, "{1:", "string keys"),
        (lambda: mg.save(ones(2), HERE / "nowhere" / "x"), FileNotFoundError, "no directory", "nowhere"),
    ],
    "minigrad.load": [
        (lambda: mg.load(3), TypeError, "path", "int (3)"),  # open(3) would take over a file that is open already
        (lambda: mg.load(HERE / "nowhere"), FileNotFoundError, "nowhere"),
        (lambda: mg.load(__file__), ValueError, "test_wrong_calls.py", "not a whole file of minigrad.save"),
    ],
    # Modules ------------------------------------------------------------------------------------------------------
    "layers.Module": [
        (lambda: nn.Module()(ones(2)), NotImplementedError, "Module has no forward()", "write one"),
        (lambda: NoForward()(ones(2)), NotImplementedError, "NoForward has no forward()", "write one"),
        (lambda: nn.Linear(2, 3).load_state_dict(nn.Linear(4, 3).state_dict()), ValueError, "weight is (3, 4), here (3, 2)", "Nothing"),
        (
            lambda: nn.Linear(2, 3).load_state_dict(nn.Sequential(nn.Linear(2, 3)).state_dict()),
            ValueError,
            "missing: weight, bias",
            "unexpected: 0.weight, 0.bias",
        ),
        (lambda: nn.Linear(2, 3).load_state_dict("weights.npz"), TypeError, "minigrad.load(path)", "'weights.npz'"),
        (lambda: nn.Linear(2, 3).load_state_dict(nn.Linear(2, 3)), TypeError, "state_dict()", "Linear"),
        (lambda: nn.Linear(2, 3).load_state_dict({"weight": "a", "bias": ones(3)}), TypeError, "weight", "'a'"),
        (lambda: nn.Linear(2, 3).load_state_dict({"weight": FOREIGN, "bias": FOREIGN}), TypeError, "weight", "PyTorch"),
        (lambda: nn.Linear(2, 3).register_buffer("mask", np.ones(3)), TypeError, "mask must be a Tensor", "ndarray"),
        (lambda: nn.Linear(2, 3).register_buffer("weight", ones(3)), KeyError, "Linear already has", "weight"),
        (lambda: nn.Linear(2, 3).to("cuda"), RuntimeError, "'cuda'", "CPU"),
        (lambda: nn.Linear(2, 3).to(mg.int64), TypeError, "int64", "floats"),
        (lambda: nn.Linear(2, 3).apply(3), TypeError, "apply takes a function", "3"),
    ],
    "layers.Parameter": [
        (lambda: nn.Parameter([1, 2]), TypeError, "int64", "1.0", ".float()"),
        (lambda: nn.Parameter(nn.Linear(2, 3)), TypeError, "numbers", "Linear"),
    ],
    "layers.ModuleList": [
        (lambda: nn.ModuleList([nn.ReLU(), 3]), TypeError, "ModuleList holds modules", "int (3)"),
        (lambda: nn.ModuleList([nn.ReLU]), TypeError, "ReLU", "write ReLU(...)"),
        (lambda: nn.ModuleList(nn.ReLU()), TypeError, "list of modules", "ReLU()"),
        (lambda: nn.ModuleList([nn.ReLU()])(ones(2)), NotImplementedError, "ModuleList has no forward()", "Sequential"),
    ],
    "layers.ModuleDict": [
        (lambda: nn.ModuleDict([nn.ReLU()]), TypeError, "dict of modules", "list"),
        (lambda: nn.ModuleDict({"a.b": nn.ReLU()}), KeyError, "'a.b'", "without dots"),
        (lambda: nn.ModuleDict().__setitem__("keys", nn.ReLU()), KeyError, "'keys'", "none that ModuleDict uses"),
        (lambda: nn.ModuleDict({"a": F.relu}), TypeError, "ModuleDict holds modules", "function"),
    ],
    "layers.Sequential": [
        (lambda: nn.Sequential(nn.Linear(2, 3), F.relu), TypeError, "Sequential holds modules", "function"),
        (lambda: nn.Sequential({"a.b": nn.ReLU()}), KeyError, "'a.b'", "without dots"),
        (lambda: nn.Sequential({"": nn.ReLU()}), KeyError, "''", "can't name a module"),
        (lambda: nn.Sequential({0: nn.ReLU()}), KeyError, "0 can't name a module", "a string"),
        (lambda: nn.Sequential({"forward": nn.ReLU()}), KeyError, "'forward'", "none that Sequential uses"),
        (lambda: setattr(nn.Sequential({"act": nn.ReLU()}), "act", None), TypeError, "Sequential holds modules", "None"),
        (lambda: nn.Sequential({"fc": F.relu}), TypeError, "Sequential holds modules", "function"),
        (lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 5))(ones(2)), ValueError, "must be 4", "(3,)"),
    ],
    # Layers -------------------------------------------------------------------------------------------------------
    "layers.Linear": [
        (lambda: nn.Linear(0, 3), ValueError, "Linear", "at least 1", "0 and 3"),
        (lambda: nn.Linear(2.5, 3), TypeError, "Linear: in_features must be an int", "2.5"),
        (lambda: nn.Linear("a", 3), TypeError, "Linear: in_features must be an int", "'a'"),
        (lambda: nn.Linear(5, 3)(ones(5, 7)), ValueError, "must be 5 (in_features)", "(5, 7)", "transposed", "x.mT"),
        (lambda: nn.Linear(5, 3)(ones(2, 7)), ValueError, "must be 5 (in_features)", "(2, 7)", "weight (3, 5)"),
        (lambda: nn.Linear(5, 3)(np.ones((2, 5))), TypeError, "linear takes a Tensor", "ndarray", "(2, 5)", "minigrad.tensor(...)"),
        (lambda: nn.Linear(2, 3)([[1.0, 2.0]]), TypeError, "linear takes a Tensor", "[[1.0, 2.0]]"),
        (lambda: nn.Linear(2, 3)(FOREIGN), TypeError, "linear takes a Tensor", "PyTorch"),
        (lambda: nn.Linear(2, 3)(tensor([[1, 2]])), TypeError, "int64", "float32", "x.to(weight.dtype)"),
        (lambda: nn.Linear(2, 3)(ones(2).double()), TypeError, "float64", "float32"),
        (lambda: nn.Linear(2, 3)(), TypeError, "Linear.forward()", "'x'"),
    ],
    "layers.Embedding": [
        (lambda: nn.Embedding(5, 3, padding_idx=5), ValueError, "padding_idx 5", "5 rows"),
        (lambda: nn.Embedding(5, 3, padding_idx="a"), TypeError, "padding_idx must be an int", "'a'"),
        (lambda: nn.Embedding(5.0, 3), TypeError, "Embedding: num_embeddings must be an int", "5.0"),
        (lambda: nn.Embedding(5, 3)(tensor([5])), IndexError, "id 5", "[0, 4]", "there are 5"),
        (lambda: nn.Embedding(5, 3)(tensor([-1])), IndexError, "id -1", "[0, 4]"),
        (lambda: nn.Embedding(5, 3)(ones(2)), TypeError, "integer", "float32", ".long()"),
        (lambda: nn.Embedding(5, 3)([0, 1]), TypeError, "embedding takes a Tensor", "[0, 1]"),
        (lambda: nn.Embedding(0, 3)(tensor([0])), IndexError, "id 0", "there are none"),
    ],
    "layers.LayerNorm": [
        (lambda: nn.LayerNorm(2.5), TypeError, "LayerNorm: a size must be an int", "2.5"),
        (lambda: nn.LayerNorm(3)(ones(2, 4)), ValueError, "(3,)", "(2, 4)"),
        (lambda: nn.LayerNorm(3, eps=-1)(ones(3)), ValueError, "eps", ">= 0", "-1"),
    ],
    "layers.RMSNorm": [
        (lambda: nn.RMSNorm(None), TypeError, "RMSNorm: a size must be an int", "None"),
        (lambda: nn.RMSNorm(3)(tensor([1, 2, 3])), TypeError, "rms_norm needs floats", "int64"),
    ],
    "layers.Dropout": [
        (lambda: nn.Dropout(2), ValueError, "Dropout: p", "[0, 1]", "got 2"),
        (lambda: nn.Dropout(nan), ValueError, "Dropout: p", "nan"),
        (lambda: nn.Dropout("a"), TypeError, "Dropout: p must be a number", "'a'"),
        (lambda: nn.Dropout(0.5)(np.ones(2)), TypeError, "dropout takes a Tensor", "ndarray"),
    ],
    "layers.ReLU": [(lambda: nn.ReLU()([1.0]), TypeError, "relu takes a Tensor", "[1.0]")],
    "layers.GELU": [(lambda: nn.GELU("fast")(ones(2)), ValueError, "'none' or 'tanh'", "'fast'")],
    "layers.SiLU": [(lambda: nn.SiLU()(np.ones(2)), TypeError, "silu takes a Tensor", "ndarray")],
    "layers.Tanh": [(lambda: nn.Tanh()(3), TypeError, "tanh takes a Tensor", "int (3)")],
    "layers.Sigmoid": [(lambda: nn.Sigmoid()(None), TypeError, "sigmoid takes a Tensor", "None")],
    "layers.Softmax": [
        (lambda: nn.Softmax(), TypeError, "Softmax.__init__()", "'dim'"),
        (lambda: nn.Softmax(1)(ones(2)), IndexError, "softmax: dim 1", "[-1, 0]"),
    ],
    "layers.CrossEntropyLoss": [
        (lambda: nn.CrossEntropyLoss(ones(3))(ones(2, 3), tensor([0, 1])), TypeError, "ignore_index", "no class weights", "(3,)"),
        (lambda: nn.CrossEntropyLoss(reduction="avg")(ones(2, 3), tensor([0, 1])), ValueError, "'mean', 'sum' or 'none'", "'avg'"),
        (lambda: nn.CrossEntropyLoss()(tensor([0, 1]), ones(2, 3)), TypeError, "logits must be floats", "int64"),
    ],
    "layers.MSELoss": [
        (lambda: nn.MSELoss()(ones(2), ones(3)), ValueError, "(2,) and (3,)"),
    ],
    # Attention ----------------------------------------------------------------------------------------------------
    "layers.causal_mask": [
        (lambda: nn.causal_mask(2.5), TypeError, "causal_mask: n must be an int", "2.5"),
        (lambda: nn.causal_mask(-1), ValueError, "negative", "-1"),
    ],
    "layers.scaled_dot_product_attention": [
        (lambda: nn.scaled_dot_product_attention(ones(3, 4), ones(3, 5), ones(3, 4)), ValueError, "(3, 4), (3, 5), (3, 4)", "don't fit"),
        (lambda: nn.scaled_dot_product_attention(ones(3, 4), ones(2, 4), ones(3, 4)), ValueError, "(3, 4), (2, 4), (3, 4)"),
        (lambda: nn.scaled_dot_product_attention(np.ones((3, 4)), *QKV[1:]), TypeError, "Tensors", "ndarray"),
        (lambda: nn.scaled_dot_product_attention(FOREIGN, *QKV[1:]), TypeError, "Tensors", "PyTorch"),
        (lambda: nn.scaled_dot_product_attention(*QKV, mask=ones(3, 3)), TypeError, "True = hidden", "bool tensor", "float32"),
        (lambda: nn.scaled_dot_product_attention(*QKV, mask=zeros(4, 4).bool()), ValueError, "(3, 3)", "(4, 4)"),
        (lambda: nn.scaled_dot_product_attention(*QKV, mask=ones(3, 3).bool()), ValueError, "query 0", "nothing", "True = hidden"),
        (lambda: nn.scaled_dot_product_attention(ones(5, 4), *QKV[1:]), ValueError, "query 0", "5 queries, 3 keys"),
        (lambda: nn.scaled_dot_product_attention(*QKV, LOWER), TypeError, "causal must be True or False", "mask="),
        (lambda: nn.scaled_dot_product_attention(*QKV, causal=False, mask=LOWER), ValueError, "query 2", "all but the future", *BOTH_WAYS),
        (lambda: nn.scaled_dot_product_attention(*QKV, mask=LOWER), ValueError, "query 0", "all but the future", *BOTH_WAYS),
        (lambda: nn.scaled_dot_product_attention(zeros(3, 0), zeros(3, 0), ones(3, 4)), ValueError, "(3, 0)"),
    ],
    "layers.MultiHeadAttention": [
        (lambda: nn.MultiHeadAttention(8, 3), ValueError, "d_model = 8", "num_heads = 3", "divisible"),
        (lambda: nn.MultiHeadAttention(8, 2.0), TypeError, "num_heads must be an int", "2.0"),
        (lambda: nn.MultiHeadAttention("8", 2), TypeError, "d_model must be an int", "'8'"),
        (lambda: nn.MultiHeadAttention(4, 2)(ones(3, 5)), ValueError, "must be 4", "(3, 5)"),
        (lambda: nn.MultiHeadAttention(4, 2)(ones(4)), ValueError, "(..., t, 4)", "(4,)"),
        (lambda: nn.MultiHeadAttention(4, 2)(np.ones((3, 4))), TypeError, "takes a Tensor", "ndarray"),
        (lambda: nn.MultiHeadAttention(4, 2)(*QKV), TypeError, "the mask (True = hidden) must be a bool tensor", "(3, 4)"),  # as q, k, v
        (lambda: nn.MultiHeadAttention(4, 2)(ones(3, 4), mask=LOWER), ValueError, "all but the future", *BOTH_WAYS),
        (lambda: nn.MultiHeadAttention(4, 2)(ones(5, 3, 4), ones(2, 3, 4)), ValueError, "(5, 2, 3, 2)", "(2, 2, 3, 2)"),
    ],
    "layers.SwiGLU": [(lambda: nn.SwiGLU(4, 8)(ones(5)), ValueError, "must be 4", "(5,)")],
    "layers.DecoderLayer": [
        (lambda: nn.DecoderLayer(8, 3), ValueError, "d_model = 8", "num_heads = 3"),
        (lambda: nn.DecoderLayer(8, 2)(ones(3, 5)), ValueError, "(8,)", "(3, 5)"),
        (lambda: nn.DecoderLayer(8, 2)(np.ones((3, 8))), TypeError, "takes a Tensor", "ndarray"),
    ],
    "layers.TinyTransformer": [
        (lambda: nn.TinyTransformer(5)(tensor([7])), IndexError, "id 7", "[0, 4]"),
        (lambda: nn.TinyTransformer(5)(ones(3)), TypeError, "integer", "float32", ".long()"),
        (lambda: nn.TinyTransformer(5)([1, 2]), TypeError, "takes a Tensor", "[1, 2]"),
        (lambda: nn.TinyTransformer(5, max_length=4)(zeros(5).long()), ValueError, "5 tokens", "max_length is 4"),
        (lambda: nn.TinyTransformer(5, positions="circular"), ValueError, "'learned'", "'circular'"),
    ],
    "layers.functional.scaled_dot_product_attention": [
        (lambda: F.scaled_dot_product_attention(*QKV, LOWER, is_causal=True), ValueError, "attn_mask", "is_causal", "not both"),
        (lambda: F.scaled_dot_product_attention(*QKV, LOWER.long()), TypeError, "bool (True = may attend)", "int64", ".bool()"),
        (lambda: F.scaled_dot_product_attention(*QKV, LOWER.numpy()), TypeError, "attn_mask", "ndarray"),
        (lambda: F.scaled_dot_product_attention(*QKV, ones(4, 4).bool()), ValueError, "(4, 4)", "(3, 3)"),
        (lambda: F.scaled_dot_product_attention(ones(3, 4), ones(2, 4), ones(3, 4)), ValueError, "(3, 4), (2, 4), (3, 4)"),
        (lambda: F.scaled_dot_product_attention(*QKV, dropout_p=2.0), ValueError, "dropout_p", "[0, 1]", "2.0"),
        (lambda: F.scaled_dot_product_attention(*QKV, dropout_p=ones(2)), TypeError, "dropout_p must be a number", "(2,)"),
        (lambda: F.scaled_dot_product_attention(*QKV, scale="a"), TypeError, "scale must be a number", "'a'"),
        (lambda: F.scaled_dot_product_attention(*QKV, ~LOWER), UserWarning, "the future only", *BOTH_WAYS, "is_causal=True"),
        (lambda: F.scaled_dot_product_attention(*QKV, (~LOWER).expand(2, 1, 3, 3)), UserWarning, "the future only", *BOTH_WAYS),
        (lambda: F.scaled_dot_product_attention(*QKV, ~LOWER, dropout_p=0.5), UserWarning, "the future only", *BOTH_WAYS),
    ],
    # Functions of layers ------------------------------------------------------------------------------------------
    "layers.functional.linear": [
        (lambda: F.linear(ones(2), ones(3, 2), ones(4)), ValueError, "bias (4,)", "weight (3, 2)", "(3,)"),
        (lambda: F.linear(ones(2), ones(2)), ValueError, "weight", "(out_features, in_features)", "(2,)"),
        (lambda: F.linear(ones(2), None), TypeError, "linear, as its weight,", "None"),
        (lambda: F.linear(ones(2), ones(3, 2), 1.0), TypeError, "linear, as its bias,", "1.0"),
    ],
    "layers.functional.embedding": [
        (lambda: F.embedding(tensor([3]), ones(3, 2)), IndexError, "id 3", "[0, 2]"),
        (lambda: F.embedding(tensor([0]), ones(3)), ValueError, "(num_embeddings, dim)", "(3,)"),
        (lambda: F.embedding(tensor([0]), [[1.0]]), TypeError, "embedding, as its weight,", "[[1.0]]"),
        (lambda: F.embedding(tensor([0]), ones(3, 2), padding_idx=3), IndexError, "padding_idx 3", "3 rows"),
    ],
    "layers.functional.relu": [(lambda: F.relu(np.ones(2)), TypeError, "relu takes a Tensor", "ndarray")],
    "layers.functional.sigmoid": [(lambda: F.sigmoid("a"), TypeError, "sigmoid takes a Tensor", "'a'")],
    "layers.functional.tanh": [(lambda: F.tanh(None), TypeError, "tanh takes a Tensor", "None")],
    "layers.functional.silu": [(lambda: F.silu(FOREIGN), TypeError, "silu takes a Tensor", "PyTorch")],
    "layers.functional.gelu": [(lambda: F.gelu(ones(2), True), ValueError, "'none' or 'tanh'", "True")],
    "layers.functional.softmax": [
        (lambda: F.softmax(ones(2)), TypeError, "softmax()", "'dim'"),
        (lambda: F.softmax(ones(2), 4), IndexError, "softmax: dim 4"),
    ],
    "layers.functional.log_softmax": [(lambda: F.log_softmax([1.0], 0), TypeError, "log_softmax takes a Tensor", "[1.0]")],
    "layers.functional.dropout": [
        (lambda: F.dropout(ones(2), 1.5), ValueError, "dropout: p", "[0, 1]", "1.5"),
        (lambda: F.dropout(ones(2), None), TypeError, "dropout: p must be a number", "None"),
    ],
    "layers.functional.layer_norm": [
        (lambda: F.layer_norm(ones(2, 3), 2), ValueError, "(2,)", "(2, 3)"),
        (lambda: F.layer_norm(ones(2, 3), (3,), ones(2, 1)), ValueError, "(3,)", "(2, 1)"),
        (lambda: F.layer_norm(ones(2, 3), (3,), [1.0] * 3), ValueError, "weight and bias", "[1.0, 1.0, 1.0]"),
        (lambda: F.layer_norm(ones(2, 3), 3.0), TypeError, "normalized_shape must be an int or a tuple", "3.0"),
        (lambda: F.layer_norm(ones(3), 3, eps="a"), TypeError, "eps must be a number", "'a'"),
    ],
    "layers.functional.rms_norm": [
        (lambda: F.rms_norm(ones(2, 3), (3,), ones(2)), ValueError, "(3,)", "(2,)"),
        (lambda: F.rms_norm(ones(3), 3, eps=nan), ValueError, "eps", "nan"),
    ],
    "layers.functional.cross_entropy": [
        (lambda: F.cross_entropy(ones(2, 3), tensor([0, 3])), IndexError, "target 3", "[0, 2]", "there are 3"),
        (lambda: F.cross_entropy(ones(2, 3), tensor([0, -1])), IndexError, "target -1", "[0, 2]"),
        (lambda: F.cross_entropy(ones(2, 3, 5), tensor([[0, 1, 2]])), ValueError, "(2, 3, 5)", "(2, 5)", "(1, 3)", "reshape(-1, v)"),
        (lambda: F.cross_entropy(ones(2, 3), ones(2)), TypeError, "target", "float32", ".long()"),
        (lambda: F.cross_entropy(ones(2, 3), tensor([0, 1]), reduction=np.ones(2)), ValueError, "'mean', 'sum' or 'none'"),
        (lambda: F.cross_entropy(ones(2, 3), tensor([0, 1]), label_smoothing=ones(2)), TypeError, "label_smoothing must be a number"),
        (lambda: F.cross_entropy(ones(2, 3), [0, 1]), TypeError, "a loss, as its target,", "[0, 1]"),
        (lambda: F.cross_entropy(tensor(1.0), tensor(0)), ValueError, "dim of classes", "()"),
        (lambda: F.cross_entropy(ones(2, 3), tensor([0, 1]), label_smoothing=2.0), ValueError, "label_smoothing", "[0, 1]", "2.0"),
        (lambda: F.cross_entropy(ones(2, 0), tensor([0, 0])), IndexError, "target 0", "there are none"),
    ],
    "layers.functional.nll_loss": [
        (lambda: F.nll_loss(ones(2, 3), tensor([0, 3])), IndexError, "target 3", "[0, 2]"),
        (lambda: F.nll_loss(tensor([[1, 2]]), tensor([0])), TypeError, "floats", "int64"),
        (lambda: F.nll_loss(ones(2, 3), tensor([0, 1]), reduction=None), ValueError, "'mean', 'sum' or 'none'", "None"),
    ],
    "layers.functional.mse_loss": [
        (lambda: F.mse_loss(ones(2), np.ones(2)), TypeError, "a loss, as its target,", "ndarray"),
        (lambda: F.mse_loss(ones(2), ones(2), "avg"), ValueError, "'avg'"),
        (lambda: F.mse_loss(ones(2, 1), ones(2)), UserWarning, "mse_loss", "(2, 1)", "(2,)", "one shape"),
    ],
    "layers.functional.one_hot": [
        (lambda: F.one_hot(tensor([0, 5]), 3), IndexError, "id 5", "[0, 2]"),
        (lambda: F.one_hot(ones(2)), TypeError, "integer", "float32", ".long()"),
        (lambda: F.one_hot(tensor([]).long()), ValueError, "no ids", "num_classes"),
        (lambda: F.one_hot(tensor([0]), 2.5), TypeError, "num_classes must be an int", "2.5"),
    ],
    "layers.init.normal_": [
        (lambda: init.normal_(3), TypeError, "normal_ takes a Tensor", "int (3)"),
        (lambda: init.normal_(np.ones(2)), TypeError, "normal_ takes a Tensor", "ndarray"),
        (lambda: init.normal_(ones(2), std=-1.0), ValueError, "normal_: std", ">= 0", "-1.0"),
        (lambda: init.normal_(ones(2), mean=nan), ValueError, "normal_: mean", "finite", "nan"),
        (lambda: init.normal_(tensor([1])), TypeError, "floats", "int64"),
    ],
    "layers.init.uniform_": [
        (lambda: init.uniform_(ones(2), 1, 0), ValueError, "uniform_: b - a", "-1"),
        (lambda: init.uniform_(nn.Linear(2, 3)), TypeError, "uniform_ takes a Tensor", "Linear"),
    ],
    "layers.init.constant_": [(lambda: init.constant_(ones(2), [1.0, 2.0]), TypeError, "one number", "[1.0, 2.0]")],
    "layers.init.zeros_": [(lambda: init.zeros_(nn.Linear(2, 3)), TypeError, "zeros_ takes a Tensor", "Linear")],
    "layers.init.ones_": [(lambda: init.ones_(None), TypeError, "ones_ takes a Tensor", "None")],
    "layers.init.xavier_uniform_": [
        (lambda: init.xavier_uniform_(ones(3)), ValueError, "2 dims", "(3,)"),
        (lambda: init.xavier_uniform_(ones(2, 3), "a"), TypeError, "gain must be a number", "'a'"),
    ],
    "layers.init.xavier_normal_": [(lambda: init.xavier_normal_(zeros(0, 0)), ValueError, "none of length 0", "(0, 0)")],
    "layers.init.kaiming_uniform_": [(lambda: init.kaiming_uniform_(ones(2, 3), mode="in"), ValueError, "fan_in", "'in'")],
    "layers.init.kaiming_normal_": [
        (lambda: init.kaiming_normal_(ones(2, 3), nonlinearity="swish"), ValueError, "leaky_relu", "'swish'"),
        (lambda: init.kaiming_normal_("a"), TypeError, "takes a Tensor", "'a'"),
    ],
    "layers.sampling.greedy": [(lambda: sampling.greedy([1.0]), TypeError, "greedy takes a Tensor", "[1.0]")],
    "layers.sampling.sample": [(lambda: sampling.sample(np.ones(2)), TypeError, "sample takes a Tensor", "ndarray")],
    "layers.sampling.gumbel_max": [(lambda: sampling.gumbel_max(3), TypeError, "gumbel_max takes a Tensor", "int (3)")],
    "layers.sampling.temperature": [(lambda: sampling.temperature(ones(3), 0), ValueError, "above 0", "greedy")],
    "layers.sampling.top_k": [(lambda: sampling.top_k(ones(3), 0), ValueError, "at least 1", "0")],
    "layers.sampling.top_p": [(lambda: sampling.top_p(ones(3), 1.5), ValueError, "(0, 1]", "1.5")],
    "layers.sampling.generate": [(lambda: next(sampling.generate(nn.TinyTransformer(5), zeros(0), 3)), ValueError, "prompt", "(0,)")],
    "layers.utils.warmup_cosine": [
        (lambda: utils.warmup_cosine(-1, 10), ValueError, "step >= 0", "-1"),
        (lambda: utils.warmup_cosine(1.5, 10), TypeError, "must be an int", "1.5"),
    ],
    "layers.utils.clip_grad_norm_": [
        (lambda: utils.clip_grad_norm_(nn.Linear(2, 3), 1.0), TypeError, "model.parameters()", "Linear"),
        (lambda: utils.clip_grad_norm_([3], 1.0), TypeError, "parameter 0", "int (3)"),
        (lambda: utils.clip_grad_norm_([with_grad(2)], nan), ValueError, "max_norm", "nan"),
        (lambda: utils.clip_grad_norm_([with_grad(2)], -1.0), ValueError, "max_norm", "-1.0"),
        (lambda: utils.clip_grad_norm_([with_grad(2)], "a"), TypeError, "max_norm must be a number", "'a'"),
        (lambda: utils.clip_grad_norm_([with_grad(2)], 1.0, 3), ValueError, "1, 2 or inf", "3"),
        (lambda: utils.clip_grad_norm_(used_up(), 1.0), UserWarning, "no parameters", "used up"),
    ],
}

INSIDES = """broadcast together|inhomogeneous|unhashable|'NoneType' object|C long|ufunc|is not iterable|not subscriptable|
convert string|setting an array element|_data|object has no attribute|zero-size|Maximum allowed|'<' not supported|'<=' not supported"""
ROWS = [pytest.param(*row[:2], row[2:], id=f"{name}-{i}") for name, rows in WRONG.items() for i, row in enumerate(rows)]


@pytest.mark.parametrize(("call", "kind", "words"), ROWS)
def test_a_wrong_call_is_explained(call: Callable[[], Any], kind: type[Exception], words: tuple[str, ...]) -> None:
    if issubclass(kind, Warning):
        with pytest.warns(kind) as caught:
            call()
        message = str(caught[0].message)
        assert caught[0].filename == __file__  # it points at the line of the user
    else:
        with pytest.raises(kind) as error:
            call()
        message = str(error.value)
        assert error.type is kind
        last = traceback.extract_tb(error.value.__traceback__)[-1].filename
        assert last.startswith(str(HERE.parent)), f"raised inside {last}"
    assert [word for word in words if word not in message] == [], message
    if kind is not AttributeError:
        assert [word for word in INSIDES.replace("\n", "").split("|") if word in message] == [], message
    assert "\n" not in message
    assert len(message) < 350


def test_the_table_has_the_size_that_was_asked_for() -> None:
    assert len(ROWS) >= 150
    assert all(len(row.values[2]) >= 1 for row in ROWS)


def public() -> Iterator[tuple[str, Any]]:
    for module in (mg, optim, nn, F, init, sampling, utils):
        own = [k for k, v in vars(module).items() if getattr(v, "__module__", None) == module.__name__ and not k.startswith("_")]
        for name in getattr(module, "__all__", own):
            if callable(getattr(module, name)) and name != "zero_grads":  # what Module and Optimizer share
                yield f"{module.__name__}.{name}", getattr(module, name)
    for name, member in inspect.getmembers(Tensor, inspect.isfunction):
        if not name.startswith("_") and not hasattr(mg, name) and len(inspect.signature(member).parameters) > 1:
            yield f"Tensor.{name}", member


def test_every_public_name_is_called_wrongly_in_the_table() -> None:
    names = dict(public())
    assert len(names) > 130
    assert [name for name in names if name not in WRONG] == []
    for name, rows in WRONG.items():
        if name in names:  # the row really calls what it stands for
            assert any(name.rpartition(".")[2] in row[0].__code__.co_names for row in rows if hasattr(row[0], "__code__")), name


# PyTorch's tensors ----------------------------------------------------------------------------------------------

GIVEN_PYTORCH: list[Callable[[Any], Any]] = [
    lambda t: tensor(t),
    lambda t: tensor([t, t]),
    lambda t: mg.as_tensor(t),
    lambda t: nn.Parameter(t),
    lambda t: ones(2) + t,
    lambda t: ones(2) @ t,
    lambda t: ones(2) > t,
    lambda t: mg.exp(t),
    lambda t: mg.cat([ones(2), t]),
    lambda t: mg.where(t, ones(2), ones(2)),
    lambda t: mg.masked_fill(ones(2), t, 0.0),
    lambda t: ones(2).gather(0, t),
    lambda t: mg.zeros_like(t),
    lambda t: mg.multinomial(t, 1),
    lambda t: put(ones(2), 0, t)(),
    lambda t: assign(ones(2), "data", t)(),
    lambda t: assign(ones(2), "grad", t)(),
    lambda t: (leaf(2) * 2).backward(t),
    lambda t: mg.gradcheck(mg.exp, [t]),
    lambda t: mg.save({"w": t}, "x"),
    lambda t: optim.SGD([t], 0.1),
    lambda t: nn.Linear(2, 3)(t),
    lambda t: nn.Embedding(2, 3)(t),
    lambda t: nn.LayerNorm(2)(t),
    lambda t: nn.MultiHeadAttention(2, 1)(t),
    lambda t: nn.Linear(2, 3).load_state_dict({"weight": t, "bias": t}),
    lambda t: F.cross_entropy(ones(2, 3), t),
    lambda t: F.mse_loss(t, ones(2)),
    lambda t: F.scaled_dot_product_attention(t, t, t),
    lambda t: nn.scaled_dot_product_attention(*QKV, mask=t),
    lambda t: init.zeros_(t),
    lambda t: utils.clip_grad_norm_([t], 1.0),
]


@pytest.mark.parametrize("call", GIVEN_PYTORCH)
def test_a_tensor_of_pytorch_by_mistake_is_named_even_where_pytorch_is_not_installed(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"PyTorch tensor.*numpy\(\)"):
        call(FOREIGN)


@pytest.mark.parametrize("call", GIVEN_PYTORCH)
def test_a_tensor_of_pytorch_by_mistake_is_named(call: Callable[[Any], Any], torch: ModuleType) -> None:
    for t in (torch.ones(2), torch.ones(2, requires_grad=True), torch.nn.Parameter(torch.ones(2))):
        with pytest.raises(TypeError, match=r"PyTorch tensor.*numpy\(\)"):
            call(t)


# Masks ------------------------------------------------------------------------------------------------------------

ALL = ones(3, 3).bool()
LEGITIMATE = {
    "causal": LOWER,
    "causal, batched": LOWER.expand(2, 1, 3, 3),
    "everything": ALL,
    "nothing": ~ALL,
    "self and future": mg.triu(ones(3, 3)).bool(),
    "strictly past": mg.tril(ones(3, 3), -1).bool(),
    "all others": ~mg.eye(3).bool(),
    "padding": tensor([True, True, False]),
    "padding of keys": tensor([[False, True, True]]),
    "future, and one key of the past": ~LOWER | tensor([[False] * 3, [False] * 3, [True, False, False]]),
    "the future to one head, everything to another": mg.stack([~LOWER, ALL]),
    "float": zeros(3, 3).masked_fill(LOWER, -inf),
}


@pytest.mark.parametrize("name", LEGITIMATE)
def test_masks_of_other_kinds_do_not_warn(name: str) -> None:  # here warnings are errors
    F.scaled_dot_product_attention(*QKV, attn_mask=LEGITIMATE[name])


def test_one_token_and_rectangles_do_not_warn() -> None:
    F.scaled_dot_product_attention(ones(1, 4), ones(1, 4), ones(1, 4), attn_mask=tensor([[False]]))
    F.scaled_dot_product_attention(ones(2, 4), *QKV[1:], attn_mask=mg.triu(ones(2, 3), 1).bool())
    nn.scaled_dot_product_attention(*QKV, causal=False, mask=nn.causal_mask(3))
    nn.scaled_dot_product_attention(*QKV, causal=False, mask=mg.tril(ones(3, 3), -1).bool())


def test_a_blind_query_of_another_kind_is_not_told_about_conventions() -> None:
    with pytest.raises(ValueError, match="query 1") as error:
        nn.scaled_dot_product_attention(*QKV, causal=False, mask=tensor([[False], [True], [False]]))
    assert "may attend" not in str(error.value)


# Nothing has changed ------------------------------------------------------------------------------------------


def test_backward_may_be_called_under_no_grad() -> None:
    x = leaf(2)
    loss = (x * 3).sum()
    with no_grad():
        loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3]


def test_a_parameter_without_a_gradient_stays_and_the_others_move() -> None:
    p, q = with_grad(2), leaf(2)
    optim.SGD([p, q], lr=0.5).step()
    assert (p.tolist(), q.tolist()) == ([0.5, 0.5], [1, 1])


def snapshot(x: Any) -> Any:
    """All there is to see in an object, as plain Python."""
    if isinstance(x, Tensor):
        return x.data.tolist(), x.data.dtype, x.requires_grad, x.is_leaf, None if x.grad is None else x.grad.tolist()
    if isinstance(x, nn.Module):
        return {name: snapshot(t) for name, t in x.named_parameters()}, x.training, sorted(vars(x)), list(x.named_modules())
    if isinstance(x, optim.Optimizer):
        state = {id(p): {k: np.asarray(v).tolist() for k, v in s.items()} for p, s in x.state.items()}
        return [{**g, "params": [snapshot(p) for p in g["params"]]} for g in x.param_groups], state
    return [snapshot(y) for y in x]


UNCHANGED: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (lambda: ones(2), lambda x: put(x, 0, "a")()),
    (lambda: ones(2), lambda x: put(x, slice(None), ones(3))()),
    (lambda: ones(2), lambda x: put(x, 5, 0.0)()),
    (lambda: leaf(2), lambda x: put(x, 0, 0.0)()),
    (lambda: tensor([1, 2]), lambda x: put(x, 0, 10**30)()),
    (lambda: leaf(2), lambda x: assign(x, "data", np.array([1, 2]))()),
    (lambda: ones(2), lambda x: assign(x, "data", "a")()),
    (lambda: with_grad(2), lambda x: assign(x, "grad", ones(3))()),
    (lambda: tensor([1]), lambda x: x.requires_grad_()),
    (lambda: leaf(2), lambda x: x.__iadd__(1)),
    (lambda: leaf(2), lambda x: no_grad()(x.__iadd__)(ones(3))),
    (lambda: leaf(2), lambda x: no_grad()(x.__isub__)(ones(3, 2))),
    (lambda: leaf(2), lambda x: x.zero_()),
    (lambda: with_grad(2), lambda x: (x * 2).backward()),
    (lambda: with_grad(2), lambda x: (x * 2).backward(ones(3))),
    (lambda: with_grad(2), lambda x: mg.gradcheck(mg.exp, x)),
    (lambda: with_grad(2), lambda x: utils.clip_grad_norm_([x], nan)),
    (lambda: with_grad(2), lambda x: utils.clip_grad_norm_([x, 3], 0.1)),
    (lambda: leaf(2), lambda x: init.normal_(x, std=-1.0)),
    (lambda: leaf(2), lambda x: init.uniform_(x, 1.0, 0.0)),
    (lambda: leaf(2), lambda x: init.xavier_uniform_(x)),
    (lambda: leaf(2), lambda x: init.constant_(x, [1.0, 2.0])),
    (lambda: nn.Linear(2, 3), lambda m: m.load_state_dict({"weight": zeros(3, 2), "bias": zeros(4)})),
    (lambda: nn.Linear(2, 3), lambda m: m.load_state_dict({"weight": zeros(3, 2), "bias": "a"})),
    (lambda: nn.Linear(2, 3), lambda m: m.load_state_dict({"weight": zeros(3, 2)})),
    (lambda: nn.Linear(2, 3), lambda m: m.register_buffer("weight", ones(1))),
    (lambda: nn.Linear(2, 3), lambda m: m.register_buffer("mask", 3)),
    (lambda: nn.Linear(2, 3), lambda m: m.to(mg.int64)),
    (lambda: nn.Linear(2, 3), lambda m: m.to("cuda")),
    (lambda: nn.Linear(2, 3), lambda m: m(ones(5))),
    (lambda: nn.ModuleList([nn.ReLU()]), lambda m: m.append(3)),
    (lambda: nn.ModuleList([nn.ReLU()]), lambda m: m.extend([nn.ReLU(), 3])),
    (lambda: nn.ModuleList([nn.ReLU()]), lambda m: m.insert(0, nn.ReLU)),
    (lambda: stepped(optim.Adam, with_grad(2)), lambda o: o.load_state_dict(stepped(optim.SGD, with_grad(2)).state_dict())),
    (lambda: stepped(optim.Adam, with_grad(2)), lambda o: o.load_state_dict(stepped(optim.Adam, with_grad(3)).state_dict())),
    (lambda: stepped(optim.Adam, with_grad(2)), lambda o: o.load_state_dict({**o.state_dict(), "state": {"7": {}}})),
    (lambda: stepped(optim.Adam, with_grad(2)), lambda o: o.add_param_group({"params": [leaf(2), leaf(2) * 2]})),
    (lambda: stepped(optim.Adam, with_grad(2)), lambda o: o.add_param_group({"params": [leaf(2)], "lr": nan})),
    (lambda: scheduled("fast"), lambda o: o.step()),
    (lambda: grown(), lambda o: o.step()),
]


@pytest.mark.parametrize(("make", "call"), UNCHANGED)
def test_after_a_wrong_call_nothing_has_changed(make: Callable[[], Any], call: Callable[[Any], Any]) -> None:
    x = make()
    before = snapshot(x)
    with pytest.raises((TypeError, ValueError, IndexError, KeyError, RuntimeError, OverflowError)):
        call(x)
    assert snapshot(x) == before
    assert (leaf(1) * 2).requires_grad  # recording is on, as before


RANDOM: list[Callable[[], Any]] = [
    lambda: mg.rand(-1),
    lambda: mg.randn(2, dtype=mg.int64),
    lambda: mg.randint(3, 3, (2,)),
    lambda: mg.randperm(-1),
    lambda: mg.multinomial(tensor([1.0, 0.0]), 2),
    lambda: mg.multinomial(tensor([nan, 1.0]), 1),
    lambda: mg.manual_seed("a"),
    lambda: mg.set_rng_state(zeros(628)),
    lambda: mg.set_rng_state(ones(628).long() * 10**6),
    lambda: init.normal_(ones(2), std=nan),
    lambda: init.uniform_(tensor([1])),
    lambda: F.dropout(ones(2), 2.0),
    lambda: nn.Linear(2, "a"),
    lambda: nn.Embedding(5, 3, padding_idx=5),
    lambda: nn.MultiHeadAttention(8, 3),
]


@pytest.mark.parametrize("call", RANDOM)
def test_a_wrong_call_draws_no_random_numbers(call: Callable[[], Any]) -> None:
    before = mg.get_rng_state()
    with pytest.raises((TypeError, ValueError)):
        call()
    assert mg.equal(mg.get_rng_state(), before)


def test_a_file_that_could_not_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    mg.save({"w": ones(2)}, tmp_path / "w")
    for wrong in (nn.Linear(2, 3), {"w": {1, 2}}, {1: 2}, {"w": 1j}, {"w": ones(1), "v": np.array(["a"])}):
        with pytest.raises(TypeError):
            mg.save(wrong, tmp_path / "w")
    assert [path.name for path in tmp_path.iterdir()] == ["w"]
    assert mg.load(tmp_path / "w")["w"].tolist() == [1, 1]


def test_a_number_for_a_path_does_not_take_over_an_open_file(tmp_path: Path) -> None:
    with open(tmp_path / "open", "w") as file:
        with pytest.raises(TypeError, match="path"):
            mg.load(file.fileno())
        file.write("still open")
    assert (tmp_path / "open").read_text() == "still open"
