"""The scale by which float8 keeps a tensor with the least squared error, from a histogram.

`popxl.fp8_utils.mse_costs` defines the criterion, for the same bins.
"""

from typing import Any

import popxl
from popxl import dtypes
from popxl.fp8_utils import LARGEST_SCALE, mse_costs
from popxl.ops.build import OpBuild, composed
from popxl_addons.ops.fp8_utils import check_source, definition

_SOURCE_MANTISSA = 10


def fp8_mse_scale(src: popxl.Tensor, dtype: popxl.dtype = popxl.float8_143) -> popxl.Tensor:
    """Returns the log2_scale in [-31, 31] by which float8 keeps `src` best, an int32 scalar.

    Raises:
        RuntimeError: `src` is neither float16 nor float32.
        TypeError: `dtype` is not float8.
    """
    check_source(src)
    definition(dtype)
    costs = mse_costs(dtype, _SOURCE_MANTISSA)
    bins = costs.shape[1] + 1

    def body(op: OpBuild) -> Any:
        i32, f64 = dtypes.int32, dtypes.float64
        size = op("reshape", op.cast(op("abs", src), f64), shape=[src.nelms])
        # float64's log2 separates every float32 number just below a power of two from that power.
        exponent = op("floor", op("log2", size))
        index = op("add", op("clamp", exponent, low=-127.0, high=126.0), op.scalar(f64, 127.0))
        number = op("eq", size, size)
        index = op("select", number, index, op.scalar(f64, 0.0))
        none = op("broadcast_to", op.scalar(i32, 0), shape=[bins])
        counted = op.cast(number, i32)
        hits = op("scatter", none, op.cast(index, i32), counted, axis=0, reduction="sum")
        above = op("slice", op.cast(hits, f64), starts=[1], stops=[bins], steps=[1])
        cost = op("sum", op("mul", op.array(costs, f64), above), axes=[1])
        least = op("eq", cost, op("min", cost, axes=[0]))
        ties = op.cast(least, i32)
        # It chooses the middle one of equal costs.
        middle = op("shift_right", op("sum", ties, axes=[0]), op.scalar(i32, 1))
        rank = op("cumsum", ties, axis=0)
        chosen = op("mul", ties, op.cast(op("gt", rank, middle), i32))
        index = op("argmax", chosen, axis=0)
        return op("sub", op.scalar(i32, LARGEST_SCALE), op.cast(index, i32))

    return composed("Fp8MseScale", [src], "scaling_bias", body)
