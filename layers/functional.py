"""Functions without weights of their own: what the layers compute, callable with any weights.

Masks here keep PyTorch's meaning for `scaled_dot_product_attention` (True = may attend). Everywhere else in minigrad,
and in layers/attention.py, True = hidden, as in `masked_fill`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

import minigrad
from minigrad import Tensor, apply, ops
from minigrad.arguments import checked, ids_in_range, integer, listed, module_getattr, number, sees_only_the_future, short
from minigrad.attention import attention
from minigrad.ops import Array
from minigrad.tape import look

Shape = int | Sequence[int]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Y = X W^T + b:  (..., in), weight (out, in), bias (out) -> (..., out).

    The weight is stored (out, in), PyTorch's layout: row i holds the weights of output i. Raises ValueError where the
    last length of the input isn't `in`, TypeError where dtypes differ.
    """
    if not (isinstance(input, Tensor) and isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor))):
        raise _misfit(input, weight, bias)
    x, w, b = input._data, weight._data, None if bias is None else bias._data
    if not (x.ndim and w.ndim == 2 and x.shape[-1] == w.shape[1] and (b is None or b.shape == w.shape[:1])):
        raise _misfit(input, weight, bias)
    if x.dtype != w.dtype:
        raise TypeError(f"linear: the input is {x.dtype}, the weight {w.dtype}; bring the input to it: x.to(weight.dtype)")
    if b is not None and b.dtype != w.dtype:
        raise TypeError(f"linear: the bias is {b.dtype}, the weight {w.dtype}; bring one to the other: bias.to(weight.dtype)")
    return apply(ops.linear, input, weight) if bias is None else apply(ops.linear, input, weight, bias)


def _misfit(input: Tensor, weight: Tensor, bias: Tensor | None) -> ValueError:
    x = checked(input, Tensor, "linear")
    if checked(weight, Tensor, "linear, as its weight,").ndim != 2:
        return ValueError(f"linear: the weight must have shape (out_features, in_features), got {weight.shape}")
    if bias is not None and checked(bias, Tensor, "linear, as its bias,").shape != weight.shape[:1]:
        return ValueError(f"linear: bias {bias.shape} doesn't fit weight {weight.shape}, which needs {weight.shape[:1]} (out_features)")
    width = weight.shape[1]
    turned = " (is it transposed? then write x.mT)" if x.ndim > 1 and x.shape[-2] == width else ""
    return ValueError(f"linear: the input's last length must be {width} (in_features), got shape {x.shape}{turned}; weight {weight.shape}")


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of a table:  ids (...), weight (v, d) -> (..., d).  A row picked several times gets the sum of its gradients.

    padding_idx: this row gets no gradient. Raises IndexError for an id outside [0, v): negative ones too, nothing wraps.
    """
    ids, table = checked(input, Tensor, "embedding")._data, checked(weight, Tensor, "embedding, as its weight,")._data
    if table.ndim != 2:
        raise ValueError(f"embedding: the weight must have shape (num_embeddings, dim), got {table.shape}")
    count = len(table)
    ids_in_range(ids, count, "embedding: id")
    if padding_idx is not None and not -count <= integer(padding_idx, "embedding: padding_idx") < count:
        raise IndexError(f"embedding: padding_idx {padding_idx} is not one of the {count} rows")
    rows = apply(ops.take, weight, ids=ids, mode="clip")  # (..., d); nothing to clip, but played with "raise", NumPy makes a copy
    if padding_idx is None:
        return rows
    return minigrad.where((input == padding_idx % count).unsqueeze(-1), rows.detach(), rows)


# Activations --------------------------------------------------------------------------------------------------


def relu(input: Tensor) -> Tensor:
    """max(x, 0)."""
    return checked(input, Tensor, "relu").relu()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + e**-x)."""
    return checked(input, Tensor, "sigmoid").sigmoid()


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return checked(input, Tensor, "tanh").tanh()


def silu(input: Tensor) -> Tensor:
    """x * sigmoid(x), also called swish (Elfwing et al. 2018)."""
    return checked(input, Tensor, "silu") * input.sigmoid()


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x * P(N(0, 1) <= x) = x (1 + erf(x / sqrt 2)) / 2  (Hendrycks & Gimpel 2016); with approximate="tanh" their formula
    x (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3))) / 2. For x < 0 the sums 1 + ... cancel, so they are computed as erfc and as a sigmoid."""
    x = checked(input, Tensor, "gelu")
    if approximate == "none":
        return 0.5 * x * (x * -math.sqrt(0.5)).erfc()  # 1 + erf(u) = erfc(-u)
    if approximate == "tanh":
        u = x.clamp(-100.0, 100.0)  # beyond, the sigmoid is 0 or 1, and x**3 may be inf
        return x * (math.sqrt(8.0 / math.pi) * (u + 0.044715 * u**3)).sigmoid()  # (1 + tanh(u)) / 2 = sigmoid(2 u)
    raise ValueError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")


def softmax(input: Tensor, dim: int) -> Tensor:
    """exp(x_i) / sum_j exp(x_j) along dim."""
    return checked(input, Tensor, "softmax").softmax(dim)


def log_softmax(input: Tensor, dim: int) -> Tensor:
    """log(softmax(x)) along dim, without its underflow."""
    return checked(input, Tensor, "log_softmax").log_softmax(dim)


def dropout(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """In training, each number becomes 0 with probability p, and the others grow by 1 / (1 - p), so that the mean stays."""
    x, p = checked(input, Tensor, "dropout"), number(p, "dropout: p", 0.0, 1.0)
    if not training or p == 0.0:
        return x
    dropped = minigrad.rand(x.shape) < p
    return (x / (1.0 - p) if p < 1.0 else x).masked_fill(dropped, 0.0)


# Normalisation ------------------------------------------------------------------------------------------------


def layer_norm(
    input: Tensor, normalized_shape: Shape, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias over the last dims, var = mean((x - mean)**2)  (Ba et al. 2016)."""
    axis = _last_dims(input, normalized_shape, "layer_norm", weight, bias)
    y = apply(ops.standardize, input, axis=axis, eps=number(eps, "layer_norm: eps", 0.0))
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def rms_norm(input: Tensor, normalized_shape: Shape, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """y = x / sqrt(mean(x**2) + eps) * weight over the last dims  (Zhang & Sennrich 2019). eps: by default the dtype's own."""
    axis = _last_dims(input, normalized_shape, "rms_norm", weight)
    tiny = {"float32": 2.0**-23, "float64": 2.0**-52}[input.dtype.name] if eps is None else number(eps, "rms_norm: eps", 0.0)
    y = apply(ops.rms_normalize, input, axis=axis, eps=tiny)
    return y if weight is None else y * weight


def _last_dims(x: Tensor, shape: Shape, name: str, *affine: Tensor | None) -> tuple[int, ...]:
    shape = (shape,) if isinstance(shape, int) else tuple(listed(shape, f"{name}: normalized_shape must be an int or a tuple"))
    if checked(x, Tensor, name).dtype.kind != "f":
        raise TypeError(f"{name} needs floats, got {x.dtype}: write x.float()")
    if x.ndim < len(shape) or x.shape[x.ndim - len(shape) :] != shape or not shape:
        raise ValueError(f"{name}: the input's last lengths must be {shape}, got shape {x.shape}")
    for w in affine:
        if w is not None and getattr(w, "shape", None) != shape:
            raise ValueError(f"{name}: weight and bias must have the shape {shape} of the normalized dims, got {short(w)}")
    return tuple(range(-len(shape), 0))


# Losses -------------------------------------------------------------------------------------------------------


def cross_entropy(input: Tensor, target: Tensor, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:
    """-log softmax(logits)[target], averaged:  logits (v), (n, v) or (n, v, ...), targets (), (n) or (n, ...) -> ().

    Classes stand in dim 1 (PyTorch's layout), so logits (b, t, v) are flattened first: logits.reshape(-1, v), targets.reshape(-1).
    Targets equal to ignore_index count neither in the sum nor in the mean (the mean of nothing is NaN).
    label_smoothing s: (1 - s) of the loss above plus s times the mean of -log softmax over all classes.
    """
    x = checked(input, Tensor, "cross_entropy")
    smoothing = number(label_smoothing, "cross_entropy: label_smoothing", 0.0, 1.0)
    dim, kept, ids, divisor = _targets(x, target, ignore_index, reduction)
    if x.ndim != 2:
        x = x.permute(*(i for i in range(x.ndim) if i != dim), dim).reshape(-1, x.shape[dim])  # (n, v, ...) -> (rows, v)
    rows = None if kept is None else kept.reshape(-1)
    y = apply(ops.cross_entropy, x, target=ids.reshape(-1), kept=rows, smoothing=smoothing, divisor=divisor)
    return y.reshape(target.shape) if divisor is None else y


def nll_loss(input: Tensor, target: Tensor, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """-x[target], averaged, for log-probabilities x in the layouts of `cross_entropy`."""
    x = checked(input, Tensor, "nll_loss")
    dim, kept, ids, divisor = _targets(x, target, ignore_index, reduction)
    losses = -x.gather(dim, target._wrap(ids).unsqueeze(dim)).squeeze(dim)
    losses = losses if kept is None else losses.masked_fill(target._wrap(~kept), 0.0)
    return losses if divisor is None else losses.sum() / divisor


def _targets(x: Tensor, target: Tensor, ignore_index: int, reduction: str) -> tuple[int, Array | None, Array, float | None]:
    """The dim of the classes; which targets count (None: all), and the ids, 0 where they don't, both in the shape of the targets;
    and by what the sum of the losses is divided (None: they stay as they are)."""
    _known(reduction)
    logits, ids = x._data, checked(target, Tensor, "a loss, as its target,")._data
    dim, shape = 1 if logits.ndim > 1 else 0, logits.shape
    if logits.dtype.kind != "f":
        raise TypeError(f"the loss: logits must be floats, got {x.dtype}; write x.float()")
    if not shape:
        raise ValueError("the loss: logits need a dim of classes, got shape ()")
    if ids.shape != shape[:dim] + shape[dim + 1 :]:
        raise ValueError(
            f"the loss: logits of shape {shape} (classes in dim {dim}) need targets of shape {shape[:dim] + shape[dim + 1 :]}, "
            f"got {target.shape}; for logits (b, t, v) write logits.reshape(-1, v) and targets.reshape(-1)"
        )
    kept = ids != integer(ignore_index, "the loss: ignore_index (there are no class weights here)")
    count = look(np.count_nonzero, kept)
    if count < kept.size:
        ids = np.where(kept, ids, ids.dtype.type(0))
    ids_in_range(ids, shape[dim], "target")
    return dim, kept if count < kept.size else None, ids, {"mean": float(count), "sum": 1.0, "none": None}[reduction]


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """(x - target)**2, averaged over all elements. Warns where the shapes differ, for then broadcasting pairs what isn't a pair."""
    difference = checked(input, Tensor, "mse_loss") - checked(target, Tensor, "a loss, as its target,")
    if input.shape != target.shape:
        warnings.warn(
            f"mse_loss: input {input.shape} and target {target.shape} have different shapes; broadcasting compares every element "
            "with many, and the loss will not learn what you mean. Bring them to one shape first",
            stacklevel=2,
        )
    return _reduced(difference * difference, reduction)


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    _known(reduction)
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else losses


def _known(reduction: str) -> None:
    if not isinstance(reduction, str) or reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """ids (...) -> (..., num_classes) of int64: 1 at the id, 0 elsewhere. num_classes -1: as many as the largest id needs."""
    count = integer(num_classes, "one_hot: num_classes")
    if not checked(input, Tensor, "one_hot").numel() and count == -1:
        raise ValueError("one_hot: no ids, so the number of classes can't be told from them; give num_classes")
    count = int(input.long().max()) + 1 if count == -1 else count
    ids_in_range(input.data, count, "one_hot: id")
    hot: Tensor = input.unsqueeze(-1) == minigrad.arange(count)
    return hot.long().contiguous()


# Attention ----------------------------------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(Q K^T * scale) V:  (..., n, d), (..., m, d), (..., m, e) -> (..., n, e);  scale = 1 / sqrt(d) by default.

    attn_mask, broadcast to (..., n, m): bool, **True = may attend** (PyTorch's meaning), or float, added to the scores.
    is_causal: query i sees keys j <= i, counted from the top left also where n != m, as in PyTorch. Not with attn_mask.
    A query that may attend to nothing gets zeros, and finite gradients.
    """
    q, k, v = (checked(x, Tensor, "scaled_dot_product_attention")._data for x in (query, key, value))
    if min(q.ndim, k.ndim, v.ndim) < 2 or not q.shape[-1] == k.shape[-1] > 0 or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"attention: query (..., n, d), key (..., m, d), value (..., m, e) don't fit: {q.shape}, {k.shape}, {v.shape}")
    unseen = None if attn_mask is None else _unseen(attn_mask, is_causal)
    dropout_p, scale = number(dropout_p, "attention: dropout_p", 0.0, 1.0), 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    if not dropout_p and q.dtype == k.dtype == v.dtype and q.dtype.kind == "f" and not isinstance(scale, Tensor):
        # The steps below in one op (minigrad/attention.py): same numbers, fewer trips to memory.
        added = [] if attn_mask is None or unseen is not None else [attn_mask.to(q.dtype)]
        factor, offset = number(scale, "attention: scale"), 0 if is_causal else None
        return apply(attention, query, key, value, *added, scale=factor, hidden=unseen, offset=offset)
    n, m = q.shape[-2], k.shape[-2]
    scores = query @ key.mT * scale  # (..., n, m)
    if is_causal:
        scores = scores.masked_fill(minigrad.ones(n, m).triu(1).bool(), -math.inf)
    elif attn_mask is not None:
        hidden = ~attn_mask if unseen is not None else attn_mask == -math.inf  # (..., n, m)
        blind = hidden.all(-1, keepdim=True)  # (..., n, 1): rows whose softmax would be 0/0
        if unseen is not None:
            scores = scores.masked_fill(hidden & ~blind, -math.inf)
        else:
            scores = scores + attn_mask.to(q.dtype).masked_fill(blind, 0.0)
        weights = scores.softmax(-1).masked_fill(blind, 0.0)
        return dropout(weights, dropout_p) @ value
    return dropout(scores.softmax(-1), dropout_p) @ value  # (..., n, e)


def _unseen(attn_mask: Tensor, is_causal: bool) -> Array | None:
    """A bool mask turned round, True = hidden; None for a float mask."""
    if is_causal:
        raise ValueError("attention: give attn_mask or is_causal=True, not both; put the causal part into the mask")
    if checked(attn_mask, Tensor, "attention, as attn_mask,").dtype.kind not in "bf":
        raise TypeError(f"attention: attn_mask must be bool (True = may attend) or float (added), got {attn_mask.dtype}; write .bool()")
    if attn_mask.dtype != minigrad.bool:
        return None
    unseen = ~attn_mask._data
    if sees_only_the_future(unseen):
        warnings.warn(
            "attention: attn_mask lets each query attend to the future only. In this function True = may attend; elsewhere, as in "
            "layers.causal_mask and masked_fill, True = hidden. Turn such a mask round, ~mask, or write is_causal=True",
            stacklevel=3,
        )
    return unseen


__getattr__ = module_getattr(__name__)
