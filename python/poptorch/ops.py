"""Operations for use inside a model. All of them also work on the CPU, with torch's autograd."""

import json
from typing import Any

import torch
from poptorch import _native
from poptorch._impl.ops.beam_search import ctc_beam_search_decoder
from poptorch._impl.ops.control_flow import cond, for_loop
from poptorch._impl.ops.cpu import CPU
from poptorch._impl.ops.custom_ops import custom_op
from poptorch._impl.ops.multi_conv import MultiConv
from poptorch._impl.ops.points import fps, nearest
from poptorch._impl.ops.print_tensor import ipu_print_tensor
from poptorch._impl.ops.python_ops import op
from poptorch._impl.placement.blocks import (
    BeginBlock,
    Block,
    BlockFunction,
    BlockHook,
    LegacyBeginBlockFn as LegacyBeginBlockFn,
    removeBlocks,
)
from poptorch._impl.pytree.structures import flatten, unflatten, walk
from poptorch.enums import MatMulSerializationMode, OverlapMode
from poptorch_core import Error

__all__ = [
    "Attribute",
    "BeginBlock",
    "Block",
    "BlockFunction",
    "CPU",
    "MultiConv",
    "NameScope",
    "cond",
    "ctc_beam_search_decoder",
    "custom_op",
    "dynamic_slice",
    "dynamic_update",
    "for_loop",
    "fps",
    "identity_loss",
    "ipu_print_tensor",
    "isRunningOnIpu",
    "nearest",
    "nop",
    "op",
    "recomputationCheckpoint",
    "removeBlocks",
    "serializedMatMul",
    "set_available_memory",
    "set_overlap_for_input",
    "set_overlap_for_output",
]
_BlockHook = BlockHook  # programs use this name

# The device has narrower types instead of these. Messages show the narrower ones.
_NARROWED = {torch.int64: torch.int32, torch.float64: torch.float32}
REDUCTIONS = ("sum", "mean", "none")


def identity_loss(x: torch.Tensor, reduction: str) -> torch.Tensor:
    """Marks a value as the loss: back-propagation starts here with a gradient of ones.

    Args:
        x: The value.
        reduction: "sum" or "mean" over all elements, or "none", which leaves `x` as it is.

    Returns:
        The reduced value.

    Raises:
        AssertionError: `reduction` is not one of these.
    """
    if reduction not in REDUCTIONS:
        raise AssertionError(
            f"Unsupported reduction type! Expected one of {REDUCTIONS} but got {reduction!r}."
        )
    if _native.is_tracing():
        return torch.ops.poptorch.identity_loss(x, reduction)
    if reduction == "sum":
        return x.sum()
    return x.mean() if reduction == "mean" else x.clone()


class NameScope:
    """A context manager that prefixes the names of the ops inside, as a module's path does.

    Args:
        name: The prefix.

    Raises:
        AssertionError: `name` is not a string.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise AssertionError(f"[NameScope] expected a string but got {name!r}.")
        self.name = name

    def __enter__(self) -> None:
        _native.push_scope(self.name)

    def __exit__(self, *_exception: object) -> None:
        _native.pop_scope()


class Attribute:
    """A context manager that gives the ops inside attributes, `__outline={"layer": "first"}`.

    On hardware they control which ops share code. Here values and the cost model do not depend on
    them. _debugGetPopartIR() shows them among the attributes of each op. For the same key, an inner
    context overrides an outer one.

    Args:
        attributes: The attributes by name, each a dict of strings.

    Raises:
        ValueError: An attribute is not a dict of strings.
    """

    def __init__(self, **attributes: dict[str, str]) -> None:
        for name, given in attributes.items():
            texts = [*given, *given.values()] if isinstance(given, dict) else [None]
            if not all(isinstance(text, str) for text in texts):
                raise ValueError(f"[Attribute] {name} must be a dict of strings, not {given!r}.")
        self._own = {key: text for given in attributes.values() for key, text in given.items()}
        self._outer: list[str] = []

    def __enter__(self) -> None:
        outer = _native.set_labels("")
        self._outer.append(outer)
        _native.set_labels(json.dumps({**json.loads(outer or "{}"), **self._own}))

    def __exit__(self, *_exception: object) -> None:
        _native.set_labels(self._outer.pop())


def nop(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy of a tensor: an op that does nothing else, for debugging.

    Args:
        tensor: The tensor.

    Raises:
        poptorch.Error: The argument is not a tensor.
    """
    _check(isinstance(tensor, torch.Tensor), "nop must take a torch.tensor argument.")
    return tensor.clone()


def recomputationCheckpoint(*tensors: Any) -> Any:
    """Marks tensors that are stored, so that recomputation can start from them.

    Args:
        tensors: Tensors, or lists or tuples of them.

    Returns:
        The marked tensors: for one argument its counterpart, for several a tuple.

    Raises:
        ValueError: A value is not a tensor.
    """

    def copy_of(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(copy_of(item) for item in value)
        if not isinstance(value, torch.Tensor):
            raise ValueError(f"All inputs must be tensors, but got {type(value).__name__}.")
        if _native.is_tracing():
            return torch.ops.poptorch.recomputation_checkpoint(value)
        return value.clone()

    return copy_of(tensors[0]) if len(tensors) == 1 else copy_of(tensors)


def set_available_memory(tensor: torch.Tensor, available_memory_proportion: float) -> torch.Tensor:
    """Gives a hint about temporary memory for real hardware; values do not depend on it.

    Args:
        tensor: The output of an op.
        available_memory_proportion: The proportion of tile memory, 0 to 1.

    Returns:
        A copy of the tensor.

    Raises:
        poptorch.Error: `tensor` is not a tensor, or the proportion is out of range.
    """
    is_tensor = isinstance(tensor, torch.Tensor)
    _check(is_tensor, "You may only set available memory for torch.tensor values.")
    if not 0 <= available_memory_proportion <= 1:
        raise Error(
            "[set_available_memory] the proportion must be from 0 to 1 but is "
            f"{available_memory_proportion}."
        )
    return tensor.clone()


def set_overlap_for_input(input_tensors: Any, mode: OverlapMode) -> Any:
    """Lets the transfers of inputs from the host overlap with computation.

    While an iteration of the loop computes, the inputs of the next iteration are transferred.

    Args:
        input_tensors: Arguments of forward that no other op uses, in any nesting of tuples, lists
            and dicts.
        mode: The loop.

    Returns:
        The inputs, for use in the model.

    Raises:
        AssertionError: `mode` is not an OverlapMode.
        poptorch.Error: At compilation: a tensor is not an input, there are no IO tiles, or the
            execution strategy is PipelinedExecution.
    """
    return _with_overlap(input_tensors, "input", mode)


def set_overlap_for_output(output_tensors: Any, mode: OverlapMode) -> Any:
    """Lets the transfers of outputs to the host overlap with computation.

    Args:
        output_tensors: Tensors in any nesting of tuples, lists and dicts.
        mode: The loop whose next iteration computes meanwhile.

    Returns:
        The tensors, for forward to return.

    Raises:
        AssertionError: `mode` is not an OverlapMode.
        poptorch.Error: As for set_overlap_for_input, and for output modes other than All and Sum.
    """
    return _with_overlap(output_tensors, "output", mode)


def _with_overlap(tensors: Any, host: str, mode: OverlapMode) -> Any:
    if not isinstance(mode, OverlapMode):
        raise AssertionError(f"Expected a poptorch.OverlapMode but got {mode!r}.")
    leaves: list[torch.Tensor] = []
    node = flatten(tensors, leaves)
    only_tensors = all(leaf.kind != "constant" for leaf in walk([node]))
    _check(only_tensors, f"You may only set overlap for torch.tensor {host}s.")
    if mode == OverlapMode.NoOverlap or not _native.is_tracing():
        return tensors
    loop = mode.value.removeprefix("overlap_")
    marked = [torch.ops.poptorch.set_overlap(tensor, host, loop) for tensor in leaves]
    return unflatten(node, iter(marked))


# The part of a product that each mode divides.
_SERIAL = {"input_channels": "rows", "reducing_dim": "inner", "output_channels": "columns"}


def serializedMatMul(
    lhs: torch.Tensor,
    rhs: torch.Tensor,
    mode: MatMulSerializationMode,
    factor: int = 0,
    keep_precision: bool = False,
) -> torch.Tensor:
    """Computes lhs @ rhs in `factor` parts, one after the other.

    The parts take less temporary memory at a time, and more cycles. Values do not change.

    Args:
        lhs: A tensor [..., a, b].
        rhs: A tensor [..., b, c].
        mode: The dimension that is divided: a (InputChannels), b (ReducingDim) or
            c (OutputChannels).
        factor: The number of parts; 0 and 1 do not divide.
        keep_precision: Kept for compatibility.

    Returns:
        The product, [..., a, c].

    Raises:
        AssertionError: `mode` is not a MatMulSerializationMode.
        poptorch.Error: `factor` does not divide the dimension, or an operand has fewer than two
            dimensions.
    """
    if not isinstance(mode, MatMulSerializationMode):
        raise AssertionError(f"Expected a poptorch.MatMulSerializationMode but got {mode!r}.")
    if mode == MatMulSerializationMode.Disabled:
        return torch.matmul(lhs, rhs)
    for name, operand in (("lhs", lhs), ("rhs", rhs)):
        if operand.dim() < 2:
            raise Error(
                f"[serializedMatMul] {name} must have two dimensions or more but is "
                f"{list(operand.shape)}. Reshape it."
            )
    sizes = {"input_channels": lhs.shape[-2], "reducing_dim": lhs.shape[-1]}
    sizes["output_channels"] = rhs.shape[-1]
    size = sizes[mode.value]
    if factor < 0 or (factor and size % factor):
        raise Error(
            f"[serializedMatMul] factor {factor} does not divide the dimension of {mode.name}, "
            f"{size}. Choose a divisor."
        )
    if factor <= 1 or not _native.is_tracing():
        return torch.matmul(lhs, rhs)
    return torch.ops.poptorch.serialized_matmul(lhs, rhs, _SERIAL[mode.value], factor)


def _check(holds: bool, text: str) -> None:
    if not holds:
        raise Error(text)


def _sliced_length(tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int) -> int:
    """Returns the length of the dimension. Raises poptorch.Error for unsuitable arguments."""
    _check(isinstance(dim, int), "Dimension must be an integer.")
    is_whole = isinstance(start, torch.Tensor) and not (
        start.is_floating_point() or start.is_complex()
    )
    _check(is_whole and start.numel() == 1, "Start must be a torch.tensor of one integer.")
    _check(isinstance(size, int), "Size must be an integer.")
    _check(size != 0, "The start and end of a slice must be different.")
    text = "Taking a slice of a tensor with the end less than the start is not supported."
    _check(size > 0, text)
    return tensor.size(dim)


def dynamic_slice(
    tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int
) -> torch.Tensor:
    """Slices a tensor from a start that is only known at run time.

    Args:
        tensor: The tensor.
        dim: The dimension to slice.
        start: A tensor of one integer. The slice continues at 0 after the end of the dimension.
        size: The length of the slice. It must divide the dimension.
        step: The result has every step-th element of the slice.

    Returns:
        The slice.

    Raises:
        poptorch.Error: `size` does not divide the dimension, or an argument has a wrong type.
    """
    length = _sliced_length(tensor, dim, start, size)
    _check(
        length % size == 0,
        f"The size of the slice ({size}) must be a factor of the slicing dimension ({length}).",
    )
    _check(isinstance(step, int), "Step must be an integer.")
    steps = torch.arange(0, size, step, dtype=start.dtype, device=tensor.device)
    return torch.index_select(tensor, dim, torch.remainder(start.reshape(1) + steps, length))


def dynamic_update(
    input: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int
) -> torch.Tensor:
    """Replaces a slice of a tensor, from a start that is only known at run time.

    Args:
        input: The tensor.
        src: The new elements of the slice.
        dim: The dimension to slice.
        start: A tensor of one integer. The slice continues at 0 after the end of the dimension.
        size: The length of the slice, at most that of the dimension.

    Returns:
        A copy of `input` with `src` in place of the slice.

    Raises:
        poptorch.Error: `size` is not from 1 to the length of the dimension, an argument has a
            wrong type, or the tensors' ranks or types differ.
    """
    length = _sliced_length(input, dim, start, size)
    _check(
        size <= length,
        f"[dynamic_update] the slice of {size} is longer than the dimension ({length}). Pass a "
        "smaller size, and a src of that size.",
    )
    if input.dim() != src.dim():
        raise Error(
            f"input and src tensors must have same dimensionality. ({input.dim()}) vs ({src.dim()})"
        )
    if input.dtype != src.dtype:
        dtypes = " vs ".join(str(_NARROWED.get(t.dtype, t.dtype)) for t in (input, src))
        raise Error(f"input and src tensor must have same dtype. ({dtypes})")
    steps = torch.arange(size, dtype=start.dtype, device=input.device)
    positions = torch.remainder(start.reshape(1) + steps, length)
    return torch.index_copy(input, dim, positions.long(), src)


def isRunningOnIpu() -> bool:
    """Returns True while a model is traced for the IPU or runs on it, False on the CPU."""
    return _native.is_tracing()
