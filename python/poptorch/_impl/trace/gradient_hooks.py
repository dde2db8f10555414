"""Hooks of gradients in a trace: each becomes a part of the backward graph.

A hook is called once, on a symbolic gradient, while the model is traced. Its computation runs in
every step. Its other effects, such as printing or appending to a list, happen once.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from poptorch._impl.inspection.source_lines import user_location
from poptorch._impl.trace.module_hooks import BackwardHooks
from poptorch._impl.weights import members
from poptorch_core import Error, _torch

Hook = Callable[[torch.Tensor], torch.Tensor | None]


@contextlib.contextmanager
def recorded(model: torch.nn.Module | None, training: bool) -> Iterator[None]:
    """Records hooks that are registered in the body, and the existing hooks of parameters."""
    plain = torch.Tensor.register_hook

    def register_hook(self: torch.Tensor, hook: Hook) -> Any:
        if not _torch.is_traced(self) and not _is_state(model, self):
            return plain(self, hook)
        if training and not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if torch.is_grad_enabled() and self.requires_grad:
            if training or _torch.follows_leaf(self):
                _record(self, hook)
            elif _torch.is_traced(self):
                what = f"a hook ({user_location()}), which"
                _torch.close_to_gradients("hook", what, [self], [self])
        return _Handle()

    patch = mock.patch.object
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch(torch.Tensor, "register_hook", register_hook))
        stack.enter_context(patch(torch.Tensor, "register_post_accumulate_grad_hook", _refuse))
        if training and model is not None:
            stack.enter_context(patch(torch.nn.modules.module, "BackwardHook", BackwardHooks))
            _refuse_of_modules(model)
            _record_of_parameters(model)
        yield


def _is_state(model: torch.nn.Module | None, tensor: torch.Tensor) -> bool:
    return model is not None and any(tensor is parameter for parameter in model.parameters())


def _refuse_of_modules(model: torch.nn.Module) -> None:
    everywhere = torch.nn.modules.module
    if everywhere._global_backward_hooks and not everywhere._global_is_full_backward_hook:
        raise _old_hook_refused("every module has")
    for name, module in members.named_modules(model):
        if module._backward_hooks and not module._is_full_backward_hook:
            kind = type(module).__name__
            raise _old_hook_refused(f"module '{name}' ({kind}) has" if name else f"{kind} has")


def _old_hook_refused(whose: str) -> Error:
    return Error(
        f"[hook] {whose} a backward hook on the gradients of its last operation "
        "(register_backward_hook), which is not supported. Use register_full_backward_hook."
    )


def _record_of_parameters(model: torch.nn.Module) -> None:
    with torch._C.DisableTorchFunctionSubclass():  # no value is read
        hooked = [
            (name, parameter, parameter._backward_hooks)
            for name, parameter in members.named_parameters(model)
            if parameter._backward_hooks or parameter._post_accumulate_grad_hooks
        ]
    for name, parameter, hooks in hooked:
        with torch._C.DisableTorchFunctionSubclass():
            late = parameter._post_accumulate_grad_hooks
        if late:
            raise Error(
                f"[hook] parameter '{name}' has a hook that runs when its gradient is complete "
                "(register_post_accumulate_grad_hook), which is not supported: gradients stay on "
                "the device. Use register_hook, which may change the gradient, or anchorTensor to "
                "read it."
            )
        for hook in (hooks or {}).values():
            if parameter.requires_grad:
                _record(parameter, hook)


def _record(tensor: torch.Tensor, hook: Hook) -> None:
    gradient = _torch.begin_hook(tensor)
    try:
        with torch.no_grad(), members.listed_again():
            result = hook(gradient)
        result = gradient if result is None else result
        if not isinstance(result, torch.Tensor) or result.shape != tensor.shape:
            found = list(result.shape) if isinstance(result, torch.Tensor) else type(result)
            raise Error(
                f"[hook] a hook of a gradient of shape {list(tensor.shape)} returned {found} "
                f"({user_location()}). Return a gradient of the same shape, or None."
            )
        _torch.end_hook(tensor, result.to(tensor.dtype))
    except BaseException:
        _torch.abandon_function()
        raise


def _refuse(self: torch.Tensor, hook: Hook) -> None:
    raise Error(
        f"[hook] register_post_accumulate_grad_hook is not supported inside forward "
        f"({user_location()}). Use register_hook."
    )


class _Handle:
    """The result of register_hook in a trace. The hook is part of the program already."""

    def remove(self) -> None:
        """Raises poptorch.Error during the trace; does nothing afterwards."""
        if _torch.is_tracing():
            raise Error(
                f"[hook] a hook cannot be removed inside forward ({user_location()}): it is part "
                "of the compiled model. Leave it, or do not register it."
            )

    def __enter__(self) -> "_Handle":
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()
