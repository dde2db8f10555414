"""Reductions over dimensions, searches and scans."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from popxl import dtypes
from popxl._impl.records import of
from popxl.ops.build import OpBuild, check_tensors, composed, normal_axis
from popxl.tensor import Tensor, constant

Axes = int | Iterable[int] | None


def _axes(t: Tensor, axis: Axes) -> list[int]:
    if axis is None:
        return list(range(t.rank))
    given = list(axis) if isinstance(axis, Iterable) else [axis]
    out = sorted(normal_axis(a, t.rank) for a in given)
    if len(set(out)) != len(out):
        raise ValueError(f"The axes {given} name a dimension twice.")
    return out


def _reduction(
    op_type: str,
    t: Tensor,
    axis: Axes,
    keepdims: bool,
    name: str,
    core: str,
    before: "Callable[[OpBuild, Any], Any]" = lambda op, v: v,
    after: "Callable[[OpBuild, Any], Any]" = lambda op, v: v,
) -> Tensor:
    axes = _axes(t, axis)

    def body(op: OpBuild) -> Any:
        value = before(op, of(t).read())
        return after(op, op(core, value, axes=axes, keepdims=keepdims))

    return composed(op_type, [t], name, body)


def _square(op: OpBuild, value: Any) -> Any:
    return op("mul", value, value)


def sum(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the sum over the axes, by default all.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
        keepdims: Whether the reduced axes remain, with size 1.
    """
    return _reduction("ReduceSum", t, axis, keepdims, "sum_out", "sum")


def mean(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the mean over the axes, by default all.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
        keepdims: Whether the reduced axes remain, with size 1.
    """
    return _reduction("ReduceMean", t, axis, keepdims, "mean_out", "mean")


def min(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the minimum over the axes, by default all.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
        keepdims: Whether the reduced axes remain, with size 1.
    """
    return _reduction("ReduceMin", t, axis, keepdims, "min_out", "min")


def max(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the maximum over the axes, by default all.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
        keepdims: Whether the reduced axes remain, with size 1.
    """
    return _reduction("ReduceMax", t, axis, keepdims, "max_out", "max")


def prod(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the product over the axes, by default all.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
        keepdims: Whether the reduced axes remain, with size 1.
    """
    return _reduction("ReduceProd", t, axis, keepdims, "prod_out", "prod")


def sumsquare(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the sum of squares over the axes, by default all.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
        keepdims: Whether the reduced axes remain, with size 1.
    """
    return _reduction("ReduceSumSquare", t, axis, keepdims, "sumsquare_out", "sum", _square)


def l1(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the sum of absolute values over the axes, by default all.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
        keepdims: Whether the reduced axes remain, with size 1.
    """
    return _reduction("ReduceL1", t, axis, keepdims, "l1_out", "sum", lambda op, v: op("abs", v))


def l2(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the root of the sum of squares over the axes, by default all.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
        keepdims: Whether the reduced axes remain, with size 1.
    """
    return _reduction(
        "ReduceL2", t, axis, keepdims, "l2_out", "sum", _square, lambda op, v: op("sqrt", v)
    )


def lamb_square(t: Tensor) -> Tensor:
    """Returns the sum of squares of all elements as float32, for `var_updates.adam_var_update`.

    Args:
        t: The tensor.
    """

    def before(op: OpBuild, value: Any) -> Any:
        return _square(op, op.cast(value, dtypes.float32))

    return _reduction("LambSquare", t, None, False, "lamb_square_out", "sum", before)


def logsum(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns the logarithm of the sum over the axes, by default all.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
        keepdims: Whether the reduced axes remain, with size 1.
    """
    return _reduction(
        "ReduceLogSum", t, axis, keepdims, "logsum_out", "sum", after=lambda op, v: op("log", v)
    )


def logsumexp(t: Tensor, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Returns log Σ exp(t) over the axes, by default all.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
        keepdims: Whether the reduced axes remain, with size 1.
    """
    return _reduction("ReduceLogSumExp", t, axis, keepdims, "logsumexp_out", "logsumexp")


def median(t: Tensor, axis: Axes = None, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """Returns the median over the axes, and its int32 index among their elements.

    Of two middle elements it is the smaller. With several axes, the index is row-major over them.

    Args:
        t: The tensor.
        axis: The axis; negative numbers count from the end.
        keepdims: Whether the reduced axes remain, with size 1.
    """
    axes = _axes(t, axis)
    op = OpBuild("ReduceMedian", t)
    kept = [i for i in range(t.rank) if i not in axes]
    count = 1
    for a in axes:
        count *= t.shape[a]
    lead = [t.shape[i] for i in kept]
    value = op("transpose", t, permutation=kept + axes) if t.rank else of(t).read()
    value = op("reshape", value, shape=[*lead, count])
    attrs = {"axis": len(lead), "descending": False, "stable": True}
    results = op.emit("sort", value, **attrs).results
    at = (count - 1) // 2
    shape = [1 if i in axes else n for i, n in enumerate(t.shape)] if keepdims else lead
    bounds = {
        "starts": [0] * len(lead) + [at],
        "stops": [*lead, at + 1],
        "steps": [1] * (len(lead) + 1),
    }
    names = ("median_out", "median_indices_out")
    outs = tuple(
        op.output(op("reshape", op("slice", r, **bounds), shape=shape), name)
        for r, name in zip(results, names, strict=True)
    )
    op.done()
    return outs  # type: ignore[return-value]


def _arg(op_type: str, core: str, t: Tensor, dim: int, keepdim: bool, name: str) -> Tensor:
    axis = normal_axis(dim, t.rank, "dim")
    return composed(op_type, [t], name, lambda op: op(core, t, axis=axis, keepdims=keepdim))


def argmin(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Returns the int32 index of the minimum along `dim`, the first of several.

    Args:
        t: The tensor.
        dim: The dimension.
        keepdim: Whether the dimension remains, with size 1.
    """
    return _arg("ArgMin", "argmin", t, dim, keepdim, "argmin_out")


def argmax(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """Returns the int32 index of the maximum along `dim`, the first of several.

    Args:
        t: The tensor.
        dim: The dimension.
        keepdim: Whether the dimension remains, with size 1.
    """
    return _arg("ArgMax", "argmax", t, dim, keepdim, "argmax_out")


def cumsum(t: Tensor, dim: int = 0) -> Tensor:
    """Returns the cumulative sums along `dim`, each including its element.

    Args:
        t: The tensor.
        dim: The dimension.
    """
    axis = normal_axis(dim, t.rank, "dim")
    check_tensors("CumSum", [t])
    shown = constant(dim, dtypes.int64, "dim", downcast=False)
    return composed("CumSum", [t, shown], "cumsum_out", lambda op: op("cumsum", t, axis=axis))


def topk(
    t: Tensor,
    k: int,
    axis: int,
    largest: bool,
    sorted: bool,
    available_memory_proportion: "float | None" = None,
) -> tuple[Tensor, Tensor]:
    """Returns the k largest (or smallest) elements along the axis, and their int32 indices.

    Args:
        t: The tensor.
        k: The number of elements.
        axis: The axis.
        largest: Whether to return the largest, instead of the smallest.
        sorted: Whether to return them in order.
        available_memory_proportion: A hint for hardware.

    Raises:
        ValueError: k is larger than the axis.
    """
    axis = normal_axis(axis, t.rank)
    if not 0 < k <= t.shape[axis]:
        raise ValueError(f"topk takes 1 to {t.shape[axis]} elements but k is {k}.")
    op = OpBuild("TopK", t)
    results = op.emit("topk", t, k=k, axis=axis, largest=largest, sorted=sorted).results
    outs = (
        op.output(results[0], "topk_out_value"),
        op.output(op.cast(results[1], dtypes.int32), "topk_out_indices"),
    )
    op.done()
    return outs


def histogram(t: Tensor, levels: Sequence[float], absolute_of_input: bool) -> Tensor:
    """Counts elements below levels[0], from each level up to the next, and from the last level up.

    Args:
        t: The tensor.
        levels: The limits, in rising order.
        absolute_of_input: Whether to count absolute values.

    Returns:
        uint32 of shape (len(levels) + 1,).

    Raises:
        ValueError: The levels do not rise.
    """
    levels = list(levels)
    if not levels or any(a >= b for a, b in zip(levels, levels[1:], strict=False)):
        raise ValueError(f"The levels must rise but are {levels}.")

    def body(op: OpBuild) -> Any:
        value = op("abs", t) if absolute_of_input else of(t).read()
        column = op("reshape", value, shape=[t.nelms, 1])
        reached = op("ge", column, op.array([levels], t.dtype))
        at_least = op("sum", op.cast(reached, dtypes.int32), axes=[0])
        everything = op.array([t.nelms], dtypes.int32)
        nothing = op.array([0], dtypes.int32)
        upper = op("concat", everything, at_least, axis=0)
        lower = op("concat", at_least, nothing, axis=0)
        return op.cast(op("sub", upper, lower), dtypes.uint32)

    return composed("Histogram", [t], "histogram_out", body)
