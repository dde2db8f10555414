"""Ops on float8: casts with a scale that is a power of two, products and convolutions.

float8_143 reaches 240, float8_152 reaches 57344; larger numbers become NaN. log2_scale is an int in
[-32, 32) or an int32 scalar tensor; a tensor outside that range ends the run with an error.
"""

from collections.abc import Sequence
from typing import Any

from popxl import dtypes
from popxl._impl.records import of
from popxl.context import get_ir
from popxl.dtypes import core_name, dtype as dtype_class
from popxl.fp8_utils import is_float8
from popxl.ops.build import OpBuild, composed
from popxl.ops.conv import conv_body, conv_transpose_body
from popxl.ops.linear import check_sizes, matmul_values
from popxl.tensor import Tensor, constant

_SCALES = range(-32, 32)
_WIDE = (dtypes.float16, dtypes.float32)


def _checked_scale(log2_scale: "int | Tensor") -> Tensor:
    """Returns the scale as a tensor; a number becomes a constant."""
    if not isinstance(log2_scale, Tensor):
        if log2_scale not in _SCALES:
            raise ValueError(f"log2_scale must be in [-32, 32) but is {log2_scale}.")
        return constant(log2_scale, dtypes.int32, "offset")
    if log2_scale.shape:
        raise ValueError(f"log2_scale must be a scalar tensor but is {log2_scale!r}.")
    if log2_scale.dtype is not dtypes.int32:
        raise TypeError(f"log2_scale must be of type popxl.int32 but is {log2_scale!r}.")
    return log2_scale


def _scaled(op: OpBuild, value: Any, log2_scale: Tensor) -> Any:
    scale = of(log2_scale).read()
    if not get_ir()._pb_ir.getSessionOptions().throwIfLog2ScaleTensorNotInRange:
        scale = op("clamp", scale, low=float(_SCALES[0]), high=float(_SCALES[-1]))
    return op("pow2_scale", value, scale)


def pow2scale_cast_to_fp8(t: Tensor, log2_scale: "int | Tensor", data_type: dtype_class) -> Tensor:
    """Returns t · 2**log2_scale, rounded to the nearest float8 (ties to even).

    Args:
        t: A tensor of float16 or float32.
        log2_scale: The exponent of the scale.
        data_type: float8_143 or float8_152.

    Raises:
        TypeError: t or data_type has another type.
    """
    if not is_float8(data_type) or t.dtype not in _WIDE:
        raise TypeError(f"{t!r} cannot be cast to {data_type}: float16 or float32 to float8.")
    scale = _checked_scale(log2_scale)

    def body(op: OpBuild) -> Any:
        wide = _scaled(op, op.cast(t, dtypes.float32), scale)
        return op("cast", wide, dtype=core_name(data_type))

    name = f"{t.name}_{data_type.name}"
    return composed("Pow2ScaleThenCast", [t, scale], name, body)


def pow2scale_cast_from_fp8(
    t: Tensor, log2_scale: "int | Tensor", data_type: dtype_class
) -> Tensor:
    """Returns float8 converted to `data_type`, then multiplied by 2**log2_scale.

    Args:
        t: The tensor.
        log2_scale: The power of two that scales float8 data.
        data_type: The data type of the result.

    Raises:
        TypeError: t is not float8, or data_type is neither float16 nor float32.
    """
    if not is_float8(t.dtype) or data_type not in _WIDE:
        raise TypeError(f"{t!r} cannot be cast to {data_type}: float8 to float16 or float32.")
    scale = _checked_scale(log2_scale)

    def body(op: OpBuild) -> Any:
        return _scaled(op, op.cast(t, data_type), scale)

    name = f"{t.name}_{data_type.name}"
    return composed("CastThenPow2Scale", [t, scale], name, body)


def _check_operands(op_type: str, lhs: Tensor, rhs: Tensor) -> None:
    for t in (lhs, rhs):
        if not is_float8(t.dtype):
            raise TypeError(f"{op_type} takes float8 operands but got {t!r}.")


def _product(
    op_type: str,
    lhs: Tensor,
    rhs: Tensor,
    log2_scale: "int | Tensor",
    name: str,
    product: Any,
    **hints: Any,
) -> Tensor:
    """Returns `product` of the operands in float32, scaled, then rounded to float16."""
    scale = _checked_scale(log2_scale)

    def body(op: OpBuild) -> Any:
        wide = product(op, op.cast(lhs, dtypes.float32), op.cast(rhs, dtypes.float32))
        return op.cast(_scaled(op, wide, scale), dtypes.float16)

    attrs = {**hints, "partials": "float16"}
    return composed(op_type, [lhs, rhs, scale], name, body, **attrs)


def matmul_pow2scaled(
    lhs: Tensor,
    rhs: Tensor,
    log2_scale: "int | Tensor",
    available_memory_proportion: "float | None" = None,
) -> Tensor:
    """Returns lhs @ rhs · 2**log2_scale of float8 operands of either format, as float16.

    Args:
        lhs: The left float8 operand.
        rhs: The right float8 operand.
        log2_scale: The power of two that scales float8 data.
        available_memory_proportion: Accepted as a hint for hardware; the emulator's values do not
            depend on it.

    Raises:
        TypeError: An operand has another dtype.
        ValueError: The sizes do not fit.
    """
    _check_operands("MatMul", lhs, rhs)
    check_sizes(lhs, rhs)

    def product(op: OpBuild, a: Any, b: Any) -> Any:
        return matmul_values(op, a, b)

    return _product(
        *("MatMul", lhs, rhs, log2_scale, "matmul_pow2scaled_out", product),
        available_memory_proportion=available_memory_proportion,
    )


def conv_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: "int | Tensor",
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    available_memory_proportions: "Sequence[float] | None" = None,
    enable_conv_dithering: "Sequence[int] | None" = None,
) -> Tensor:
    """Returns `ops.conv` of float8 operands, times 2**log2_scale, as float16.

    Args:
        t: The float8 input.
        weight: The float8 weight.
        log2_scale: The power of two that scales float8 data.
        stride: The step of the window, in each dimension.
        padding: The padding, in each dimension.
        dilation: The distance between the kernel's elements, in each dimension.
        groups: The number of groups of channels.
        pad_type: How padding is chosen; `not_set` uses `padding`.
        available_memory_proportions: Accepted as hints for hardware; the emulator's values do not
            depend on them.
        enable_conv_dithering: Accepted as a hint for hardware; the emulator's values do not depend
            on it.
    """
    _check_operands("Conv", t, weight)
    body = conv_body(t, weight, stride, padding, dilation, groups, pad_type)
    return _product(
        *("Conv", t, weight, log2_scale, "conv_out", body),
        available_memory_proportions=available_memory_proportions,
        enable_conv_dithering=enable_conv_dithering,
    )


def conv_transpose_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: "int | Tensor",
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    output_padding: Sequence[int] = (),
    output_shape: Sequence[int] = (),
    available_memory_proportions: "Sequence[float] | None" = None,
    enable_conv_dithering: "Sequence[int] | None" = None,
) -> Tensor:
    """Returns `ops.conv_transpose` of float8 operands, times 2**log2_scale, as float16.

    Args:
        t: The float8 input.
        weight: The float8 weight.
        log2_scale: The power of two that scales float8 data.
        stride: The step of the window, in each dimension.
        padding: The padding, in each dimension.
        dilation: The distance between the kernel's elements, in each dimension.
        groups: The number of groups of channels.
        pad_type: How padding is chosen; `not_set` uses `padding`.
        output_padding: Elements added at the end of each output dimension.
        output_shape: The output's spatial shape; it replaces `padding`.
        available_memory_proportions: Accepted as hints for hardware; the emulator's values do not
            depend on them.
        enable_conv_dithering: Accepted as a hint for hardware; the emulator's values do not depend
            on it.
    """
    _check_operands("ConvTranspose", t, weight)
    body = conv_transpose_body(
        t, weight, stride, padding, dilation, groups, pad_type, output_padding, output_shape
    )
    return _product(
        *("ConvTranspose", t, weight, log2_scale, "convtranspose_out", body),
        available_memory_proportions=available_memory_proportions,
        enable_conv_dithering=enable_conv_dithering,
    )
