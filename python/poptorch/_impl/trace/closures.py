"""Tensors that a function or model uses but does not own: they become constants of the program."""

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from poptorch._impl.weights import members
from poptorch_core import _torch
from torch.nn.attention.flex_attention import BlockMask

# Attributes of modules that hold tensors and the model's own modules.
_OF_TENSORS = frozenset(("_parameters", "_buffers", "_modules"))
# Types whose values neither hold nor are tensors or modules; most attributes of modules have one.
_SCALARS = frozenset((bool, int, float, complex, str, bytes, type(None)))


def constants_of(function: Callable[..., Any]) -> list[torch.Tensor]:
    """Returns the tensors of modules that a function refers to, and of block masks.

    A function refers to modules by its closure or globals, or is a method of one. The tensors are
    parameters, buffers and attributes.
    """
    if isinstance(function, torch.nn.Module):
        return []
    return _constants_among(_seen_by([function, *_values(getattr(function, "__dict__", {}))]))


def members_of(model: torch.nn.Module) -> list[torch.Tensor]:
    """Returns tensors that are attributes of modules, but neither parameters nor buffers."""
    return _tensors_among(_held_by([module for _, module in members.named_modules(model)]))


def _held_by(modules: list[torch.nn.Module]) -> list[Any]:
    """Returns the attributes of modules that may hold or be tensors or modules."""
    return _torch.held_values(modules, _OF_TENSORS, _SCALARS)


def _tensors_among(values: Iterable[Any]) -> list[torch.Tensor]:
    held = [value for value in values if isinstance(value, (torch.Tensor, BlockMask))]
    return [tensor for value in held for tensor in _tensors_of(value)]


def constants_beside(model: torch.nn.Module) -> list[torch.Tensor]:
    """Returns members_of() and the tensors of modules that are not submodules of the model.

    The model's forward methods, functions among its attributes, or lists and other containers refer
    to such modules.
    """
    modules = [module for _, module in members.named_modules(model)]
    of_kinds = {type(module): module for module in modules}
    forwards = [module.forward for module in of_kinds.values()]
    held = _held_by(modules)
    found = [getattr(forward, "__func__", forward) for forward in forwards]
    found += [value for value in held if _is_container(value) or callable(value)]
    return _tensors_among(held) + _constants_among(_seen_by(found), set(modules))


def _constants_among(
    seen: Iterable[Any], own: Iterable[torch.nn.Module] = ()
) -> list[torch.Tensor]:
    constants = []
    for value in seen:
        if isinstance(value, torch.nn.Module):
            if value not in own:
                constants += [*value.parameters(), *value.buffers(), *members_of(value)]
        elif isinstance(value, BlockMask):
            constants += _tensors_of(value)
    return constants


def _tensors_of(value: Any) -> list[torch.Tensor]:
    """Returns the tensor, or the tensors of a block mask, whose device flex_attention checks."""
    parts = value.as_tuple() if isinstance(value, BlockMask) else [value]
    return [part for part in parts if isinstance(part, torch.Tensor)]


def _seen_by(holders: Iterable[Any]) -> list[Any]:
    """Returns all objects that functions and containers refer to, recursively."""
    seen: dict[int, Any] = {}
    waiting = list(holders)
    while waiting:
        value = waiting.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            waiting += _named_by(value) if callable(value) else _values(value)
    return list(seen.values())


def _values(held: Any) -> list[Any]:
    """Returns the values of a container that may be a module or refer to one."""
    values = held.values() if isinstance(held, dict) else held
    if not isinstance(held, (dict, list, tuple)):
        return []
    return [v for v in values if _is_container(v) or callable(v)]


def _is_container(value: Any) -> bool:
    if isinstance(value, (dict, list, tuple)):
        return bool(value) or isinstance(value, BlockMask)
    return isinstance(value, BlockMask)


def _named_by(function: Callable[..., Any]) -> list[Any]:
    if isinstance(function, functools.partial):
        return [function.func, *function.args, *function.keywords.values()]
    if inspect.ismethod(function):
        owner = function.__self__
        return [function.__func__, owner, *_values(getattr(owner, "__dict__", {}))]
    # Torch's functions do not refer to a user's module.
    if not inspect.isfunction(function) or str(function.__module__).startswith("torch."):
        return []
    cells = [cell.cell_contents for cell in function.__closure__ or () if is_filled(cell)]
    names = function.__code__.co_names
    return cells + [function.__globals__[name] for name in names if name in function.__globals__]


def is_filled(cell: types.CellType) -> bool:
    """Returns whether the variable has a value yet."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
