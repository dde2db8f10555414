"""Errors for features of torch and Python that a trace does not support."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from poptorch._impl.inspection.source_lines import user_location
from poptorch_core import _torch, errors
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import TorchDispatchMode

# The makers of nested tensors; the tracer refuses the operators of those in layout strided.
_NESTED = ("nested_tensor", "as_nested_tensor", "nested_tensor_from_jagged", "narrow")


def replacements() -> Iterator[tuple[Any, str, Callable]]:
    """Yields (holder, name, replacement)."""
    yield TorchDispatchMode, "__enter__", _enter_mode
    yield TorchDispatchMode, "__exit__", lambda *_: None
    yield torch.nn.CrossMapLRN2d, "forward", _refuse_old_norm
    for name in _NESTED:
        yield torch.nested, name, _refuse_nested
    if jagged := sys.modules.get("torch.nested._internal.nested_tensor"):
        plain = jagged.NestedTensor.__torch_function__
        yield jagged.NestedTensor, "__torch_function__", _without_traced(plain)
    yield torch.Tensor, "__reduce_ex__", _with_memory(torch.Tensor.__reduce_ex__)


def _enter_mode(mode: TorchDispatchMode) -> TorchDispatchMode:
    """Records the error; the trace continues without entering the mode."""
    text = (
        f"[{type(mode).__name__}] is a TorchDispatchMode that begins inside forward "
        f"({user_location()}). It would see no op there, because each becomes an op of the graph "
        "before. Use a TorchFunctionMode, which sees the calls of torch's functions, or "
        "poptorch.explain, which lists the ops."
    )
    if mode.is_infra_mode():  # the code inside does nothing without it
        raise errors.while_tracing(text)
    torch.ops.poptorch.refuse(type(mode).__name__, text)
    return mode


def _refuse_nested(*_: Any, **__: Any) -> None:
    raise errors.while_tracing(
        f"[nested] nested tensors are not supported ({user_location()}). Pad the sequences on the "
        "host with torch.nested.to_padded_tensor, and pass their lengths or a mask."
    )


def _without_traced(plain: Callable) -> Callable:
    """Returns `plain`, which refuses to combine nested tensors with those of the trace."""

    def function(*arguments: Any) -> Any:
        tensors = [x for x in trees.tree_leaves(arguments[2:]) if isinstance(x, torch.Tensor)]
        if any(_torch.is_traced(x) for x in tensors):
            _refuse_nested()
        return plain(*arguments)

    return function


def _refuse_old_norm(*_: Any) -> None:
    raise errors.while_tracing(
        f"[CrossMapLRN2d] is not supported ({user_location()}): it resizes memory, and its "
        "backward is not the gradient of its forward. Use nn.LocalResponseNorm of the same size, "
        "alpha, beta and k."
    )


def _with_memory(plain: Callable) -> Callable:
    def reduce(tensor: torch.Tensor, protocol: Any) -> Any:
        if not _torch.is_traced(tensor):
            return plain(tensor, protocol)
        raise errors.while_tracing(
            f"[tracer] copy.copy or pickle needs the memory of a tensor of shape "
            f"{list(tensor.shape)} that forward made ({user_location()}). It has no memory while "
            "the model is traced. Use tensor.clone(), or tensor.detach() for another handle."
        )

    return reduce
