"""Conversions of host data to NumPy arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from popxl.dtypes import dtype as dtype_class

_DOWNCASTS = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
}


def downcast_np_dtypes(array: np.ndarray) -> np.ndarray:
    """The array with 64-bit int, uint and float as 32 bits; other types unchanged."""
    to = _DOWNCASTS.get(array.dtype)
    return array if to is None else array.astype(to)


def to_numpy(
    x: Any, dtype: "dtype_class | None" = None, downcast: bool = True, copy: bool = True
) -> np.ndarray:
    """Host data as an array in C order.

    x: an array, a torch tensor, lists or a scalar.
    dtype: the type to convert to. Without it the data's own; with `downcast` in 32 bits at most.
    copy: whether the result must not share memory with `x`.
    """
    if isinstance(x, np.memmap):
        return _checked_memmap(x, dtype)
    if hasattr(x, "cpu"):
        x = x.numpy(force=True)
    array = np.asarray(x)
    if dtype is not None:
        array = array.astype(dtype.as_numpy(), copy=False)
    elif downcast:
        array = downcast_np_dtypes(array)
    if copy and (array is x or array.base is not None):
        array = array.copy()
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _checked_memmap(x: np.memmap, dtype: "dtype_class | None") -> np.ndarray:
    if not x.flags.c_contiguous:
        raise ValueError("A memmap must be in C order: it is used without a copy.")
    if x.dtype in _DOWNCASTS or (dtype is not None and dtype.as_numpy() != x.dtype):
        raise ValueError(f"A memmap cannot be converted but is {x.dtype}: store another type.")
    return x


def table_to_string(
    rows: Sequence[Sequence[Any]], delimiter: str = " | ", header: bool = True
) -> str:
    """The rows as lines of aligned columns, the first one underlined."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(texts[0]))]
    lines = [
        delimiter.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in texts
    ]
    if header:
        lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join(lines)
