"""Modules: objects that own weights. A module is found by what its attributes are, nothing has to be registered.

`parameters()` walks the attributes of a module: parameters, other modules, and lists, tuples and dicts of them. A name is
the path to it, `blocks.0.W_q.weight`. A parameter reached on two paths (tied weights) is listed once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self

from minigrad import Tensor, as_tensor
from minigrad.arguments import listed, short, suggest
from minigrad.optim import zero_grads
from minigrad.surroundings import Standing
from minigrad.tensor import set_all


class Parameter(Tensor):
    """A tensor that a module learns: it requires a gradient, and `parameters()` finds it."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data.detach() if isinstance(data, Tensor) else data, requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Keys(NamedTuple):
    """What load_state_dict(strict=False) left out."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """The base of all layers. A subclass makes its parts in __init__ and computes in `forward`; calling it runs `forward`."""

    training = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        todo = "call the modules in it, or use Sequential" if "_items" in vars(self) else "write one that returns its output"
        raise NotImplementedError(f"{type(self).__name__} has no forward(): {todo}")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that belongs to the module and is saved with it (if persistent), but not learned: a mask, say."""
        if not isinstance(tensor, Tensor | None):
            raise TypeError(f"register_buffer: {name} must be a Tensor or None, got {short(tensor)}")
        if name not in vars(self).get("_buffers", {}) and (name in vars(self) or hasattr(type(self), name)):
            raise KeyError(f"register_buffer: {type(self).__name__} already has an attribute {name!r}")
        setattr(self, name, tensor)
        self.__dict__.setdefault("_buffers", {})[name] = persistent

    # Finding --------------------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[tuple[str, Any]]:  # own tensors and modules, in the order they were assigned
        for name, value in vars(self).items():
            for path, part in _found(value, name):
                yield path.removeprefix("_items."), part  # what a container holds has its own name or number, nothing before it

    def _persistent(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        for name, part in self._parts():
            if isinstance(part, Module):
                yield from part._persistent(f"{prefix}{name}.")
            elif isinstance(part, Parameter) or vars(self).get("_buffers", {}).get(name):
                yield prefix + name, part

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, module) of the modules one step below."""
        return ((name, part) for name, part in self._parts() if isinstance(part, Module))

    def children(self) -> Iterator[Module]:
        """The modules one step below."""
        return (part for _, part in self.named_children())

    def named_modules(self, prefix: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Module]]:
        """(path, module) of this module and all below, each once."""
        seen = set() if seen is None else seen
        if id(self) not in seen:
            seen.add(id(self))
            yield prefix, self
            for name, child in self.named_children():
                yield from child.named_modules(f"{prefix}.{name}" if prefix else name, seen)

    def modules(self) -> Iterator[Module]:
        """This module and all below, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """(path, parameter) of this module and all below, each once."""
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, part in module._parts():
                path = f"{prefix}.{name}" if prefix else name
                if isinstance(part, Parameter):
                    if id(part) not in seen:
                        seen.add(id(part))
                        yield path, part
                elif isinstance(part, Tensor) and part.requires_grad and part.is_leaf:
                    text = "requires a gradient but is a plain Tensor, so it is not among the parameters: wrap it, Parameter(...)"
                    warnings.warn(f"{path} {text}", stacklevel=2)

    def parameters(self) -> Iterator[Parameter]:
        """The parameters of this module and all below, each once: what an optimizer takes."""
        return (p for _, p in self.named_parameters())

    # Saving and loading ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Tensor]:
        """All parameters and persistent buffers by path: a snapshot, which later training doesn't change."""
        return {name: t.detach() for name, t in self._persistent()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Keys:
        """Take over the numbers of a state dict. Names that are missing, unexpected or of another shape are listed together
        in one ValueError (strict=False forgives the first two), and then nothing is changed."""
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict takes what state_dict() or minigrad.load(path) gives, got {short(state_dict)}")
        own = dict(self._persistent())
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        given: dict[str, Tensor] = {}
        for name in [n for n in own if n in state_dict]:
            try:
                given[name] = as_tensor(state_dict[name])
            except (TypeError, ValueError) as error:
                raise type(error)(f"load_state_dict: {name}: {error}") from None
        wrong = [f"{n} is {t.shape}, here {own[n].shape}" for n, t in given.items() if t.shape != own[n].shape]
        problems = [("other shape", wrong)] + ([("missing", missing), ("unexpected", unexpected)] if strict else [])
        if any(names for _, names in problems):
            text = "; ".join(f"{what}: {', '.join(names)}" for what, names in problems if names)
            raise ValueError(f"these are not the weights of this {type(self).__name__}: {text}. Nothing was loaded")
        set_all([(own[name], "_data", t.to(own[name].dtype).data.copy()) for name, t in given.items()])
        return Keys(missing, unexpected)

    # Everything at once ---------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Training mode for this module and all below: dropout drops."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Evaluation mode: dropout lets everything through."""
        return self.train(False)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        zero_grads(self.parameters(), set_to_none)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Freeze (False) or unfreeze all parameters."""
        for p in self.parameters():
            p.requires_grad = requires_grad
        return self

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call fn on every module, on those below before the one that holds them: for initialisation."""
        if not callable(fn):
            raise TypeError(f"apply takes a function of one module, got {short(fn)}")
        for child in dict.fromkeys(self.children()):
            child.apply(fn)
        fn(self)
        return self

    def to(self, *what: Any, dtype: Any = None, device: Any = None) -> Self:
        """All parameters and float buffers in another dtype, or "cpu"."""
        own = [t for module in self.modules() for _, t in module._parts() if isinstance(t, Tensor) and t.dtype.kind == "f"]
        data = [t.to(*what, dtype=dtype, device=device).data for t in own]
        if any(array.dtype.kind != "f" for array in data):
            raise TypeError(f"to({data[0].dtype}): the numbers of a module stay floats, float32 or float64")
        grads = [None if t.grad is None else t.grad.to(*what, dtype=dtype, device=device) for t in own]
        set_all([(t, name, x) for name, new in (("_data", data), ("_grad", grads)) for t, x in zip(own, new, strict=True)])
        return self

    def float(self) -> Self:
        """All parameters as float32."""
        return self.to("float32")

    def double(self) -> Self:
        """All parameters as float64."""
        return self.to("float64")

    def cpu(self) -> Self:
        """This module: minigrad computes on the CPU."""
        return self

    # Showing --------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands in the parentheses of repr: the sizes a layer was made with."""
        return ""

    def __repr__(self) -> str:
        own = self.extra_repr()
        lines = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self.named_children()]
        inside = "\n  " + "\n  ".join([own] * bool(own) + lines) + "\n" if lines else own
        return f"{type(self).__name__}({inside})"

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Tensor) and not isinstance(value, Parameter) and isinstance(vars(self).get(name), Parameter):
            raise TypeError(f"{name} is a Parameter; a plain tensor here would not be trained: write Parameter(...), or {name}.data = ...")
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self), name):  # a property, which Python asks for again here
            raise AttributeError(f"{type(self).__name__}.{name} failed inside, with an AttributeError of its own")
        raise suggest(name, lambda: dir(self), type(self).__name__)


def _found(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    value = value._function if isinstance(value, Standing) else value  # minigrad.compile(module)
    if isinstance(value, Tensor | Module):
        yield name, value
    elif isinstance(value, list | tuple | dict):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _found(item, f"{name}.{key}")


class ModuleList(Module):
    """A list of modules, found and named by their number."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self._items: dict[str, Module] = {}
        self.extend(modules)

    def insert(self, index: int, module: Module) -> Self:
        """One more module, before the one at this index. Those behind it get the next numbers."""
        items = list(self._items.items())
        items.insert(index, ("0", _module(module, type(self).__name__)))
        self._items = {str(i) if name.isdecimal() else name: part for i, (name, part) in enumerate(items)}
        return self

    def append(self, module: Module) -> Self:
        """One more module at the end."""
        return self.insert(len(self), module)

    def extend(self, modules: Iterable[Module]) -> Self:
        """More modules at the end; `+=` does the same."""
        kind = type(self).__name__
        for module in [_module(m, kind) for m in listed(modules, f"{kind} takes a list of modules")]:  # all of them are, or none is put in
            self.append(module)
        return self

    __iadd__ = extend

    def __getitem__(self, index: Any) -> Any:
        found = list(self._items.values())[index]
        return type(self)(found) if isinstance(index, slice) else found

    def __setitem__(self, index: int, module: Module) -> None:
        self._items[list(self._items)[index]] = _module(module, type(self).__name__)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self).get("_items", ()):  # of a named one
            self._items[name] = _module(value, type(self).__name__)
        else:
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        return self._items[name] if name in vars(self).get("_items", ()) else super().__getattr__(name)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._items.values())


class Sequential(ModuleList):
    """Modules one after the other: each takes the output of the one before. A dict gives them names, as in PyTorch."""

    def __init__(self, *modules: Any) -> None:
        only = modules[0] if len(modules) == 1 else None
        super().__init__(only.values() if isinstance(only, dict) else only if isinstance(only, list) else modules)
        if isinstance(only, dict):
            self._items = {_name(key, Sequential): module for key, module in zip(only, self, strict=True)}

    def __getitem__(self, index: Any) -> Any:  # a part keeps the names
        return type(self)(dict(list(self._items.items())[index])) if isinstance(index, slice) else super().__getitem__(index)

    def forward(self, x: Any) -> Any:
        for module in self._items.values():
            x = module(x)
        return x


class ModuleDict(Module, Mapping[str, Module]):
    """A dict of modules, found under their keys. What else a dict has, such as items(), comes from Mapping."""

    __eq__, __hash__ = object.__eq__, object.__hash__  # a module is equal to itself only

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        if not isinstance(modules, Mapping | None):
            raise TypeError(f"ModuleDict takes a dict of modules, got {short(modules)}")
        self._items = {_name(key, ModuleDict): _module(module, "ModuleDict") for key, module in (modules or {}).items()}

    def __getitem__(self, key: str) -> Module:
        return self._items[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self._items[_name(key, ModuleDict)] = _module(module, "ModuleDict")

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)


def _name(key: Any, owner: type[Module]) -> str:
    if isinstance(key, str) and key and "." not in key and not hasattr(owner, key):
        return key
    raise KeyError(f"{key!r} can't name a module: it must be a string without dots, a step of a path, and none that {owner.__name__} uses")


def _module(value: Any, owner: str) -> Module:
    if not isinstance(value, Module):
        hint = f": write {value.__name__}(...)" if isinstance(value, type) else ""  # the class, not a module made by it
        raise TypeError(f"{owner} holds modules, got {short(value)}{hint}")
    return value
