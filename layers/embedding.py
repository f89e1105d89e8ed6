"""The embedding layer."""

import minigrad
from minigrad import Tensor
from minigrad.arguments import integer

from . import functional as F
from .module import Module, Parameter


class Embedding(Module):
    """A table of vectors, one per id:  (...) -> (..., embedding_dim).  weight (num_embeddings, embedding_dim) starts N(0, 1).

    padding_idx: this id's row starts at zero and gets no gradient.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None) -> None:
        sizes = integer(num_embeddings, "Embedding: num_embeddings"), integer(embedding_dim, "Embedding: embedding_dim")
        if padding_idx is not None and not -num_embeddings <= integer(padding_idx, "Embedding: padding_idx") < num_embeddings:
            raise ValueError(f"Embedding: padding_idx {padding_idx} is not one of the {num_embeddings} rows")
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        weight = minigrad.randn(sizes)
        if padding_idx is not None:
            weight[padding_idx] = 0.0
        self.weight = Parameter(weight)

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
