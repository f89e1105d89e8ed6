"""Layers on minigrad, with PyTorch's names: `import layers as nn`.

For attention start at `attention.py`; `functional.py` holds the mathematics of the others, and each class just owns weights.
"""

from minigrad.arguments import module_getattr

from . import functional, init, sampling, utils
from .activation import GELU, CrossEntropyLoss, MSELoss, ReLU, Sigmoid, SiLU, Softmax, Tanh
from .attention import MultiHeadAttention, causal_mask, scaled_dot_product_attention
from .decoder import DecoderLayer, SwiGLU, TinyTransformer
from .dropout import Dropout
from .embedding import Embedding
from .linear import Linear
from .module import Module, ModuleDict, ModuleList, Parameter, Sequential
from .normalization import LayerNorm, RMSNorm

# fmt: off
__all__ = [
    "GELU", "CrossEntropyLoss", "DecoderLayer", "Dropout", "Embedding", "LayerNorm", "Linear", "MSELoss", "Module", "ModuleDict",
    "ModuleList", "MultiHeadAttention", "Parameter", "RMSNorm", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax", "SwiGLU", "Tanh",
    "TinyTransformer", "causal_mask", "functional", "init", "sampling", "scaled_dot_product_attention", "utils",
]
# fmt: on

__getattr__ = module_getattr(__name__)
