"""Gathers and scatters at indices that are known only at run time.

Indices are ints from 0. The compiler uses int32: other dtypes are cast.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from popxl import dtypes
from popxl._impl.records import of
from popxl.ops.build import OpBuild, check_same_dtype, composed, normal_axis
from popxl.tensor import Constant, Tensor


def check_indices(op_type: str, indices: Tensor) -> None:
    """Raises TypeError unless the indices are ints."""
    if isinstance(indices, Tensor) and not indices.dtype.is_int:
        raise TypeError(f"{op_type} takes int indices but {indices.name} is {indices.dtype}.")


def row_of(op: OpBuild, value: Any, group: int) -> Any:
    """Returns row `group` of a value's first dimension."""
    shape = value.type[1]
    part = op(
        "slice",
        value,
        starts=[group] + [0] * (len(shape) - 1),
        stops=[group + 1, *shape[1:]],
        steps=[1] * len(shape),
    )
    return op("reshape", part, shape=shape[1:])


def _by_group(
    op: OpBuild, size: int, values: Sequence[Any], work: "Callable[..., Any]", axis: int
) -> Any:
    """Returns `work(values, axis)`; for several groups, its results for each row, stacked."""
    if size == 1:
        return work(list(values), axis)
    rows = []
    for group in range(size):
        row = work([None if v is None else row_of(op, v, group) for v in values], axis - 1)
        rows.append(op("reshape", row, shape=[1, *row.type[1]]))
    return op("concat", *rows, axis=0)


def _taken(op: OpBuild, x: Any, indices: Any, axis: int) -> Any:
    shape, places = x.type[1], indices.type[1]
    flat = op("reshape", indices, shape=[int(np.prod(places, dtype=np.int64))])
    rows = op("index_select", x, flat, axis=axis)
    return op("reshape", rows, shape=[*shape[:axis], *places, *shape[axis + 1 :]])


def _gather(op_type: str, t: Any, indices: Any, axis: int, size: int, name: str) -> Tensor:
    check_indices(op_type, indices)
    axis = normal_axis(axis, t.rank)
    _check_groups(op_type, size, axis, t, indices)

    def body(op: OpBuild) -> Any:
        values = [of(t).read(), op.cast(indices, dtypes.int32)]
        return _by_group(op, size, values, lambda v, a: _taken(op, v[0], v[1], a), axis)

    return composed(op_type, [t, indices], name, body)


def _check_groups(op_type: str, size: int, axis: int, *tensors: "Tensor | None") -> None:
    if size > 1 and (axis == 0 or any(t is not None and t.shape[:1] != (size,) for t in tensors)):
        raise ValueError(f"{op_type} with {size} groups needs them in dimension 0, and axis > 0.")


def gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: "float | None" = None,
    zero_OOR: bool = False,
) -> Tensor:
    """Returns slices of `t` along the axis at the indices, like `numpy.take`.

    An index past the end gives zeros.

    Args:
        t: The tensor.
        indices: The indices, a tensor of ints.
        axis: The axis.
        available_memory_proportion: A hint for hardware.
        zero_OOR: Has no effect: an index past the end gives zeros.

    Raises:
        TypeError: The indices are not ints.
    """
    return _gather("Gather", t, indices, axis, 1, "gather_out")


def tied_gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: "float | None" = None,
    zero_OOR: bool = False,
) -> Tensor:
    """Like `gather`; on hardware `t` would take its layout from a matrix product."""
    return _gather("PopartTiedGather", t, indices, axis, 1, "tiedgather_out")


def groupedgather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    group_size: int = 1,
    available_memory_proportion: "float | None" = None,
    zero_OOR: bool = False,
) -> Tensor:
    """`gather` for each of `group_size` rows of t and indices; axis includes the groups' axis."""
    return _gather("Gather", t, indices, axis, group_size, "gather_out")


def scatter(
    t: Tensor,
    indices: Tensor,
    values: Tensor,
    axis: int = 0,
    available_memory_proportion: "float | None" = None,
) -> Tensor:
    """Returns `t` with `values` written at the indices along the axis, element by element.

    indices and values have equal shapes, as for `numpy.put_along_axis`.

    Args:
        t: The tensor.
        indices: The indices, a tensor of ints.
        values: The values to write.
        axis: The axis.
        available_memory_proportion: A hint for hardware.
    """
    check_indices("Scatter", indices)
    check_same_dtype("Scatter", t, values)
    axis = normal_axis(axis, t.rank)
    return composed(
        "Scatter",
        [t, indices, values],
        "scatter_out",
        lambda op: op("scatter", t, op.cast(indices, dtypes.int32), values, axis=axis),
    )


_REDUCTIONS = {"sum": "sum", "min": "min", "max": "max", "none": "none"}


def scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: str,
    initial_values: "Tensor | None" = None,
    axis: int = 0,
    axis_size: "int | None" = None,
    enable_index_broadcast: bool = True,
    available_memory_proportion: "float | None" = None,
) -> Tensor:
    """Reduces elements of `data` to the indices along the axis; see `grouped_scatter_reduce`."""
    return grouped_scatter_reduce(
        data, indices, reduction, initial_values, axis, axis_size, 1, enable_index_broadcast
    )


def _scattered(op: OpBuild, values: list, axis: int, size: int, reduction: str) -> Any:
    data, indices, initial = values
    shape = data.type[1]
    if len(indices.type[1]) != len(shape):
        if len(indices.type[1]) == 1 and indices.type[1][0] == shape[axis]:
            lined = [1] * axis + [shape[axis]] + [1] * (len(shape) - axis - 1)
            indices = op("reshape", indices, shape=lined)
    if indices.type[1] != shape:
        indices = op("broadcast_to", indices, shape=shape)
    if initial is not None:
        return op("scatter", initial, indices, data, axis=axis, reduction=reduction)
    dtype = dtypes.of_core_name(data.type[0])
    out_shape = [*shape[:axis], size, *shape[axis + 1 :]]

    def filled(value: float, kind: Any) -> Any:
        return op("broadcast_to", op.scalar(kind, value), shape=out_shape)

    if reduction in ("sum", "none"):
        return op("scatter", filled(0, dtype), indices, data, axis=axis, reduction=reduction)
    limits = (np.finfo if dtype.is_floating_point else np.iinfo)(dtype.as_numpy())
    neutral = limits.max if reduction == "min" else limits.min
    start = filled(float(neutral), dtype)
    reduced = op("scatter", start, indices, data, axis=axis, reduction=reduction)
    ones = op("broadcast_to", op.scalar(dtypes.int32, 1), shape=shape)
    zeros = filled(0, dtypes.int32)
    hits = op("scatter", zeros, indices, ones, axis=axis, reduction="none")
    return op("select", op.cast(hits, dtypes.bool), reduced, op.scalar(dtype, 0))


def _check_scattered(data: Tensor, indices: Tensor, axis: int) -> None:
    shape = indices.shape
    if indices.rank == 1 and data.rank > 1:
        shape = (*indices.shape, *([1] * (data.rank - axis - 1)))
    try:
        fits = np.broadcast_shapes(shape, data.shape) == data.shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"Indices of shape {indices.shape} do not fit data of {data.shape}.")


def grouped_scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: str,
    initial_values: "Tensor | None" = None,
    axis: int = 0,
    axis_size: "int | None" = None,
    group_size: int = 1,
    enable_index_broadcast: bool = True,
    available_memory_proportion: "float | None" = None,
) -> Tensor:
    """Reduces elements of `data` to the indices along the axis, for each of `group_size` rows.

    Args:
        data: The elements.
        indices: Ints of data's shape, or of a shape that broadcasts to it; a single dimension is
            along the axis.
        reduction: "sum", "min", "max" or "none" (the last write wins).
        initial_values: The start of the reduction; by default elements without an index are 0.
        axis: The axis.
        axis_size: The size of the result's axis; by default that of initial_values.
        group_size: The number of rows; 1: all of `data` is one.
        enable_index_broadcast: Whether indices may broadcast.
        available_memory_proportion: A hint for hardware.

    Raises:
        ValueError: The reduction is another one; the size is missing; shapes do not fit.
    """
    check_indices("ScatterReduce", indices)
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be one of {list(_REDUCTIONS)} but is {reduction!r}.")
    axis = normal_axis(axis, data.rank)
    if axis_size is None:
        if initial_values is None:
            raise ValueError("scatter_reduce needs axis_size or initial_values.")
        axis_size = initial_values.shape[axis]
    if not enable_index_broadcast and indices.shape != data.shape:
        raise ValueError(f"Indices of shape {indices.shape} do not fit data of {data.shape}.")
    _check_groups("ScatterReduce", group_size, axis, data, indices, initial_values)
    if group_size == 1:
        _check_scattered(data, indices, axis)
    wanted = (*data.shape[:axis], axis_size, *data.shape[axis + 1 :])
    if initial_values is not None and initial_values.shape != wanted:
        raise ValueError(f"initial_values must have shape {wanted}: {initial_values!r}.")

    def body(op: OpBuild) -> Any:
        initial = None if initial_values is None else of(initial_values).read()
        values = [of(data).read(), op.cast(indices, dtypes.int32), initial]

        def work(v: list, a: int) -> Any:
            return _scattered(op, v, a, axis_size, reduction)

        return _by_group(op, group_size, values, work, axis)

    return composed("ScatterReduce", [data, indices, initial_values], "scatterreduce_out", body)


def onehot(t: Tensor, num_classes: "int | Tensor", values: Tensor, axis: int) -> Tensor:
    """Returns values[1] at the index along a new axis, values[0] elsewhere.

    Args:
        t: Indices; negative ones count from the end.
        num_classes: The size of the axis, a number or a constant.
        values: Two values, off and on.
        axis: The position of the new axis.

    Raises:
        TypeError: num_classes is a tensor that is not a constant.
        ValueError: There are not two values.
    """
    check_indices("OneHot", t)
    if isinstance(num_classes, Tensor) and not isinstance(num_classes, Constant):
        raise TypeError("num_classes must be a number or a constant: shapes do not change.")
    if values.shape != (2,):
        raise ValueError(f"onehot takes two values, off and on, but got {values!r}.")
    classes = int(of(num_classes).data if isinstance(num_classes, Constant) else num_classes)
    axis = normal_axis(axis, t.rank + 1)
    order = list(range(t.rank))
    order.insert(axis, t.rank)

    def body(op: OpBuild) -> Any:
        index = op.cast(t, dtypes.int32)
        wrapped = op("add", index, op.scalar(dtypes.int32, classes))
        index = op("select", op("lt", index, op.scalar(dtypes.int32, 0)), wrapped, index)
        hot = op("one_hot", index, classes=classes, dtype="bool")
        hot = op("transpose", hot, permutation=order)
        off, on = (row_of(op, of(values).read(), i) for i in (0, 1))
        return op("select", hot, on, off)

    sizes = num_classes if isinstance(num_classes, Tensor) else None
    return composed("OneHot", [t, sizes, values], "onehot_out", body)
