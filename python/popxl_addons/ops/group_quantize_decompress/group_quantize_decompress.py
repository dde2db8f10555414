"""Weights of 4 bits: groups of numbers, each group with a scale and an offset.

Four numbers share a uint16, the first one in its highest bits.
"""

from typing import Any

import numpy as np
import popxl
from popxl import dtypes
from popxl.ops.build import OpBuild, composed

_BITS, _PACKED = 4, 4
_STEPS = 2**_BITS - 1
_SHIFTS = _BITS * np.arange(_PACKED - 1, -1, -1)


def group_quantize_compress_numpy(
    t: np.ndarray, group_size: int, dim: int = -1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packs numbers into 4 bits.

    Args:
        t: Finite numbers.
        group_size: The numbers in a group, a multiple of 4.
        dim: The axis of the groups, which is moved to the end.

    Returns:
        Packed numbers [..., groups, group_size / 4] of uint16, and the scale and the offset
        [..., groups, 1] of float16.

    Raises:
        ValueError: The axis cannot be divided into such groups, or numbers are not finite.
    """
    t = np.moveaxis(np.asarray(t), dim, -1)
    columns = t.shape[-1]
    if group_size < 1 or group_size % _PACKED or columns % group_size:
        raise ValueError(
            f"{columns} columns cannot form groups of {group_size}, which must be a multiple of 4."
        )
    if not np.isfinite(t).all():
        raise ValueError("Only finite numbers can be packed: some are infinite or NaN.")
    groups = t.reshape(*t.shape[:-1], columns // group_size, group_size).astype(np.float32)
    low, high = groups.min(-1, keepdims=True), groups.max(-1, keepdims=True)
    scale, bias = ((high - low) / _STEPS).astype(np.float16), low.astype(np.float16)
    wide = np.where(scale == 0, 1, scale).astype(np.float32)
    codes = np.clip(np.rint((groups - bias.astype(np.float32)) / wide), 0, _STEPS)
    codes = codes.astype(np.uint16).reshape(*groups.shape[:-1], -1, _PACKED)
    packed = (codes << _SHIFTS.astype(np.uint16)).sum(-1, dtype=np.uint16)
    return packed, scale, bias


def group_quantize_decompress_numpy(
    t: np.ndarray, scale: np.ndarray, bias: np.ndarray, dim: int = -1
) -> np.ndarray:
    """Unpacks `group_quantize_compress_numpy`'s results to [..., groups · group_size] float16.

    dim: The axis to which the last one is moved.
    """
    codes = (t[..., None] >> _SHIFTS.astype(np.uint16)) & _STEPS
    codes = codes.reshape(*t.shape[:-1], -1).astype(np.float16)
    values = codes * scale.astype(np.float16) + bias.astype(np.float16)
    return np.moveaxis(values.reshape(*t.shape[:-2], -1), -1, dim)


def _per_group(t: popxl.Tensor, values: popxl.Tensor) -> list[int]:
    """Returns the shape [rows, groups, 1] of scales or offsets. Raises ValueError for others."""
    if values.rank not in (2, 3) or (*values.shape, 1)[:3] != (*t.shape[:2], 1):
        raise ValueError(
            f"{t!r} needs scales and offsets of shape {(*t.shape[:2], 1)}: {values!r}."
        )
    return [*t.shape[:2], 1]


def group_quantize_decompress(
    t: popxl.Tensor, group_scale: popxl.Tensor, group_bias: popxl.Tensor, dim: int = -1
) -> popxl.Tensor:
    """Unpacks a matrix [rows, groups · group_size] on the device.

    See `group_quantize_decompress_numpy`.

    Args:
        t: uint16 [rows, groups, group_size / 4].
        group_scale: [rows, groups] or [rows, groups, 1].
        group_bias: [rows, groups] or [rows, groups, 1].
        dim: The axis to which the last one is moved.

    Raises:
        TypeError: t is not uint16.
        NotImplementedError: t has another rank.
        ValueError: The scales or offsets have another shape.
    """
    if t.dtype is not dtypes.uint16:
        raise TypeError(f"Packed weights are uint16 but got {t!r}.")
    if t.rank != 3:
        raise NotImplementedError(f"Packed weights have three dimensions but got {t!r}.")
    shapes = [_per_group(t, values) for values in (group_scale, group_bias)]
    if not -2 <= dim < 2:
        raise ValueError(f"dim {dim} is out of range for 2 dimensions.")

    def body(op: OpBuild) -> Any:
        i32, f16 = dtypes.int32, dtypes.float16
        packed = op("reshape", op.cast(t, i32), shape=[*t.shape, 1])
        shifted = op("shift_right", packed, op.array(_SHIFTS, i32))
        codes = op("bitwise_and", shifted, op.scalar(i32, _STEPS))
        codes = op("reshape", op.cast(codes, f16), shape=[*t.shape[:2], t.shape[2] * _PACKED])
        scale, bias = (
            op("reshape", op.cast(values, f16), shape=shape)
            for values, shape in zip((group_scale, group_bias), shapes, strict=True)
        )
        values = op("add", op("mul", codes, scale), bias)
        size = t.shape[1] * t.shape[2] * _PACKED
        whole = op("reshape", values, shape=[t.shape[0], size])
        return whole if dim in (-1, 1) else op("transpose", whole, permutation=[1, 0])

    inputs = [t, group_scale, group_bias]
    return composed("GroupQuantizeDecompress", inputs, "decompressed", body)
