"""minigrad: reverse-mode automatic differentiation on NumPy, small enough to read in an evening.

The names are PyTorch's, so `import minigrad as torch` runs a lesson's own code. Start reading at `ops` (the table of
derivatives), then the first 153 lines of `tensor.py` (the engine).
"""
# fmt: off
# ruff: noqa: I001

from . import memory as memory, ops, optim
from .arguments import boolean as bool, device, float32, float64, int64, int64 as long, module_getattr
from .compiling import compile
from .creation import (
    arange, as_tensor, eye, from_numpy, full, full_like, get_rng_state, inf, linspace, manual_seed, multinomial, nan, ones,
    ones_like, pi, rand, rand_like, randint, randn, randn_like, randperm, set_rng_state, tensor, zeros, zeros_like,
)
from .functions import (
    abs, add, all, allclose, any, argmax, argmin, cat, chunk, clamp, clone, cos, cumsum, equal, exp, flatten, gather,
    index_select, isinf, isnan, log, log_softmax, logsumexp, masked_fill, matmul, max, maximum, mean, min, minimum, mul, norm,
    permute, pow, prod, relu, reshape, rsqrt, scatter, sigmoid, sin, softmax, sort, split, sqrt, squeeze, stack, std, sum,
    swapaxes, t, tanh, topk, transpose, tril, triu, unsqueeze, var, where,
)
from .gradcheck import gradcheck
from .serialization import load, save
from .mode import no_grad
from .tensor import Tensor, apply

__all__ = [
    "Tensor", "abs", "add", "all", "allclose", "any", "apply", "arange", "argmax", "argmin", "as_tensor", "bool", "cat",
    "chunk", "clamp", "clone", "compile", "cos", "cuda", "cumsum", "device", "equal", "exp", "eye", "flatten", "float32", "float64",
    "from_numpy", "full", "full_like", "gather", "get_rng_state", "gradcheck", "index_select", "inf", "int64", "isinf", "isnan",
    "linspace", "load", "log", "log_softmax", "logsumexp", "long", "manual_seed", "masked_fill", "matmul", "max", "maximum",
    "mean", "min", "minimum", "mul", "multinomial", "nan", "no_grad", "norm", "ones", "ones_like", "ops", "optim", "permute",
    "pi", "pow", "prod", "rand", "rand_like", "randint", "randn", "randn_like", "randperm", "relu", "reshape", "rsqrt", "save",
    "scatter", "set_rng_state", "sigmoid", "sin", "softmax", "sort", "split", "sqrt", "squeeze", "stack", "std", "sum",
    "swapaxes", "t", "tanh", "tensor", "topk", "transpose", "tril", "triu", "unsqueeze", "var", "where", "zeros", "zeros_like",
]


class cuda:
    """PyTorch's question about graphics cards, and minigrad's answer."""

    @staticmethod
    def is_available() -> int:  # a bool; the name bool is a dtype here
        """False: minigrad computes on the CPU."""
        return False


__getattr__ = module_getattr(__name__)
