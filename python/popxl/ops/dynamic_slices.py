"""Slices at indices that are known only at run time, and their updates."""

from collections.abc import Sequence
from typing import Any

from popxl import dtypes
from popxl._impl.records import of
from popxl.errors import popart_exception
from popxl.ops.build import OpBuild, check_same_dtype, composed, in_place, normal_axis, or_refused
from popxl.ops.indexing import check_indices, row_of
from popxl.tensor import Tensor


def _starts(op: OpBuild, index: Tensor, count: int) -> list[Any]:
    flat = op("reshape", op.cast(index, dtypes.int32), shape=[count])
    return [row_of(op, flat, i) for i in range(count)]


def _check_dynamic(op_type: str, t: Tensor, index: Tensor, axes: Any, sizes: Any) -> list[int]:
    check_indices(op_type, index)
    axes = [normal_axis(a, t.rank) for a in axes]
    if len(axes) != len(sizes) or index.nelms != len(axes) or not axes:
        raise ValueError(
            f"{op_type} needs an index and a size for each axis: axes {axes}, sizes "
            f"{list(sizes)}, index of shape {index.shape}."
        )
    if any(not 0 < size <= t.shape[axis] for axis, size in zip(axes, sizes, strict=True)):
        raise ValueError(f"{op_type}: sizes {list(sizes)} along axes {axes} do not fit {t!r}.")
    return axes


def dynamic_slice(
    t: Tensor, index: Tensor, axes: Sequence[int], sizes: Sequence[int], no_overlap: bool
) -> Tensor:
    """Returns `sizes[i]` elements along `axes[i]` starting at `index[i]`, wrapping past the end.

    Args:
        t: The tensor.
        index: A start for each axis.
        axes: The axes.
        sizes: A size for each axis.
        no_overlap: Promises that slices at different indices do not overlap; a hint.

    Raises:
        ValueError: An axis lacks an index or a size, or a size is too large.
    """
    axes = _check_dynamic("DynamicSlice", t, index, axes, sizes)

    def body(op: OpBuild) -> Any:
        value = of(t).read()
        for axis, size, start in zip(axes, sizes, _starts(op, index, len(axes)), strict=True):
            value = op("dynamic_slice", value, start, axis=axis, size=size)
        return value

    return composed("DynamicSlice", [t, index], "dynamic_slice_out", body)


def _updated(op: OpBuild, x: Any, src: Any, parts: list) -> Any:
    (axis, size, start), *rest = parts
    if rest:
        inner = op("dynamic_slice", x, start, axis=axis, size=size)
        src = _updated(op, inner, src, rest)
    return op("dynamic_update", x, src, start, axis=axis)


def _update_body(t: Any, index: Any, t_update: Any, axes: Any, sizes: Any) -> Any:
    axes = _check_dynamic("DynamicUpdate", t, index, axes, sizes)
    check_same_dtype("DynamicUpdate", t, t_update)
    along = dict(zip(axes, sizes, strict=True))
    shape = tuple(along.get(axis, n) for axis, n in enumerate(t.shape))

    def updated(op: OpBuild) -> Any:
        if t_update.shape != shape:
            raise popart_exception(
                f"{op.record.op_type} writes {shape} into {t!r} but got {t_update!r}."
            )
        parts = list(zip(axes, sizes, _starts(op, index, len(axes)), strict=True))
        return _updated(op, of(t).read(), of(t_update).read(), parts)

    def body(op: OpBuild) -> Any:
        return or_refused(op, t, lambda: updated(op))

    return body


def dynamic_update(
    t: Tensor,
    index: Tensor,
    t_update: Tensor,
    axes: Sequence[int],
    sizes: Sequence[int],
    no_overlap: bool,
) -> Tensor:
    """Returns `t` with `t_update` in the place that `dynamic_slice` would read.

    A session raises popart_exception for an update of another size.
    """
    body = _update_body(t, index, t_update, axes, sizes)
    return composed("DynamicUpdate", [t, index, t_update], "dynamic_update_out", body)


def dynamic_update_(
    t: Tensor,
    index: Tensor,
    t_update: Tensor,
    axes: Sequence[int],
    sizes: Sequence[int],
    no_overlap: bool,
) -> Tensor:
    """`dynamic_update`, in place."""
    body = _update_body(t, index, t_update, axes, sizes)
    inputs = [t, index, t_update]
    return in_place("DynamicUpdateInplace", inputs, "dynamicupdateinplace_out", body)
