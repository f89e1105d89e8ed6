"""Layers that bring each token's features to a common size."""

import minigrad
from minigrad import Tensor
from minigrad.arguments import sizes_of

from . import functional as F
from .functional import Shape
from .module import Module, Parameter


class LayerNorm(Module):
    """y = (x - mean) / sqrt(var + eps) * weight + bias over the last dims; weight starts at 1, bias at 0."""

    def __init__(self, normalized_shape: Shape, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True) -> None:
        sizes = sizes_of((normalized_shape,), "LayerNorm: a size")
        self.normalized_shape, self.eps = normalized_shape, eps
        self.weight = Parameter(minigrad.ones(sizes)) if elementwise_affine else None
        self.bias = Parameter(minigrad.zeros(normalized_shape)) if elementwise_affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """y = x / sqrt(mean(x**2) + eps) * weight over the last dims; weight starts at 1. eps: by default the dtype's own."""

    def __init__(self, normalized_shape: Shape, eps: float | None = None, elementwise_affine: bool = True) -> None:
        sizes = sizes_of((normalized_shape,), "RMSNorm: a size")
        self.normalized_shape, self.eps = normalized_shape, eps
        self.weight = Parameter(minigrad.ones(sizes)) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"
