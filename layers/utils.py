"""Helpers of the training loop."""

import math
from collections.abc import Iterable

import minigrad
from minigrad import Tensor
from minigrad.tensor import set_all


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale all gradients by min(1, max_norm / (total + 1e-6)), total being the norm of all of them as one vector; returns it.

    Call it between `backward()` and `step()`: one bad batch can then move the weights no further than a good one.
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return minigrad.tensor(0.0)
    total = minigrad.stack([g.norm(norm_type) for g in grads]).norm(norm_type)
    scale = max_norm / (total.item() + 1e-6)
    if scale < 1.0 or math.isnan(scale):
        set_all((p, "_grad", p.grad * scale) for p in parameters if p.grad is not None)
    return total
