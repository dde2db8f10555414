"""torch.autograd.Function in a trace: forward and the user's backward become graphs.

Backward is traced immediately, on symbolic gradients. It may use only the values of forward that
were saved in the context object.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from poptorch._impl.inspection.source_lines import user_location
from poptorch_core import _torch, errors
from torch.nn.modules._functions import BackwardHookFunction


class _Context:
    """Replaces torch's `ctx`. It also holds any attributes that the user sets."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[torch.Tensor | None, ...] = ()
        self._not_differentiable: set[int] = set()
        self._materialises = True

    def save_for_backward(self, *tensors: torch.Tensor | None) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: torch.Tensor | None) -> None:
        """Does nothing: these tensors are for forward-mode derivatives of the function."""

    def mark_non_differentiable(self, *tensors: torch.Tensor) -> None:
        self._not_differentiable.update(id(tensor) for tensor in tensors)

    def mark_dirty(self, *tensors: torch.Tensor) -> None:
        raise errors.while_tracing(
            "[autograd.Function] mark_dirty is not supported: forward must not write its "
            "arguments. Return the new value instead."
        )

    def set_materialize_grads(self, value: bool) -> None:
        self._materialises = value

    def is_differentiable(self, tensor: torch.Tensor) -> bool:
        return id(tensor) not in self._not_differentiable

    def shown(self, gradients: Sequence[Any], differentiable: Sequence[bool], name: str) -> list:
        """Returns the gradients for backward; None is possible without set_materialize_grads."""
        if self._materialises:
            return list(gradients)
        followed = [g is not None and d for g, d in zip(gradients, differentiable, strict=True)]
        if sum(followed) > 1:
            raise errors.while_tracing(
                f"[autograd.Function] '{name}' calls set_materialize_grads(False) and has several "
                "outputs that may have a gradient, which is not supported: backward is recorded "
                "before it is known which of them have one. Leave the call out, so that backward "
                "gets zeros for the others, or mark the outputs without gradient with "
                f"ctx.mark_non_differentiable ({user_location()})."
            )
        return [g if follows else None for g, follows in zip(gradients, followed, strict=True)]


def apply_method(training: bool) -> classmethod:
    """Returns the replacement of torch.autograd.Function.apply for the trace of a model."""
    descriptor = vars(torch.autograd.Function)["apply"]  # a native one from torch 2.14 on

    def plain(cls, *arguments):
        return descriptor.__get__(None, cls)(*arguments)

    def apply(cls, *arguments):
        # Backward is not needed without gradients and inside another function.
        if not torch.is_grad_enabled() or not _torch.is_tracing() or _torch.in_function():
            return plain(cls, *arguments)
        follows = any(_torch.follows_leaf(a) for a in _followed(arguments))
        # Torch looks for its own node after the function for hooks of modules.
        if training or (follows and cls is not BackwardHookFunction):
            return _record(cls, arguments)
        return _without_gradient(plain, cls, arguments)

    return classmethod(apply)


def _followed(values: Iterable[Any]) -> list[torch.Tensor]:
    """Returns the tensors that autograd follows."""
    return [v for v in values if isinstance(v, torch.Tensor) and v.requires_grad]


def _without_gradient(plain: Callable, cls, arguments: Sequence[Any]):
    """Runs forward alone. A later gradient through it is refused, with the line of this call."""
    followed = _followed(arguments)
    if not followed:
        return plain(cls, *arguments)
    returned = plain(cls, *arguments)
    outputs = returned if isinstance(returned, (tuple, list)) else [returned]
    what = f"'{cls.__qualname__}' ({user_location()}), whose backward"
    _torch.close_to_gradients("autograd.Function", what, followed, _followed(outputs))
    return returned


def _record(cls, arguments: Sequence[Any]):
    places = [i for i, value in enumerate(arguments) if isinstance(value, torch.Tensor)]
    stand_ins = _torch.begin_function(cls.__name__, [arguments[i] for i in places])
    try:
        return _record_begun(cls, arguments, places, stand_ins)
    except BaseException:  # the model may catch it
        _torch.abandon_function()
        raise


def _record_begun(cls, arguments: Sequence[Any], places: list[int], stand_ins: list):
    inside = list(arguments)
    for place, stand_in in zip(places, stand_ins, strict=True):
        inside[place] = stand_in
    needs_grad = tuple(isinstance(a, torch.Tensor) and a.requires_grad for a in arguments)
    context = _Context(needs_grad)
    with torch.no_grad():
        returned = _run_forward(cls, context, inside)
        outputs = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        _check_outputs(cls, outputs)
        differentiable = [context.is_differentiable(output) for output in outputs]
        seeds = context.shown(_torch.begin_backward(outputs), differentiable, cls.__qualname__)
        gradients = _run_backward(cls, context, seeds, len(arguments))
    floating = [i for i in places if arguments[i].is_floating_point()]
    results = _torch.end_function([gradients[i] for i in floating])
    for result, follows in zip(results, differentiable, strict=True):
        if not follows:
            result.requires_grad_(False)
    return tuple(results) if isinstance(returned, (tuple, list)) else results[0]


def _run_forward(cls, context: _Context, arguments: Sequence[Any]):
    if cls.setup_context is torch.autograd.Function.setup_context:
        return cls.forward(context, *arguments)
    returned = cls.forward(*arguments)
    cls.setup_context(context, tuple(arguments), returned)
    return returned


def _run_backward(cls, context: _Context, seeds: list, count: int) -> list:
    """Returns the gradients of all arguments; None for arguments without gradient."""
    backward = cls.backward
    if backward is torch.autograd.Function.backward:
        backward = cls.vjp
    if getattr(torch.autograd.Function, "boxed_grads_call", None) is not None:  # from torch 2.14 on
        seeds = [seeds] if cls.boxed_grads_call else seeds
    returned = backward(context, *seeds)
    gradients = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(gradients) < count or any(g is not None for g in gradients[count:]):
        raise errors.while_tracing(
            f"[autograd.Function] backward of '{cls.__qualname__}' returned {len(gradients)} "
            f"gradients, but its forward takes {count} arguments. Return one per argument, None "
            "where there is none."
        )
    return gradients[:count]


def _check_outputs(cls, outputs: list) -> None:
    for output in outputs:
        if not isinstance(output, torch.Tensor):
            raise errors.while_tracing(
                f"[autograd.Function] forward of '{cls.__qualname__}' returned a "
                f"{type(output).__name__}, which is not supported in training. Return tensors."
            )
