"""Filling parameters with their first values. Each function changes its tensor in place (it rebinds `data`) and returns it.

fan_in and fan_out of a weight (out, in, ...) are in and out, times whatever further axes hold.
"""

import math
from collections.abc import Callable
from typing import TypeVar

import minigrad
from minigrad import Tensor
from minigrad.arguments import checked, module_getattr, number

T = TypeVar("T", bound=Tensor)


def _filled(tensor: T, name: str, make: Callable[[Tensor], Tensor]) -> T:
    tensor.data = make(checked(tensor, Tensor, name)).data
    return tensor


def normal_(tensor: T, mean: float = 0.0, std: float = 1.0) -> T:
    """N(mean, std**2)."""
    mean, std = number(mean, "normal_: mean"), number(std, "normal_: std", 0.0)
    return _filled(tensor, "normal_", lambda x: minigrad.randn_like(x) * std + mean)


def uniform_(tensor: T, a: float = 0.0, b: float = 1.0) -> T:
    """Uniform in [a, b)."""
    width = number(number(b, "uniform_: b") - number(a, "uniform_: a"), "uniform_: b - a", 0.0)
    return _filled(tensor, "uniform_", lambda x: minigrad.rand_like(x) * width + a)


def constant_(tensor: T, val: float) -> T:
    """All the same number."""
    return _filled(tensor, "constant_", lambda x: minigrad.full_like(x, val))


def zeros_(tensor: T) -> T:
    """All 0."""
    return _filled(tensor, "zeros_", minigrad.zeros_like)


def ones_(tensor: T) -> T:
    """All 1."""
    return _filled(tensor, "ones_", minigrad.ones_like)


def _fans(tensor: Tensor) -> tuple[int, int]:
    if checked(tensor, Tensor, "an initialisation by fan_in and fan_out").ndim < 2 or 0 in tensor.shape:
        raise ValueError(f"fan_in and fan_out need a weight of at least 2 dims, none of length 0, got shape {tensor.shape}")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: T, gain: float = 1.0) -> T:
    """Uniform in +-gain * sqrt(6 / (fan_in + fan_out))  (Glorot & Bengio 2010)."""
    bound = number(gain, "xavier_uniform_: gain", 0.0) * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: T, gain: float = 1.0) -> T:
    """N(0, gain**2 * 2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, number(gain, "xavier_normal_: gain", 0.0) * math.sqrt(2.0 / sum(_fans(tensor))))


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    a = number(a, "kaiming: a")
    gains = {"leaky_relu": math.sqrt(2.0 / (1 + a * a)), "relu": math.sqrt(2.0), "tanh": 5.0 / 3, "linear": 1.0, "sigmoid": 1.0}
    if mode not in ("fan_in", "fan_out") or nonlinearity not in gains:
        raise ValueError(f"mode must be fan_in or fan_out and nonlinearity one of {', '.join(gains)}; got {mode!r}, {nonlinearity!r}")
    return gains[nonlinearity] / math.sqrt(_fans(tensor)[mode == "fan_out"])


def kaiming_uniform_(tensor: T, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> T:
    """Uniform in +-sqrt(3) * gain / sqrt(fan), gain sqrt(2 / (1 + a**2)) for leaky ReLU of slope a  (He et al. 2015)."""
    bound = math.sqrt(3.0) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: T, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> T:
    """N(0, gain**2 / fan)."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity))


__getattr__ = module_getattr(__name__)
