"""The values that forward can reach through the model, before a trace, and their changes.

A holder has named values: a module or another object has attributes, a container has elements, and
a function has the variables of its closure and the globals that it names. Parameters, buffers and
submodules are not part of it: the tracer handles these.
"""

import collections
import contextlib
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from poptorch._impl.trace import closures
from poptorch._impl.weights import members
from poptorch_core import _torch

MISSING: Any = object()  # the value of a name that does not exist

_OF_MODULES = frozenset(vars(torch.nn.Module())) - {"training"}
_HOLD_NOTHING = frozenset((bool, int, float, complex, str, bytes, type(None)))
_SCALARS = (bool, int, float, complex, str, bytes, torch.Size, torch.dtype, torch.device)
_OTHER_PACKAGES = ("torch", "poptorch", "poptorch_core", "popdist", "numpy", "logging", "threading",
                   "builtins", "weakref", "functools", "types", "enum", "inspect")  # fmt: skip
_LARGEST = 10_000  # elements of a container whose contents are compared
_MOST = 200_000  # holders


class Holder(NamedTuple):
    """An object with named values. name: the object in messages, such as "self.layers[0]"."""

    target: Any
    name: str

    @property
    def identity(self) -> int:
        """The identity of what holds the values."""
        target = self.target
        shares = isinstance(target, (types.FunctionType, _Attributes))
        return id(_dict_of(target) if shares else target)

    @property
    def is_sequence(self) -> bool:
        """Whether the values have positions, so that none can be set without those before."""
        return isinstance(self.target, (list, collections.deque))

    def values(self) -> dict[Any, Any]:
        """Returns the values by attribute, key, position or variable."""
        target = self.target
        if isinstance(target, torch.nn.Module):
            if issubclass(type(target), torch.nn.Module):
                found = _torch.attributes_beside(target, _OF_MODULES)
            else:  # a weak proxy of a module
                found = {k: v for k, v in vars(target).items() if k not in _OF_MODULES}
            for name in _kept_by_hooks(target):
                found.pop(name, None)
            return found
        if isinstance(target, types.CellType):
            return {"": target.cell_contents} if closures.is_filled(target) else {}
        if isinstance(target, types.FunctionType):
            used = target.__code__.co_names
            return {k: target.__globals__[k] for k in used if k in target.__globals__}
        # Methods of the bases are used: those of subclasses may do more.
        if isinstance(target, dict):
            return dict(dict.items(target))
        if isinstance(target, list):
            return dict(enumerate(list.__iter__(target)))
        if isinstance(target, collections.deque):
            return dict(enumerate(collections.deque.__iter__(target)))
        if isinstance(target, set):
            return {element: True for element in target}
        return dict(vars(target))

    def put(self, key: Any, value: Any) -> None:
        """Sets a value, or removes it if it is MISSING. New elements of lists come in order."""
        target = self.target
        if isinstance(target, types.CellType):
            target.cell_contents = value
        elif isinstance(target, set):
            (target.discard if value is MISSING else target.add)(key)
        elif self.is_sequence:
            if value is MISSING:
                del target[key]
            elif key == len(target):
                target.append(value)
            else:
                target[key] = value
        else:
            inside = target if isinstance(target, dict) else _dict_of(target)
            if value is MISSING:
                dict.pop(inside, key, None)
            else:
                dict.__setitem__(inside, key, value)

    def name_of(self, key: Any) -> str:
        """Returns the text that means a value in the user's program."""
        if isinstance(self.target, types.CellType):
            return self.name
        if isinstance(self.target, types.FunctionType):
            return f"the global {key}"
        if isinstance(self.target, set):
            return self.name
        if isinstance(self.target, (dict, list, collections.deque)):
            return f"{self.name}[{key!r}]"
        return f"{self.name}.{key}"


def _dict_of(target: Any) -> dict[str, Any]:
    return target.__globals__ if isinstance(target, types.FunctionType) else vars(target)


def _kept_by_hooks(module: torch.nn.Module) -> set[str]:
    """Returns the attributes that hooks of torch.nn.utils compute from parameters at each call."""
    hooks = module._forward_pre_hooks.values()
    if not hooks:
        return set()
    return {
        hook.name for hook in hooks
        if type(hook).__module__.startswith("torch.nn.utils") and hasattr(hook, "name")
    }  # fmt: skip


class Change(NamedTuple):
    """A value that forward replaced, added or removed."""

    holder: Holder
    key: Any
    before: Any
    after: Any

    @property
    def place(self) -> tuple[int, Any]:
        """Identifies the value: changes of two traces with the same place are of one value."""
        return self.holder.identity, self.key

    @property
    def name(self) -> str:
        return self.holder.name_of(self.key)


class Snapshot:
    """The values of all holders that forward can reach, at one time."""

    def __init__(self, model: Callable[..., Any]) -> None:
        reached = _Reached(model)
        self._before = list(reached.holders())
        self._plain, self._attributes = reached.modules, reached.attributes
        self._versions = {
            id(value): (value, value._version)
            for _, _, others in self._before
            for value in others.values()
            if isinstance(value, torch.Tensor) and not value.is_inference()
        }

    def changes(self) -> list[Change]:
        """Returns the values that differ now, in the order of their holders."""
        found = []
        written = {
            key for key, (tensor, version) in self._versions.items() if tensor._version != version
        }
        changed = _torch.with_other_attributes(self._plain, _OF_MODULES, self._attributes)
        same = {id(held) for i, held in enumerate(self._attributes) if i not in changed}
        for holder, before, others in self._before:
            is_written = bool(written) and any(id(value) in written for value in others.values())
            if not is_written and id(before) in same:
                continue
            after = holder.values()
            if not is_written and _torch.holds_same_objects(before, after):
                continue
            for key in [*before, *(key for key in after if key not in before)]:
                old, new = before.get(key, MISSING), after.get(key, MISSING)
                if not self._is_same(old, new):
                    found.append(Change(holder, key, old, new))
        return found

    def _is_same(self, old: Any, new: Any) -> bool:
        if old is new:
            known = self._versions.get(id(old))
            return known is None or known[0]._version == known[1]
        if not isinstance(old, _SCALARS) or type(old) is not type(new):
            return False
        return bool(old == new or (old != old and new != new))


@contextlib.contextmanager
def undone(model: Callable[..., Any]) -> Iterator[None]:
    """Undoes the body's changes of what the model's forward can reach."""
    before = Snapshot(model)
    try:
        yield
    finally:
        undo(before.changes())


def undo(changes: Iterable[Change]) -> None:
    """Gives holders their values before the changes."""
    apply([(change.holder, change.key, change.before) for change in changes])


def apply(values: Iterable[tuple[Holder, Any, Any]]) -> None:
    """Sets values. Those that are removed from lists are removed from the end."""
    removed = []
    for holder, key, value in values:
        if value is MISSING:
            removed.append((holder, key))
        else:
            holder.put(key, value)
    for holder, key in reversed(removed):
        holder.put(key, MISSING)


class _Reached:
    """The holders that a model's forward can reach.

    modules: those of the model whose attributes need no further look; attributes: of each.
    """

    def __init__(self, model: Callable[..., Any]) -> None:
        self._model = model
        named = members.named_modules(model) if isinstance(model, torch.nn.Module) else []
        # Blocks are left out.
        self._named = [each for each in named if not _is_of_block(type(each[1]))]
        self.modules = [
            module for _, module in self._named
            if issubclass(type(module), torch.nn.Module) and not module._forward_pre_hooks
        ]  # fmt: skip
        found = _torch.attributes_of_all(self.modules, _OF_MODULES, _HOLD_NOTHING)
        self.attributes = [attributes for attributes, _ in found]
        self._found = {id(module): each for module, each in zip(self.modules, found, strict=True)}

    def holders(self) -> Iterator[tuple[Holder, dict[Any, Any], dict[Any, Any]]]:
        """Yields each holder once, its values, and those that are tensors or may hold others."""
        seen: set[int] = set()
        waiting = self._first()
        waiting.reverse()
        while waiting and len(seen) < _MOST:
            holder = waiting.pop()
            if id(holder.target) in seen:
                continue
            seen.add(id(holder.target))
            values, others = self._found.get(id(holder.target)) or _divided(holder.values())
            if len(values) > _LARGEST:
                continue
            yield holder, values, others or {}
            if others:
                for key, value in others.items():
                    waiting += _holders_in(value, holder.name_of(key))

    def _first(self) -> list[Holder]:
        if not isinstance(self._model, torch.nn.Module):
            return list(_of_function(self._model))
        waiting = []
        kinds = set()  # whose methods are waiting
        for path, module in self._named:
            waiting.append(Holder(module, f"self.{path}" if path else "self"))
            if type(module) not in kinds:
                kinds.add(type(module))
                waiting += _functions_of(type(module))
        return waiting


def _is_of_block(kind: type) -> bool:
    return kind.__module__.startswith("poptorch.")


def _divided(values: dict[Any, Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """Returns the values, and those that may hold others or be tensors."""
    return values, {k: value for k, value in values.items() if type(value) not in _HOLD_NOTHING}


def _is_of_other_package(kind: Any) -> bool:
    return str(kind.__module__).partition(".")[0] in _OTHER_PACKAGES


def _functions_of(kind: type) -> Iterator[Holder]:
    """Yields the methods of a module's class, and of its bases that are not torch's."""
    for base in kind.__mro__:
        if not _is_of_other_package(base):
            for function in vars(base).values():
                yield from _of_function(function)


def _of_function(function: Any) -> Iterator[Holder]:
    if isinstance(function, types.MethodType):
        yield from _holders_in(function.__self__, "self")
        function = function.__func__
    if not isinstance(function, types.FunctionType) or _is_of_other_package(function):
        return
    yield Holder(function, function.__name__)
    names = function.__code__.co_freevars
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        yield Holder(cell, name)


def _holders_in(value: Any, name: str) -> Iterator[Holder]:
    """Yields what holds values among a value and, if it is a tuple, its elements."""
    if isinstance(value, tuple):
        for i, element in enumerate(value):
            yield from _holders_in(element, f"{name}[{i}]")
    elif isinstance(value, (dict, list, set, collections.deque)):
        yield Holder(value, name)
        if type(value).__module__ not in ("builtins", "collections") and hasattr(value, "__dict__"):
            yield Holder(_Attributes(value), name)
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, torch.nn.Module):
        yield Holder(value, name)
        yield from _functions_of(type(value))
    elif _is_plain_object(value):
        yield Holder(value, name)


class _Attributes:
    """Stands for the attributes of a container, whose elements are another holder's values."""

    def __init__(self, owner: Any) -> None:
        self.__dict__ = vars(owner)


def _is_plain_object(value: Any) -> bool:
    if isinstance(value, (type, types.ModuleType, torch.Tensor, *_SCALARS)):
        return False
    if not isinstance(getattr(value, "__dict__", None), dict):
        return False
    return not _is_of_other_package(type(value))
