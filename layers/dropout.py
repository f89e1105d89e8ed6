"""Dropout."""

from minigrad import Tensor
from minigrad.arguments import number

from . import functional as F
from .module import Module


class Dropout(Module):
    """In training, sets each number to 0 with probability p and scales the others by 1 / (1 - p); in eval, does nothing."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = number(p, "Dropout: p", 0.0, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
