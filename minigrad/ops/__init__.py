"""The table of derivatives: every differentiable op, its value and its gradient functions side by side, in files by subject.
(Two that do at once what a chain of these does, for speed, stand in minigrad/attention.py.)

An op is a plain function on NumPy arrays. It returns its value y, then one gradient function for each
input. Such a function takes g = dL/dy, the gradient that arrives at the output, and returns dL/dinput
(a *vector-Jacobian product*: g times the matrix of partial derivatives, without ever building that matrix).

Nothing here knows that a graph exists, so each line can be read, called and checked alone:

    >>> import numpy as np
    >>> from minigrad.ops import mul
    >>> y, da, db = mul(np.array([2.0, 3.0]), np.array([5.0, 7.0]))
    >>> da(np.ones(2))                # d(sum of a * b) / da = b
    array([5., 7.])

Where NumPy stretches an input by broadcasting, its gradient function answers in the stretched shape; the
engine (`unbroadcast` in tensor.py) sums it back, once for all ops. An input may be a plain Python number.

An op of your own may stand anywhere; `minigrad.apply(op, x, ...)` runs it on tensors and records it, options go by name. One
rule: never write into an input or into g, for others hold the same array. (To be had as `ops.cube`, it must be listed below.)

In the docstrings: formula, shapes `in -> out` where they change, then the derivative for each input.
Letters: x one input, a and b two, y the value, g the incoming gradient, * elementwise, @ the matrix product.
"""

# fmt: off
import inspect

from .arithmetic import abs, add, cast, clamp, cos, div, erfc, exp, linear, log, matmul, maximum, minimum, mul, neg, pow, relu, sigmoid, sin, sqrt, sub, tanh, where
from .arrays import Array, Axis, Result, Vjp
from .normalizing import cross_entropy, log_softmax, logsumexp, rms_normalize, softmax, standardize
from .places import concatenate, contiguous, expand, getitem, reshape, scatter, swapaxes, take, transpose, tril, triu
from .reductions import cumsum, max, norm, prod, sum

__all__ = [name for name, op in globals().items() if inspect.isfunction(op)]  # for help() and doctest, which look for it
