"""Random programs over the whole dialect: PyTorch and minigrad must give the same values, shapes, dtypes and gradients.

    python tests/fuzz.py --n 20000             each failure is shrunk and printed as a program that runs; the exit code is then 1
    python tests/fuzz.py --n 20000 --alone     gradients against central differences; the default where PyTorch isn't installed
    python tests/fuzz.py --n 20000 --compiled  the program as one compiled function against the same function as it is

A program is plain data: arrays (`x1` requires a gradient, `c1` is a constant) and calls on them, one a step. Its text is what runs.
After the last step, random cotangents go back through every result that no later step uses.
"""

import argparse
import importlib.util
import inspect
import math
import random
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import layers.functional
import minigrad
from minigrad import Tensor

Array = np.ndarray
Call = tuple[str, tuple[Any, ...], dict[str, Any]]  # what is called, its arguments and its options
Row = Callable[["Writer"], Call]
Shape = tuple[int, ...]

# Programs -----------------------------------------------------------------------------------------------------


class Code(str):
    """Text that stands in a program as it is: the name of a value (`y1`, or `y1[0]` where there are several), or of a dtype."""


def text(x: Any) -> str:
    if isinstance(x, tuple | list):
        inner = ", ".join(map(text, x))
        return f"[{inner}]" if isinstance(x, list) else f"({inner}{',' * (len(x) == 1)})"
    if isinstance(x, Array):
        numbers = re.sub("(nan|inf)", r"np.\1", str(x.tolist()))
        short = x.size and x.dtype != np.float32
        return f"np.array({numbers})" if short else f"np.array({numbers}, {x.dtype.name!r}).reshape({x.shape})"
    return x if isinstance(x, Code) else repr(x)


class Step(NamedTuple):
    op: str  # the row of the table
    call: str  # `torch.exp`; `.exp`, a method of the first argument; or the whole call with {} for each argument
    args: tuple[Any, ...]
    options: dict[str, Any]

    def line(self, name: str) -> str:
        args = [text(a) for a in self.args]
        if "{}" in self.call:
            return f"{name} = {self.call.format(*args, me=name)}"
        function = args.pop(0) + self.call if self.call[0] == "." else self.call
        return f"{name} = {function}({', '.join(args + [f'{k}={text(v)}' for k, v in self.options.items()])})"


@dataclass(frozen=True)
class Program:
    leaves: dict[str, Array]
    steps: dict[str, Step]

    def used(self) -> set[str]:
        return set(re.findall(r"\b[xcy]\d+\b", " ".join(step.line("") for step in self.steps.values())))

    def ends(self) -> list[str]:
        used = self.used()
        return [k for k in self.steps if k not in used]

    def tidy(self) -> "Program":
        used = self.used()
        return replace(self, leaves={k: a for k, a in self.leaves.items() if k in used})

    def lines(self) -> list[str]:
        made = [f"{k} = torch.tensor({text(a)}{', requires_grad=True' * (k[0] == 'x')})" for k, a in self.leaves.items()]
        return [*made, *(step.line(k) for k, step in self.steps.items()), f"pull(torch, [{', '.join(self.ends())}])"]

    def script(self, framework: str) -> str:
        """The program as a file that runs and shows all values and gradients."""
        imports = {"torch": "torch, torch.nn.functional as F", "minigrad": "minigrad as torch, layers.functional as F"}[framework]
        helpers = "\n\n".join(inspect.getsource(f) for f in (cotangent, pull))
        shown = [*self.steps, *(f"{k}.grad" for k in self.leaves if k[0] == "x")]
        return "\n".join([f"import numpy as np, {imports}\n\n{helpers}", *self.lines(), *(f"print({k!r}, {k})" for k in shown)])


def cotangent(k, shape):
    return np.array(np.random.default_rng(k).standard_normal(tuple(shape)))


def pull(torch, ends):
    for k, y in enumerate(y for end in ends for y in (end if isinstance(end, tuple) else [end])):
        if getattr(y, "requires_grad", False):
            y.backward(torch.tensor(cotangent(k, y.shape)).to(y.dtype), retain_graph=True)


# Writing ------------------------------------------------------------------------------------------------------


class Skip(Exception):  # noqa: N818
    """This call can't be written here."""


def fine(a: Array) -> bool:
    return True


HIDDEN = ("detach", "item", "[]=", "float", "to")  # not for central differences, which see what backward must not see, or float32
NAMES = {"": set(dir(Tensor)), "torch": set(dir(minigrad)), "F": set(dir(layers.functional))}


class Writer:
    """Writes a program and runs it on the way: the shapes and numbers so far decide what may come next."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.pick = self.rng.choice
        self.program = Program({}, {})
        self.space = namespace("minigrad")
        self.arrays: dict[str, Array] = {}  # what later steps may use

    def coin(self, p: float = 0.5) -> bool:
        return self.rng.random() < p

    # Values

    def leaf(self, array: Array, variable: bool = False, shared: bool = True) -> Code:
        name = Code(f"{'x' if variable else 'c'}{len(self.program.leaves) + 1}")
        self.program.leaves[name] = array
        self.space[name] = minigrad.tensor(array, requires_grad=variable)
        self.arrays |= {name: array} if shared else {}
        return name

    def new(self, shape: Callable[[], Shape], kind: str, ok: Callable[[Array], Any] = fine) -> Code:
        """A leaf, f(loat), i(nteger) or b(ool)."""
        for attempt in range(20):
            s, coarse = shape(), self.coin(0.2)  # coarse: zeros and ties
            draw = {"f": lambda: self.rng.gauss(0, 1.5), "i": lambda: self.rng.randint(-3, 3), "b": self.coin}[kind]
            array = np.array([draw() for _ in range(math.prod(s))], {"f": float, "i": np.int64, "b": bool}[kind]).reshape(s)
            if kind == "f":
                array = np.round(np.abs(array) + 0.3 if attempt > 10 else array, 0 if coarse and attempt < 10 else 2)
            if ok(array):
                return self.leaf(array, kind == "f" and self.coin(0.8))
        raise Skip

    def shape(self, low: int = 0, high: int = 4) -> Shape:
        ndim = self.pick([n for n in (0, 1, 1, 2, 2, 2, 3, 3, 4) if low <= n <= high])
        return tuple(self.pick((1, 1, 2, 2, 3, 3, 4, 5)) * self.coin(0.97) for _ in range(ndim))

    def x(self, low: int = 0, high: int = 4, kind: str = "fib", ok: Callable[[Array], Any] = fine) -> Code:
        """A value, mostly of an earlier step and of the first kind."""
        kinds = kind if self.coin(0.08) else kind[0]
        found = [k for k, a in self.arrays.items() if a.dtype.kind in kinds and low <= a.ndim <= high and ok(a)]
        if found and self.coin(0.8):
            return Code(self.pick(found[-4:] if self.coin(0.7) else found))
        return self.new(lambda: self.shape(low, high), self.pick(kinds), ok)

    def fit(self, shape: Shape, kind: str = "f", ok: Callable[[Array], Any] = fine) -> Code:
        """A value of this shape; rarely of a wrong one."""
        if self.coin(0.01):
            shape = (*shape[:-1], shape[-1] + 1) if shape and self.coin() else (*shape, 2)
        found = [k for k, a in self.arrays.items() if a.shape == shape and a.dtype.kind == kind and ok(a)]
        return Code(self.pick(found)) if found and self.coin(0.6) else self.new(lambda: shape, kind, ok)

    def partner(self, x: Code, kind: str = "", ok: Callable[[Array], Any] = fine) -> Code:
        """A value that broadcasts with x."""
        a = self.arrays[x]
        shape = tuple((self.pick((2, 3)) if n == 1 else 1) if self.coin(0.2) else n for n in a.shape)
        shape = shape[self.rng.randint(0, a.ndim) :] if self.coin(0.3) else (2, *shape)[self.coin(0.9) or a.ndim > 3 :]
        return self.fit(shape, kind or self.pick(("f", a.dtype.kind)), ok)

    def other(self, x: Code) -> Any:
        return self.number() if self.coin(0.3) else self.partner(x)

    def mask(self, x: Code) -> Code:
        shape = tuple(1 if self.coin(0.2) else n for n in self.arrays[x].shape)
        return self.fit(shape[self.rng.randint(0, len(shape)) * self.coin(0.3) :], "b")

    def ids(self, count: int, shape: Shape, low: int = 0) -> Code:
        """Ids from low to count - 1, some of them often; rarely one too large."""
        if not count and math.prod(shape):
            raise Skip
        top = max(low, count - 1 + self.coin(0.02))
        return self.leaf(np.array([self.rng.randint(low, top) for _ in range(math.prod(shape))], np.int64).reshape(shape))

    # Arguments

    def number(self) -> Any:
        return self.pick((2, -1, 3, 0.5, -1.5, 3.0, 0.25, 1e-3, np.float64(0.7), np.int64(2)))

    def axis(self, x: Code) -> int:
        return self.rng.randrange(self.arrays[x].ndim or 1)

    def dim(self, x: Code, more: int = 0) -> int:
        n = self.arrays[x].ndim + more or 1
        return self.pick((n, -n - 1)) if self.coin(0.01) else self.rng.randrange(-n, n)

    def dims(self, x: Code) -> Any:
        n = self.arrays[x].ndim
        some = self.rng.sample(range(n), self.rng.randint(1, n)) if n and self.coin(0.4) else []
        return tuple(d - n * self.coin(0.3) for d in some) or self.dim(x)

    def over(self, x: Code, several: bool = True, p: float = 0.75) -> dict[str, Any]:
        """The options of a reduction."""
        return {"dim": self.dims(x) if several else self.dim(x)} | self.maybe(0.4, keepdim=True) if self.coin(p) else {}

    def maybe(self, p: float = 0.5, **options: Any) -> dict[str, Any]:
        return {k: v for k, v in options.items() if self.coin(p)}

    def dtype(self) -> dict[str, Any]:
        return self.maybe(0.9, dtype=Code("torch.float64"))

    def call(self, name: str, *args: Any, **options: Any) -> Call:
        """The call, spelled as a method or as a function, as the dialect has it."""
        forms = [f"{room}.{name}" for room, names in NAMES.items() if name in names and (room or isinstance(args[0], Code))]
        return self.pick(forms), args, options

    def take(self, op: str) -> bool:
        """Write one step; False where it raises and the program ends with it."""
        try:
            name, step = Code(f"y{len(self.program.steps) + 1}"), Step(op, *OPS[op](self))
        except Skip:
            return True
        self.program.steps[name] = step
        try:
            exec(step.line(name), self.space)
        except Exception:
            if self.coin():
                return False
            del self.program.steps[name]
            return True
        made = {k: y.detach().numpy() for k, y in parts(name, self.space[name]).items() if isinstance(y, Tensor)}
        tame = all(np.abs(a.astype(float)).max(initial=0) < 1e3 for a in made.values())  # NaN is not
        if any(a.size > 400 for a in made.values()) or (not tame and self.coin(0.8)):
            del self.program.steps[name]
        elif tame:
            self.arrays |= made
        return True


def write(seed: str, alone: bool = False) -> Program:
    w, rows = Writer(seed), [op for op in OPS if not (alone and op in HIDDEN)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(w.rng.randint(2, 12)):
            if not w.take(w.pick(rows)):
                break
    return w.program.tidy()


# The dialect: how a call of each name is written ---------------------------------------------------------------


# fmt: off
def positive(a: Array) -> Any: return a.size and a.min() > 0.05
def nonzero(a: Array) -> Any: return np.abs(a.astype(float)).min(initial=1) > 0.05
def distinct(a: Array) -> Any: return a.size and np.unique(a).size == a.size
def uneven(a: Array) -> Any: return a.size and np.ptp(a, -1).min() > 0.1


def operands(w: Writer) -> tuple[Any, ...]:
    x = w.x()
    return tuple(w.rng.sample([x, w.other(x)], 2))


def quotient(w: Writer) -> tuple[Any, ...]:
    y = w.x(ok=nonzero)
    return (w.other(y), y) if w.coin(0.8) else (y, w.number())


def power(w: Writer) -> tuple[Any, ...]:
    if w.coin():
        return w.x(kind="fi"), w.pick((0, 1, 2, 3, 2.0, 3.0))
    x = w.x(kind="f", ok=positive)
    return x, w.pick((-1, -0.5, 0.5, -2.0)) if w.coin(0.4) else w.partner(x)


def factors(w: Writer) -> tuple[Any, ...]:
    a = w.x(1, kind="fi")
    *lead, k = w.arrays[a].shape
    lead = [1 if w.coin(0.2) else n for n in lead[:-1]][w.pick((0, 0, 1, 9)) :]
    return a, w.fit((k,) if w.coin(0.25) else (*lead, k, w.pick((1, 2, 3, 4))), w.arrays[a].dtype.kind)


def cat(w: Writer) -> Call:
    x = w.x(1)
    shape, d = w.arrays[x].shape, w.axis(x)
    more = [w.fit((*shape[:d], w.pick((0, 1, 2, 3)), *shape[d + 1 :])) for _ in range(w.rng.randint(0, 2))]
    return w.call("cat", w.rng.sample([x, *more], len(more) + 1), w.pick((d, d - len(shape))))


def split(w: Writer) -> Call:
    x = w.x(1)
    d = w.axis(x)
    n = w.arrays[x].shape[d]
    k = w.rng.randint(0, n + w.coin(0.02))
    return w.call("split", x, w.pick(([k, n - k], [0, n], max(k, 1))), d)


def reshaped(w: Writer, name: str) -> Call:
    x, shape = w.x(), []
    size = w.arrays[x].size
    while size > 1 and len(shape) < 3:
        shape.append(w.pick([n for n in range(1, size + 1) if size % n == 0]))
        size //= shape[-1]
    shape = w.rng.sample([*shape, size], len(shape) + 1)
    return w.call(name, x, (-1, *shape[1:]) if size and w.coin(0.3) else tuple(shape))


def expand(w: Writer) -> Call:
    x = w.x(0, 3)
    shape = [w.pick((-1, 3)) if n == 1 else w.pick((-1, n)) for n in w.arrays[x].shape]
    return w.call("expand", x, *[w.pick((1, 2)) for _ in range(w.coin(0.3) or not shape)], *shape)


def repeat(w: Writer) -> Call:
    x = w.x(0, 3)
    return w.call("repeat", x, *[w.pick((1, 1, 1, 2, 2, 3, 0)) for _ in range(w.arrays[x].ndim + w.coin(0.3) or 1)])


def index(w: Writer, x: Code) -> Any:
    shape, items, i = w.arrays[x].shape, [], 0
    k = w.pick(((), (1,), (2,), (3,), (2, 1), (2, 3)))  # of the integer arrays, which broadcast
    while i < len(shape) and w.coin(0.85):
        n, how = shape[i], w.pick(("all", "slice", "step", "int", "ids", "array", "list", "mask", "wide", "none"))
        i += how != "none"
        if how in ("all", "none"):
            items.append(slice(None) if how == "all" else None)
        elif how in ("slice", "step") or not n:
            start = w.rng.randint(-n, n)
            items.append(slice(start, w.pick((None, n, start + 2)), 2 if how == "step" else None))
        elif how == "wide" and i < len(shape):
            items.append(w.fit((n, shape[i]), "b"))
            i += 1
        elif how in ("mask", "wide"):
            items.append(w.fit((n,), "b"))
        elif how == "int":
            items.append(w.rng.randint(-n, n - 1 + w.coin(0.02)))
        elif how == "list":
            items.append([w.rng.randrange(-n, n) for _ in range(3 if k[-1:] == (3,) else 1)])
        else:
            ids = w.ids(n, tuple(1 if w.coin(0.2) else m for m in k), low=-n)
            items.append(w.arrays[ids] if how == "array" else ids)
    if w.coin(0.2):
        at = w.rng.randint(0, len(items))
        items = [*items[:at], ..., *items[at + w.pick((0, 0, 1)) :]]
    return items[0] if len(items) == 1 and w.coin() else tuple(items)


def gather(w: Writer) -> Call:
    x = w.x()
    shape, d = w.arrays[x].shape, w.axis(x)
    places = [w.rng.randint(0, 4) if i == d else w.rng.randint(1, m) if m and w.coin(0.2) else m for i, m in enumerate(shape)]
    return w.call("gather", x, d, w.ids(shape[d] if shape else 1, tuple(places)))


def index_select(w: Writer) -> Call:
    x = w.x(1)
    d = w.axis(x)
    return w.call("index_select", x, d, w.ids(w.arrays[x].shape[d], w.shape(1, 1)))


def scatter(w: Writer) -> Call:
    x = w.x(1, ok=np.size)
    a, d = w.arrays[x], w.axis(x)
    shape = tuple(w.rng.randint(1, n) for n in a.shape)
    order = np.argsort(np.moveaxis(np.reshape([w.rng.random() for _ in range(a.size)], a.shape), d, -1))  # each place once
    ids = np.moveaxis(order, -1, d)[tuple(map(slice, shape))].copy()
    return w.call("scatter", x, d, w.leaf(ids), w.number() if w.coin(0.2) else w.fit(shape, a.dtype.kind))


def linear(w: Writer) -> Call:
    x, m = w.x(1, kind="f"), w.pick((1, 2, 4))
    return w.call("linear", x, w.fit((m, w.arrays[x].shape[-1])), *[w.fit((m,))] * w.coin())


def normalized(w: Writer, name: str) -> Call:
    x = w.x(1, kind="f", ok=uneven)
    shape = w.arrays[x].shape[-1 if w.coin(0.7) else -2 :]
    bias = w.maybe(bias=w.fit(shape)) if name == "layer_norm" else {}
    return w.call(name, x, shape, **w.maybe(weight=w.fit(shape), eps=w.pick((1e-5, 0.1))), **bias)


def loss(w: Writer, name: str) -> Call:
    x = w.x(1, kind="f", ok=np.size)
    n, *more = w.arrays[x].shape
    target = w.ids(*((more[0], (n, *more[1:])) if more else (n, ())))
    smoothing = w.maybe(label_smoothing=w.pick((0.1, 0.5, 1.0))) if name == "cross_entropy" else {}
    return w.call(name, x, target, **w.maybe(reduction=w.pick(("sum", "none", "mean")), ignore_index=w.pick((0, 1, -100))), **smoothing)


def attention(w: Writer) -> Call:
    lead, (n, m, d, e) = w.shape(0, 2), (w.pick((1, 2, 3, 5)) for _ in range(4))
    q, k, v = (w.fit((*(1 if all(lead) and w.coin(0.1) else s for s in lead), *last)) for last in ((n, d), (m, d), (m, e)))
    options: dict[str, Any] = w.maybe(0.3, scale=w.pick((0.5, 1.0, 2)))
    kind = w.pick(("none", "causal", "bool", "float", "learned", "causal bool" if w.coin(0.1) else "bool"))
    shape = (*(1 if w.coin(0.5) else s for s in lead), 1 if w.coin(0.1) else n, m)[len(lead) * w.coin() :]
    if "causal" in kind:
        options["is_causal"] = True
    if "bool" in kind:
        options["attn_mask"] = w.fit(shape, "b")
    if kind == "learned":
        options["attn_mask"] = w.fit(shape)
    if kind == "float":
        numbers = [-math.inf if w.coin() else round(w.rng.gauss(0, 1), 2) for _ in range(math.prod(shape))]
        options["attn_mask"] = w.leaf(np.reshape(numbers, shape), shared=False)
    return w.call("scaled_dot_product_attention", q, k, v, **options)


def plain(name: str, **want: Any) -> Row: return lambda w: w.call(name, w.x(**want))
def along(name: str, **want: Any) -> Row: return lambda w: w.call(name, (x := w.x(**want)), w.dim(x))
def reduction(name: str, kind: str = "fib", **how: Any) -> Row: return lambda w: w.call(name, (x := w.x(kind=kind)), **w.over(x, **how))
def code(*choices: str) -> Callable[[Writer], Code]: return lambda w: Code(w.pick(choices))


OPS: dict[str, Row] = {
    # Arithmetic
    **{s: lambda w, s=s: (f"{{}} {s} {{}}", operands(w), {}) for s in ("+", "-", "*", "<", "<=", ">", ">=", "==", "!=")},
    **{s: lambda w, s=s: (f"{{}} {s} {{}}", ((x := w.x(kind="b")), w.partner(x, "b")), {}) for s in "&|"},
    **{s: lambda w, s=s: (f"{s}{{}}", (w.x(kind="b" if s == "~" else "fib"),), {}) for s in "-~"},
    "/": lambda w: ("{} / {}", quotient(w), {}),
    "**": lambda w: ("{} ** {}", power(w), {}),
    "number ** x": lambda w: ("{} ** {}", (w.pick((2, 0.5, np.float64(1.5))), w.x(kind="f")), {}),
    "@": lambda w: ("{} @ {}", factors(w), {}),
    "pow": lambda w: w.call("pow", *power(w)),
    "matmul": lambda w: w.call("matmul", *factors(w)),
    **{n: lambda w, n=n: w.call(n, (x := w.x()), w.other(x)) for n in ("add", "mul")},
    **{n: lambda w, n=n: w.call(n, (x := w.x()), w.partner(x)) for n in ("maximum", "minimum")},
    **{n: plain(n) for n in ("exp", "sin", "cos", "tanh", "sigmoid", "isnan", "isinf", "clone", "contiguous", "detach", "cpu")},
    **{n: plain(n) for n in ("float", "double", "long", "bool")},
    **{n: plain(n, kind="fi") for n in ("abs", "relu")},
    **{n: plain(n, ok=positive) for n in ("log", "sqrt", "rsqrt")},
    "to": lambda w: w.call("to", w.x(), code("torch.float64", "torch.float32", "torch.int64", "torch.bool", "'cpu'")(w)),
    "clamp": lambda w: w.call("clamp", w.x(), **(w.maybe(min=w.pick((-1, 0.0, -0.5)), max=w.pick((1, 0.5, -0.7))) or {"min": 0})),
    "item": lambda w: ("{} * {}.sum().item()", (w.x(), w.x()), {}),
    "size": lambda w: ("{} + {}.size({}) * {}.numel()", (w.x(), (y := w.x(1)), w.dim(y), y), {}),
    **{n: lambda w, n=n: w.call(n, (x := w.x()), w.fit(w.arrays[x].shape, w.arrays[x].dtype.kind)) for n in ("equal", "allclose")},
    # Making
    **{n: lambda w, n=n: (f"torch.{n}", w.shape(1, 3), w.dtype()) for n in ("zeros", "ones")},
    **{n: lambda w, n=n: w.call(n, w.x(), **w.dtype()) for n in ("zeros_like", "ones_like")},
    "full": lambda w: ("torch.full", (w.shape(0, 3), w.pick((2, 0.5, True))), w.dtype()),
    "full_like": lambda w: w.call("full_like", w.x(kind="f"), w.number()),
    "eye": lambda w: ("torch.eye", tuple(w.rng.choices(range(5), k=w.pick((1, 2)))), w.dtype()),
    "arange": lambda w: ("torch.arange", (w.rng.randint(-3, 2), w.rng.randint(2, 6), w.pick((1, 2, 0.5))), w.dtype()),
    "linspace": lambda w: ("torch.linspace", (w.pick((0, -1.5)), w.pick((1.0, -2)), w.rng.randint(0, 5)), w.dtype()),
    # Reductions
    **{n: reduction(n) for n in ("sum", "mean", "all", "any")},
    **{n: lambda w, n=n: w.call(n, (x := w.x(kind="f")), **w.over(x), **w.maybe(0.4, unbiased=False)) for n in ("var", "std")},
    **{n: reduction(n, several=False) for n in ("prod", "max", "min")},
    **{n: reduction(n, several=False, kind="fi") for n in ("argmax", "argmin")},
    "norm": lambda w: w.call("norm", (x := w.x(kind="f")), w.pick((2, 2, 1, Code("np.inf"))), **w.over(x)),
    "logsumexp": reduction("logsumexp", p=1),
    "cumsum": along("cumsum"),
    **{n: along(n, kind="f") for n in ("softmax", "log_softmax")},
    "sort": lambda w: w.call("sort", (x := w.x(ok=distinct)), **w.maybe(dim=w.dim(x), descending=True)),
    "topk": lambda w: w.call("topk", (x := w.x(1, kind="fi", ok=distinct)), w.pick((0, 1, 1, 2)), **w.maybe(dim=w.dim(x))),
    # Shape
    **{n: lambda w, n=n: reshaped(w, n) for n in ("reshape", "view")},
    **{n: lambda w, n=n: w.call(n, (x := w.x()), w.dim(x), w.dim(x)) for n in ("transpose", "swapaxes")},
    "permute": lambda w: w.call("permute", (x := w.x()), tuple(w.rng.sample(range(n := w.arrays[x].ndim), n))),
    "t": plain("t", high=2),
    **{n: lambda w, n=n: (f"{{}}.{n}", (w.x(*((0, 2) if n == "T" else (2, 4))),), {}) for n in ("T", "mT")},
    "flatten": lambda w: w.call("flatten", (x := w.x()), **w.maybe(start_dim=w.dim(x), end_dim=w.dim(x))),
    "squeeze": lambda w: w.call("squeeze", (x := w.x()), **w.maybe(dim=w.dims(x))),
    "unsqueeze": lambda w: w.call("unsqueeze", (x := w.x(0, 3)), w.dim(x, 1)),
    "expand": expand,
    "expand_as": lambda w: w.call("expand_as", (x := w.x()), w.partner(x)),
    "repeat": repeat,
    "split": split,
    "chunk": lambda w: w.call("chunk", (x := w.x(1)), w.rng.randint(1, 4), w.dim(x)),
    "cat": cat,
    "stack": lambda w: w.call("stack", [(x := w.x(0, 3)), *[w.fit(w.arrays[x].shape) for _ in range(w.rng.randint(0, 2))]], w.dim(x, 1)),
    "iter": lambda w: ("torch.stack([row * 2 for row in {}])", (w.x(1, ok=np.size),), {}),
    # Picking
    "[]": lambda w: ("{}[{}]", ((x := w.x(1)), index(w, x)), {}),
    "[]=": lambda w: ("{}.detach().clone(); {me}[{}] = {}", ((x := w.x(1)), index(w, x), w.number()), {}),
    "masked_fill": lambda w: w.call("masked_fill", (x := w.x()), w.mask(x), w.number()),
    "where": lambda w: ("torch.where", (w.mask(x := w.x()), *w.rng.sample([x, w.other(x)], 2)), {}),
    "x.where": lambda w: (".where", ((x := w.x()), w.mask(x), w.other(x)), {}),
    **{n: lambda w, n=n: w.call(n, w.x(2), **w.maybe(diagonal=w.rng.randint(-3, 3))) for n in ("triu", "tril")},
    "gather": gather,
    "scatter": scatter,
    "index_select": index_select,
    # layers.functional
    "silu": plain("silu", kind="f"),
    "gelu": lambda w: w.call("gelu", w.x(kind="f"), **w.maybe(approximate=w.pick(("tanh", "none")))),
    "dropout": lambda w: w.call("dropout", w.x(kind="f"), *w.pick(((0.0,), (0.5, False), (1.0,)))),
    "linear": linear,
    "embedding": lambda w: w.call("embedding", w.ids(3, w.shape(0, 2)), w.fit((3, 2)), **w.maybe(0.3, padding_idx=w.pick((0, -1)))),
    **{n: lambda w, n=n: normalized(w, n) for n in ("layer_norm", "rms_norm")},
    **{n: lambda w, n=n: loss(w, n) for n in ("cross_entropy", "nll_loss")},
    "mse_loss": lambda w: w.call("mse_loss", (x := w.x(kind="f")), w.fit(w.arrays[x].shape), reduction=w.pick(("sum", "none", "mean"))),
    "one_hot": lambda w: w.call("one_hot", w.ids(4, w.shape(0, 2)), **w.maybe(num_classes=4)),
    "scaled_dot_product_attention": attention,
}

# Where the two are meant to differ: patterns of what is left after shrinking, `y1 = ...; y2 = ... # the difference`
DECIDED = {
    "masked_fill refuses a value that the dtype can't hold; PyTorch drops the fraction": r"masked_fill: a tensor of dtype (bool|int64)",
    "float32 and float64 meet in float64; PyTorch wants one dtype":
        r"(@|matmul|scatter|_norm|attention|allclose)[^;]* (PyTorch RuntimeError: .*(type|not match)|minigrad float64 \| PyTorch float32)",
    "a source longer than the index has a gradient": r"scatter[^;]* PyTorch backward: RuntimeError: Function ScatterBackward0 .*shape",
    "nll_loss of a transposed tensor has a gradient": r"nll_loss.* PyTorch backward: RuntimeError: grad_input must be contiguous",
    "a NaN that arrives at std of equal values goes on": r"std\(.*;.* # numbers at \w+\.grad: minigrad \S*nan",
    "PyTorch takes a short way through attention over nothing: wrong shapes, no checks, no gradient":
        r"reshape\(\((\d+, )*0[,)].*attention[^;]* # (shape|requires_grad|minigrad raises) at",
    "a mask may have more leading lengths than the queries": r"attention[^;]* PyTorch RuntimeError: output with shape .* broadcast",
    "attn_mask together with is_causal is always an error": r"attention: give attn_mask or is_causal=True, not both",
    "an id out of range is an error also where nothing is picked": r"\] # minigrad raises .*IndexError: .* out of bounds .*PyTorch goes on",
    "view takes more results of ops on transposed tensors": r"\.view[^;]* PyTorch RuntimeError: view size is not compatible",
    "attention lays its output out like the queries, 2 ** x like x": r"(attention|\*\*).*\.view[^;]* # .*minigrad RuntimeError: view",
}
# fmt: on


# Running and comparing ----------------------------------------------------------------------------------------


class Fact(NamedTuple):
    array: Array
    requires_grad: bool


class Difference(NamedTuple):
    kind: str
    detail: str


def namespace(framework: str) -> dict[str, Any]:
    functional = "layers.functional" if framework == "minigrad" else "torch.nn.functional"
    return {"torch": importlib.import_module(framework), "F": importlib.import_module(functional), "np": np, "pull": pull}


def parts(name: str, y: Any) -> dict[str, Any]:
    return {f"{name}[{i}]": part for i, part in enumerate(y)} if isinstance(y, tuple) else {name: y}


def fact(y: Any) -> Fact:
    return Fact(y.detach().numpy(), y.requires_grad) if hasattr(y, "detach") else Fact(np.asarray(y), False)


def run(program: Program, framework: str) -> tuple[dict[str, Fact], str]:
    """What became of each step and of each gradient, and the error that ended the run."""
    space, error, count, last = namespace(framework), "", len(program.leaves), len(program.leaves) + len(program.steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if framework == "minigrad":
            warnings.simplefilter("error", RuntimeWarning)  # the library keeps NumPy quiet
        try:
            exec("\n".join(program.lines()), space)
        except Exception as e:
            line = e.__traceback__.tb_next.tb_lineno - 1
            error, last = f"{'backward: ' * (line == last)}{type(e).__name__}: {str(e).partition(chr(10))[0]}", line
    made = {k: fact(y) for name in list(program.steps)[: last - count] for k, y in parts(name, space[name]).items()}
    return made | {f"{k}.grad": fact(space[k].grad) for k in program.leaves if k[0] == "x" and not error}, error


def against_pytorch(program: Program) -> Difference | None:
    (mine, my_error), (theirs, their_error) = run(program, "minigrad"), run(program, "torch")
    rough = any(f.array.dtype == np.float32 for f in theirs.values())
    for name in {**theirs, **mine}:
        if name not in mine or name not in theirs:
            kind = "parts" if my_error == their_error else "minigrad raises" if name not in mine else "PyTorch raises"
            return Difference(kind, f"{kind} at {name}: minigrad {my_error or 'goes on'} | PyTorch {their_error or 'goes on'}")
        (a, a_grad), (b, b_grad) = mine[name], theirs[name]
        for kind, here, there in (("shape", a.shape, b.shape), ("dtype", a.dtype, b.dtype), ("requires_grad", a_grad, b_grad)):
            if here != there:
                return Difference(kind, f"{kind} at {name}: minigrad {here} | PyTorch {there}")
        if not close(a, b, 1e-4 if rough else 1e-9):
            kind = "unstable" if unstable(program, name, a, theirs) else "numbers"
            return Difference(kind, f"{kind} at {name}: minigrad {text(a)} | PyTorch {text(b)}")
    return None


def close(a: Array, b: Array, tolerance: float) -> bool:
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    size = np.abs(b[np.isfinite(b)]).max(initial=0)
    return np.allclose(a, b, 0, tolerance * size + tolerance / 1000, equal_nan=True)


def unstable(program: Program, name: str, mine: Array, theirs: dict[str, Fact]) -> bool:
    """Whether rounding alone makes this difference: a step agrees when it is given the same numbers; a gradient of PyTorch's own
    moves as far when all inputs grow by a few units in the last place, and when they shrink (so that ties stay ties)."""
    step = name.partition("[")[0]
    if step in program.steps:
        return len(program.steps) > 1 and against_pytorch(cut(program, theirs, set(program.steps) - {step})) is None

    def swing(k: int) -> float:
        leaves = {n: a * (1 + k * 2.0**-45) if a.dtype.kind == "f" else a for n, a in program.leaves.items()}
        moved, _ = run(replace(program, leaves=leaves), "torch")
        return gap(moved[name].array, theirs[name].array) if name in moved else math.inf

    return all(max(swing(sign), swing(3 * sign)) >= gap(mine, theirs[name].array) / 10 for sign in (-1, 1))


def gap(a: Array, b: Array) -> float:
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return math.inf
    return float(np.abs(a - b)[np.isfinite(a)].max(initial=0))


def against_differences(program: Program, nudged: bool = False) -> Difference | None:
    """d/dt of (ends . cotangents) where all leaves move along one random direction: by backward, and by central differences."""
    facts, error = run(program, "minigrad")
    if error.startswith("backward"):
        return Difference("minigrad raises", error)
    if error or "padding_idx" in "".join(program.lines()) or any(f.array.dtype == np.float32 and f.requires_grad for f in facts.values()):
        return Difference("unstable", "nothing that differences could check")
    way, ends = {k: cotangent(i + 100, a.shape) for i, (k, a) in enumerate(program.leaves.items()) if k[0] == "x"}, program.ends()
    slopes = [float((g * way[k]).sum()) for k in way if (g := facts[f"{k}.grad"].array).dtype == float]

    def height(t: float) -> float:
        moved, _ = run(replace(program, leaves={k: a + t * way[k] if k in way else a for k, a in program.leaves.items()}), "minigrad")
        found = [f for k, f in moved.items() if k.partition("[")[0] in ends]
        return sum(float((f.array * cotangent(i, f.array.shape)).sum()) for i, f in enumerate(found) if f.requires_grad)

    h = 1e-5
    lowest, low, here, high, highest = (height(t * h) for t in (-2, -1, 0, 1, 2))
    slope, wide = (high - low) / (2 * h), (highest - lowest) / (4 * h)
    kink = 2 * (high + low - 2 * here) / h - (highest + lowest - 2 * here) / (2 * h)  # of a smooth function: 2 h f'' - 2 h f''
    size = 1 + abs(here) + abs(slope) + sum(abs(s) for s in slopes if math.isfinite(s))
    if not (abs(slope - wide) < 1e-6 * size and abs(kink) < 1e-6 * size):
        return Difference("unstable", "a kink, or a steep place")
    if abs(sum(slopes) - slope) <= 3e-6 * size:
        return None
    if not nudged:  # two kinks may hide each other, but not everywhere
        leaves = {k: a * (1 + 0.001 * way[k]) if k in way else a for k, a in program.leaves.items()}
        again = against_differences(replace(program, leaves=leaves), nudged=True)
        if again is None or again.kind == "unstable":
            return Difference("unstable", "kinks")
    return Difference("numbers", f"the slope by backward is {sum(slopes):.9g}, by central differences {slope:.9g}")


def blend(torch, ends):
    """One number in which every result counts."""
    total = torch.tensor(0.0)
    for k, y in enumerate(y for end in ends for y in (end if isinstance(end, tuple) else [end])):
        y = y if y.dtype.kind == "f" else y.float()
        total = total + (y * torch.tensor(cotangent(k, y.shape)).to(y.dtype)).sum()
    return total


def against_compiled(program: Program) -> Difference | None:
    """The program as one function, compiled, against the same function as it is: the same bits for these numbers and for others.
    And once more as a step of training, in which the floats are weights."""
    space = {**namespace("minigrad"), "blend": blend}
    lines = [*(step.line(k) for k, step in program.steps.items()), f"return blend(torch, [{', '.join(program.ends())}])"]
    exec(f"def whole({', '.join(program.leaves)}):\n    " + "\n    ".join(lines), space)
    whole, floats = space["whole"], [k for k in program.leaves if k[0] == "x"]

    def outcome(function: Callable[..., Tensor], growth: int) -> dict[str, Any]:
        leaves = {k: Tensor(a * (1 + growth / 64) if a.dtype == float else a, k in floats) for k, a in program.leaves.items()}
        try:
            y = function(*leaves.values())
            if y.requires_grad:
                y.backward()
        except Exception as e:
            return {"error": f"{type(e).__name__}: {e}"}
        return {"value": y, **{f"{k}.grad": t.grad for k, t in leaves.items()}}

    class Training:
        def __init__(self, compiled: bool) -> None:
            self.weights = {k: Tensor(program.leaves[k], True) for k in floats}
            optimizer = minigrad.optim.SGD(self.weights.values(), lr=1 / 64, momentum=0.5)

            def step(*others: Tensor) -> Tensor:
                rest = iter(others)
                y = whole(*[self.weights[k] if k in self.weights else next(rest) for k in program.leaves])
                if y.requires_grad:
                    optimizer.zero_grad()
                    y.backward()
                    optimizer.step()
                return y.detach()

            self.step = minigrad.compile(step) if compiled else step

        def outcome(self) -> dict[str, Any]:
            try:
                y = self.step(*[Tensor(a) for k, a in program.leaves.items() if k not in floats])
            except Exception as e:
                return {"error": f"{type(e).__name__}: {e}"}
            return {"step": y, **{k: w.detach() for k, w in self.weights.items()}, **{f"{k}.grad": w.grad for k, w in self.weights.items()}}

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        compiled = minigrad.compile(whole)
        pairs = [(outcome(whole, growth), outcome(compiled, growth)) for growth in (0, 0, 0, 1, 2, 0)]
        if floats:
            plain, played = Training(False), Training(True)
            pairs += [(plain.outcome(), played.outcome()) for _ in range(5)]
    for wanted, got in pairs:
        for name in wanted | got:
            a, b = (x if isinstance(x, str | None) else (x.dtype, x.shape, x.tolist()) for x in (wanted.get(name), got.get(name)))
            if repr(a) != repr(b):  # NaN is not equal to NaN
                return Difference("numbers", f"{name}: as it is {a}, compiled {b}")
    why = [str(w.message) for w in heard if "compile: " in str(w.message)]
    return Difference("unstable", why[0]) if why else None


# Shrinking ----------------------------------------------------------------------------------------------------


def shrink(program: Program, differs: Callable[[Program], bool]) -> Program:
    """The shortest program found that still differs: smaller ones are tried until none does."""
    found: Program | None = program
    while found:
        program, found = found, next((p for p in smaller(found) if differs(p)), None)
    return program


def smaller(program: Program) -> Iterator[Program]:
    facts, _ = run(program, "minigrad")
    yield from (cut(program, facts, {name}) for name in reversed(program.steps))
    for name, step in program.steps.items():  # leave out options, and parts of indices and lists
        fewer = [step._replace(options={o: v for o, v in step.options.items() if o != k}) for k in step.options]
        for i, arg in enumerate(step.args):
            shorter = [type(arg)((*arg[:j], *arg[j + 1 :])) for j in range(len(arg) if isinstance(arg, tuple | list) else 0)]
            fewer += [step._replace(args=(*step.args[:i], s, *step.args[i + 1 :])) for s in shorter]
        yield from (replace(program, steps=program.steps | {name: s}).tidy() for s in fewer)
    for old in sorted({n for a in program.leaves.values() for n in a.shape if n > 1}, reverse=True):  # all axes of one length
        for new in range(1, old):
            leaves = {k: a[tuple(slice(new if n == old else n) for n in a.shape)] for k, a in program.leaves.items()}
            yield Program(leaves, {k: replaced(s, {old: new}) for k, s in program.steps.items()})
            yield Program(leaves, program.steps)
    for k, a in program.leaves.items():  # one axis; then rounder numbers
        others = [a.squeeze(i) if n == 1 else a.take(range(m), i) for i, n in enumerate(a.shape) for m in range(1, n + (n == 1))]
        others += [b for b in (np.ones_like(a), np.round(a), np.round(a, 1)) if (b != a).any()] if a.dtype.kind == "f" else []
        yield from (replace(program, leaves=program.leaves | {k: b}) for b in others)


def cut(program: Program, facts: dict[str, Fact], names: set[str]) -> Program:
    """The program without these steps: what they gave, become leaves."""
    found = {k: f for k, f in facts.items() if k.partition("[")[0] in names}
    last = max((int(k[1:]) for k in program.leaves), default=0)
    table = {k: Code(f"{'x' if f.requires_grad else 'c'}{i}") for i, (k, f) in enumerate(found.items(), last + 1)}
    leaves = program.leaves | {table[k]: f.array for k, f in found.items()}
    return Program(leaves, {k: replaced(step, table) for k, step in program.steps.items() if k not in names}).tidy()


def replaced(x: Any, table: dict[Any, Any]) -> Any:
    if isinstance(x, Step):
        return x._replace(args=replaced(x.args, table), options={k: replaced(v, table) for k, v in x.options.items()})
    if isinstance(x, tuple | list):
        return type(x)(replaced(v, table) for v in x)
    return table.get(x, x) if isinstance(x, Code) or type(x) is int else x


# Many ---------------------------------------------------------------------------------------------------------


@dataclass
class Figures:
    programs: int = 0
    steps: int = 0
    unstable: int = 0  # set aside: rounding decides there, or it is a kink; without PyTorch also what ends with an error
    ops: Counter[str] = field(default_factory=Counter)
    decided: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, Program, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.programs} programs, {self.steps} steps, {len(self.ops)} of {len(OPS)} operations, "
            f"{self.decided.total()} differ by decision, {self.unstable} set aside, {len(self.failures)} failures"
        )


def fuzz(seeds: Iterable[str], alone: bool, progress: Callable[[Figures], None] = lambda f: None, compiled: bool = False) -> Figures:
    check, figures = against_compiled if compiled else against_differences if alone else against_pytorch, Figures()
    for seed in seeds:
        program = write(seed, alone)
        figures.programs += 1
        figures.steps += len(program.steps)
        figures.ops.update(step.op for step in program.steps.values())
        first = check(program)
        if first and first.kind == "unstable":
            figures.unstable += 1
        elif first:
            program = shrink(program, lambda p, kind=first.kind: (d := check(p)) is not None and d.kind == kind)
            detail = (check(program) or first).detail
            line = f"{'; '.join(program.lines()[:-1])} # {detail}"
            reasons = [why for why, pattern in DECIDED.items() if re.search(pattern, line)]
            figures.decided.update(reasons[:1])
            figures.failures += [] if reasons else [(seed, program, detail)]
        progress(figures)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first one, for a run in pieces")
    parser.add_argument("--alone", action="store_true", help="without PyTorch")
    parser.add_argument("--compiled", action="store_true", help="the program as it is against itself compiled, bit for bit")
    options = parser.parse_args()
    alone, start = options.alone or not importlib.util.find_spec("torch"), time.time()

    def progress(f: Figures) -> None:
        if f.programs % 1000 == 0:
            print(f"{f}, {time.time() - start:.0f} s", flush=True)

    figures = fuzz((f"{options.seed}/{i}" for i in range(options.first, options.first + options.n)), alone, progress, options.compiled)
    for seed, program, detail in figures.failures:
        print(f"\n# program {seed}: {detail}\n{program.script('minigrad')}")
    print("\nOperations:", ", ".join(f"{op} {count}" for op, count in figures.ops.most_common()))
    print("Decided:", "; ".join(f"{why} ({count})" for why, count in figures.decided.items()) or "none")
    witness = "itself compiled" if options.compiled else "central differences" if alone else "PyTorch"
    print(f"Against {witness}: {figures}")
    return bool(figures.failures)


if __name__ == "__main__":
    sys.exit(main())
