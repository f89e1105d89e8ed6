"""Helpers of the training loop."""

import functools
import math
import warnings
from collections.abc import Iterable

import minigrad
from minigrad import Tensor
from minigrad.arguments import checked, integer, listed, module_getattr, number
from minigrad.mode import mode
from minigrad.tensor import set_all, wrap


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> Tensor:
    """Scale all gradients by min(1, max_norm / (total + 1e-6)), total being the norm of all of them as one vector; returns it.

    Call it between `backward()` and `step()`: one bad batch can then move the weights no further than a good one.
    """
    what = "clip_grad_norm_ takes a list of parameters, such as model.parameters()"
    parameters = [parameters] if isinstance(parameters, Tensor) else listed(parameters, what)
    max_norm = number(max_norm, "clip_grad_norm_: max_norm", 0.0, math.inf)
    if mode.tape:
        again = functools.partial(clip_grad_norm_, parameters, max_norm, norm_type)
        return wrap(mode.tape.effects.later("clip_grad_norm_", again, of=parameters))
    grads = [p.grad for i, p in enumerate(parameters) if checked(p, Tensor, f"clip_grad_norm_, as parameter {i},").grad is not None]
    if not parameters:
        warnings.warn("clip_grad_norm_ got no parameters: an empty list, or a generator that was already used up", stacklevel=2)
    if not grads:
        return minigrad.tensor(0.0)
    total = minigrad.stack([g.norm(norm_type) for g in grads]).norm(norm_type)
    scale = max_norm / (total.item() + 1e-6)
    if scale < 1.0 or math.isnan(scale):
        set_all([(p, "_grad", p.grad * scale) for p in parameters if p.grad is not None])
    return total


def warmup_cosine(step: int, steps: int, warmup: int = 0, floor: float = 0.0) -> float:
    """The factor on the learning rate of step 0, 1, ..., steps - 1: up to 1 along a line in `warmup` steps, then down to `floor`
    along half a cosine, and there it stays  (Goyal et al. 2017, section 2.2; Loshchilov & Hutter 2017, eq. 5).

    Set it before each step: `for group in optimizer.param_groups: group["lr"] = lr * warmup_cosine(step, steps)`.
    """
    step, steps, warmup = (integer(x, "warmup_cosine: step, steps and warmup") for x in (step, steps, warmup))
    if not 0 <= warmup <= steps or step < 0:
        raise ValueError(f"warmup_cosine: needs step >= 0 and 0 <= warmup <= steps, got step {step}, steps {steps}, warmup {warmup}")
    if step < warmup:
        return (step + 1) / warmup
    share = (step - warmup) / max(steps - 1 - warmup, 1)  # of the way down
    return floor + (1 - floor) * (1 + math.cos(math.pi * min(share, 1.0))) / 2


__getattr__ = module_getattr(__name__)
