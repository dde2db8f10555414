"""The scale by which float8 holds the largest element of a tensor."""

from typing import Any

import popxl
from popxl import dtypes
from popxl.ops.build import OpBuild, composed
from popxl_addons.ops.fp8_utils import check_source, definition


def fp8_amax_scale(src: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """Returns the largest log2_scale without overflow, an int32 scalar in [-31, 31].

    Args:
        src: The tensor.
        dtype: The float8 type.

    Raises:
        RuntimeError: `src` is neither float16 nor float32.
        TypeError: `dtype` is not float8.
    """
    check_source(src)
    largest = definition(dtype).max_value

    def body(op: OpBuild) -> Any:
        f32 = dtypes.float32
        size = op("abs", op.cast(src, f32))
        top = op("max", size, axes=list(range(src.rank))) if src.rank else size
        room = op("div", op.scalar(f32, largest), top)
        scale = op("floor", op("log2", room))
        return op.cast(op("clamp", scale, low=-31.0, high=31.0), dtypes.int32)

    return composed("Fp8AmaxScale", [src], "fp8_scale", body)
