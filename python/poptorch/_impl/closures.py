"""What a wrapped function has of modules that are not its own: constants of what is compiled."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch


def constants_of(function: Callable[..., Any]) -> list[torch.Tensor]:
    """Parameters, buffers and attributes of modules that a function sees by closure, as a global or
    as the object whose method it is."""
    constants = []
    for module in _modules_of(function):
        constants += [*module.parameters(), *module.buffers(), *members_of(module)]
    return constants


def members_of(model: torch.nn.Module) -> list[torch.Tensor]:
    """Tensors that are attributes of modules, but neither parameters nor buffers."""
    members = [value for module in model.modules() for value in vars(module).values()]
    return [member for member in members if isinstance(member, torch.Tensor)]


def _modules_of(function: Callable[..., Any]) -> list[torch.nn.Module]:
    seen: list[Any] = []
    while isinstance(function, functools.partial):
        seen += [*function.args, *function.keywords.values()]
        function = function.func
    if isinstance(function, torch.nn.Module):
        return []
    owner = getattr(function, "__self__", None if inspect.isfunction(function) else function)
    seen += [owner, *getattr(owner, "__dict__", {}).values()]
    function = getattr(function, "__func__", function)
    if inspect.isfunction(function):
        names = inspect.getclosurevars(function)
        seen += [*names.nonlocals.values(), *names.globals.values()]
    return [value for value in seen if isinstance(value, torch.nn.Module)]
