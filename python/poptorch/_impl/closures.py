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


def constants_beside(model: torch.nn.Module) -> list[torch.Tensor]:
    """As members_of, with what modules hold that are no parts of the model: those which a forward
    or a function among its attributes sees, and those in lists and the like."""
    own = set(model.modules())
    forwards = {type(module): module.forward for module in own}
    found = []
    for function in forwards.values():
        found += _modules_of(getattr(function, "__func__", function))
    for value in [value for module in own for value in vars(module).values()]:
        if inspect.isfunction(value) or isinstance(value, functools.partial):
            found += _modules_of(value)
        elif isinstance(value, (list, tuple)):
            found += [item for item in value if isinstance(item, torch.nn.Module)]
    constants = members_of(model)
    for module in found:
        if module not in own:
            constants += [*module.parameters(), *module.buffers(), *members_of(module)]
    return constants


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
