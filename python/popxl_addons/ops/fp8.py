"""Scales by which float8 keeps a tensor well."""

from typing import Any

import numpy as np
import popxl
from popxl import dtypes
from popxl.dtypes import core_name
from popxl.fp8_utils import is_float8
from popxl.ops.build import OpBuild, composed

_LARGEST = {popxl.float8_143: 240.0, popxl.float8_152: 57344.0}
_SCALES = np.arange(-31, 32)


def _check(fp8_format: popxl.dtype) -> None:
    if not is_float8(fp8_format):
        raise TypeError(f"float8_143 or float8_152 is needed but got {fp8_format}.")


def fp8_amax_scale(t: popxl.Tensor, fp8_format: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """The greatest log2_scale by which no element of `t` overflows: an int32 scalar in [-31, 31].

    TypeError for another format.
    """
    _check(fp8_format)

    def body(op: OpBuild) -> Any:
        f32 = dtypes.float32
        size = op("abs", op.cast(t, f32))
        top = op("max", size, axes=list(range(t.rank))) if t.rank else size
        room = op("div", op.scalar(f32, _LARGEST[fp8_format]), top)
        scale = op("floor", op("log2", room))
        return op.cast(op("clamp", scale, low=-31.0, high=31.0), dtypes.int32)

    return composed("Fp8AmaxScale", [t], "fp8_scale", body)


def fp8_mse_scale(t: popxl.Tensor, fp8_format: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """The log2_scale of [-31, 31] by which float8 keeps `t` with the least squared error: int32.

    TypeError for another format.
    """
    _check(fp8_format)

    def body(op: OpBuild) -> Any:
        f32 = dtypes.float32
        flat = op("reshape", op.cast(t, f32), shape=[1, t.nelms])
        there = op.array(np.ldexp(1.0, _SCALES)[:, None], f32)
        back = op.array(np.ldexp(1.0, -_SCALES)[:, None], f32)
        scaled = op("mul", flat, there)
        limit = _LARGEST[fp8_format]
        held = op("cast", op("clamp", scaled, low=-limit, high=limit), dtype=core_name(fp8_format))
        error = op("sub", op("mul", op.cast(held, f32), back), flat)
        mean = op("mean", op("mul", error, error), axes=[1])
        best = op("argmin", mean, axis=0)
        return op("add", best, op.scalar(dtypes.int32, int(_SCALES[0])))

    return composed("Fp8MseScale", [t], "fp8_scale", body)
