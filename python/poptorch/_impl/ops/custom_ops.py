"""poptorch.custom_op: checks, and execution outside of a model, under torch's autograd.

In a model, the op is one op of the graph, and its library's functions determine the outputs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from poptorch import _native
from poptorch_core import Error, _core
from poptorch_core.custom_attributes import Value, check_ascii, checked

DTYPES = {
    torch.bool: "bool",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i32",
    torch.uint8: "u8",
    torch.uint16: "u16",
    torch.uint32: "u32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f32",
}


def custom_op(
    inputs: Sequence[torch.Tensor],
    name: str,
    domain: str,
    domain_version: int,
    example_outputs: Iterable[Any],
    attributes: Mapping[str, Value] | None = None,
) -> list[torch.Tensor]:
    """Runs an op that a C++ library declares: see docs/custom-ops.md.

    Args:
        inputs: The inputs. The op gets int64 and float64 as int32 and float32.
        name: The op's name.
        domain: The domain of the op.
        domain_version: The version of the domain.
        example_outputs: One object for each output; the op determines shapes and dtypes.
        attributes: Floats (of 32 bits), ints and strings, alone or in lists, by name.

    Returns:
        The outputs.

    Raises:
        ValueError: An attribute has another type, a list is mixed, or a text is not ASCII.
        poptorch.Error: At compilation, if there is no such op, it does not accept the inputs or
            attributes, or a float is too large.
    """
    _check_inputs(inputs)
    kept = checked(attributes or {})
    for text in (name, domain):
        check_ascii(text)
    use = Use(name, domain, domain_version, _core.custom_attributes(kept))
    outputs = apply(use, list(inputs))
    expected = len(list(example_outputs))
    if len(outputs) != expected:
        raise Error(
            f"[custom_op] op {use} has {len(outputs)} outputs but example_outputs has {expected}. "
            "Pass a template for each."
        )
    return outputs


class Use(NamedTuple):
    name: str
    domain: str
    version: int
    attributes: str

    def __str__(self) -> str:
        return f"'{self.name}' of domain '{self.domain}', version {self.version}"


_GATHER = ("FastGatherLastDim", "poptorch.custom_ops", 1)


def _check_inputs(inputs: Any) -> None:
    if not isinstance(inputs, (list, tuple)) or not all(
        isinstance(x, torch.Tensor) for x in inputs
    ):
        kinds = [type(x).__name__ for x in inputs] if isinstance(inputs, (list, tuple)) else ""
        found = f"a {type(inputs).__name__} of {', '.join(kinds)}" if kinds else repr(inputs)
        raise ValueError(f"[custom_op] inputs must be a list or tuple of tensors but is {found}.")


def apply(use: Use, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    if _native.is_tracing() or any(map(_native.is_traced, inputs)):
        return list(torch.ops.poptorch.custom_op(inputs, *use))
    if use[:3] == _GATHER:
        return [_gather(*inputs)]  # it reads no attributes
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        return list(_Differentiable.apply(use, *inputs))
    return _native.run_custom_op(inputs, *use)


def _gather(*inputs: torch.Tensor) -> torch.Tensor:
    if len(inputs) != 2:
        raise Error(
            "[custom_op] FastGatherLastDim takes 2 inputs, data and indices, but got "
            f"{len(inputs)}."
        )
    data, indices = inputs
    if data.dim() != indices.dim() or data.shape[:-1] != indices.shape[:-1]:
        raise Error(
            "[custom_op] FastGatherLastDim takes data and indices whose shapes are equal but for "
            f"the last dimension, but got {list(data.shape)} and {list(indices.shape)}."
        )
    if indices.dtype.is_floating_point or indices.dtype == torch.bool:
        raise Error(
            f"[custom_op] FastGatherLastDim takes integers as indices but got {indices.dtype}."
        )
    return torch.gather(data, -1, indices.long())


class _Differentiable(torch.autograd.Function):
    """An op outside of a model; its gradient op computes the gradient."""

    @staticmethod
    def forward(ctx: Any, use: Use, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = _native.run_custom_op(list(inputs), *use)
        ctx.use, ctx.count = use, len(inputs)
        ctx.save_for_backward(*inputs, *outputs)
        ctx.mark_non_differentiable(*(y for y in outputs if not y.is_floating_point()))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, outputs = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        types = [(DTYPES[x.dtype], list(x.shape)) for x in inputs]
        name, domain, version, attributes = ctx.use
        found = _core.custom_gradient(domain, name, version, attributes, types)
        if found is None:
            raise Error(f"[custom_op] op {ctx.use} has no gradient op. Declare one, or detach.")
        (domain, name, version), attributes, operands, of = found
        sources = (inputs, outputs, gradients)
        made = apply(
            Use(name, domain, version, attributes), [sources[kind][i] for kind, i in operands]
        )
        wanted: list[torch.Tensor | None] = [None] * ctx.count
        for gradient, i in zip(made, of, strict=True):
            wanted[i] = gradient.to(inputs[i].dtype)
        return (None, *wanted)
