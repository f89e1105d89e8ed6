"""The linear layer."""

import math

import minigrad
from minigrad import Tensor
from minigrad.arguments import integer

from . import functional as F
from . import init
from .module import Module, Parameter


class Linear(Module):
    """y = x W^T + b:  (..., in_features) -> (..., out_features).

    weight (out_features, in_features) and bias (out_features) start uniform in +-1/sqrt(in_features), PyTorch's default
    (its kaiming_uniform_ with a = sqrt(5)).
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        if min(integer(in_features, "Linear: in_features"), integer(out_features, "Linear: out_features")) < 1:
            raise ValueError(f"Linear: sizes must be at least 1, got {in_features} and {out_features}")
        self.in_features, self.out_features = in_features, out_features
        bound = 1 / math.sqrt(in_features)
        self.weight = init.uniform_(Parameter(minigrad.zeros(out_features, in_features)), -bound, bound)
        self.bias = init.uniform_(Parameter(minigrad.zeros(out_features)), -bound, bound) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
