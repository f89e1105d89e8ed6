"""Reading what the user wrote: dims, sizes, dtypes, devices and indices, checked once and turned into what NumPy needs.

NumPy guesses where we refuse: it wraps negative ids, lets float64 creep in and names its own internals in its
messages. Each function here returns a clean value or raises one sentence that holds the numbers and the way out.
`layers` reads its arguments with the same functions.
"""

import difflib
import math
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from .ops import Array
from .tape import ARRAYS, Traced, look

float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
int64 = np.dtype(np.int64)
boolean = np.dtype(np.bool_)

Dim = int | Sequence[int] | None
T = TypeVar("T")


class device(str):
    """The place of a tensor's numbers. There is one, `device("cpu")`; asking for another is a RuntimeError."""

    def __new__(cls, name: str) -> "device":
        if str(name).partition(":")[0] != "cpu":
            raise RuntimeError(f"device {str(name)!r}: minigrad computes on the CPU; write device='cpu', or leave it out")
        return super().__new__(cls, "cpu")

    @property
    def type(self) -> str:
        return "cpu"


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """float32, float64, any integer dtype or bool, however NumPy or Python spell it; else a TypeError."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        found = np.dtype(object)
    if found in (float32, float64, boolean) or found.kind in "iu":
        return found
    raise TypeError(f"{dtype!r} is not one of minigrad's dtypes: float32, float64, int64, bool")


@np.errstate(all="ignore")  # 1e300 is inf in float32 and 1e-300 is 0, as in PyTorch
def array_of(data: Any, dtype: Any = None) -> Array:
    """A fresh array of numbers: Python floats become float32, ints int64, bools bool; NumPy arrays keep their dtype."""
    first = data
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if _from_pytorch(first):
        raise TypeError("this is a PyTorch tensor; hand over its numbers: minigrad.tensor(x.detach().numpy())")
    try:
        array = np.array(data)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(f"the rows of a tensor must be equally long, got {short(data)}") from None
    except OverflowError:
        array = np.array(None)
    own = hasattr(first, "dtype")  # NumPy's numbers and arrays bring their dtype, Python's don't
    if not own and array.dtype.kind in "uO" and any(isinstance(x, int) and not -(2**63) <= x < 2**63 for x in array.reshape(-1).tolist()):
        raise TypeError(f"an int in a tensor must fit into 64 bits, got {short(data)}; write it as a float")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"a tensor holds numbers or bools, got {short(data)}")
    if dtype is not None:
        return array.astype(dtype_of(dtype), copy=False)
    if array.dtype.kind == "f" and not own:
        return array.astype(float32)  # a Python float or lists of them
    dtype_of(array.dtype)
    return array


def _from_pytorch(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "torch" and type(x).__name__ in ("Tensor", "Parameter")


def short(data: Any) -> str:
    """A value as a message shows it: its type, and its dtype and shape if it has them, else what it is."""
    kind = type(data).__name__
    if _from_pytorch(data):
        return "a PyTorch tensor (its numbers are x.detach().numpy())"
    if isinstance(getattr(data, "shape", None), tuple) and hasattr(data, "dtype") and not isinstance(data, np.generic):
        return f"{kind} of dtype {data.dtype} and shape {data.shape}"
    text = " ".join(repr(data).split())
    return f"{kind} ({text if len(text) <= 60 else text[:57] + '...'})"


def checked(x: Any, kind: type[T], what: str) -> T:
    """x, if it is of this kind, a Tensor; else a TypeError."""
    if isinstance(x, kind):
        return x
    raise TypeError(f"{what} takes a Tensor, got {short(x)}: make it one with minigrad.tensor(...)")


def not_bool(mask: Any, what: str) -> TypeError:
    """The error for a mask that isn't a bool tensor."""
    return TypeError(f"{what} must be a bool tensor, got {short(mask)}; make one with a comparison, mask.bool() or minigrad.tensor(...)")


def listed(items: Any, what: str) -> list[Any]:
    """A list of what can be walked through; else a TypeError."""
    try:
        steps = iter(items)
    except TypeError:
        raise TypeError(f"{what}, got {short(items)}") from None
    return list(steps)


def number(value: Any, what: str, low: float = -math.inf, high: float | None = None) -> float:
    """A float in [low, high] (no high: finite) from anything that is one number; else a TypeError or a ValueError."""
    try:
        x = value if type(value) is float else float(None if isinstance(value, str) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"{what} must be a number, got {short(value)}") from None
    if not low <= x <= (sys.float_info.max if high is None else high):
        bounds = "be a finite number" + f" >= {low:g}" * (low > -math.inf) if high is None else f"lie in [{low:g}, {high:g}]"
        raise ValueError(f"{what} must {bounds}, got {value}")
    return x


def integer(value: Any, what: str) -> int:
    """A Python int from anything that is exactly one (a NumPy int, a 0-d int tensor); else a TypeError."""
    try:
        if not isinstance(value, bool):  # var(False) would mean dim 0
            return operator.index(value)
    except TypeError:
        pass
    raise TypeError(f"{what} must be an int, got {short(value)}")


def sizes_of(sizes: tuple[Any, ...], what: str = "size") -> tuple[int, ...]:
    """Both spellings of a size, f(2, 3) and f((2, 3)), as one tuple of ints."""
    if {*map(type, sizes)} == {int}:
        return sizes
    if len(sizes) == 1 and isinstance(sizes[0], Iterable) and (not hasattr(sizes[0], "ndim") or sizes[0].ndim):
        sizes = tuple(sizes[0])
    return tuple(integer(n, what) for n in sizes)


def axis_of(dim: Any, ndim: int, op: str) -> int:
    """One dim as an axis from 0 to ndim - 1 (a 0-d tensor has the dims 0 and -1, as in PyTorch); else an IndexError."""
    axis, span = dim if type(dim) is int else integer(dim, f"{op}: dim"), ndim or 1
    if not -span <= axis < span:
        raise IndexError(f"{op}: dim {axis} is out of range for {ndim} dimensions: it must lie in [{-span}, {span - 1}]")
    return axis % span


def axes_of(dim: Dim, ndim: int, op: str, keepdim: bool = False) -> tuple[int, ...] | None:
    """Dims of a reduction: None (all of them), an int, or several, each once; for NumPy's `axis`."""
    if not isinstance(keepdim, bool):  # x.sum(0, 1)
        raise TypeError(f"{op}: keepdim must be True or False, got {short(keepdim)}; for several dims write a tuple, dim=(0, 1)")
    if dim is None:
        return None
    axes = tuple(axis_of(d, ndim, op) for d in (dim if isinstance(dim, Sequence) else (dim,)))
    if len(set(axes)) < len(axes):
        raise ValueError(f"{op}: dim {tuple(dim)} names an axis twice")  # type: ignore[arg-type]
    return axes if axes and ndim else None


def filled_shape(shape: tuple[int, ...], old: tuple[int, ...], op: str) -> tuple[int, ...]:
    """The new shape with its one -1 worked out; a ValueError where the elements don't fit."""
    total, new = math.prod(old), math.prod(shape)
    if new == total and min(shape, default=0) >= 0:
        return shape
    if new < 0 and min(shape) == -1 and shape.count(-1) == 1 and total % new == 0:  # then new is minus the product of the others
        place = shape.index(-1)
        return (*shape[:place], total // -new, *shape[place + 1 :])
    raise ValueError(f"{op}: shape {shape} doesn't fit a tensor of shape {old}, which has {total} elements")


def expanded_shape(sizes: tuple[int, ...], old: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that `expand` makes: -1 keeps a length, new axes come in front; a ValueError where it doesn't fit."""
    new = len(sizes) - len(old)
    shape = tuple(old[i - new] if n == -1 and i >= new else n for i, n in enumerate(sizes))
    if new < 0 or any(n < 0 for n in shape) or any(m not in (1, n) for m, n in zip(old, shape[new:], strict=True)):
        raise ValueError(f"expand: shape {old} can't be repeated to {sizes}: only axes of length 1 and new ones in front can")
    return shape


def index_of(index: Any, shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """An index in plain NumPy terms (tensors become arrays); errors name the index and the shape.

    Where it holds both ints and arrays these are two indices, to be applied in turn: ints first, as PyTorch does. NumPy
    counts an int among the arrays, and x[0, :, ids] gets the dim of the ids in front.
    """
    parts = [_index_part(part) for part in (index if isinstance(index, tuple) else (index,))]
    used = 0
    for part in parts:
        used += part.ndim if getattr(part, "dtype", None) == boolean else part is not None and part is not Ellipsis
    if used > len(shape):
        raise IndexError(f"too many indices: {used} for a tensor of shape {shape}")
    gaps = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(gaps) == 1:  # NumPy takes even an empty ... for a gap between two arrays, and puts the dims of x[ids, ..., ids] in front
        parts[gaps[0] : gaps[0] + 1] = [slice(None)] * (len(shape) - used)
    ints = [isinstance(part, int) and not isinstance(part, bool) for part in parts]
    if not any(ints) or not any(isinstance(part, ARRAYS) for part in parts):
        return [tuple(parts)]
    first: list[Any] = []
    for part, is_int in zip(parts, ints, strict=True):
        if is_int:
            first.append(part)
        elif isinstance(part, slice | np.ndarray | Traced):
            first += [slice(None)] * (part.ndim if isinstance(part, ARRAYS) and part.dtype == boolean else 1)
    return [tuple(first), tuple(part for part, is_int in zip(parts, ints, strict=True) if not is_int)]


def _index_part(part: Any) -> Any:
    if part is None or part is Ellipsis or isinstance(part, int | np.bool_):
        return part
    if isinstance(part, slice):
        start, stop, step = (None if i is None else integer(i, "a slice bound") for i in (part.start, part.stop, part.step))
        if step is not None and step <= 0:
            raise ValueError(f"slice step {step}: it must be positive; to reverse n items, pick arange(n - 1, -1, -1)")
        return slice(start, stop, step)
    array = getattr(part, "data", part) if hasattr(part, "requires_grad") else part
    try:
        array = array if isinstance(array, ARRAYS) else np.asarray(array)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if array.size == 0 and not hasattr(part, "dtype"):
        array = array.astype(int64)  # x[[]] picks nothing
    if array.dtype != boolean and array.dtype.kind not in "iu":
        raise IndexError(f"an index holds ints, slices, None, ..., int or bool tensors; got {short(part)}")
    return int(array) if array.ndim == 0 and array.dtype != boolean else array


def _reach(ids: Array, count: int) -> bool:
    unsigned = ids.astype(np.uint64)  # negative ones are huge then, so one pass is enough for both ends
    return ids.size > 0 and unsigned.item(unsigned.argmax()) >= count


def ids_in_range(ids: Array, count: int, what: str) -> None:
    """Ids must be ints in [0, count): NumPy would wrap negative ones. Else a TypeError or an IndexError."""
    if ids.dtype.kind not in "iu":
        raise TypeError(f"{what} must be an integer, got {ids.dtype}; write .long()")
    if look(_reach, ids, count):
        wrong = ids[(ids < 0) | (ids >= count)].flat[0]
        numbers = f" [0, {count - 1}]: there are {count}, numbered 0 to {count - 1}" if count > 0 else ": there are none"
        raise IndexError(f"{what} {wrong} is out of range{numbers}")


def sees_only_the_future(hidden: Array) -> bool:
    """Whether masks (..., n, n), True = hidden, hide past and present and nothing else: causal ones, read the wrong way round."""
    n, m = hidden.shape[-2:] if hidden.ndim > 1 else (0, 0)
    if n != m or n < 2 or hidden[..., 0, -1].any() or not hidden[..., -1, 0].all():
        return False
    return bool((hidden == np.tri(n, dtype=np.bool_)).all())


def along(index: Array, axis: int) -> tuple[Array, ...]:
    """The index tuple that picks, at each place, element `index` along the axis and the place itself elsewhere."""
    grids: list[Array] = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grids[axis] = index
    return tuple(grids)


# fmt: off
_SPELLED = {  # what PyTorch and NumPy call by another name
    "mm": "matmul", "bmm": "matmul", "dot": "matmul", "concat": "cat", "concatenate": "cat", "astype": "to", "copy": "clone",
    "array": "tensor", "sub": "x - y", "div": "x / y", "neg": "-x", "square": "x * x", "copy_": "x.data = y.data",
    "fill_": "layers.init.constant_(x, value)", "normal_": "layers.init.normal_(x)", "uniform_": "layers.init.uniform_(x)",
    "nn": "import layers as nn", "cuda": "x.cpu(), or nothing: minigrad computes on the CPU",
}
# fmt: on


def suggest(name: str, known: Callable[[], Iterable[str]], owner: str) -> AttributeError:
    """An AttributeError for a name that doesn't exist, with the nearest one that does."""
    text = f"{owner} has no attribute {name!r}"
    if name.startswith("_"):  # Python and NumPy ask for many such names, and often
        return AttributeError(text)
    names = [k for k in known() if not k.startswith("_")]
    other = _SPELLED.get(name, "")
    if other and not other.isidentifier():
        return AttributeError(f"{text}; write {other}")
    lower = {k.lower(): k for k in names}
    near = [other] if other in names else difflib.get_close_matches(name, names, 1, 0.7)
    near = near or [lower[k] for k in difflib.get_close_matches(name.lower(), lower, 1, 0.7)]
    return AttributeError(text + (f"; did you mean {near[0]!r}?" if near else ""))


def module_getattr(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module: a name that isn't there is an error that names the nearest of its own that is."""

    def __getattr__(name: str) -> Any:
        found = vars(sys.modules[module])
        own = [k for k, v in found.items() if getattr(v, "__module__", None) == module]  # not what it imports
        raise suggest(name, lambda: found.get("__all__", own), f"module {module!r}")

    return __getattr__
