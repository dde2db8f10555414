"""Adds the path of the module whose forward runs to the ops of a trace."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from poptorch._impl.trace.patches.replaced import replace
from poptorch._impl.weights import members
from poptorch_core import _torch

_hooks = torch.nn.modules.module


@contextlib.contextmanager
def recorded(model: torch.nn.Module) -> Iterator[None]:
    """Adds the path of the module whose forward runs to the ops of the body.

    Hooks of all modules do this. Because of them torch searches for hooks of all kinds in each call
    of a module, so that modules without any are called without that search.
    """
    paths = {id(module): path for path, module in reversed(list(members.named_modules(model)))}

    def enter(module, _):
        if id(module) in paths:
            _torch.push_scope(paths[id(module)])

    def leave(module, *_):
        if id(module) in paths:
            _torch.pop_scope()

    with contextlib.ExitStack() as stack:
        # Without handles, and twice: Ctrl-C may arrive before there is a handle, or in the first.
        for _ in range(2):
            stack.callback(_unregister, enter, leave)
        _hooks.register_module_forward_pre_hook(enter)
        _hooks.register_module_forward_hook(leave, always_call=True)
        call = _called_without_hooks(paths, _hooks.Module._call_impl)
        replace(stack, [(_hooks.Module, "_call_impl", call)])
        yield


def _called_without_hooks(paths: dict[int, str], plain: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method that calls a module as `plain` does, if only recorded() has hooks."""
    before, after = _hooks._global_forward_pre_hooks, _hooks._global_forward_hooks

    def call(self: torch.nn.Module, *arguments: Any, **keywords: Any) -> Any:
        if (
            len(before) != 1 or len(after) != 1
            or self._forward_pre_hooks or self._forward_hooks
            or self._backward_pre_hooks or self._backward_hooks
            or _hooks._global_backward_pre_hooks or _hooks._global_backward_hooks
            or torch._C._get_tracing_state()
        ):  # fmt: skip
            return plain(self, *arguments, **keywords)
        path = paths.get(id(self))
        if path is None:
            return self.forward(*arguments, **keywords)
        _torch.push_scope(path)
        try:
            return self.forward(*arguments, **keywords)
        finally:
            _torch.pop_scope()

    return call


def _unregister(*functions: Callable) -> None:
    """Removes functions from torch's hooks of all modules."""
    for hooks in (_hooks._global_forward_pre_hooks, _hooks._global_forward_hooks):
        for key in [key for key, hook in hooks.items() if hook in functions]:
            _hooks._global_forward_hooks_with_kwargs.pop(key, None)
            _hooks._global_forward_hooks_always_called.pop(key, None)
            del hooks[key]
