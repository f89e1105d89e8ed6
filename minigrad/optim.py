"""Optimizers: from gradients to better weights.

A parameter group is a dict, {"params": [...], "lr": ...}; what it leaves out comes from the optimizer's own arguments.
A step rebinds `p.data`, it never writes into an array, and it changes all parameters or, after an error, none.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import warnings
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from .arguments import listed, module_getattr, number, short
from .mode import mode, setting_gradients
from .ops import Array
from .tensor import DATA, Tensor, quiet, set_all, wrap


class Optimizer:
    """The common part: groups, zero_grad, step, and a state dict of {"state": by number, "param_groups": options}."""

    remembered: tuple[str, ...] = ()  # the names in a parameter's state

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if mode.tape:
            raise mode.tape.refused("it makes an optimizer")
        what = "the optimizer takes a list of parameters, such as model.parameters()"
        if isinstance(params, Tensor | dict) or hasattr(params, "parameters"):
            raise TypeError(f"{what}, got a single {short(params)}{': write [p]' * isinstance(params, Tensor)}")
        groups = listed(params, what)
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self._rows: dict[Tensor, _Row] = {}  # of each parameter that moved in its last step, the row it is in
        self._waiting: dict[Tensor, dict[str, Any]] = {}  # of the others that ever moved, the state
        for group in groups if groups and isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)
        if not any(group["params"] for group in self.param_groups):
            raise ValueError("the optimizer got no parameters: an empty list, or a generator that was already used up")

    def add_param_group(self, group: dict[str, Any]) -> None:
        """One more group of parameters with options of its own."""
        if not isinstance(group, dict) or "params" not in group:
            raise TypeError(f'a parameter group is a dict like {{"params": [...], "lr": 0.1}}, got {short(group)}')
        group = _checked({**self.defaults, **group})
        params = group["params"]
        group["params"] = [params] if isinstance(params, Tensor) else listed(params, 'the "params" of a group are a list of parameters')
        seen = {id(p) for g in self.param_groups for p in g["params"]}
        some = any(isinstance(p, Tensor) and p.requires_grad for p in group["params"])  # beside frozen ones, which stay as they are
        for i, p in enumerate(group["params"]):
            if not (isinstance(p, Tensor) and p.is_leaf and some):
                why = ""
                if isinstance(p, Tensor):
                    why = ", which doesn't: set requires_grad=True, or leave it out" if p.is_leaf else f", computed by {p._op_name()}"
                raise TypeError(f"the optimizer takes leaves that require a gradient; parameter {i} is {short(p)}{why}")
            if id(p) in seen:
                raise ValueError(f"parameter {i} (shape {p.shape}) was given to the optimizer twice")
            seen.add(id(p))
        unknown = set(group) - {"params", *self.defaults}
        if unknown:
            raise TypeError(f"unknown option {sorted(unknown)} in a parameter group; known are {sorted(self.defaults)}")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters: the next `backward` starts from nothing instead of adding."""
        params = [p for group in self.param_groups for p in group["params"]]
        if mode.tape:
            again = functools.partial(Optimizer.zero_grad, self, set_to_none)
            mode.tape.effects.later(f"{type(self).__name__}.zero_grad", again, final=False)
        zero_grads(params, set_to_none)
        if mode.tape:
            mode.tape.effects.news()  # nothing that a step must set

    def step(self) -> None:
        """Move each parameter that has a gradient. A gradient of None is skipped, as is its state."""
        if mode.exploring:
            raise RuntimeError("step() under no_grad()")
        if mode.tape:
            mode.tape.effects.later(f"{type(self).__name__}.step", functools.partial(Optimizer.step, self), moves=True)
            return
        rows, waiting, changes = quiet.copy().run(self._step)
        if not changes:
            warnings.warn("step(): no parameter has a gradient, so none moves; call loss.backward() first", stacklevel=2)
        set_all([*changes, (self, "_rows", rows), (self, "_waiting", waiting)])

    def _step(self) -> tuple[dict[Tensor, _Row], dict[Tensor, dict[str, Any]], list[tuple[Any, str, Any]]]:
        """What _rows and _waiting are in this step, and what changes (parameters are joined to rows, see below)."""
        rows, waiting, changes = dict(self._rows), dict(self._waiting), list[tuple[Any, str, Any]]()
        for group in self.param_groups:
            options = _checked(group)  # a schedule may have set another lr
            for row, grads in _rows_of([p for p in group["params"] if p._grad is not None], rows, waiting):
                g = np.concatenate([g.ravel() for g in grads]).astype(row.data.dtype, copy=False)
                data, state = self._moved(row.data, g, row.state, options)
                pieces = row.cut(data)
                changes += zip(row.params, itertools.repeat("_data"), pieces)
                changes += (row, "data", data), (row, "pieces", pieces), (row, "state", state)
        return rows, waiting, changes

    @property
    def state(self) -> Mapping[Tensor, Mapping[str, Any]]:
        """What is remembered of each parameter that ever moved: numbers, and arrays of its shape. For reading; load_state_dict writes."""
        if mode.tape:
            raise mode.tape.refused("it reads the state of an optimizer")
        states = {**self._waiting, **{p: state for row in dict.fromkeys(self._rows.values()) for p, state in row.split()}}
        return MappingProxyType({p: MappingProxyType(state) for p, state in states.items()})

    def _moved(self, p: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
        """p and the state after a step with the gradient g; all of them vectors, of all parameters one behind the other."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on later: the options, and each parameter's state under its number."""
        params = [p for group in self.param_groups for p in group["params"]]
        number = {p: i for i, p in enumerate(params)}
        return {
            "state": {
                str(number[p]): {k: wrap(v) if isinstance(v, np.ndarray | np.generic) else v for k, v in state.items()}
                for p, state in self.state.items()
            },
            "param_groups": [{**group, "params": [number[p] for p in group["params"]]} for group in self.param_groups],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave. Groups and shapes must match those of this optimizer; else nothing changes."""
        kind = type(self).__name__
        if mode.tape:
            raise mode.tape.refused("it loads the state of an optimizer")
        try:
            fresh, groups = self._read(state_dict)
        except (LookupError, TypeError, AttributeError):
            raise ValueError(f"load_state_dict: this is not what {kind}.state_dict() gave: {short(state_dict)}") from None
        set_all([(self, "_rows", {}), (self, "_waiting", fresh), (self, "param_groups", groups)])

    def _read(self, state_dict: dict[str, Any]) -> tuple[dict[Tensor, dict[str, Any]], list[dict[str, Any]]]:
        params = {str(i): p for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        saved = state_dict["param_groups"]
        if [len(g["params"]) for g in saved] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError(
                f"load_state_dict: the groups hold {[len(g['params']) for g in saved]} parameters, "
                f"here they hold {[len(g['params']) for g in self.param_groups]}"
            )
        fresh: dict[Tensor, dict[str, Any]] = {}
        for key, state in state_dict["state"].items():
            p = params[str(key)]
            fresh[p] = {k: v.numpy() if isinstance(v, Tensor) else v for k, v in state.items()}
            if state and (set(state) != set(self.remembered) or not 0 < state.get("step", 1) < math.inf):
                raise ValueError(
                    f"load_state_dict: {type(self).__name__} remembers {', '.join(self.remembered) or 'nothing'}, a step counting from 1; "
                    f"parameter {key} has {', '.join(f'{k} = {v}' if k == 'step' else k for k, v in state.items())}"
                )
            for name, value in fresh[p].items():
                if isinstance(value, np.ndarray) and value.shape != p.shape:
                    raise ValueError(f"load_state_dict: {name} of parameter {key} has shape {value.shape}, here it is {p.shape}")
        unknown = {k for g in saved for k in g} - {"params", *self.defaults}
        if unknown:
            raise ValueError(f"load_state_dict: {type(self).__name__} has no {sorted(unknown)}: this is the state of another optimizer")
        return fresh, [_checked({**group, **g, "params": group["params"]}) for group, g in zip(self.param_groups, saved, strict=True)]


def _checked(group: dict[str, Any]) -> dict[str, Any]:
    """The group with its options checked: a step with lr = NaN would spoil every weight."""
    betas = group.get("betas", (0, 0))
    try:
        first, second = betas
        fine = 0 <= first < 1 and 0 <= second < 1
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise ValueError(f"betas must be two numbers in [0, 1), got {short(betas)}")
    return {k: number(v, k, 0.0) if k in ("lr", "momentum", "weight_decay", "eps") else v for k, v in group.items()}


def zero_grads(params: Iterable[Tensor], set_to_none: bool) -> None:
    """Forget the gradients of all of them, or set to 0 those that there are."""
    params = list(params)
    changes = [(p, "_grad", None) if set_to_none or p.grad is None else (p.grad, "_data", np.zeros_like(p.grad.data)) for p in params]
    setting_gradients(params)
    set_all(changes)


class SGD(Optimizer):
    """p <- p - lr * v,  v <- momentum * v + g,  with g + weight_decay * p for g. Without momentum v is g itself."""

    remembered = ("velocity",)

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def _moved(self, p: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
        if group["weight_decay"]:
            g = g + group["weight_decay"] * p
        if group["momentum"]:
            g = group["momentum"] * state["velocity"] + g if state else g
            state = {"velocity": g}
        return p - group["lr"] * g, state


class Adam(Optimizer):
    """m <- beta1 m + (1 - beta1) g,  s <- beta2 s + (1 - beta2) g**2,  p <- p - lr * m^ / (sqrt(s^) + eps),

    where m^ = m / (1 - beta1**t) and s^ = s / (1 - beta2**t) undo the start from zero, t counting steps from 1
    (Kingma & Ba 2015, algorithm 1). weight_decay adds weight_decay * p to g. The state holds sqrt(s), which is of the size of g:
    float32 has g itself up to 3e38, but g**2 only up to g = 2e19."""

    decoupled, remembered = False, ("step", "mean", "root")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _moved(self, p: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
        (beta1, beta2), decay = map(float, group["betas"]), group["weight_decay"]
        if decay and self.decoupled:
            p = p - group["lr"] * decay * p
        elif decay:
            g = g + decay * p
        t = state.get("step", 0) + 1
        m, old = (state["mean"], state["root"]) if state else (np.zeros_like(g), np.zeros_like(g))
        m = m * beta1  # from here on into arrays of our own: fresh memory for each result would take a tenth longer
        m += g * (1 - beta1)
        root, step = old * old, g * g
        root *= beta2
        step *= 1 - beta2
        root += step
        np.sqrt(root, root)
        if not root.dot(root) < math.inf:  # the squares are too large; hypot is slower and never forms them
            root = np.hypot(math.sqrt(beta2) * old, math.sqrt(1 - beta2) * g)
        start = math.sqrt(1 - beta2**t)  # root / start is sqrt(s^); both sides of the fraction are multiplied by it
        np.add(root, group["eps"] * start, step)
        np.divide(m, step, step)
        step *= group["lr"] * start / (1 - beta1**t)
        return p - step, {"step": t, "mean": m, "root": root}


class AdamW(Adam):
    """Adam with the decay taken off the weights themselves, p <- p - lr * weight_decay * p, not mixed into g
    (Loshchilov & Hutter 2019)."""

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)


# One long vector. At lesson size a step is then a dozen calls of NumPy, and not a dozen for each parameter ----------


class _Row:
    """Parameters that move together: their data one behind the other, and the state to it."""

    def __init__(self, params: list[Tensor], data: Array, state: dict[str, Any], parts: list[tuple[slice, Any]]) -> None:
        self.params, self.data, self.state, self.parts = params, data, state, parts
        self.pieces = self.cut(self.data)  # what the parameters hold, unless someone rebinds it
        self.shapes = [shape for _, shape in parts]

    def cut(self, row: Array) -> list[Array]:
        """The part of each parameter, in its shape."""
        return [row[part].reshape(shape) for part, shape in self.parts]

    def split(self) -> Iterable[tuple[Tensor, dict[str, Any]]]:
        """Each parameter with its state."""
        cut = {k: self.cut(v) if isinstance(v, np.ndarray) else [v] * len(self.params) for k, v in self.state.items()}
        return [(p, {k: pieces[i] for k, pieces in cut.items()}) for i, p in enumerate(self.params)]

    def fits(self, grads: list[Array]) -> bool:
        """Whether the parameters still hold the pieces, and their gradients are of their shapes."""
        return all(map(operator.is_, map(DATA, self.params), self.pieces)) and list(map(SHAPE, grads)) == self.shapes


def _joined(params: list[Tensor], states: list[dict[str, Any]]) -> _Row:
    """The row of these parameters; their states have the same names and numbers."""
    for p, remembered in zip(params, states, strict=True):
        for k, v in remembered.items():
            if isinstance(v, np.ndarray) and v.shape != p.shape:
                raise ValueError(f"step(): the {k} of a parameter has shape {v.shape}, its data now {p.shape}: make a new optimizer for it")
    ends = itertools.accumulate(p._data.size for p in params)
    parts = [(slice(end - p._data.size, end), p._data.shape) for p, end in zip(params, ends, strict=True)]
    data = np.concatenate([p._data for p in params], None)
    state = {  # in the dtype of the data, whatever was loaded
        k: np.concatenate([s[k] for s in states], None, dtype=data.dtype, casting="unsafe") if isinstance(v, np.ndarray) else v
        for k, v in states[0].items()
    }
    return _Row(params, data, state, parts)


def _rows_of(params: list[Tensor], rows: dict[Tensor, _Row], waiting: dict[Tensor, dict[str, Any]]) -> list[tuple[_Row, list[Array]]]:
    """Rows of just these parameters, with their gradients. Mostly they are those that the last step left; else the `rows` they are
    in are taken apart, and new ones made, by dtype and number of steps."""
    old = [row for row in dict.fromkeys(map(rows.get, params)) if row]
    if sum([len(row.params) for row in old]) == len(params):
        found = [(row, _gradients(row)) for row in old]
        if all([row.fits(grads) for row, grads in found]):  # noqa: C419  a list is faster
            return found
    for p in params:
        if p._grad is not None and p._grad._data.shape != p._data.shape:
            raise ValueError(f"step(): the gradient of a parameter has shape {p._grad.shape}, its data now {p.shape}")
    for p, state in [pair for row in old for pair in row.split()]:
        del rows[p]
        waiting[p] = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in state.items()}  # a copy: it needs no more of the row
    alike: dict[Any, dict[Tensor, dict[str, Any]]] = {}
    for p in params:
        state = waiting.pop(p, {})
        alike.setdefault((p._data.dtype, state.get("step", bool(state))), {})[p] = state
    new = [_joined(list(some), list(some.values())) for some in alike.values()]
    rows.update((p, row) for row in new for p in row.params)
    return [(row, _gradients(row)) for row in new]


GRADIENT, SHAPE = map(operator.attrgetter, ("_grad._data", "shape"))


def _gradients(row: _Row) -> list[Array]:
    return list(map(GRADIENT, row.params))  # a row that moves has only parameters with a gradient


__getattr__ = module_getattr(__name__)
