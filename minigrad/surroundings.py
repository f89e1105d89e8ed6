"""What a function reads besides its arguments, and whether any of it is another object now: for compiling.py."""

from __future__ import annotations

import copy
import dis
import functools
import itertools
import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

import numpy as np

from .optim import Optimizer
from .tensor import DATA, Tensor, wrap

LIBRARIES = {"minigrad", "layers", "numpy", *sys.stdlib_module_names}  # what they read of their own doesn't change
LONG = 1000  # lists and dicts with more items are taken as they are


class Standing:
    """Something that stands for a function: `Compiled`, which is looked through here (a base class, for it imports this file)."""

    _function: Callable[..., Any]


class Surroundings:
    """All that a function reaches: by its closure and defaults, by the globals that its code names, and from there by modules,
    objects, lists, dicts and further functions. Of objects that aren't modules (an optimizer, say) only attributes count that
    some code in reach names, and nothing counts inside libraries."""

    def __init__(self, function: Any) -> None:
        self._attributes, self._methods = set[str](), set[str]()  # the names that code in reach has: x.name, and x.name() only
        self._walk(function)
        self._walk(function)  # once more, now that it is known which names the code reads
        self.readers = [space.get for space, names in self.spaces for _ in names]
        self.named = [name for _, names in self.spaces for name in names]
        self.lengths = list(map(len, self.containers))
        self.before = list(self._now())

    def unchanged(self) -> bool:
        try:
            return list(map(len, self.containers)) == self.lengths and all(map(operator.is_, self._now(), self.before))
        except ValueError:  # a variable of the closure was deleted
            return False

    def _now(self) -> Iterator[Any]:
        return itertools.chain(
            itertools.chain.from_iterable(self.containers),
            map(operator.call, self.slots),
            map(_FIELDS, self.objects),
            map(_CELL, self.cells),
            map(_DEFAULTS, self.functions),
            map(operator.call, self.readers, self.named),
            map(_FLAG, self.tensors),
            map(DATA, self.constants),
        )

    def _walk(self, function: Any) -> None:
        self.leaves: set[Tensor] = set()  # weights: tensors that require a gradient
        self.reached: set[Tensor] = set()
        self.stores: list[tuple[Any, tuple[str, ...]]] = []  # in what something could be put, and the names that don't count
        self.classes: list[type] = []
        self.tensors: list[Tensor] = []
        self.constants: list[Tensor] = []
        self.containers: list[Collection[Any]] = []
        self.slots: list[Callable[[], Any]] = []
        self.objects: list[Any] = []  # whose __dict__ could be replaced
        self.cells: list[types.CellType] = []
        self.functions: list[types.FunctionType] = []
        self.spaces: list[tuple[dict[str, Any], list[str]]] = []
        todo, seen = [(function, True)], set[tuple[int, bool]]()
        while todo:
            x, watched = todo.pop()
            if (id(x), watched) not in seen and (id(x), True) not in seen:
                seen.add((id(x), watched))
                todo += self._parts(x, watched)

    def _parts(self, x: Any, watched: bool) -> list[tuple[Any, bool]]:
        """What is in x, and whether to watch it. What isn't watched is looked through for weights only."""
        if isinstance(x, Tensor):
            self.reached.add(x)
            if x._requires_grad and x._op is None:
                self.leaves.add(x)
            self.tensors += [x] * watched
            self.constants += [x] * (watched and not x._requires_grad)
            return []
        if isinstance(x, types.FunctionType):
            cells = [cell for cell in x.__closure__ or () if cell != types.CellType()]
            self.cells += cells * watched
            self.functions += [x] * watched
            parts = [*map(_CELL, cells), *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
            if not _in_library(x.__module__):
                names = _names(x.__code__)
                self._attributes |= names.attributes
                self._methods |= names.methods
                parts += self._read(x.__globals__, names.variables, watched)
            return [(part, watched) for part in parts]
        if isinstance(x, types.ModuleType):
            named = () if _in_library(x.__name__) else self._attributes | self._methods
            return [(part, watched) for part in self._read(vars(x), named, watched)]
        if isinstance(x, type):
            kinds = [kind for kind in x.__mro__ if not _in_library(kind.__module__)]
            self.classes += kinds
            self.containers += [vars(kind).values() for kind in kinds] * watched
            return [(part, watched) for kind in kinds for name, part in vars(kind).items() if self._may_run(name, part)]
        if isinstance(x, Standing):
            return [(x._function, watched)]
        if isinstance(x, types.MethodType):
            return [(x.__self__, watched), (x.__func__, watched)]
        if isinstance(x, functools.partial):
            return [(part, watched) for part in (x.func, x.args, x.keywords)]
        if isinstance(x, property):
            return [(x.fget, watched)]
        if isinstance(x, staticmethod | classmethod):
            return [(x.__func__, watched)]
        if isinstance(x, dict | list | tuple | set | frozenset | deque):
            if len(x) > LONG:
                return []
            self.stores += [(x, ())] * isinstance(x, dict | list | set | deque)
            sides: list[Any] = [x.keys(), x.values()] if isinstance(x, dict) else [x]
            self.containers += sides * watched
            return [(part, watched) for part in sides[-1]]
        if type(getattr(x, "__dict__", None)) is dict:
            hidden = ("_rows", "_waiting") * isinstance(x, Optimizer)  # its steps aren't changes
            fields = {name: part for name, part in vars(x).items() if name not in hidden}
            self.stores.append((vars(x), hidden))
            self.objects += [x] * watched
            if hasattr(x, "named_parameters"):  # a module
                self.containers += [vars(x).values()] * watched
                return [(part, watched) for part in (*fields.values(), type(x))]
            named = {name for name, part in fields.items() if name in self._attributes or (name in self._methods and callable(part))}
            self._read(vars(x), named, watched)
            return [(type(x), watched), *((part, watched and name in named) for name, part in fields.items())]
        if not _in_library(type(x).__module__):  # an object with __slots__
            wanted = self._attributes | self._methods
            fields = {name: getattr(x, name) for name in wanted if hasattr(x, name) and name in _slots(type(x))}
            self.slots += [functools.partial(getattr, x, name, None) for name in fields] * watched
            return [(part, watched) for part in (type(x), *fields.values())]
        return []

    def _may_run(self, name: str, part: Any) -> bool:
        """Attributes of a class, but no methods that nobody names (they may name an optimizer); what Python itself calls has no name."""
        unnamed = name == "forward" or (name.startswith("__") and name not in ("__init__", "__new__"))
        return unnamed or name in self._attributes | self._methods or not isinstance(part, types.FunctionType)

    def _read(self, space: dict[str, Any], named: Collection[str], watched: bool) -> list[Any]:
        names = sorted(space.keys() & set(named))
        self.spaces += [(space, names)] * watched
        return [space[name] for name in names]


class Snapshot:
    """What is assigned in surroundings at a moment: to variables, attributes and class attributes, in lists, dicts and sets."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.stores = [(store, hidden, _contents(store, hidden)) for store, hidden in surroundings.stores]
        self.names = [(space, name, space.get(name)) for space, names in surroundings.spaces for name in names]
        self.attributes: list[tuple[Any, str, Any]] = [(cell, "cell_contents", cell.cell_contents) for cell in surroundings.cells]
        for kind in surroundings.classes:
            self.attributes += [(kind, name, part) for name, part in vars(kind).items() if not name.startswith("__")]

    def put_back(self) -> None:
        for store in self.stores:
            _put_back(*store)
        for space, name, old in self.names:
            if space.get(name) is not old:
                space[name] = old
        for owner, name, old in self.attributes:
            if _attribute(owner, name) is not old:
                setattr(owner, name, old)

    def changed(self) -> str:
        """What is different now, in a few words."""
        for store, hidden, old in self.stores:
            now = _contents(store, hidden)
            if not _alike(now, old):
                keys = [key for key in now if key not in old or now[key] is not old[key]] if isinstance(store, dict) else []
                return f"{keys[0]!r}" if keys else f"a {type(store).__name__}"
        named = [name for space, name, old in self.names if space.get(name) is not old]
        named += [name for owner, name, old in self.attributes if _attribute(owner, name) is not old]
        return f"{named[0]!r}" if named else ""


def _attribute(owner: Any, name: str) -> Any:
    return vars(owner).get(name) if isinstance(owner, type) else getattr(owner, name)


def _contents(store: Any, hidden: tuple[str, ...]) -> Any:
    return {name: part for name, part in store.items() if name not in hidden} if isinstance(store, dict) else copy.copy(store)


def _alike(now: Any, old: Any) -> bool:
    """Whether the same things are in two dicts, lists or sets."""
    if isinstance(now, set):
        return set(map(id, now)) == set(map(id, old))
    sides: Any = ((now.keys(), old.keys()), (now.values(), old.values())) if isinstance(now, dict) else ((now, old),)
    return all(len(a) == len(b) and all(map(operator.is_, a, b)) for a, b in sides)


def _put_back(store: Any, hidden: tuple[str, ...], old: Any) -> None:
    if _alike(_contents(store, hidden), old):
        return
    if isinstance(store, dict):
        for name in [name for name in store if name not in hidden]:
            del store[name]
        store.update(old)
    else:
        store.clear()
        (store.update if isinstance(store, set) else store.extend)(old)


_CELL, _DEFAULTS, _FIELDS, _FLAG = map(operator.attrgetter, ("cell_contents", "__defaults__", "__dict__", "_requires_grad"))


def _in_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in LIBRARIES


def _slots(kind: type) -> set[str]:
    return {name for base in kind.__mro__ for name, part in vars(base).items() if isinstance(part, types.MemberDescriptorType)}


class _Names(NamedTuple):
    """The names in the code of a function and of those inside it."""

    variables: frozenset[str]  # global ones
    attributes: frozenset[str]
    methods: frozenset[str]  # attributes that are only called


@functools.lru_cache(maxsize=1024)
def _names(code: types.CodeType) -> _Names:
    variables, attributes, methods = set[str](), set[str](), set[str]()
    for step in dis.get_instructions(code):
        if "GLOBAL" in step.opname or step.opname == "LOAD_NAME":
            variables.add(step.argval)
        elif step.opname == "LOAD_METHOD" or (step.opname == "LOAD_ATTR" and sys.version_info >= (3, 12) and step.arg & 1):
            methods.add(step.argval)
        elif "ATTR" in step.opname or step.opname == "IMPORT_FROM":
            attributes.add(step.argval)
    attributes |= {x for x in code.co_consts if isinstance(x, str) and x.isidentifier()}  # getattr(x, "name")
    inner = [_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return _Names(*(frozenset(outer).union(*parts) for outer, *parts in zip((variables, attributes, methods), *inner, strict=True)))


def moment() -> int:
    """A number between the births of all tensors so far and those to come."""
    return wrap(np.zeros(()))._birth
