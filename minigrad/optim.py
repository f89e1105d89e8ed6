"""Optimizers: from gradients to better weights.

A parameter group is a dict, {"params": [...], "lr": ...}; what it leaves out comes from the optimizer's own arguments.
A step rebinds `p.data`, it never writes into an array, and it changes all parameters or, after an error, none.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from .arguments import listed, module_getattr, number, short
from .ops import Array
from .tensor import Tensor, quiet, set_all, wrap


class Optimizer:
    """The common part: groups, zero_grad, step, and a state dict of {"state": by number, "param_groups": options}."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        what = "the optimizer takes a list of parameters, such as model.parameters()"
        if isinstance(params, Tensor | dict):
            raise TypeError(f"{what}, got a single {short(params)}: write [p]")
        groups = listed(params, what)
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        self._rows: dict[tuple[str, Tensor], tuple[list[Array], Array]] = {}  # see _joined
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
        zero_grads([p for group in self.param_groups for p in group["params"]], set_to_none)

    def step(self) -> None:
        """Move each parameter that has a gradient. A gradient of None is skipped, as is its state."""
        changes = quiet.copy().run(self._changes)
        if len(changes) == 1:
            warnings.warn("step(): no parameter has a gradient, so none moves; call loss.backward() first", stacklevel=2)
        set_all(changes)

    def _changes(self) -> list[tuple[object, str, Any]]:
        changes: list[tuple[object, str, Any]] = []
        states = dict(self.state)
        for group in self.param_groups:
            group = _checked(group)  # a schedule may have set another lr
            for params in self._alike(group["params"]):
                old = [self.state.get(p, {}) for p in params]
                first = params[0]
                joined = {k: self._joined(k, first, [s[k] for s in old]) if isinstance(v, np.ndarray) else v for k, v in old[0].items()}
                data = self._joined("data", first, [p._data for p in params])
                grads = np.concatenate([p._grad._data.reshape(-1) for p in params if p._grad is not None])
                moved, state = self._moved(data, grads, joined, group)
                pieces = {k: self._cut(k, v, params) for k, v in state.items() if isinstance(v, np.ndarray)}
                for i, (p, piece) in enumerate(zip(params, self._cut("data", moved, params), strict=True)):
                    changes.append((p, "_data", piece))
                    states[p] = {k: pieces[k][i] if k in pieces else v for k, v in state.items()}
        return [*changes, (self, "state", states)]

    # Parameters move together, as one long vector: at lesson size a step is a dozen calls of NumPy, not a dozen per parameter.

    def _alike(self, params: Iterable[Tensor]) -> Iterable[list[Tensor]]:
        """Those that have a gradient, grouped by dtype and number of steps."""
        groups: dict[Any, list[Tensor]] = {}
        for p in params:
            if p._grad is not None:
                if p._grad.shape != p.shape:
                    raise ValueError(f"step(): the gradient of a parameter has shape {p._grad.shape}, its data now {p.shape}")
                state = self.state.get(p)
                groups.setdefault((p._data.dtype, p._grad._data.dtype, state.get("step", 1) if state else 0), []).append(p)
        return groups.values()

    def _joined(self, name: str, first: Tensor, arrays: list[Array]) -> Array:
        pieces, row = self._rows.get((name, first), ((), None))
        if row is not None and len(pieces) == len(arrays) and all(map(operator.is_, pieces, arrays)):
            return row  # they still are the pieces into which the last step cut it
        return np.concatenate([x.reshape(-1) for x in arrays])

    def _cut(self, name: str, row: Array, params: list[Tensor]) -> list[Array]:
        pieces, end, row = [], 0, row.astype(params[0]._data.dtype, copy=False)  # whatever the state or a gradient was
        for p in params:
            start, end = end, end + p._data.size
            pieces.append(row[start:end].reshape(p._data.shape))
        self._rows[name, params[0]] = pieces, row
        return pieces

    def _moved(self, p: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
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
        try:
            fresh, groups = self._read(state_dict)
        except (KeyError, TypeError, AttributeError):
            raise ValueError(f"load_state_dict: this is not what {kind}.state_dict() gave: {short(state_dict)}") from None
        set_all([(self, "state", fresh), (self, "param_groups", groups)])

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
            for name, value in fresh[p].items():
                if isinstance(value, np.ndarray) and value.shape != p.shape:
                    raise ValueError(f"load_state_dict: {name} of parameter {key} has shape {value.shape}, here it is {p.shape}")
        unknown = {k for g in saved for k in g} - {"params", *self.defaults}
        if unknown:
            raise ValueError(f"load_state_dict: {type(self).__name__} has no {sorted(unknown)}: this is the state of another optimizer")
        return fresh, [_checked({**group, **g, "params": group["params"]}) for group, g in zip(self.param_groups, saved, strict=True)]


def _checked(group: dict[str, Any]) -> dict[str, Any]:
    """The group with its options checked: a step with lr = NaN would spoil every weight."""
    betas = group.get("betas", ())
    try:
        fine = len(betas) in (0, 2) and all(0 <= b < 1 for b in betas)
    except TypeError:
        fine = False
    if not fine:
        raise ValueError(f"betas must be two numbers in [0, 1), got {short(betas)}")
    return {k: number(v, k, 0.0) if k in ("lr", "momentum", "weight_decay", "eps") else v for k, v in group.items()}


def zero_grads(params: Iterable[Tensor], set_to_none: bool) -> None:
    """Forget the gradients of all of them, or set to 0 those that there are."""
    set_all([(p, "_grad", None) if set_to_none or p.grad is None else (p.grad, "_data", np.zeros_like(p.grad.data)) for p in params])


class SGD(Optimizer):
    """p <- p - lr * v,  v <- momentum * v + g,  with g + weight_decay * p for g. Without momentum v is g itself."""

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

    decoupled = False

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
        (beta1, beta2), decay = group["betas"], group["weight_decay"]
        if decay and self.decoupled:
            p = p - group["lr"] * decay * p
        elif decay:
            g = g + decay * p
        t = state.get("step", 0) + 1
        m = beta1 * state["mean"] + (1 - beta1) * g if state else (1 - beta1) * g
        old = state["root"] if state else np.zeros_like(g)
        root = np.sqrt(beta2 * (old * old) + (1 - beta2) * (g * g))
        if not np.vdot(root, root) < math.inf:  # the squares are too large; hypot is slower and never forms them
            root = np.hypot(math.sqrt(beta2) * old, math.sqrt(1 - beta2) * g)
        start = math.sqrt(1 - beta2**t)  # root / start is sqrt(s^); both sides of the fraction are multiplied by it
        return p - group["lr"] * start / (1 - beta1**t) * m / (root + group["eps"] * start), {"step": t, "mean": m, "root": root}


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


__getattr__ = module_getattr(__name__)
