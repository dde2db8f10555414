"""Ops that move elements: shapes, views and parts."""

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from popxl._impl.records import of
from popxl.errors import popart_exception
from popxl.ops.build import OpBuild, composed, normal_axis, simple
from popxl.tensor import Tensor, TensorSpec


def _whole_numbers(op: str, what: str, t: Tensor, given: Any) -> tuple[int, ...]:
    """Returns the numbers. Raises TypeError unless they are ints in a sequence."""
    try:
        return tuple(operator.index(n) for n in given)
    except TypeError:
        raise TypeError(
            f"{op} takes {what} as a tuple of ints but got {given!r} for {t!r} of rank {t.rank}."
        ) from None


def _target_shape(t: Tensor, shape: Iterable[int]) -> list[int]:
    given = _whole_numbers("reshape", "a shape", t, shape)
    if any(n == 0 or n < -1 for n in given):
        raise ValueError(
            f"Invalid shape value in reshape: {given} for {t!r} of rank {t.rank}. Sizes are "
            "positive, or one is -1."
        )
    if given.count(-1) > 1:
        raise ValueError(
            f"Reshape shape can contain at most one '-1' value: {given} for {t!r} of rank {t.rank}."
        )
    out = list(given)
    known = math.prod(n for n in given if n != -1)
    if -1 in out and t.nelms % known == 0:
        out[out.index(-1)] = t.nelms // known
    elif known != t.nelms or -1 in out:
        raise ValueError(
            f"{t!r} of rank {t.rank} has {t.nelms} elements and cannot take shape {given}."
        )
    return out


def reshape(t: Tensor, shape: Iterable[int]) -> Tensor:
    """Returns the elements in another shape; one size may be -1. Raises ValueError if unfit.

    Args:
        t: The tensor.
        shape: The new shape.
    """
    return simple("Reshape", "reshape", [t], f"{t.name}_reshaped", shape=_target_shape(t, shape))


def _view(op_type: str, t: Tensor, name: str, shape: Any, to_view: Any, from_view: Any) -> Tensor:
    op = OpBuild(op_type, t)
    spec = TensorSpec(tuple(shape), t.dtype)
    out = op.alias(t, name, spec, lambda v: to_view(op, v), lambda b, v: from_view(op, b, v))
    op.done()
    return out


def reshape_(t: Tensor, shape: Iterable[int]) -> Tensor:
    """`reshape`, sharing the memory of `t`.

    Args:
        t: The tensor.
        shape: The new shape.
    """
    target = _target_shape(t, shape)
    return _view(
        "ReshapeInplace",
        t,
        f"{t.name}_reshaped",
        target,
        lambda op, v: op("reshape", v, shape=target),
        lambda op, _, v: op("reshape", v, shape=list(t.shape)),
    )


def flatten(t: Tensor) -> Tensor:
    """Returns all elements in one dimension.

    Args:
        t: The tensor.
    """
    return reshape(t, (-1,))


def flatten_(t: Tensor) -> Tensor:
    """`flatten`, sharing the memory of `t`.

    Args:
        t: The tensor.
    """
    return reshape_(t, (-1,))


def squeeze(t: Tensor, axes: "Iterable[int] | None" = None) -> Tensor:
    """Removes dimensions of size 1, by default all. Raises ValueError for another size.

    Args:
        t: The tensor.
        axes: The axes; None selects all of size 1.
    """
    if axes is None:
        dropped = {i for i, n in enumerate(t.shape) if n == 1}
    else:
        dropped = {normal_axis(a, t.rank) for a in axes}
    for axis in dropped:
        if t.shape[axis] != 1:
            raise ValueError(f"Dimension {axis} of {t!r} cannot be squeezed: its size is not 1.")
    return reshape(t, [n for i, n in enumerate(t.shape) if i not in dropped])


def _permutation(t: Tensor, permutation: "Iterable[int] | None") -> list[int]:
    if permutation is None:
        return list(reversed(range(t.rank)))
    given = _whole_numbers("transpose", "a permutation", t, permutation)
    if any(not -t.rank <= a < t.rank for a in given):
        raise ValueError(
            f"Values in permutation must be less than {t.rank}, the rank of {t!r}, but are {given}."
        )
    out = [a % t.rank for a in given]
    if sorted(out) != list(range(t.rank)):
        raise ValueError(
            f"{given} is not a permutation of {tuple(range(t.rank))}, the dimensions of {t!r} of "
            f"rank {t.rank}."
        )
    return out


def transpose(t: Tensor, permutation: "Iterable[int] | None" = None) -> Tensor:
    """Makes dimension `permutation[i]` the result's i-th; by default reverses the order.

    Args:
        t: The tensor.
        permutation: The dimension of `t` at each position of the result.
    """
    order = _permutation(t, permutation)
    return simple("Transpose", "transpose", [t], f"{t.name}_T", permutation=order)


def transpose_(t: Tensor, permutation: "Iterable[int] | None" = None) -> Tensor:
    """`transpose`, sharing the memory of `t`.

    Args:
        t: The tensor.
        permutation: The dimension of `t` at each position of the result.
    """
    order = _permutation(t, permutation)
    back = [order.index(i) for i in range(t.rank)]
    return _view(
        "TransposeInplace",
        t,
        f"{t.name}_T",
        [t.shape[i] for i in order],
        lambda op, v: op("transpose", v, permutation=order),
        lambda op, _, v: op("transpose", v, permutation=back),
    )


def _check_one_dtype(ts: Sequence[Tensor]) -> None:
    if len({t.dtype for t in ts if isinstance(t, Tensor)}) > 1:
        raise TypeError(f"All inputs to a concat operation must have the same type: {list(ts)}.")


def concat(ts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Concatenates the tensors along `axis`.

    Args:
        ts: The tensors, all of one dtype.
        axis: The axis; negative numbers count from the end.

    Raises:
        ValueError: There is no tensor, or their shapes or dtypes do not fit.
    """
    ts = list(ts)
    if not ts:
        raise ValueError("concat takes at least one tensor.")
    _check_one_dtype(ts)
    return simple("Concat", "concat", ts, "concat_out", axis=normal_axis(axis, ts[0].rank))


def concat_(ts: Sequence[Tensor], axis: int = 0) -> Tensor:
    """`concat`, sharing the memory of all the tensors.

    Args:
        ts: The tensors, all of one dtype.
        axis: The axis; negative numbers count from the end.

    Raises:
        ValueError: There is no tensor, or their shapes or dtypes do not fit.
    """
    ts = list(ts)
    if not ts:
        raise ValueError("concat_ takes at least one tensor.")
    _check_one_dtype(ts)
    axis = normal_axis(axis, ts[0].rank)
    op = OpBuild("ConcatInplace", *ts)
    shape = list(ts[0].shape)
    shape[axis] = sum(t.shape[axis] for t in ts)
    ends = [sum(t.shape[axis] for t in ts[: i + 1]) for i in range(len(ts))]

    def joined(_: Any) -> Any:
        return op("concat", *ts, axis=axis)

    def back(_: Any, value: Any) -> Any:
        parts = [
            _sliced(op, value, {axis: (end - t.shape[axis], end, 1)})
            for t, end in zip(ts, ends, strict=True)
        ]
        for t, part in zip(ts[1:], parts[1:], strict=True):
            of(t).write(part)
        return parts[0]

    out = op.alias(ts[0], "concat_out", TensorSpec(tuple(shape), ts[0].dtype), joined, back)
    of(out).parts = tuple(ts[1:])
    op.done()
    return out


def split(t: Tensor, splits: "int | Sequence[int]", axis: int = 0) -> list[Tensor]:
    """Splits `t` into parts along `axis`.

    Args:
        t: The tensor.
        splits: The sizes of the parts, or the number of equal parts.
        axis: The axis.

    Raises:
        popart_exception: The sizes do not add up to the axis.
        ValueError: The parts cannot be equal.
    """
    axis = normal_axis(axis, t.rank)
    size = t.shape[axis]
    if isinstance(splits, int):
        if splits < 1 or size % splits:
            raise ValueError(f"Size {size} cannot be split into {splits} equal parts.")
        sizes = [size // splits] * splits
    else:
        sizes = list(splits)
    if sum(sizes) != size:
        raise popart_exception(f"The parts {sizes} do not add up to {size}.")
    op = OpBuild("Split", t)
    outs, at = [], 0
    for i, part in enumerate(sizes):
        value = _sliced(op, t, {axis: (at, at + part, 1)})
        outs.append(op.output(value, f"{t.name}_split_{i}"))
        at += part
    op.done()
    return outs


def _bounds(shape: Sequence[int], parts: "dict[int, tuple[int, int, int]]") -> dict[str, list[int]]:
    rows = [parts.get(i, (0, n, 1)) for i, n in enumerate(shape)]
    return {
        "starts": [r[0] for r in rows],
        "stops": [r[1] for r in rows],
        "steps": [r[2] for r in rows],
    }


def _sliced(op: OpBuild, t: Any, parts: "dict[int, tuple[int, int, int]]") -> Any:
    shape = t.shape if isinstance(t, Tensor) else t.type[1]
    return op("slice", t, **_bounds(shape, parts))


def _listed(value: Any, count: int, default: Any) -> list:
    if value is None:
        return [default] * count
    return list(value) if isinstance(value, Iterable) else [value]


def _slice_parts(t: Tensor, start: Any, stop: Any, step: Any, axis: Any) -> Any:
    """Returns the slice bounds by axis, and the reversed axes; steps are 1 or -1."""
    count = max(
        len(list(v)) if isinstance(v, Iterable) else 1 if v is not None else 0
        for v in (start, stop, step, axis)
    )
    axes = list(range(count)) if axis is None else _listed(axis, count, 0)
    starts, stops = _listed(start, count, None), _listed(stop, count, None)
    steps = _listed(step, count, 1)
    if not len(axes) == len(starts) == len(stops) == len(steps):
        raise ValueError("start, stop, step and axis must have equal lengths.")
    parts, reversed_axes = {}, []
    for a, b, s, k in zip(starts, stops, steps, axes, strict=True):
        k = normal_axis(k, t.rank)
        if s not in (1, -1):
            raise ValueError(f"Steps are 1 or -1 but got {s}: use ops.subsample.")
        first, last, _ = _builtin_slice(a, b, s).indices(t.shape[k])
        if s == -1:
            reversed_axes.append(k)
            first, last = last + 1, first + 1
        parts[k] = (first, max(first, last), 1)
    return parts, sorted(reversed_axes)


def slice_values(op: OpBuild, t: Any, parts: Any, reversed_axes: list[int]) -> Any:
    """Returns the part of a value that `slice` takes."""
    value = _sliced(op, t, parts)
    return op("reverse", value, axes=reversed_axes) if reversed_axes else value


_builtin_slice = slice


def slice(
    t: Tensor,
    start: "int | Sequence[int] | None" = None,
    stop: "int | Sequence[int] | None" = None,
    step: "int | Sequence[int] | None" = None,
    axis: "int | Sequence[int] | None" = None,
) -> Tensor:
    """Returns `t[start:stop:step]` along each axis (by default the first ones).

    Steps are 1 or -1. Without start, stop and step, the result is `t` itself.

    Args:
        t: The tensor.
        start: The first index along each axis.
        stop: The end along each axis, exclusive.
        step: The step along each axis: 1 or -1.
        axis: The axes; by default the first ones.
    """
    if start is None and stop is None and step is None:
        return t
    parts, reversed_axes = _slice_parts(t, start, stop, step, axis)
    return composed("Slice", [t], "slice_out", lambda op: slice_values(op, t, parts, reversed_axes))


def subsample(t: Tensor, strides: "int | Sequence[int]") -> Tensor:
    """Returns every strides[i]-th element along dimension i, starting with the first.

    Args:
        t: The tensor.
        strides: Strides of the first dimensions, 1 for the others. A number is the stride of the
            first dimension.

    Raises:
        ValueError: There are more strides than dimensions, or one is below 1.
    """
    given = [strides] if isinstance(strides, int) else list(strides)
    if len(given) > t.rank or any(s < 1 for s in given):
        raise ValueError(f"subsample needs up to {t.rank} positive strides but got {given}.")
    strides = given + [1] * (t.rank - len(given))
    parts = {i: (0, n, s) for i, (n, s) in enumerate(zip(t.shape, strides, strict=True))}
    return composed("Subsample", [t], "subsample_out", lambda op: _sliced(op, t, parts))


def slice_(
    t: Tensor,
    start: "int | Sequence[int] | None" = None,
    stop: "int | Sequence[int] | None" = None,
    step: "int | Sequence[int] | None" = None,
    axis: "int | Sequence[int] | None" = None,
) -> Tensor:
    """`slice`, sharing the memory of `t`.

    Args:
        t: The tensor.
        start: The first index along each axis.
        stop: The end along each axis, exclusive.
        step: The step along each axis: 1 or -1.
        axis: The axes; by default the first ones.
    """
    if start is None and stop is None and step is None:
        return t
    parts, reversed_axes = _slice_parts(t, start, stop, step, axis)
    shape = [parts[i][1] - parts[i][0] if i in parts else n for i, n in enumerate(t.shape)]

    def back(op: OpBuild, base: Any, value: Any) -> Any:
        if reversed_axes:
            value = op("reverse", value, axes=reversed_axes)
        return op("insert_slice", base, value, **_bounds(t.shape, parts))

    return _view(
        "SliceInplace",
        t,
        "slice_out",
        shape,
        lambda op, v: slice_values(op, v, parts, reversed_axes),
        back,
    )
