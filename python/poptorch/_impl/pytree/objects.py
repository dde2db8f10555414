"""Parts of Python objects: their attributes, copies without a constructor, and tensors they hold.

Nothing here calls the code of classes: no constructor, property or `__getattr__`.
"""

import collections
import dataclasses
import enum
import functools
import gc
import inspect
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

# Exact types of values that cannot change and hold no tensor.
ATOMS: frozenset[type] = frozenset(
    (type(None), bool, int, float, complex, str, bytes, range, type(...), type(NotImplemented),
     torch.dtype, torch.device, torch.layout, torch.memory_format)
)  # fmt: skip
# Code: an argument of these types is a constant, as are the tensors that it uses.
CODE = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    functools.partial,
    torch.nn.Module,
)
# The built-in containers whose subclasses are copied, most derived first.
_BASES: tuple[type, ...] = (
    collections.OrderedDict, collections.defaultdict, dict, list, collections.deque, tuple,
)  # fmt: skip
_UNORDERED: tuple[type, ...] = (set, frozenset, type({}.keys()), type({}.values()))
_MOST_OBJECTS = 100_000  # that a search visits


def is_value(value: Any) -> bool:
    """Returns whether the value is atomic: it has no parts that can change or hold a tensor."""
    return type(value) in ATOMS or isinstance(value, enum.Enum)


def is_code(value: Any) -> bool:
    """Returns whether the value is a function, class or module: its tensors are not inputs."""
    return isinstance(value, CODE)


def base_of(kind: type) -> type:
    """Returns the built-in container that the class extends, or object."""
    return next((base for base in _BASES if issubclass(kind, base)), object)


@functools.lru_cache(maxsize=4096)
def can_be_made(kind: Any) -> bool:
    """Returns whether blank() works for the class; a copy must not run a `__del__` either."""
    if hasattr(kind, "__del__"):
        return False
    try:
        blank(kind)
    except TypeError:  # a class of an extension module, or an abstract one
        return False
    return True


def blank(kind: Any) -> Any:
    """Returns an object of the class without items and attributes; raises TypeError if unsafe."""
    base: Any = types.SimpleNamespace if issubclass(kind, types.SimpleNamespace) else base_of(kind)
    return base.__new__(kind)


def attributes_of(value: Any) -> dict[str, Any]:
    """Returns the instance attributes: those in slots and those in `__dict__`.

    An object that is its own `__dict__` has one attribute of that name.
    """
    found: dict[str, Any] = {}
    for name in _slots_of(value):
        try:
            found[name] = object.__getattribute__(value, name)
        except AttributeError:
            continue
    try:
        members = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return found
    return {**found, "__dict__": value} if members is value else {**found, **members}


def _slots_of(value: Any) -> list[str]:
    """Returns the names of the slots of an object's classes."""
    kind: Any = type(value)
    return _slots_of_class(kind)


@functools.lru_cache(maxsize=4096)
def _slots_of_class(kind: Any) -> list[str]:
    return [
        name
        for base in kind.__mro__
        if "__slots__" in vars(base)
        for name, member in vars(base).items()
        if isinstance(member, types.MemberDescriptorType)
    ]


def class_fields_of(value: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a dataclass whose values the class holds, not the object."""
    if not dataclasses.is_dataclass(value):
        return {}
    found = {}
    for field in dataclasses.fields(value):
        if field.name not in attributes:
            try:
                found[field.name] = object.__getattribute__(value, field.name)
            except AttributeError:
                continue
    return found


def set_attribute(value: Any, name: str, part: Any) -> None:
    """Sets an attribute that attributes_of() returned, of a frozen object too."""
    if name != "__dict__" and name not in _slots_of(value):
        try:
            object.__getattribute__(value, "__dict__")[name] = part
            return
        except AttributeError:  # of a base in C
            pass
    object.__setattr__(value, name, part)


def holds_tensor(
    value: Any, wanted: Callable[[torch.Tensor], bool] = lambda _: True
) -> tuple[bool, str]:
    """Searches an object, also where Python code cannot see (iterators, objects of C).

    Returns whether it holds such a tensor, and the name of the part of `value` if it has one.
    """
    for name, part in _parts(value):
        if any(isinstance(found, torch.Tensor) and wanted(found) for found in _reached(part)):
            return True, name
    return False, ""


def used_by_code(value: Any) -> tuple[tuple[str, Any, int], ...]:
    """Returns what a function uses besides its arguments: name, value and a tensor's version.

    The values are tensors and atomic values in its closure, its defaults, the arguments that it
    binds, and the object that it is a method of. Modules are left out: their tensors are state.
    """
    found = []
    for name, part in _parts(value):
        for used in _reached(part):
            if isinstance(used, torch.Tensor):
                found.append((name, used, 0 if used.is_inference() else used._version))
            elif used is part and is_value(used):
                found.append((name, used, 0))
    return tuple(found)


def is_same_function(one: Any, other: Any) -> bool:
    """Returns whether both are made by the same code, and so differ in what they use alone."""
    if type(one) is not types.FunctionType or type(other) is not types.FunctionType:
        return False
    variables = [
        [id(cell.cell_contents) for cell in function.__closure__ or () if _is_opaque_cell(cell)]
        for function in (one, other)
    ]
    return (
        one.__code__ is other.__code__
        and one.__globals__ is other.__globals__
        and variables[0] == variables[1]
        and not one.__dict__
        and not other.__dict__
    )


def _is_opaque_cell(cell: types.CellType) -> bool:
    """Returns whether the variable has a value that used_by_code() does not return."""
    try:
        return not is_value(cell.cell_contents) and not isinstance(cell.cell_contents, torch.Tensor)
    except ValueError:  # it has no value yet
        return False


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields the parts of code and objects that may hold tensors, by name where they have one."""
    if isinstance(value, (type, types.ModuleType)):
        return
    if isinstance(value, types.FunctionType):
        yield from inspect.getclosurevars(value).nonlocals.items()
        defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        yield from (("default", default) for default in defaults)
        yield from value.__dict__.items()
    elif isinstance(value, torch.nn.Module):
        yield from ((n, part) for n, part in vars(value).items() if isinstance(part, torch.Tensor))
    elif isinstance(value, weakref.ref):
        yield "referent", value()
    elif type(value) in _UNORDERED:
        yield from ((f"element {i}", part) for i, part in enumerate(value))
    else:
        known = attributes_of(value)
        yield from known.items()
        named = {id(part) for part in known.values()}
        yield from (("", part) for part in gc.get_referents(value) if id(part) not in named)


def _reached(start: Any) -> Iterator[Any]:
    """Yields an object and the objects that it reaches, not through modules of torch."""
    seen: dict[int, Any] = {}
    waiting = [start]
    while waiting and len(seen) < _MOST_OBJECTS:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        yield value
        if not is_value(value) and not isinstance(value, (torch.Tensor, torch.nn.Module)):
            waiting += (part for _, part in _parts(value))
