"""Planted bugs: each line of the table is a mistake that a library like this has had or could have. The tests must notice every one.

    python tests/mutants.py               all of them; a mutant that survives is a missing test, and the exit code is then 1
    python tests/mutants.py attention     only those whose file or description holds the word

Each of two workers gets a copy of the package and its unit tests in a temporary folder. There it makes one change at a time and runs
the tests, those of the changed file first, until one fails; the checkout isn't touched. PyTorch is hidden, so no kill depends on it.
"""

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
UNIT = [  # the tests that run: quick ones, which give the same answer each time
    *("ops", "engine", "dialect", "creation", "gradcheck", "optim", "serialization", "module", "layers", "functional", "attention"),
    *("fused", "init", "decoder", "sampling", "edges", "wrong_calls", "files", "threads", "compile"),
]
FIRST = {  # the test files that look at a source file first of all
    "minigrad/ops/arithmetic.py": "ops functional",
    "minigrad/ops/reductions.py": "ops functional",
    "minigrad/ops/normalizing.py": "ops functional",
    "minigrad/ops/places.py": "ops functional",
    "minigrad/ops/arrays.py": "ops functional",
    "minigrad/attention.py": "fused",
    "minigrad/tensor.py": "engine threads",
    "minigrad/mode.py": "engine threads",
    "minigrad/conversions.py": "dialect engine",
    "minigrad/operators.py": "dialect engine",
    "minigrad/arguments.py": "dialect creation functional",
    "minigrad/methods.py": "dialect",
    "minigrad/layout.py": "dialect",
    "minigrad/functions.py": "dialect",
    "minigrad/creation.py": "creation",
    "minigrad/gradcheck.py": "gradcheck",
    "minigrad/optim.py": "optim",
    "minigrad/serialization.py": "serialization files",
    "layers/attention.py": "attention",
    "layers/functional.py": "functional",
    "layers/normalization.py": "layers",
    "layers/embedding.py": "layers",
    "layers/dropout.py": "layers",
    "layers/module.py": "module",
    "minigrad/memory.py": "memory",
    "minigrad/tape.py": "compile",
    "minigrad/effects.py": "compile",
    "minigrad/compiling.py": "compile",
    "minigrad/surroundings.py": "compile",
    "minigrad/recording.py": "compile",
    "layers/init.py": "init",
    "layers/utils.py": "init",
    "layers/decoder.py": "decoder",
    "layers/sampling.py": "sampling decoder",
}

# The table: a file, then for each mutant the old text (it must occur exactly once), the new text, and what that breaks.
# fmt: off
TABLE = {
    "minigrad/ops/arithmetic.py": [
        ("return a + b, lambda g: g, lambda g: g", "return a + b, lambda g: g, lambda g: -g", "add: sign of the second gradient"),
        ("return a - b, lambda g: g, lambda g: -g", "return a - b, lambda g: g, lambda g: g", "sub: sign of the second gradient"),
        ("lambda g: g * b, lambda g: g * a", "lambda g: g * a, lambda g: g * b", "mul: factors swapped"),
        ("lambda g: -g * y / b", "lambda g: g * y / b", "div: sign of the divisor's gradient"),
        ("lambda g: -g * y / b", "lambda g: -g / b", "div: factor y dropped"),
        ("g * b * a ** (b - 1))", "g * a ** (b - 1))", "pow: factor b dropped"),
        ("np.where(np.equal(b, 0), 0, g * b", "np.where(False, 0, g * b", "pow: NaN gradient of 0**0"),
        ("silent, 1, a))).astype(g.dtype)", "silent, 1, a)))", "pow: float64 creeps in from a Python base"),
        ("silent = np.equal(a, 0) & np.greater_equal(b, 0)", "silent = False", "pow: NaN gradient to the exponent of 0"),
        ("lambda g: g @ b.mT", "lambda g: g @ b", "matmul: transpose of B forgotten"),
        ("lambda g: a.mT @ g", "lambda g: a @ g", "matmul: transpose of A forgotten"),
        ("lambda g: _rows(g, b.T)", "lambda g: _rows(g, b)", "matmul of a batch with one matrix: transpose of B forgotten"),
        ("lambda g: dot(_flat(a).T, _flat(g))", "lambda g: a[0].T @ g[0]",
         "matmul of a batch with one matrix: only the first of the batch"),
        ("lambda g: _flat(g).dot(weight).reshape(x.shape)", "lambda g: _flat(g).dot(weight.T).reshape(x.shape)",
         "linear: weight transposed on the way back"),
        ("lambda g: _flat(g).T.dot(rows)", "lambda g: rows.T.dot(_flat(g))", "linear: gradient of the weight transposed"),
        ("lambda g: np.add.reduce(_flat(g))", "lambda g: _flat(g).mean(axis=0)", "linear: gradient of the bias averaged"),
        ("lambda g: g * np.sign(x)", "lambda g: np.where(x >= 0, g, -g)", "abs: gradient 1 at 0"),
        ("return y, lambda g: g * y\n", "return y, lambda g: g * x\n", "exp: x for y"),
        ("lambda g: g / (2 * y)", "lambda g: g / y", "sqrt: factor 2 dropped"),
        ("lambda g: g * np.cos(x)", "lambda g: g * np.sin(x)", "sin: not differentiated"),
        ("lambda g: -g * np.sin(x)", "lambda g: g * np.sin(x)", "cos: sign"),
        ("lambda g: g * (1 - y * y)", "lambda g: g * (1 - y)", "tanh: square dropped"),
        ("small = np.exp(-np.abs(x))", "small = np.exp(-x)", "sigmoid: overflow"),
        ("g * small / np.square(1 + small)", "g * (y - y * y)", "sigmoid: gradient rounded to 0 where x is large"),
        ("np.where(x > 0, g, 0)", "np.where(x >= 0, g, 0)", "relu: gradient at 0"),
        ("-g * (2 / math.sqrt(math.pi))", "-g * (1 / math.sqrt(math.pi))", "erfc: factor 2 dropped"),
        ("y = np.empty_like(x)", "y = np.empty(x.shape)", "erfc: float64 creeps in"),
        ("lambda g: np.where(condition, 0, g)", "lambda g: g", "where: gradient to the branch not taken"),
        ("np.where(condition, a, b)", "np.where(condition, b, a)", "where: condition inverted"),
        ("np.where(np.greater(a, b), g, ", "np.where(np.greater_equal(a, b), g, ", "maximum: a tie counts twice"),
        ("x >= low) & (", "x > low) & (", "clamp: gradient lost at the lower end"),
        ("lambda g: g.astype(x.dtype)", "lambda g: g", "cast: gradient in the wrong precision"),
    ],
    "minigrad/ops/reductions.py": [
        ("out[...] = with_axis(g, axis, keepdims)", "out[...] = 1", "sum: incoming gradient ignored"),
        (" / hit.sum(axis=axis, keepdims=True, dtype=x.dtype)", "", "max: each of several that tie gets all"),
        ("(x == top) | (x != x)", "x == top", "max: gradient of NaN is 0/0"),
        ("(x / np.where(root == 0, 1, root))", "(x / root)", "norm: NaN gradient at 0"),
        ("scale = np.where((scale == 0) | np.isinf(scale), 1, scale)", "scale = np.ones_like(scale)", "norm: squares overflow"),
        ("keepdims) * before(x) * after", "keepdims) * x.prod(axis=axis, keepdims=True) / x", "prod: NaN gradient beside a 0"),
        ("np.flip(np.cumsum(np.flip(g, axis), axis), axis)", "np.cumsum(g, axis)", "cumsum: summed from the wrong end"),
    ],
    "minigrad/ops/normalizing.py": [
        ("top = np.where(np.isinf(top), 0, top)", "top = np.zeros_like(top)", "logsumexp: overflow"),
        ("keepdims) * (p / total)", "keepdims) * p", "logsumexp: not divided by the sum"),
        ("y = x - _top(x, axis)  # the largest", "y = x - 0  # the largest", "softmax: overflow"),
        ("np.vecdot(g, y)[..., None] if last", "g * y if last", "softmax: only the diagonal"),
        ("last = axis in (-1, x.ndim - 1)", "last = True", "softmax: always the last axis"),
        ("g - np.exp(y) * _total(g, axis)", "g - np.exp(y)", "log_softmax: right only where the gradients sum to 1"),
        ("_total(p, axis, np.float64)", "_total(p, axis)", "log_softmax: small losses rounded to 0"),
        ("np.log(total).astype(x.dtype)", "np.log(total)", "log_softmax: float64 creeps in"),
        ("else (1 - smoothing) * hit", "else hit", "cross_entropy: label smoothing added on top"),
        ("+ smoothing * shifted.mean(axis=-1)", "+ smoothing * shifted.sum(axis=-1)",
         "cross_entropy: smoothing not spread over the classes"),
        ("[places] -= 1 - smoothing", "[places] -= 1", "cross_entropy: gradient at the target ignores smoothing"),
        ("out -= smoothing / x.shape[-1]", "out -= smoothing / x.shape[0]", "cross_entropy: smoothing divided by rows, not classes"),
        ("g if kept is None else np.where(kept, g, 0))", "g)", "cross_entropy: gradient to ignored rows"),
        ("g if divisor is None else g / divisor", "g", "cross_entropy: gradient not divided"),
        ("np.add.reduce(y) / divisor, dx", "np.add.reduce(y), dx", "cross_entropy: sum for mean"),
        ("y = y if kept is None else np.where(kept, y, 0)", "y = y", "cross_entropy: loss of ignored rows"),
        ("np.maximum.reduce(upright, axis=0, initial=-math.inf)", "np.maximum.reduce(upright, axis=0, initial=0)",
         "rows far below 0 underflow"),
        ("if x.size > 1024 and x.ndim > 1 and axis in (-1, x.ndim - 1)", "if x.size > 1024 and x.ndim > 1",
         "softmax of many rows: the largest of the wrong axis"),
        ("if x.size > 512 and x.ndim > 1 and axis in (-1, x.ndim - 1)", "if x.size > 512 and x.ndim > 1",
         "softmax of many rows: sum over the wrong axis"),
        ("np.ones((x.shape[-1], 1), x.dtype)", "np.ones((x.shape[-1], 1))", "softmax of many rows: float64 creeps in"),
        (' if y.flags.c_contiguous else np.exp(y, order="C")', "", "softmax of a transposed tensor: not in rows"),
        ("np.add.reduce(x, axis=axis, dtype=dtype", "np.add.reduce(x, axis=-1, dtype=dtype", "softmax: sum over the wrong axis"),
        ("np.square(centered).mean(axis=axis, keepdims=True) + eps)", "np.square(centered).mean(axis=axis, keepdims=True)) + eps",
         "standardize: eps outside the root"),
        ("np.square(centered).mean(axis=axis, keepdims=True)", "centered.var(axis=axis, keepdims=True, ddof=1)",
         "standardize: unbiased variance"),
        ("(g - mean_g - y * mean_gy)", "(g - y * mean_gy)", "standardize: the mean as a constant"),
        ("(g - mean_g - y * mean_gy)", "(g - mean_g)", "standardize: the variance as a constant"),
        ("keepdims=True, dtype=np.float64)", "keepdims=True)", "standardize: squares overflow in float32"),
        ("dtype=np.float64).mean(axis=axis, keepdims=True) + eps)", "dtype=np.float64).mean(axis=axis, keepdims=True)) + eps",
         "rms_normalize: eps outside the root"),
        ("(g - y * (g * y).mean(", "(g - y * (g * y).sum(", "rms_normalize: sum for mean"),
        ("np.square(x, dtype=np.float64)", "np.square(x)", "rms_normalize: squares overflow in float32"),
    ],
    "minigrad/ops/places.py": [
        ("g.transpose(sorted(range(x.ndim), key=[i % x.ndim for i in axes].__getitem__))", "g.transpose(axes)", "transpose: not undone"),
        ("np.add.at(out, index, g)", "out[index] = g", "indexing: of a place picked twice, one gradient is lost"),
        ("np.add.at(out.reshape(-1).view(kind), places.reshape(-1), g", "np.put(out.reshape(-1).view(kind), places.reshape(-1), g",
         "embedding: of an id used twice, one gradient is lost"),
        (".astype(np.intp, copy=False) * width", " * width", "rows picked by ids of a short dtype: gradients to other rows"),
        ("copy=False) * width", "copy=False) * len(x)", "embedding: gradients to the wrong ids"),
        ("lambda g: g.swapaxes(i, j)", "lambda g: g", "swapaxes: not undone on the way back"),
        ("        out[index] = 0", "        out[index] += 0", "scatter: gradient to what was overwritten"),
        ("    y = x.copy()", "    y = x", "scatter: writes into its input"),
        ("slice(end - x.shape[axis], end)", "slice(0, x.shape[axis])", "cat: all get the gradient of the first part"),
        ("lambda g: np.triu(g, diagonal)", "lambda g: np.triu(g)", "triu: diagonal forgotten on the way back"),
        ("lambda g: np.tril(g, diagonal)", "lambda g: g", "tril: gradient to what was cut off"),
        ('x.copy(order="C")', 'x.copy(order="K")', "contiguous: isn't"),
    ],
    "minigrad/ops/arrays.py": [
        ("np.expand_dims(g, axis)", "g", "reductions: the summed axis isn't given back"),
        ("y if y.flags.c_contiguous else y.copy()", "y", "reductions of a transposed tensor: not in rows"),
    ],
    "minigrad/attention.py": [
        ("q if scale == 1 else q * scale", "q", "scores and dK not scaled"),
        ("s += wide_bias[pairs]", "s -= wide_bias[pairs]", "bias subtracted"),
        ("where=hidden[pairs]", "where=~hidden[pairs]", "mask inverted"),
        ("np.arange(m) <= np.arange(offset", "np.arange(m) < np.arange(offset", "a query doesn't see itself"),
        ("last = pairs[-2].start + offset", "last = pairs[-2].start", "offset forgotten: causal from the top left"),
        ("min(m, max(0, stop + offset))", "min(m, max(0, stop))", "offset forgotten: the last keys left out"),
        ("total += total == 0", "total += 0", "rows that see nothing are NaN"),
        ("shift[shift == -math.inf] = 0", "pass", "shift of rows that see nothing: inf - inf"),
        ("LOW, HIGH = 1e-10, 1e30", "LOW, HIGH = -1.0, 1e30", "rows of very small scores are 0/0"),
        ("and total.item(total.argmax()) < HIGH", "and True", "rows of large scores overflow"),
        ("math.prod(lead) * n * m <= KEEP", "True", "all weights kept: memory grows with n * m"),
        ("if shift is not None:", "if False:", "weights computed again without the shift"),
        ("ds -= D[rows]", "ds *= 1 - p", "softmax's gradient: only the diagonal"),
        ("dq *= scale", "pass", "dQ not scaled"),
        ("if 0 in lead:", "if False:", "an empty batch ends in NumPy's words"),
        ("scale = 1 / math.sqrt(d // num_heads)", "scale = 1 / math.sqrt(d)", "many heads: scaled by d_model"),
        ("dw[:d] * scale, ", "dw[:d], ", "many heads: gradient of W_q without the scale"),
        ("None, 0 if causal else None)", "None, 0)", "many heads: always causal"),
        ("merged = heads.swapaxes(-2, -3).reshape(tokens.shape)", "merged = heads.reshape(tokens.shape)",
         "many heads: merged as they stand"),
        ("[g_qkv.dot(w).reshape", "[(2 * g_qkv.dot(w) - g_qkv[:, : 2 * d].dot(w[: 2 * d])).reshape",
         "many heads: X's way through the values counts twice"),
        ("parts[..., i, :, :].swapaxes(-2, -3) for i in range(3)", "parts[..., i, :, :].swapaxes(-2, -3) for i in (1, 0, 2)",
         "many heads: queries and keys exchanged"),
        ("dw[d : 2 * d], dw[2 * d :]", "dw[2 * d :], dw[d : 2 * d]", "many heads: gradients of W_k and W_v exchanged"),
        ("to_heads(split(g.dot(w_o)), ", "to_heads(split(g), ", "many heads: the way back doesn't pass W_o"),
        ("q[rows], fresh)", "q[rows], True)", "dK of the last block of rows only"),
        ("g[rows], fresh)", "g[rows], True)", "dV of the last block of rows only"),
        ("total += np.matmul(a, b, part)", "total[...] = np.matmul(a, b, part)", "blocks overwrite each other's dK and dV"),
        ("for i in range(0, x.shape[-2], 64):", "for i in range(0, 64, 64):", "many rows: only the first keys turned"),
        (" or 0 in x.strides:", ":", "keys that heads share are copied for each"),
        ("dbias[place] += ", "dbias[place] = ", "gradient of a stretched mask: = for +="),
        ("part *= seen", "pass", "causal: later keys not hidden where the sums are in range"),
        ("np.copyto(part, -math.inf, where=seen == 0)", "pass", "causal: later keys not hidden where a shift is needed"),
        ("total = np.matmul(np.exp(s), ones)", "pass", "a later key that is NaN changes how earlier rows are rounded"),
        ("if not latest or latest[0] is not g:", "if not latest:", "a second backward gets the gradients of the first"),
    ],
    "minigrad/mode.py": [
        ("mode.pauses -= 1", "mode.pauses = 0", "the inner of two no_grad blocks ends both"),
        ("class _Mode(threading.local):", "class _Mode:", "no_grad in one thread disturbs another"),
    ],
    "minigrad/tensor.py": [
        ("if not mode.pauses:", "if True:", "no_grad ignored"),
        ("if isinstance(x, Tensor) and x._requires_grad:", "if isinstance(x, Tensor):", "constants get gradients"),
        ("g = np.add.reduce(g, tuple(range(g.ndim - len(shape))))", "g = g[(0,) * (g.ndim - len(shape))]",
         "broadcast: the new axes aren't summed"),
        ("g = np.add.reduce(g, tuple(i for", "g = np.mean(g, tuple(i for", "broadcast: mean over the stretched axes"),
        ("if dx.shape != shape:", "if False:", "broadcast: not undone"),
        ("    error.add_note(", "    str(", "errors in backward don't say where"),
        ("grads[x] = grads[x] + dx", "grads[x] = dx", "a value used twice gets one of its gradients"),
        ("grads[x] = grads[x] + dx", "grads[x] += dx", "gradients added into an array that others hold"),
        ("heappush(waiting, (-x._birth, x))", "heappush(waiting, (x._birth, x))", "heap order reversed: old before young"),
        ("if not retain_graph:", "if False:", "the graph is never used up"),
        ("if not retain_graph:", "if True:", "retain_graph ignored"),
        ("if node._keep:", "if True:", "interior tensors keep gradients"),
        ("if node._keep:", "if False:", "retain_grad ignored"),
        ('return g.astype(dtype, "C")', "return g", "leaves share one gradient array"),
        ("(x._grad._data + g).astype(dtype, copy=False)", "g", "a second backward overwrites instead of adding"),
        ("            if self._data.size != 1:", "            if False:", "backward of many numbers takes ones as gradient"),
        ("if seed.shape != self._data.shape:", "if False:", "a seed of the wrong shape is broadcast"),
        ("else arguments.array_of(seed, self._data.dtype)", "else seed", "float64 creeps in through the seed"),
        ('if value and self._data.dtype.kind != "f":', "if False:", "integers may require a gradient"),
        ("return wrap(self._data)", "return self", "detach doesn't"),
        ("wrap(arguments.array_of(data), into=self)", "wrap(data, into=self)", "a tensor shares the user's array"),
        ('uiet.run(np.seterr, all="ignore")', 'uiet.run(np.seterr, all="warn")', "NumPy's warnings leak out"),
        ("if type(result) is not tuple or len(result) <= len(inputs):", "if False:", "an op without gradients is taken for one"),
        ("np.asarray(array) if isinstance(array, np.ndarray)", "array if isinstance(array, np.ndarray)",
         "a tensor holds a memmap, not an array"),
        ("    t._requires_grad = requires_grad\n", "    t._requires_grad = False\n", "a copied model doesn't learn"),
    ],
    "minigrad/conversions.py": [
        ("        return self._data.copy()", "        return self._data", "numpy() hands out the array itself"),
        ('"subtract": "sub"', '"subtract": "add"', "array - tensor"),
    ],
    "minigrad/operators.py": [
        ("return x.item()  # np.float64(3)", "return x  # np.float64(3)", "float64 creeps in through a NumPy number"),
        ('if array.dtype.kind == like.dtype.kind == "f" else array', "if False else array", "float64 creeps in through an array"),
        ("[x for x in voters if x.ndim] or voters", "voters", "float64 creeps in through a 0-d tensor"),
        ("            dtype = float32", "            dtype = np.dtype(float)", "int tensor times 0.5 is float64"),
        ('if op is ops.div and dtype.kind != "f":', "if False:", "int / int is float64"),
        ("elementwise(ops.sub, other, self)", "elementwise(ops.sub, self, other)", "1 - x is x - 1"),
        ("elementwise(ops.div, other, self)", "elementwise(ops.div, self, other)", "1 / x is x"),
        ("elementwise(ops.pow, other, self)", "elementwise(ops.pow, self, other)", "2 ** x is x ** 2"),
        ("return (a if isinstance(a, Operators) else self._wrap(a)).matmul(self)", "return self.matmul(a)", "array @ x is x @ array"),
        ("self._data = y.to(self.dtype)._data", "self._data[...] = y._data", "-= writes into the array"),
        ("if self._frozen() and self._op is None:", "if False:", "a leaf may be changed in place while a graph is recorded"),
        ("array = self._data.copy()", "array = self._data", "x[...] = value writes into the array"),
        ("compare(np.less, self, other)", "compare(np.less_equal, self, other)", "< is <="),
        ("logical(np.logical_or, self, other)", "logical(np.logical_and, self, other)", "| is &"),
    ],
    "minigrad/gradcheck.py": [
        ("(ends[0] - ends[1]) / (2 * eps)", "(ends[0] - ends[1]) / eps", "differences twice as large"),
        ("random.standard_normal(y.shape)", "np.ones(y.shape)", "a plain sum hides errors"),
        ("np.random.default_rng([seed, 1])", "np.random.default_rng(seed)", "cotangents equal to inputs that were made with the same seed"),
        ("wrong = ~(np.abs(got - expected) <= atol", "wrong = ~(got - expected <= atol", "gradients that are too small pass"),
        ("wrong = ~(np.abs(got - expected) <= atol + rtol * max(scale, 1.0))",
         "wrong = np.abs(got - expected) > atol + rtol * max(scale, 1.0)", "NaN passes"),
        ("rtol * max(scale, 1.0)", "max(scale, 1.0)", "anything of the right size passes"),
        ("x.data, x.grad = data, grad", "x.data = data", "leaves its gradients behind"),
        ("            x.grad = None\n", "            pass\n", "counts the gradients that were there before"),
        ("zip(leaves, got, strict=True)", "list(zip(leaves, got, strict=True))[:1]", "only the first input is checked"),
        ("if x.dtype != float64:", "if False:", "float32 isn't refused"),
        ("moved = center.copy()", "moved = center", "steps add up"),
    ],
    "minigrad/optim.py": [
        ('return p - group["lr"] * g, state', 'return p + group["lr"] * g, state', "SGD: uphill"),
        ('group["momentum"] * state["velocity"] + g if state else g', "g", "SGD: momentum lost"),
        ('state["velocity"] + g if state', 'state["velocity"] + (1 - group["momentum"]) * g if state', "SGD: momentum as a mean"),
        ('state = {"velocity": g}', 'state = state or {"velocity": g}', "SGD: velocity of the first step for ever"),
        ('g = g + group["weight_decay"] * p', 'g = g - group["weight_decay"] * p', "SGD: weights grow"),
        ("if decay and self.decoupled:", "if False:", "AdamW: decoupled decay coupled"),
        ('p = p - group["lr"] * decay * p', "p = p - decay * p", "AdamW: decay without the learning rate"),
        ("            g = g + decay * p", '            g = g + group["lr"] * decay * p', "Adam: decay scaled"),
        ("(beta1, beta2), decay = ", "(beta2, beta1), decay = ", "Adam: betas swapped"),
        ('group["lr"] * start / (1 - beta1**t)', 'group["lr"] * start', "Adam: bias correction of the mean dropped"),
        ("start = math.sqrt(1 - beta2**t)", "start = 1.0", "Adam: bias correction of the square dropped"),
        ('np.add(root, group["eps"] * start, step)', 'np.sqrt(root * root + group["eps"] * start**2, step)', "Adam: eps inside the root"),
        ('group["eps"] * start', 'group["eps"]', "Adam: eps corrected too"),
        ('state.get("step", 0) + 1', "1", "Adam: steps not counted"),
        ("old * old, g * g", "old * old, g * 1.0", "Adam: square dropped"),
        (".astype(row.data.dtype, copy=False)", "", "float64 creeps in through a gradient"),
        ('map(float, group["betas"])', 'group["betas"]', "float64 creeps in through the betas"),
        ('None, dtype=data.dtype, casting="unsafe")', "None)", "float64 creeps in through the state"),
        ("all(map(operator.is_, map(DATA, self.params), self.pieces)) and", "",
         "a step goes on from the old data where p.data was rebound"),
        ("if sum([len(row.params) for row in old]) == len(params):", "if old:", "a parameter that joins the others is left behind"),
        ("waiting[p] = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()}", "waiting[p] = state",
         "the state of what no longer moves keeps the whole row alive"),
        ("waiting[p] = {k: v.copy()", "waiting[object()] = {k: v.copy()", "the state of a parameter without a gradient is forgotten"),
        ("set(state) != set(self.remembered) or ", "", "load_state_dict takes a state without its mean"),
        ("not 0 < state.get", "not -9 < state.get", "load_state_dict takes a step before the first"),
        ('(p._data.dtype, state.get("step", bool(state)))', "p._data.dtype",
         "Adam: a parameter that joins later takes over the steps of the others"),
        ("{**self.defaults, **group}", "{**group, **self.defaults}", "a group's own options are overwritten"),
        ("np.zeros_like(p.grad.data)", "p.grad.data", "zero_grad(set_to_none=False) does nothing"),
        ("if id(p) in seen:", "if False:", "a parameter given twice moves twice"),
        ("fresh: dict[Tensor, dict[str, Any]] = {}", "fresh: dict[Tensor, dict[str, Any]] = self.state", "load_state_dict keeps old state"),
        ("{**group, **g, ", "{**g, **group, ", "load_state_dict forgets the options"),
        ("weight_decay: float = 0.01", "weight_decay: float = 0.0", "AdamW: default decay"),
        ("root.dot(root) < math.inf", "True", "Adam: large gradients stop moving"),
        ("np.hypot(math.sqrt(beta2) * old, math.sqrt(1 - beta2) * g)", "np.hypot(beta2 * old, (1 - beta2) * g)",
         "Adam: large gradients weighted by the square of the betas"),
    ],
    "minigrad/serialization.py": [
        ("os.replace(aside, path)", "os.path.exists(path) and os.unlink(path); os.rename(aside, path)", "for a moment there is no file"),
        ('aside = f"{path}.{os.urandom(4).hex()}.saving"', "aside = path", "atomic rename dropped"),
        ("os.fsync(file.fileno())", "pass", "not flushed to the disk before the rename"),
        ("os.unlink(aside)", "pass", "a failed save leaves a file behind"),
        ("except BaseException:", "except Exception:", "Ctrl-C leaves a file behind"),
        ("np.lib.format.read_array(file, allow_pickle=False)", "np.lib.format.read_array(file, allow_pickle=True)",
         "load runs what is in the file"),
        ("if file.read(1):", "if False:", "bytes behind an array go unnoticed"),
        ('if int.from_bytes(file.read(2), "little") != min(len(names), 2**16 - 1):', "if False:",
         "a damaged table of contents goes unnoticed"),
        ('if any(n != _STRUCTURE and not n.endswith(".npy") for n in names):', "if False:", "foreign files are taken for ours"),
        ("while name in arrays:", "while False:", "two tensors under one name"),
        ('"list" if isinstance(obj, list) else "tuple"', '"list"', "tuples come back as lists"),
    ],
    "layers/attention.py": [
        ("+ [Linear.forward] != _AS_MADE or", "is None or", "one op: what a subclass changed is passed over"),
        ("if ONE_OP and context is None and mask is None and", "if ONE_OP and mask is None and", "one op: the context is passed over"),
        ("if ONE_OP and context is None and mask is None and", "if ONE_OP and context is None and", "one op: the mask is passed over"),
        ("if type(W) is not Linear or", "if", "one op: what a map computes is passed over"),
        (' or "forward" in vars(W)', "", "one op: what one map computes is passed over"),
        ("or not vars(layer).keys().isdisjoint(_METHODS)", "", "one op: a replaced method is passed over"),
        (" or W.bias is not None:", ":", "one op: the bias is passed over"),
        ("or w._data.shape != (d, d) or", "or", "one op: a map of another size ends in NumPy's words"),
        (" or not w._requires_grad:", ":", "one op: gradients of frozen weights are computed"),
        (" or layer.num_heads * layer.d_head != d:", ":", "one op: a changed number of heads runs"),
        (" or w._data.dtype != array.dtype or", " or", "one op: float64 creeps in"),
        ("diagonal=1 + m - n", "diagonal=1", "causal from the top left when m > n"),
        ("diagonal=1 + m - n", "diagonal=m - n", "a token doesn't see itself"),
        ("minigrad.triu(minigrad.ones(n, m), diagonal=1 + m - n)", "minigrad.tril(minigrad.ones(n, m), diagonal=m - n - 1)",
         "the past is hidden"),
        ("/ math.sqrt(d_head)", "/ d_head", "four steps: root of the scale forgotten"),
        ("/ math.sqrt(d_head)", "/ math.sqrt(m)", "four steps: scaled by the number of keys"),
        ('float("-inf")', "1e-10", "four steps: hidden scores are 0, not -inf"),
        ("scores.masked_fill(hidden,", "scores.masked_fill(~hidden,", "four steps: mask inverted"),
        ("minigrad.softmax(scores, dim=-1)", "minigrad.softmax(scores, dim=-2)", "four steps: softmax over queries"),
        ("1 / math.sqrt(Q.shape[-1])", "1 / math.sqrt(Q.shape[-1] * Q.shape[-3])", "fused: scaled by d_model"),
        ("offset=m - n if causal else None", "offset=0 if causal else None", "fused: causal from the top left"),
        ("None if mask is None and n <= m else", "None if mask is None else", "fused: blind queries aren't refused"),
        ("mask | causal_mask(n, m)", "mask & causal_mask(n, m)", "hidden only where both masks hide"),
        ("hidden is not None and (mask is not None or n > m)", "mask is not None", "causal with n > m: blind queries aren't refused"),
        ("blind = hidden.all(-1)", "blind = hidden.all(-2)", "keys nobody sees are refused"),
        ("self.W_v = Linear(d_model, d_model, bias)", "self.W_v = self.W_k", "values share the weights of keys"),
        ("self.split_heads(self.W_k(context))", "self.split_heads(self.W_k(x))", "keys don't come from the context"),
        ("mask = mask.unsqueeze(-3)", "mask = mask.unsqueeze(0)", "a batch's masks are taken for the heads'"),
        ("output = self.W_o(self.merge_heads(output))", "output = self.merge_heads(output)", "W_o forgotten"),
        ("(output, weights) if return_weights", "(output, weights.mean(-3)) if return_weights", "weights averaged over heads"),
        ("if ONE_OP and not return_weights:", "if not return_weights:", "what is changed in the steps isn't what runs"),
        ("x.view(*x.shape[:-1], self.num_heads, self.d_head).transpose(-3, -2)", "x.view(*x.shape[:-2], self.num_heads, -1, self.d_head)",
         "heads split without transpose"),
        ("x = x.transpose(-3, -2)  # (", "x = x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3], x.shape[-1])  # (",
         "heads merged without transpose"),
    ],
    "layers/functional.py": [
        ("rows.detach(), rows)", "rows, rows)", "embedding: gradient to the padding row"),
        ("input == padding_idx % count", "input == padding_idx", "embedding: padding_idx -1 is no row"),
        ("(x * -math.sqrt(0.5))", "(x * -math.sqrt(2.0))", "gelu: multiplied by the root of 2"),
        ("math.sqrt(8.0 / math.pi)", "math.sqrt(2.0 / math.pi)", "gelu tanh: factor 2 of the sigmoid dropped"),
        ("u = x.clamp(-100.0, 100.0)", "u = x", "gelu tanh: NaN gradient where x**3 overflows"),
        ("(x / (1.0 - p) if p < 1.0 else x)", "x", "dropout: mean not kept"),
        ("minigrad.rand(x.shape) < p", "minigrad.rand(x.shape) > p", "dropout: drops with probability 1 - p"),
        ("minigrad.rand(x.shape) < p", "minigrad.rand(x.shape[-1:]) < p", "dropout: one draw for all rows"),
        ("if not training or p == 0.0:", "if p == 0.0:", "dropout: on at evaluation"),
        ("    y = y if weight is None else y * weight", "    y = y if weight is None else y * weight.detach()",
         "layer_norm: weight outside the graph"),
        ("return y if bias is None else y + bias", "return y", "layer_norm: bias forgotten"),
        ("    return y if weight is None else y * weight", "    return y", "rms_norm: weight forgotten"),
        ('{"float32": 2.0**-23, "float64": 2.0**-52}[input.dtype.name]', "1e-6", "rms_norm: default eps"),
        ("tuple(range(-len(shape), 0))", "(-1,)", "norms: only the last of several dims"),
        ("x.permute(*(i for i in range(x.ndim) if i != dim), dim).reshape(", "x.reshape(",
         "cross_entropy: classes of (n, v, t) not moved last"),
        ("smoothing=smoothing, divisor", "smoothing=0.0, divisor", "cross_entropy: label smoothing ignored"),
        ("ids != integer(ignore_index,", "ids != integer(-100,", "losses: ignore_index ignored"),
        ("{\"mean\": float(count)", "{\"mean\": float(kept.size)", "losses: ignored targets count in the mean"),
        ("losses = -x.gather(", "losses = x.gather(", "nll_loss: sign"),
        ("losses.masked_fill(target._wrap(~kept), 0.0)", "losses", "nll_loss: ignored targets count as id 0"),
        ("difference * difference", "difference.abs()", "mse_loss: absolute"),
        ("if input.shape != target.shape:", "if False:", "mse_loss: (n, 1) against (n) not warned of"),
        ('losses.mean() if reduction == "mean" else losses.sum()', 'losses.mean() if reduction != "none" else losses.sum()',
         "losses: sum is mean"),
        (".max()) + 1 if", ".max()) if", "one_hot: one class too few"),
        ("1.0 / math.sqrt(q.shape[-1])", "1.0 / q.shape[-1]", "sdpa: root of the scale forgotten"),
        ("unseen = ~attn_mask._data", "unseen = attn_mask._data", "sdpa: True = hidden"),
        ("0 if is_causal else None", "k.shape[-2] - q.shape[-2] if is_causal else None", "sdpa: causal from the bottom right"),
        ("minigrad.ones(n, m).triu(1)", "minigrad.ones(n, m).triu(1 + m - n)", "sdpa with dropout: causal from the bottom right"),
        ("hidden = ~attn_mask if", "hidden = attn_mask if", "sdpa with dropout: True = hidden"),
        ("scores.softmax(-1).masked_fill(blind, 0.0)", "scores.softmax(-1)", "sdpa with dropout: blind rows attend to all"),
        ("attn_mask.to(q.dtype).masked_fill(blind, 0.0)", "attn_mask.to(q.dtype)", "sdpa with dropout: NaN where a float mask hides a row"),
        ("return dropout(weights, dropout_p) @ v", "return weights @ v", "sdpa: no dropout beside a mask"),
        ("scores = query @ key.mT * scale", "scores = query @ key.mT", "sdpa with dropout: not scaled"),
    ],
    "layers/normalization.py": [
        ("minigrad.zeros(normalized_shape)", "minigrad.ones(normalized_shape)", "LayerNorm: bias starts at 1"),
        ("if elementwise_affine and bias else None", "if elementwise_affine else None", "LayerNorm: bias=False ignored"),
        ("self.weight, self.bias, self.eps)", "self.weight, self.bias)", "LayerNorm: eps ignored"),
        ("eps: float = 1e-5", "eps: float = 1e-6", "LayerNorm: default eps"),
        ("self.normalized_shape, self.weight, self.eps)", "self.normalized_shape, None, self.eps)", "RMSNorm: weight forgotten"),
        ("eps: float | None = None", "eps: float | None = 1e-5", "RMSNorm: default eps"),
    ],
    "layers/embedding.py": [
        ("weight[padding_idx] = 0.0", "pass", "the padding row doesn't start at 0"),
    ],
    "layers/dropout.py": [
        ("self.p, self.training)", "self.p)", "on at evaluation"),
    ],
    "layers/module.py": [
        ("if id(part) not in seen:", "if True:", "tied parameters are listed twice"),
        ("if id(self) not in seen:", "if True:", "shared modules are listed twice"),
        ("isinstance(value, list | tuple | dict)", "isinstance(value, list | tuple)", "modules in a dict aren't found"),
        ('yield from _found(item, f"{name}.{key}")', "yield from ()", "modules in lists aren't found"),
        ('or vars(self).get("_buffers", {}).get(name)', "or False", "buffers aren't saved"),
        ("[name] = persistent", "[name] = True", "buffers that aren't persistent are saved"),
        ("t.detach() for name, t in self._persistent()", "t for name, t in self._persistent()", "a state dict changes with the model"),
        ("t.to(own[name].dtype).data.copy()", "t.data.copy()", "loading changes the dtype"),
        ('("unexpected", unexpected)] if strict else [])', '("unexpected", unexpected)] if not strict else [])', "strict inverted"),
        ('[("other shape", wrong)]', "[]", "weights of another shape are loaded"),
        ("module.training = mode", "self.training = mode", "children stay in training mode"),
        ("return self.train(False)", "return self.train()", "eval() trains"),
        ("zero_grads(self.parameters(), set_to_none)", "zero_grads([], set_to_none)", "zero_grad does nothing"),
        ("p.requires_grad = requires_grad", "p.requires_grad = True", "freezing does nothing"),
        ('isinstance(t, Tensor) and t.dtype.kind == "f"', "isinstance(t, Tensor)", "double() turns ids into floats"),
        ("for module in self._items.values():", "for module in reversed(self._items.values()):", "Sequential runs backwards"),
        ("t.to(own[name].dtype).data.copy()", "t.to(own[name].dtype).data", "a model shares the arrays it was loaded from"),
        ('path.removeprefix("_items.")', "path", "what a container holds is named after the dict inside"),
        ("self._items = {_name(key, Sequential): module for key, module in zip(only, self, strict=True)}", "pass",
         "Sequential of a dict: numbers for names"),
        ("return type(self)(dict(list(self._items.items())[index])) if", "return super().__getitem__(index) if",
         "a part of a Sequential loses the names"),
        ("str(i) if name.isdecimal() else name: part", "str(i): part", "a Sequential that grows loses its names"),
        ("items.insert(index, (", "items.insert(len(items), (", "insert puts at the end"),
        ("return self.insert(len(self), module)", "return self.insert(-1, module)", "append puts before the last"),
        ("__iadd__ = extend", "__iadd__ = lambda self, more: type(self)([*self, *more])", "+= makes another list"),
        ("self._items[list(self._items)[index]] =", "self._items[str(index)] =", "a module put in by number leaves the old one in"),
        ("self._items[name] = _module(value, type(self).__name__)", "super().__setattr__(name, value)",
         "a module put in by name leaves the old one in"),
        ('return self._items[name] if name in vars(self).get("_items", ()) else ', "return ",
         "the modules of a Sequential aren't known by name"),
        ("for module in [_module(m, kind) for m in listed(", "for module in [m for m in listed(",
         "extend puts in what stands before a wrong module"),
        ('and "." not in key', "", "a module's name may hold dots"),
        ("and not hasattr(owner, key)", "", "a module named like a method hides behind it"),
    ],
    "layers/init.py": [
        ("* std + mean", "* std**2 + mean", "normal_: the variance for the deviation"),
        ("* width + a", "* width", "uniform_: from 0"),
        ("return tensor.shape[1] * field, tensor.shape[0] * field", "return tensor.shape[0] * field, tensor.shape[1] * field",
         "fans swapped"),
        ("math.prod(tensor.shape[2:])", "1", "fans without the further axes"),
        ("math.sqrt(6.0 / sum", "math.sqrt(3.0 / sum", "xavier_uniform_: bound"),
        ("math.sqrt(2.0 / sum", "(2.0 / sum", "xavier_normal_: root forgotten"),
        ("math.sqrt(3.0) * _kaiming", "_kaiming", "kaiming_uniform_: root of 3 forgotten"),
        ("(1 + a * a)", "(1 + a)", "kaiming: slope not squared"),
        ('[mode == "fan_out"]', '[mode == "fan_in"]', "kaiming: mode inverted"),
        ('"tanh": 5.0 / 3', '"tanh": 1.0', "kaiming: gain of tanh"),
    ],
    "layers/utils.py": [
        ("if scale < 1.0 or math.isnan(scale):", "if True:", "clip_grad_norm_: small gradients grow"),
        ("minigrad.stack([g.norm(norm_type) for g in grads]).norm(norm_type)", "max(g.norm(norm_type) for g in grads)",
         "clip_grad_norm_: each alone"),
        ("return (step + 1) / warmup", "return step / warmup", "warmup_cosine: first step 0"),
    ],
    "minigrad/arguments.py": [
        ("unsigned = ids.astype(np.uint64)", "unsigned = ids", "negative ids wrap"),
        ("unsigned.argmax()) >= count", "unsigned.argmax()) > count", "an id too large by 1 isn't refused in our words"),
        ("return array.astype(float32)  # a Python float", "return array  # a Python float", "float64 creeps in from Python floats"),
        ("np.tri(n, dtype=np.bool_)).all()", "np.tri(n, dtype=np.bool_)).any()", "warned of masks that are right"),
    ],
    "minigrad/methods.py": [
        ('.sum(dim, keepdim) / self._count(dim, "mean")', ".sum(dim, keepdim) / self._data.size",
         "mean over a dim divided by the number of all"),
        ("- bool(unbiased), 0.0)", "- (not unbiased), 0.0)", "var and std: n and n - 1 exchanged"),
        ("choose(constant(mask, self), value,", "choose(~constant(mask, self), value,", "masked_fill: mask inverted"),
        ("return -(-self).max() if", "return (-self).max() if", "min: sign"),
        ('self._found(np.argmin, "min"', 'self._found(np.argmax, "min"', "min(dim) is max(dim)"),
        ('order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)',
         'order = np.flip(np.argsort(x, axis=axis, kind="stable"), axis)', "sort descending: equal values change their order"),
        ("return 1.0 / self.sqrt()", "return 1.0 / self", "rsqrt: root forgotten"),
        ("return x.abs().sum(dim, keepdim)", "return x.sum(dim, keepdim)", "norm 1: signs cancel"),
        ("return a.unsqueeze(0).matmul(b).squeeze(0 if m == 1 else -2)", "return a.unsqueeze(0).matmul(b).squeeze(0)",
         "vector @ batch: the wrong dim dropped"),
    ],
    "minigrad/layout.py": [
        ("i=i, j=j)", "i=i, j=i)", "transpose: nothing is exchanged"),
        ("if base is not x and base is not x.base and x.size:", "if False:", "view copies"),
        ("reshape([m for n in shape for m in (1, n)])", "reshape([m for n in shape for m in (n, 1)])",
         "repeat: each element repeated, not the whole"),
        ("slice(end - s, end)", "slice(0, s)", "split: all pieces are the first"),
        ("self.reshape(self.shape[:axis] + (1,) + self.shape[axis:])", "self.reshape((1,) + self.shape)", "unsqueeze: always in front"),
        ("return self.transpose(-2, -1)", "return self.T", "mT: all dims reversed"),
    ],
    "minigrad/functions.py": [
        ("return cat([t.unsqueeze(axis) for t in parts], axis)", "return cat([t.unsqueeze(axis) for t in parts], 0)",
         "stack: always along dim 0"),
        ("dtype = common_dtype([t.data for t in parts])", "dtype = parts[0].dtype", "cat: the dtype of the first"),
    ],
    "minigrad/creation.py": [
        ("_generator.seed([number", "_generator.seed(0 and [number", "manual_seed: the same for every large or negative seed"),
        ("return wrap(np.minimum(ids, last[..., None]))", "return wrap(ids)", "multinomial: an id of weight 0 or past the end"),
        ("np.floor(_drawn(_generator.random_sample, shape) * 2**bits) / 2**bits", "_drawn(_generator.random_sample, shape)",
         "rand: 1.0 by rounding to float32"),
        ("(points[..., None] >= edges[..., None, :])", "(points[..., None] < edges[..., None, :])",
         "multinomial: counted from the wrong end"),
    ],
    "minigrad/tape.py": [
        ("shelf.pop() if shelf else _in_lines(size)", "(shelf or [_in_lines(size)])[-1]",
         "an array's room is given away twice"),
        ('["data"][0] % 64', '["data"][0] % 32', "arrays of a recording lie across lines of the cache"),
        ("        self.shelf.append(self.room)", "        pass", "room that is free stays so: no array gets it"),
        ("strides=np.empty_like(like).strides", "order='C'", "a transposed result is played into rows"),
        ("if self.thread != threading.get_ident():", "if False:", "a recording that is over records on"),
        ("if not isinstance(target, Traced):", "if False:", "what goes into an array that isn't traced is lost"),
        ("if value.size and np.may_share_memory(value, x.array):", "if False:", "each view becomes a copy"),
        ("return Traced(value, self, x.memory)", "return Traced(value, self, _Memory(0, self.free))",
         "the room of a view is given to others"),
        ("np.asarray(x, kind) if kind and type(x) is float else x", "np.asarray(x) if type(x) is float else x",
         "a Python float in float64"),
        ("if value is result or isinstance(result, np.generic):", "if True:",
         "functions that answer Python numbers are given an array to fill"),
        ("if function is not np.empty_like:", "if False:", "zeros_like: what stood there before"),
        ("    np.copyto(place, value)\n\n", "    pass\n\n", "functions without `out` are played for nothing"),
        ("value.shape != place.shape or value.dtype != place.dtype", "False", "x[mask] of another length goes into the old place"),
        ("if _exactly(read(array, *args)) != value:", "if False:", "what Python saw before is taken for true"),
        ("self.tape.calls.append(functools.partial(_same, _exactly(value), read, self.array, *args))", "pass", "looking leaves no mark"),
        ("x.hex() if isinstance(x, float) else x", "x", "-0.0 is taken for 0.0"),
        ("        self.refusal = why\n", "", "an error that the function swallowed is forgotten"),
        ("        self.drew = True\n", "", "random numbers of a call that failed are lost"),
        ("if _name(function) not in _VIEWS:", "if False:", "a positional output is taken for a view"),
        ("            if target.memory.fixed:\n", "            if False:\n", "gradients that share an array are written into"),
        ("np.asarray(function is np.ones_like, place", "np.asarray(False, place", "ones_like: zeros"),
        ("if type(x) is Traced else tapes[0].constant(x) for x in arrays]", "for x in arrays]", "attention over constants isn't recorded"),
        ('Traced(array.copy("K"), self, _Memory(0, {}))', "self.copied(array)", "the seed of backward() is overwritten"),
    ],
    "minigrad/effects.py": [
        ("if len(set(grads)) < len(grads):", "if False:", "one gradient of two tensors becomes two"),
        ("if any(x._grad is not None and x._grad._requires_grad for x in self.seen):", "if False:", "gradients lose their graph"),
        ("        self.final |= final\n", "", "what is computed after a step has the weights from before it"),
        ("if x in self.touched or g is not self.seen[x]]", "if g is not self.seen[x]]", "a gradient that is None again keeps what it had"),
        ("self.asked |= {x} - self.replaced", "self.asked.add(x)", "steps that set gradients anew wait for None"),
        ("self.asked |= {x} - self.replaced", "pass", "a step adds to gradients that aren't there any more"),
        ("if not all(x in self.seen for x in of):", "if False:", "gradients of what a step makes are clipped"),
    ],
    "minigrad/surroundings.py": [
        ("        self._walk(function)  # once more", "        # once more", "attributes that are named deeper are not watched"),
        ("list(map(len, self.containers)) == self.lengths and all", "all", "a list that grew"),
        ("            itertools.chain.from_iterable(self.containers),\n", "", "lists, dicts and modules"),
        ("            map(_FIELDS, self.objects),\n", "", "an object with another __dict__"),
        ("            map(_CELL, self.cells),\n", "", "variables of the closure"),
        ("            map(_DEFAULTS, self.functions),\n", "", "defaults"),
        ("            map(operator.call, self.readers, self.named),\n", "", "globals"),
        ("            map(_FLAG, self.tensors),\n", "", "requires_grad switched, and not noticed"),
        ("            map(DATA, self.constants),\n", "", "constants with other data"),
        ("            if x._requires_grad and x._op is None:\n", "            if False:\n", "no_grad: weights in reach are constants"),
        ("return [(x._function, watched)]", "return []", "what a compiled function inside reads"),
        ("return [(x.__self__, watched), (x.__func__, watched)]", "return []", "what a bound method reads"),
        ("(part, watched) for part in (x.func, x.args, x.keywords)", "(part, watched) for part in ()", "what a partial function reads"),
        ("sides: list[Any] = [x.keys(), x.values()]", "sides: list[Any] = [x.values()]", "other keys in a dict"),
        ("            self._read(vars(x), named, watched)\n", "", "attributes of objects"),
        ("(name in self._methods and callable(part))}", "name in self._methods}", "a number with the name of a method counts"),
        ('if "GLOBAL" in step.opname or step.opname == "LOAD_NAME":', 'if "GLOBAL" in step.opname or "LOAD" in step.opname:',
         "a global with the name of an attribute counts"),
        ("attributes |= {x for x in code.co_consts", "_ = {x for x in code.co_consts", "attributes named by text"),
        ('hidden = ("_rows", "_waiting") * isinstance(x, Optimizer)', "hidden = ()", "an optimizer's steps are assignments"),
        ("if isinstance(x, staticmethod | classmethod):", "if False:", "what static methods read"),
        ("* isinstance(x, dict | list | set | deque)", "* isinstance(x, dict | list | set)", "a deque keeps what a recording put in"),
        ("                space[name] = old\n", "                pass\n", "globals are set twice"),
        ("                setattr(owner, name, old)\n", "                pass\n", "variables of a closure are set twice"),
        ("            if not _alike(now, old):", "            if False:", "a learning rate that a step sets isn't set when it is played"),
        ("(store.update if isinstance(store, set) else store.extend)(old)", "pass", "a list loses what was in it"),
        ("return [(type(x), watched), *((part", "return [*((part", "methods and attributes of an object's class"),
        ("for part in (*fields.values(), type(x))]", "for part in fields.values()]", "methods of a module"),
        ("watched and name in named) for", "watched) for", "an optimizer's steps count as changes"),
        ('return unnamed or name in self._attributes', 'return True or name in self._attributes',
         "methods that nobody calls are read: an optimizer's steps count"),
        ("            map(operator.call, self.slots),\n", "", "objects with slots"),
        ("return [(x.fget, watched)]", "return []", "what a property reads"),
    ],
    "minigrad/compiling.py": [
        ("        if mode.tape:\n", "        if False:\n", "compiled in a compiled function: recorded on two tapes"),
        ("if all(thread == threading.get_ident() for thread in Recording.running):", "if True:",
         "weights are traced while other threads use them"),
        ("key = (mode.pauses > 0, len(args)", "key = (len(args)", "no_grad: a graph all the same, or none afterwards"),
        ("len(args), *options, *map", "len(args), *map", "two options exchanged"),
        ("        variant = next((v for v in self._variants if v.surroundings.unchanged()), None)",
         "        variant = next(iter(self._variants), None)",
         "other surroundings, old recording"),
        ("                kind.misses += 1\n", "", "never recorded anew where a number has changed for good"),
        ("                self._credit = min(self._credit + 1, 16 * CREDIT)\n", "", "given up after 64 calls, although others were served"),
        ("if len(kind.alive) == WAITING:", "if False:", "recordings without end where losses wait"),
        ("mode.pauses, mode.exploring = 0, exploring or", "mode.exploring = exploring or",
         "no_grad: weights in hidden places are constants"),
        ("y = y.detach() if pauses else y", "y = y", "no_grad: the first result has a graph"),
        ("_Kind(found | variant.surroundings.leaves)", "_Kind(variant.surroundings.leaves)", "weights in hidden places are met late"),
        ("if len(variant.kinds) == KINDS:", "if False:", "kinds without end"),
        ("if not (recording.agrees(y, tensors) and", "if not (", "a recording of something else is played"),
        ("and all(map(same_gradient, found, [x._grad for x in around]))", "", "a recording that sets other gradients is played"),
        ("                set_all(before)  # back", "                # back", "a step is recorded with the weights after it"),
        ('raise Refused(f"it changes a variable', 'Refused(f"it changes a variable',
         "what the plain call has set isn't set when it is played"),
        ("if others != _other_random():", "if False:", "random numbers of Python are constants"),
        ("            kind.ready.clear()  # it is seldom", "            # it is seldom", "the rare way stays recorded"),
        ("kind.misses = max(0, kind.misses - 1)", "kind.misses = 0", "a rare way that is met now and then stays recorded"),
        ("            if recording.fits():", "            if True:", "gradients from before that aren't there are read"),
        ("            kind.ready.pop(0)  # none", "            # none", "recordings without end where gradients are of many kinds"),
        ("= 0, exploring or pauses > 0", "= 0, pauses > 0", "a compiled function inside ends the search of the one around it"),
        ("if key not in variant.kinds:", "if True:", "a mode that a step sets itself: recorded anew after each change"),
        ("        variant = variant or next(", "        variant = variant or None and next(",
         "a mode that a step sets itself: new surroundings each time"),
        ("                set_rng_state(random)  # for", "                # for", "an error under no_grad draws random numbers twice"),
        ("            set_rng_state(after)\n", "            pass\n", "random numbers of what can't be recorded are drawn twice"),
        ("return WEIGHT(x)", "return WEIGHT(x)[:3]", "requires_grad of an argument ignored"),
        ("return x.hex()", "return x", "0.0 is -0.0"),
        ("return type(x), x", "return x", "True is 1"),
    ],
    "minigrad/recording.py": [
        ('"_data.dtype", "_requires_grad")', '"_data.dtype")', "hidden weights that are frozen get gradients"),
        ("for x in tensors if x._grad is not None)]", "for x in tensors if False)]",
         "a gradient that is changed in place is changed twice"),
        ("            if type(y._data) is not Traced:\n", "            if False:\n", "a frozen weight is returned as it was before"),
        ("    gradient.memory.read = True  # it may", "    # it may", "a gradient from before that is handed on stays as it was recorded"),
        ("x._requires_grad = given._requires_grad", "pass", "no gradient for arguments"),
        ("*state(around)], Snapshot", "], Snapshot", "weights stay traced"),
        ("            finally:  # once more", "            except ZeroDivisionError:  # once more",
         "weights stay traced if Ctrl-C comes while they are put back"),
        ("if tape.refusal:", "if False:", "an error that the function swallowed is forgotten"),
        ("if data is not old or flag is not old_flag:", "if flag is not old_flag:", "an update inside is forgotten"),
        ("if data is not old or flag is not old_flag:", "if data is not old:", "a weight that is frozen inside isn't when it is played"),
        ("if any(x._grad is not None or x in effects.asked for x in inputs):", "if any(x in effects.asked for x in inputs):",
         "the gradient of an argument isn't set"),
        ("if any(x._grad is not None or x in effects.asked for x in inputs):", "if any(x._grad is not None for x in inputs):",
         "the gradient of an argument is None"),
        ('if any(type(x) is Traced and x.memory is getattr(y._data, "memory", None) for x in changing):', "if False:",
         "a weight as a result is the one before the step"),
        ("[last] * bool(last.gradients)", "[]", "gradients that no step needs aren't set"),
        ("return all(_layout(x._grad) == like for x, like in self.asked)", "return True",
         "a step adds to nothing where there is something"),
        ("np.copyto(place, x._grad._data)", "pass", "gradients that add up: always the first ones"),
        ("            if moving or not step.moves:\n", "            if True:\n", "the second step is taken twice"),
        ("            self._take_steps(True)\n", "", "no step is taken"),
        ("y._requires_grad, y._op, y._options = True, self, {}", "y._requires_grad, y._op = True, self",
         "a loss that is used up can't be printed"),
        ("y._requires_grad, y._op, y._options = True, self, {}", "pass", "a loss that is used up requires no gradient"),
        ("            lease.clear()\n", "            pass\n", "a recording is in use as long as its result"),
        ("            leaves |= strangers\n", "", "a weight that is first met later is never known"),
        ("if type(y._data) is Traced:", "if False:", "the weight itself as a result is a constant"),
        ("if any(decides(call) for call in self.backward):", "if False:", "a look in backward ends in an error without words"),
        ("if places[leaf].memory.read]", "]", "each weight in reach is copied, read or not"),
        ("quiet.copy().run(y._walk, seed, True)", "quiet.copy().run(y._walk, seed, False)",
         "backward(retain_graph=True) finds overwritten arrays"),
        ('[gradient.copy("K") for gradient in recording.gradients]', "recording.gradients", "gradients are overwritten on their way"),
        ('        return self.value.copy("K")', "        return self.value", "the result is overwritten by the next call"),
        ("            np.copyto(recording.seed, g)\n", "", "the gradient that arrives is taken for 1"),
        ("            self.ready.append(self.recording)", "            pass", "a recording serves once"),
        ("get_rng_state() if self.drew else None", "None", "random numbers of a call that failed are lost"),
        ('attrgetter("_data.shape", "_data.strides",', 'attrgetter("_data.shape",', "other layouts, other last bits"),
    ],
    "minigrad/memory.py": [  # noticed where the C library is glibc
        ('name == "GLIBC_TUNABLES" or name.startswith("MALLOC_")', 'name.startswith("MALLOC_")', "GLIBC_TUNABLES overruled"),
        ('name == "GLIBC_TUNABLES" or name.startswith("MALLOC_")', 'name == "GLIBC_TUNABLES"', "MALLOC_ variables overruled"),
        ('os.environ.get("MINIGRAD_KEEP_MEMORY") != "0" and ', "", "can't be switched off"),
        ("ask(M_MMAP_THRESHOLD, 32 * MIB)", "ask(M_MMAP_THRESHOLD, MIB // 8)", "arrays of more than 128 KiB stay outside the heap"),
        ("ask(M_TRIM_THRESHOLD, 64 * MIB)", "ask(M_TRIM_THRESHOLD, MIB)", "what is freed is returned"),
        ("(ImportError, ", "(", "no import where Python has no ctypes"),
        ("AttributeError, ", "", "no import where the C library has no mallopt"),
        ("        return False", "        return True", "True where nothing was asked"),
        ('phase == "stop" and info["generation"] == 2', "False", "what lies free inside the heap stays for ever"),
        ("ctypes.c_size_t(64 * MIB)", "ctypes.c_size_t(0)", "a full collection returns all"),
    ],
    "layers/decoder.py": [
        ("[angle.sin(), angle.cos()]", "[angle.cos(), angle.sin()]", "sinusoidal_positions: sine and cosine exchanged"),
        ("a * cos - b * sin, a * sin + b * cos", "a * cos + b * sin, b * cos - a * sin", "rotary: turned the other way"),
        ("start = 0 if cache is None else cache.length(self)", "start = 0", "rotary: positions count from 0 behind a cache"),
        ("Q, K = rotary(Q, start), rotary(K, start)", "Q = rotary(Q, start)", "rotary: keys not turned"),
        ("minigrad.cat([past_V, V], dim=-2)", "minigrad.cat([V, past_V], dim=-2)", "cache: values in the wrong order"),
        ("F.silu(self.W_gate(x)) * self.W_up(x)", "F.silu(self.W_up(x)) * self.W_gate(x)", "SwiGLU: gate and value exchanged"),
        ("y: Tensor = x + self.mlp(self.norm2(x))", "y: Tensor = self.mlp(self.norm2(x))", "decoder layer: residual forgotten"),
        ("x = x + self.attention(self.norm1(x), cache)", "x = self.norm1(x + self.attention(x, cache))",
         "decoder layer: norm behind the sum"),
        ("table[start : start + t]", "table[:t]", "positions count from 0 behind a cache"),
        ("self.head.weight = self.embedding.weight", "pass", "weights not tied"),
        ("self.head(self.norm(x))", "self.head(x)", "last norm forgotten"),
    ],
    "layers/sampling.py": [
        ("logits - (-u.log()).log()", "logits + (-u.log()).log()", "gumbel_max: sign of the noise"),
        ("before = values.cumsum(-1) - values", "before = values.cumsum(-1)", "top_p: one id too few"),
        ("logits = model(new, cache)", "logits = model(ids, cache)", "generate: the cache sees tokens twice"),
        ("if use_cache and ids.shape[-1] <= model.max_length:", "if use_cache:", "generate: the cache grows beyond max_length"),
    ],
}
# fmt: on


class Mutant(NamedTuple):
    file: str
    old: str
    new: str
    breaks: str

    def text(self, root: Path) -> str:
        """The file with the bug in it."""
        text = (root / self.file).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} must hold {self.old!r} exactly once, and holds it {text.count(self.old)} times: mend the table")
        return text.replace(self.old, self.new)


MUTANTS = [Mutant(file, *row) for file, rows in TABLE.items() for row in rows]


def copied(folder: Path) -> Path:
    """A new project in the folder: packages, tests, settings, and a plugin for pytest that hides PyTorch."""
    for name in ("minigrad", "layers", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "without_torch.py").write_text("import sys\nsys.modules['torch'] = None\n")
    return folder


def first_failure(folder: Path, file: str = "", limit: float | None = None) -> str:
    """The test that noticed, or "" if all pass."""
    own = FIRST.get(file, "").split()
    for names in own, [name for name in UNIT if name not in own]:
        tests = [str(path) for path in (folder / "tests" / f"test_{name}.py" for name in names) if path.exists()]
        if tests and (failure := _failure(folder, tests, limit)):
            return failure
    return ""


def _failure(folder: Path, tests: list[str], limit: float | None) -> str:
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "without_torch", *tests]
    one_core = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        try:
            done = subprocess.run(command, cwd=folder, env=one_core, stdout=output, stderr=subprocess.STDOUT, timeout=limit)
        except subprocess.TimeoutExpired:
            return f"hangs: not ready after {limit:.0f} s"
        output.seek(0)
        text = output.read()
    failed = re.search(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", text, re.M)
    if done.returncode and not failed:  # ended from outside, or so broken that nothing can be imported: that says nothing about the tests
        raise RuntimeError(f"pytest ended with exit code {done.returncode}, and no test failed:\n{text[-2000:]}")
    return failed[1] if failed else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("word", nargs="?", default="", help="only mutants whose file or description holds it")
    word = parser.parse_args().word
    chosen = [m for m in MUTANTS if word in f"{m.file}: {m.breaks}"]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        folders: queue.Queue[Path] = queue.Queue()
        for name in ("1", "2"):
            folders.put(copied(Path(scratch, name)))
        for m in chosen:
            compile(m.text(Path(scratch, "1")), m.file, "exec")
        if failure := first_failure(Path(scratch, "1")):
            print(f"the tests fail without any mutation: {failure}")
            return 2
        limit = 60 + 5 * (time.perf_counter() - start)

        def noticed_by(m: Mutant) -> str:
            folder = folders.get()
            path = folder / m.file
            right = path.read_bytes()
            try:
                path.write_text(m.text(folder), encoding="utf-8")
                os.utime(path, (0, MUTANTS.index(m)))  # a time of its own: Python takes old bytecode for a file of equal time and size
                return first_failure(folder, m.file, limit)
            finally:
                path.write_bytes(right)
                folders.put(folder)

        survivors = 0
        with ThreadPoolExecutor(2) as workers:
            for m, test in zip(chosen, workers.map(noticed_by, chosen), strict=True):
                survivors += not test
                print(f"{m.file}: {m.breaks}: {f'killed by {test}' if test else f'SURVIVED: {m.old!r} -> {m.new!r}'}", flush=True)
    print(f"{len(chosen)} mutants, {len(chosen) - survivors} killed, {survivors} survived ({time.perf_counter() - start:.0f} s)")
    return 1 if survivors or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
