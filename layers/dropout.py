"""Dropout."""

from minigrad import Tensor

from . import functional as F
from .module import Module


class Dropout(Module):
    """In training, sets each number to 0 with probability p and scales the others by 1 / (1 - p); in eval, does nothing."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"Dropout: p must lie in [0, 1], got {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"
