"""Conversions of host data to NumPy arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from popxl.dtypes import checked, dtype as dtype_class
from popxl.fp8_utils import (
    host_pow2scale_cast_to_fp8 as host_pow2scale_cast_to_fp8,
    is_float8,
)

# NumPy's 64-bit types → their 32-bit counterparts.
downcast_np_dtypes = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
}


def to_numpy(
    x: Any,
    dtype: "dtype_class | None" = None,
    downcast: bool = True,
    copy: bool = True,
    log2_scale: "int | None" = None,
    nan_on_overflow: "bool | None" = None,
) -> np.ndarray:
    """Returns host data as an array in C order.

    Args:
        x: An array, a torch tensor, lists or a scalar. A memory-mapped array is returned itself.
        dtype: The type of the result. By default the data's type, with `downcast` in at most 32
            bits.
        downcast: Whether 64-bit types become 32-bit types without a dtype.
        copy: Whether the result must not share memory with `x`.
        log2_scale: For float8: numbers are multiplied by 2**log2_scale before the cast.
        nan_on_overflow: For float8: whether a number that is too large becomes NaN (the default)
            or the largest number.

    Raises:
        RuntimeError: One of the last two arguments is set for another dtype.
        TypeError: float8 is asked for, but the data is neither float8 nor floats.
        ValueError: A memory-mapped array would have to be converted.
    """
    float8 = dtype is not None and is_float8(checked(dtype))
    if not float8 and (log2_scale is not None or nan_on_overflow is not None):
        raise RuntimeError(
            f"log2_scale and nan_on_overflow are for float8 only, but the dtype is {dtype}."
        )
    if isinstance(x, np.memmap):
        return _checked_memmap(x, dtype, downcast)
    if hasattr(x, "cpu"):
        x = x.numpy(force=True)
    array = np.asarray(x)
    if float8:
        assert dtype is not None
        array = _as_float8(array, dtype, log2_scale or 0, nan_on_overflow is not False)
    elif dtype is not None:
        array = array.astype(dtype.as_numpy(), copy=False)
    elif downcast and array.dtype in downcast_np_dtypes:
        array = array.astype(downcast_np_dtypes[array.dtype])
    if copy and (array is x or array.base is not None):
        array = array.copy()
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _as_float8(
    array: np.ndarray, dtype: dtype_class, log2_scale: int, nan_on_overflow: bool
) -> np.ndarray:
    if array.dtype == dtype.as_numpy():
        return array
    if array.dtype.kind != "f":
        raise TypeError(f"Data of {array.dtype} cannot become {dtype}: give it as floats.")
    return host_pow2scale_cast_to_fp8(array, dtype, log2_scale, nan_on_overflow)


def _checked_memmap(x: np.memmap, dtype: "dtype_class | None", downcast: bool) -> np.ndarray:
    start = "When passing a memory-mapped NumPy array,"
    if dtype is not None and dtype.as_numpy() != x.dtype:
        raise ValueError(
            f"{start} the `dtype` parameter must be the array's, {x.dtype}, but is {dtype}: it is "
            "used without a copy."
        )
    if not x.flags.c_contiguous:
        raise ValueError(f"{start} it must already be in C-ordered memory: it is not copied.")
    if downcast and x.dtype in downcast_np_dtypes:
        raise ValueError(
            f"{start} the dtype {dtype} is not supported, as it requires downcasting of {x.dtype}."
        )
    return x


def table_to_string(
    rows: Sequence[Sequence[Any]], delimiter: str = " | ", header: bool = True
) -> str:
    """Returns the rows as lines of aligned columns, the first one underlined.

    Args:
        rows: The cells of each row.
        delimiter: The text between two columns.
        header: Whether the first row is underlined.
    """
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(texts[0]))]
    lines = [
        delimiter.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]
    if header:
        lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join(lines)
