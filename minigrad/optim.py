"""Optimizers: from gradients to better weights.

A parameter group is a dict, {"params": [...], "lr": ...}; what it leaves out comes from the optimizer's own arguments.
A step rebinds `p.data`, it never writes into an array, and it changes all parameters or, after an error, none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .arguments import short
from .ops import Array
from .tensor import Tensor, quiet, set_all, wrap


class Optimizer:
    """The common part: groups, zero_grad, step, and a state dict of {"state": by number, "param_groups": options}."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError("the optimizer takes a list of parameters, got a single tensor: write [p]")
        groups = list(params)
        if not groups:
            raise ValueError("the optimizer got no parameters: an empty list, or a generator that was already used up")
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[Tensor, dict[str, Any]] = {}
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group({**defaults, **group}, set(defaults))

    def add_param_group(self, group: dict[str, Any], known: set[str] | None = None) -> None:
        """One more group of parameters with options of its own."""
        group = {**({k: v for k, v in self.param_groups[0].items() if k != "params"} if self.param_groups else {}), **group}
        group["params"] = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        seen = {id(p) for g in self.param_groups for p in g["params"]}
        for i, p in enumerate(group["params"]):
            if not (isinstance(p, Tensor) and p.is_leaf and p.requires_grad):
                raise TypeError(f"the optimizer takes leaves that require a gradient; parameter {i} is {short(p)}")
            if id(p) in seen:
                raise ValueError(f"parameter {i} (shape {p.shape}) was given to the optimizer twice")
            seen.add(id(p))
        unknown = set(group) - {"params"} - (known or set(group))
        if unknown:
            raise TypeError(f"unknown option {sorted(unknown)} in a parameter group; known are {sorted(known or ())}")
        if not (math.isfinite(group["lr"]) and group["lr"] >= 0):
            raise ValueError(f"lr must be a number >= 0, got {group['lr']}")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters: the next `backward` starts from nothing instead of adding."""
        zero_grads([p for group in self.param_groups for p in group["params"]], set_to_none)

    def step(self) -> None:
        """Move each parameter that has a gradient. A gradient of None is skipped, as is its state."""
        set_all(quiet.copy().run(self._changes))

    def _changes(self) -> list[tuple[object, str, Any]]:
        changes: list[tuple[object, str, Any]] = []
        states = dict(self.state)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    data, states[p] = self._moved(p.data, p.grad.data, self.state.get(p, {}), group)
                    changes.append((p, "_data", data.astype(p.dtype, copy=False)))
        return [*changes, (self, "state", states)]

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
        params = [p for group in self.param_groups for p in group["params"]]
        saved = state_dict["param_groups"]
        if [len(g["params"]) for g in saved] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError(
                f"load_state_dict: the groups hold {[len(g['params']) for g in saved]} parameters, "
                f"here they hold {[len(g['params']) for g in self.param_groups]}"
            )
        fresh: dict[Tensor, dict[str, Any]] = {}
        for number, state in state_dict["state"].items():
            p = params[int(number)]
            fresh[p] = {k: v.numpy() if isinstance(v, Tensor) else v for k, v in state.items()}
            for name, value in fresh[p].items():
                if isinstance(value, np.ndarray) and value.shape != p.shape:
                    raise ValueError(f"load_state_dict: {name} of parameter {number} has shape {value.shape}, here it is {p.shape}")
        groups = [{**other, "params": group["params"]} for group, other in zip(self.param_groups, saved, strict=True)]
        set_all([(self, "state", fresh), (self, "param_groups", groups)])


def zero_grads(params: Iterable[Tensor], set_to_none: bool) -> None:
    """Forget the gradients of all of them, or set to 0 those that there are."""
    set_all((p, "_grad", None) if set_to_none or p.grad is None else (p.grad, "_data", np.zeros_like(p.grad.data)) for p in params)


class SGD(Optimizer):
    """p <- p - lr * v,  v <- momentum * v + g,  with g + weight_decay * p for g. Without momentum v is g itself."""

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
        if momentum < 0 or weight_decay < 0:
            raise ValueError(f"momentum and weight_decay must be >= 0, got {momentum} and {weight_decay}")
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
    (Kingma & Ba 2015, algorithm 1). weight_decay adds weight_decay * p to g."""

    decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not all(0 <= b < 1 for b in betas) or eps < 0 or weight_decay < 0:
            raise ValueError(f"betas must lie in [0, 1), eps and weight_decay be >= 0; got {betas}, {eps}, {weight_decay}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _moved(self, p: Array, g: Array, state: dict[str, Any], group: dict[str, Any]) -> tuple[Array, dict[str, Any]]:
        (beta1, beta2), decay = group["betas"], group["weight_decay"]
        if decay and self.decoupled:
            p = p - group["lr"] * decay * p
        elif decay:
            g = g + decay * p
        t = state.get("step", 0) + 1
        m = beta1 * state["mean"] + (1 - beta1) * g if state else (1 - beta1) * g
        s = beta2 * state["square"] + (1 - beta2) * (g * g) if state else (1 - beta2) * (g * g)
        step = group["lr"] / (1 - beta1**t) * m / (np.sqrt(s) / math.sqrt(1 - beta2**t) + group["eps"])
        return p - step, {"step": t, "mean": m, "square": s}


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
