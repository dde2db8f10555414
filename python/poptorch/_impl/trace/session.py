"""Prepares torch and the user's model for a trace, and undoes the changes afterwards.

The capture itself is native (poptorch_cpp/frontends/torch). This module does the parts that need
Python: module paths, buffers that forward replaces, autograd.Function, and replacements for code of
torch that cannot be traced.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.utils.checkpoint
from poptorch._impl.inspection.source_lines import OWN_FILES, user_location
from poptorch._impl.options.core_table import Line
from poptorch._impl.trace import (
    autograd_functions,
    closures,
    gradient_hooks,
    module_scopes,
    reachable,
    substitutions,
    torch_errors,
)
from poptorch._impl.trace.patches import (
    forward_ad,
    gradients,
    higher_order,
    layers,
    python_functions,
    quantisation,
    refusals,
)
from poptorch._impl.trace.patches.replaced import is_class_method, replace
from poptorch._impl.weights import members
from poptorch_core import Error, _torch, errors
from torch.utils import _python_dispatch as python_dispatch

# A trace changes torch for all threads, so only one runs at a time.
_one_trace = threading.RLock()


def compile(
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]],
    model: torch.nn.Module | None,
    inputs: Sequence[torch.Tensor],
    lines: Sequence[Line],
    host: dict[str, Any],
    *,
    location_excludes: Sequence[str] = (),
    module_scopes: bool = True,
    progress: Callable[[int, int, str], None] | None = None,
    held_by: Mapping[int, torch.Tensor] | None = None,
    broadcast_buffers: bool = False,
    input_names: Sequence[str] = (),
) -> _torch.Executable:
    """Traces `call` with symbolic `inputs` and compiles it: see poptorch_core/_torch.pyi."""
    with torch_errors.as_torch_has_them(), members.listed_once():
        return _torch.compile(
            _prepared(call, model, module_scopes, _is_training(lines)),
            list(inputs),
            named_tensors(model, held_by or {}),
            lines,
            host,
            [*OWN_FILES, *location_excludes],
            progress,
            broadcast_buffers,
            input_names,
        )


def profile(
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]],
    model: torch.nn.Module,
    inputs: Sequence[torch.Tensor],
    lines: Sequence[Line],
) -> dict[str, Any]:
    """Returns the costs of a model's parts: see poptorch_core/_torch.pyi."""
    prepared = _prepared(_undone(call, model), model, True, _is_training(lines))
    return _torch.profile(prepared, list(inputs), named_tensors(model, {}), lines, OWN_FILES)


def explain(
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]],
    model: torch.nn.Module | None,
    inputs: Sequence[torch.Tensor],
    *,
    training: bool,
) -> dict[str, Any]:
    """Returns the ops and sizes of a trace: see poptorch_core/_torch.pyi."""
    prepared = _prepared(_undone(call, model), model, True, training)
    with torch_errors.as_torch_has_them():
        return _torch.explain(prepared, list(inputs), named_tensors(model, {}), training, OWN_FILES)


def _is_training(lines: Sequence[Line]) -> bool:
    return any(options.get("training") for keyword, _, options in lines if keyword == "execution")


def trace(
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]],
    model: torch.nn.Module | None,
    inputs: Sequence[torch.Tensor],
    *,
    training: bool = False,
    locations: bool = False,
) -> str:
    """Returns the text of the traced IR, without compiling it."""
    prepared = _prepared(_undone(call, model), model, True, training)
    return _torch.trace(
        prepared, list(inputs), named_tensors(model, {}), training, OWN_FILES, locations
    )


def trace_again(
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]],
    model: torch.nn.Module | None,
    inputs: Sequence[torch.Tensor],
    lines: Sequence[Line],
    input_names: Sequence[str],
) -> None:
    """Traces `call` with the options of a compilation, without compiling it."""
    prepared = _prepared(call, model, True, _is_training(lines))
    with torch_errors.as_torch_has_them():
        state = named_tensors(model, {})
        _torch.trace_for(prepared, list(inputs), state, lines, OWN_FILES, input_names)


def named_tensors(
    model: torch.nn.Module | None, held_by: Mapping[int, torch.Tensor]
) -> list[tuple[str, torch.Tensor, bool, torch.Tensor | None]]:
    """Returns (path, tensor, is_buffer, holder) of all state; tied tensors appear under each name.

    held_by: the tensor with the values of all replica groups, by the id of one group's part.
    """
    if model is None:
        return []
    parameters = members.named_parameters(model, remove_duplicate=False)
    # Sparse buffers are constants, like attributes.
    buffers = [
        (name, buffer)
        for name, buffer in members.named_buffers(model, remove_duplicate=False)
        if buffer.layout == torch.strided
    ]
    return [(n, t, False, held_by.get(id(t))) for n, t in parameters] + [
        (n, t, True, None) for n, t in buffers
    ]


def _undone(call, model: torch.nn.Module | None):
    def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        with contextlib.nullcontext() if model is None else reachable.undone(model):
            return call(inputs)

    return run


def _prepared(call, model, scopes: bool, training: bool):
    def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        with _one_trace, contextlib.ExitStack() as stack:
            with members.listed_once():
                if scopes and model is not None:
                    stack.enter_context(module_scopes.recorded(model))
                stack.enter_context(_traceable_torch(training))
                stack.enter_context(python_functions.scripts_op_by_op(model))
            stack.enter_context(gradient_hooks.recorded(model, training))  # calls hooks
            if model is not None:
                with members.listed_once():
                    quantisation.check(model)
                    stack.enter_context(_unchanged_members(model))
                    _torch.freeze(closures.constants_beside(model))
            try:
                with torch_errors.with_remedy(), members.listed_again():
                    return call(inputs)
            except Error as error:
                torch.ops.poptorch.end_trace(error.message)
                raise

    return run


@contextlib.contextmanager
def _traceable_torch(training: bool) -> Iterator[None]:
    """Replaces code of torch that cannot be traced, and the text of tensors without values."""
    plain_text = torch._tensor_str._str

    def text(tensor, *args, **kwargs):
        if not _torch.is_traced(tensor):
            return plain_text(tensor, *args, **kwargs)
        shape, dtype = tuple(tensor.shape), tensor.dtype
        return f"tensor(<unavailable>, size={shape}, dtype={dtype}, device='{tensor.device}')"

    validates = torch.distributions.Distribution._validate_args
    fast_attention = torch.backends.mha.get_fastpath_enabled()
    with contextlib.ExitStack() as stack:
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_attention)
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.distributions.Distribution.set_default_validate_args, validates)
        torch.distributions.Distribution.set_default_validate_args(False)
        if "torch._dynamo" in sys.modules:  # parts compiled by torch.compile run eagerly
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        replace(stack, _replacements_in_modes(text))
        stack.enter_context(python_dispatch._disable_current_modes())
        replace(stack, _replacements(training))
        stack.enter_context(substitutions.in_place())
        yield


def _replacements_in_modes(text: Callable) -> Iterator[tuple[Any, str, Any]]:
    """Yields (holder, name, replacement) of those that are made before modes are disabled."""
    # Libraries check this flag before they read values of masks.
    yield torch.compiler, "_is_compiling_flag", True
    yield torch._tensor_str, "_str", text
    for name in _HOST_CONSTRUCTORS:
        yield torch, name, _HostConstructor(name, (), {"plain": getattr(torch, name)})


def _replacements(training: bool) -> Iterator[tuple[Any, str, Any]]:
    """Yields (holder, name, replacement) of all others."""
    yield torch.autograd, "backward", _here(torch.autograd.backward, _refuse_gradients)
    for holder, name, traced in (
        *python_functions.replacements(),
        *layers.replacements(),
        *refusals.replacements(),
        *higher_order.REPLACEMENTS,
        *gradients.REPLACEMENTS,
        *forward_ad.REPLACEMENTS,
        *quantisation.REPLACEMENTS,
    ):
        chosen: Any = _here(getattr(holder, name), traced)
        yield holder, name, _without_class(chosen) if is_class_method(holder, name) else chosen
    # The compiler handles recomputation; a checkpoint in a trace is a plain call.
    checkpoint = torch.utils.checkpoint
    yield checkpoint, "CheckpointFunction", _PlainCall
    for name in filter(checkpoint.__dict__.get, _AROUND_CHECKPOINTS):
        yield checkpoint, name, _here(getattr(checkpoint, name), _around_plain_call)
    yield torch.autograd.Function, "apply", autograd_functions.apply_method(training)


def _here(plain: Callable, traced: Callable) -> Callable:
    """Returns a function that calls `traced` in the tracing thread, and `plain` in others."""

    def chosen(*arguments, **keywords):
        return (traced if _torch.is_tracing() else plain)(*arguments, **keywords)

    return chosen


def _without_class(function: Callable) -> classmethod:
    """Returns a class method that calls `function` without the class."""
    return classmethod(lambda _, *arguments, **keywords: function(*arguments, **keywords))


_HOST_CONSTRUCTORS = [
    f"{kind}Tensor" for kind in "Float Double Half BFloat16 Byte Char Short Int Long Bool".split()
]


class _HostConstructor(type):
    """Replaces torch.LongTensor and similar classes, which create host tensors in a trace, too."""

    plain: type

    def __call__(cls, *args: Any) -> torch.Tensor:
        return _torch.call_untraced(cls.plain, *args)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.plain)


# Names of torch's checkpoint that is not reentrant; the second is that of torch 2.14.
_AROUND_CHECKPOINTS = (
    "_checkpoint_without_reentrant_generator",
    "_checkpoint_without_reentrant_generator_impl",
)


class _PlainCall:
    """Replaces torch's reentrant checkpoint."""

    @staticmethod
    def apply(function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        return function(*args)


def _around_plain_call(*_: Any, **__: Any) -> Iterator[None]:
    """Replaces the code of torch's other checkpoint before and after the call."""
    yield


def _refuse_gradients(*_, **__):
    raise errors.while_tracing(
        f"[tracer] backward() inside forward is not supported ({user_location()}). Return the "
        "loss, and the training step adds the backward pass; torch.autograd.grad gives gradients "
        "that forward itself needs."
    )


@contextlib.contextmanager
def _unchanged_members(model: torch.nn.Module) -> Iterator[None]:
    """Restores parameters and buffers that forward replaced, and raises an error for these."""
    changed_tensors = members.changed_tensors(model)
    try:
        yield
    except BaseException:
        for changed in changed_tensors():
            _restore(changed)
        raise
    problems = []
    for changed in changed_tensors():
        module, kind, before = changed
        now = vars(module).get(kind, {})
        if not isinstance(module, torch.nn.modules.batchnorm._NormBase):  # has its own buffers
            names = [name for name in before if now.get(name) is not before[name]]
            problems += [_problem(kind, name, now) for name in names]
        _restore(changed)
    if problems:
        raise Error(problems[0])


def _restore(changed: members.Tensors) -> None:
    now = vars(changed.module).setdefault(changed.kind, {})
    now.clear()
    now.update(changed.before)


def _problem(kind: str, name: str, now: dict) -> str:
    kind = {"_parameters": "Parameter", "_buffers": "Buffer"}[kind]
    if name not in now:
        return (
            f"{kind} {name} is removed from the model when calling the forward method. "
            f"Keep it, and leave it unused instead."
        )
    return (
        f"{kind} {name} is reassigned within the model when calling the forward method. This is "
        f"not supported. Consider using self.{name}.copy_(src) to copy data from a source tensor, "
        "where src is the name of the source tensor."
    )
