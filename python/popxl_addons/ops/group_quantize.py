"""Weights of 4 bits: groups of numbers, each group with a scale and an offset.

Four numbers share a uint16, the first one in its lowest bits.
"""

from typing import Any

import numpy as np
import popxl
from popxl import dtypes
from popxl.ops.build import OpBuild, composed

_BITS, _PACKED = 4, 4
_STEPS = 2**_BITS - 1


def group_quantize_compress_numpy(
    x: np.ndarray, group_size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Packed [rows, groups, group_size / 4] uint16, scale and offset [rows, groups, 1] float16.

    x: [rows, groups · group_size]. ValueError when the columns are no such groups.
    """
    rows, columns = x.shape
    if group_size % _PACKED or columns % group_size:
        raise ValueError(
            f"{columns} columns cannot be groups of {group_size}, which must be a multiple of 4."
        )
    groups = x.reshape(rows, columns // group_size, group_size).astype(np.float32)
    low, high = groups.min(-1, keepdims=True), groups.max(-1, keepdims=True)
    scale, bias = ((high - low) / _STEPS).astype(np.float16), low.astype(np.float16)
    wide = np.where(scale == 0, 1, scale).astype(np.float32)
    codes = np.clip(np.rint((groups - bias.astype(np.float32)) / wide), 0, _STEPS)
    codes = codes.astype(np.uint16).reshape(*groups.shape[:2], -1, _PACKED)
    packed = (codes << (_BITS * np.arange(_PACKED, dtype=np.uint16))).sum(-1, dtype=np.uint16)
    return packed, scale, bias


def group_quantize_decompress_numpy(
    x: np.ndarray, scale: np.ndarray, bias: np.ndarray
) -> np.ndarray:
    """[rows, groups · group_size] float16: what `group_quantize_compress_numpy` packed."""
    codes = (x[..., None] >> (_BITS * np.arange(_PACKED, dtype=np.uint16))) & _STEPS
    codes = codes.reshape(*x.shape[:2], -1).astype(np.float32)
    values = codes * scale.astype(np.float32) + bias.astype(np.float32)
    return values.astype(np.float16).reshape(x.shape[0], -1)


def group_quantize_decompress(
    t: popxl.Tensor, group_scale: popxl.Tensor, group_bias: popxl.Tensor
) -> popxl.Tensor:
    """`group_quantize_decompress_numpy` on the device; see there.

    TypeError for packed data other than uint16, ValueError for shapes that do not fit.
    """
    if t.dtype is not dtypes.uint16:
        raise TypeError(f"Packed weights are uint16 but got {t!r}.")
    if t.rank != 3 or not group_scale.shape == group_bias.shape == (*t.shape[:2], 1):
        raise ValueError(f"{t!r} needs scales and offsets of shape {(*t.shape[:2], 1)}.")

    def body(op: OpBuild) -> Any:
        i32, f32 = dtypes.int32, dtypes.float32
        packed = op("reshape", op.cast(t, i32), shape=[*t.shape, 1])
        shifts = op.array(_BITS * np.arange(_PACKED), i32)
        codes = op("bitwise_and", op("shift_right", packed, shifts), op.scalar(i32, _STEPS))
        codes = op("reshape", op.cast(codes, f32), shape=[*t.shape[:2], t.shape[2] * _PACKED])
        values = op("add", op("mul", codes, op.cast(group_scale, f32)), op.cast(group_bias, f32))
        size = t.shape[1] * t.shape[2] * _PACKED
        return op.cast(op("reshape", values, shape=[t.shape[0], size]), dtypes.float16)

    inputs = [t, group_scale, group_bias]
    return composed("GroupQuantizeDecompress", inputs, "decompressed", body)
