"""What a wrapped function has of modules that are not its own: constants of what is compiled."""

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask


def constants_of(function: Callable[..., Any]) -> list[torch.Tensor]:
    """Parameters, buffers and attributes of modules that a function sees by closure, as a global or
    as the object whose method it is, and the masks of blocks among what it sees."""
    if isinstance(function, torch.nn.Module):
        return []
    return _constants_among(_seen_by([function, *_values(getattr(function, "__dict__", {}))]))


def members_of(model: torch.nn.Module) -> list[torch.Tensor]:
    """Tensors that are attributes of modules, but neither parameters nor buffers."""
    members = [value for module in model.modules() for value in vars(module).values()]
    return [tensor for member in members for tensor in _tensors_of(member)]


def constants_beside(model: torch.nn.Module) -> list[torch.Tensor]:
    """As members_of, with what modules hold that are no parts of the model: those which a forward
    or a function among its attributes sees, and those in lists and the like."""
    own = set(model.modules())
    forwards = {type(module): module.forward for module in own}
    found: list[Any] = [getattr(forward, "__func__", forward) for forward in forwards.values()]
    found += [value for module in own for value in _values(vars(module))]
    return members_of(model) + _constants_among(_seen_by(found), own)


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
    """The tensor itself, or those of a mask of blocks, whose device flex_attention looks at."""
    parts = value.as_tuple() if isinstance(value, BlockMask) else [value]
    return [part for part in parts if isinstance(part, torch.Tensor)]


def _seen_by(holders: Iterable[Any]) -> list[Any]:
    """What functions name and hold, and the functions among that; what lists and the like have."""
    seen: dict[int, Any] = {}
    waiting = list(holders)
    while waiting:
        value = waiting.pop()
        if id(value) not in seen:
            seen[id(value)] = value
            waiting += _named_by(value) if callable(value) else _values(value)
    return list(seen.values())


def _values(held: Any) -> list[Any]:
    """Those of a list, tuple or dictionary that may be, hold or see a module."""
    values = held.values() if isinstance(held, dict) else held
    if not isinstance(held, (dict, list, tuple)):
        return []
    return [v for v in values if callable(v) or isinstance(v, (dict, list, tuple, BlockMask))]


def _named_by(function: Callable[..., Any]) -> list[Any]:
    if isinstance(function, functools.partial):
        return [function.func, *function.args, *function.keywords.values()]
    if inspect.ismethod(function):
        owner = function.__self__
        return [function.__func__, owner, *_values(getattr(owner, "__dict__", {}))]
    # Torch's own see no module of the user's.
    if not inspect.isfunction(function) or str(function.__module__).startswith("torch."):
        return []
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    names = function.__code__.co_names
    return cells + [function.__globals__[name] for name in names if name in function.__globals__]


def _is_filled(cell: types.CellType) -> bool:
    """Whether the variable has a value yet."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
