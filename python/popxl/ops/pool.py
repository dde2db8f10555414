"""Pooling of images [n, c, spatial...]. Padding does not enter a mean or a maximum."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from popxl._impl.records import of
from popxl.ops.build import OpBuild, composed
from popxl.ops.conv import padded, pads
from popxl.tensor import Tensor


@dataclass
class _Pool:
    """The windows of a pool, with a number for each spatial axis."""

    sizes: list[int]  # the image's sizes, with its elements `apart` from each other
    kernel: list[int]
    strides: list[int]
    dilation: list[int]
    low: list[int]
    high: list[int]
    apart: list[int]
    out_pads: list[int]
    ceil_mode: bool

    def is_plain(self) -> bool:
        """Returns whether the core's pool can do this pool's padding."""
        half = all(2 * low <= k for low, k in zip(self.low, self.kernel, strict=True))
        return half and self.low == self.high and set(self.apart) == {1}

    def windows(self) -> list[int]:
        """Returns the number of windows. With ceil_mode the last may end outside the image."""
        counts = []
        for n, k, s, d, low, high in zip(
            self.sizes, self.kernel, self.strides, self.dilation, self.low, self.high, strict=True
        ):
            room = n + low + high - (k - 1) * d - 1
            count = (room + (s - 1 if self.ceil_mode else 0)) // s + 1
            counts.append(count - (self.ceil_mode and (count - 1) * s >= n + low))
        return counts

    def ends(self) -> list[int]:
        """Returns the elements to add after each axis so that exactly the windows fit."""
        spans = zip(self.windows(), self.strides, self.kernel, self.dilation, strict=True)
        ends = [(count - 1) * s + (k - 1) * d + 1 for count, s, k, d in spans]
        rooms = zip(ends, self.sizes, self.low, strict=True)
        return [max(0, end - n - low) for end, n, low in rooms]

    def met(self) -> np.ndarray:
        """Returns the number of the image's elements in each window."""
        counts = np.ones(1)
        for axis, count in enumerate(self.windows()):
            steps = np.arange(self.kernel[axis]) * self.dilation[axis] - self.low[axis]
            places = np.arange(count)[:, None] * self.strides[axis] + steps
            inside = (places >= 0) & (places < self.sizes[axis]) & (places % self.apart[axis] == 0)
            counts = counts[..., None] * inside.sum(1)
        return counts

    def image(self, op: OpBuild, t: Tensor, fill: float) -> Any:
        """Returns the image with `fill` between and around its elements, for the windows."""
        value = of(t).read()
        for axis, d in enumerate(self.apart, 2):
            if d > 1:
                value = _spread(op, value, axis, d, fill)
        return padded(op, value, self.low, self.ends(), fill)

    def around(self, op: OpBuild, result: Any) -> Any:
        """Returns the result with zeros around it."""
        rank = len(self.kernel)
        low, high = [0, 0, *self.out_pads[:rank]], [0, 0, *self.out_pads[rank:]]
        return op("pad", result, low=low, high=high, value=0.0) if any(self.out_pads) else result


def _spread(op: OpBuild, value: Any, axis: int, d: int, fill: float) -> Any:
    """Returns the elements `d` apart along an axis, with `fill` between them."""
    before, n, behind = value.type[1][:axis], value.type[1][axis], value.type[1][axis + 1 :]
    column = op("reshape", value, shape=[*before, n, 1, *behind])
    zeros = [0] * len(column.type[1])
    high = [d - 1 if i == axis + 1 else 0 for i in range(len(zeros))]
    filled = op("pad", column, low=zeros, high=high, value=fill)
    flat = op("reshape", filled, shape=[*before, n * d, *behind])
    stops = [*before, (n - 1) * d + 1, *behind]
    return op("slice", flat, starts=zeros[1:], stops=stops, steps=[1] * len(stops))


def _pool(
    name: str,
    t: Tensor,
    kernel: Sequence[int],
    stride: Any,
    padding: Any,
    out_pads: Any,
    dilation: Any,
    in_dilations: Any,
    auto_pad: str,
    ceil_mode: bool,
) -> _Pool:
    """Returns the pool for the arguments. Raises ValueError if they do not fit the image."""
    rank = len(kernel)
    if t.rank != rank + 2:
        raise ValueError(f"A kernel of {rank} dimensions does not fit {t!r}.")
    apart = list(in_dilations or [1] * rank)
    if len(apart) != rank or min(apart) < 1:
        raise ValueError(f"{name} takes {rank} in_dilations of at least 1 but got {apart}.")
    around = list(out_pads or [0] * 2 * rank)
    if len(around) != 2 * rank or min(around) < 0:
        raise ValueError(f"{name} takes {2 * rank} out_pads, none negative, but got {around}.")
    sizes = [(n - 1) * d + 1 for n, d in zip(t.shape[2:], apart, strict=True)]
    stride, dilation = list(stride or [1] * rank), list(dilation or [1] * rank)
    low, high = pads(auto_pad, list(padding or [0] * 2 * rank), sizes, kernel, stride, dilation)
    return _Pool(sizes, list(kernel), stride, dilation, low, high, apart, around, ceil_mode)


def average_pool(
    t: Tensor,
    kernel_size: Sequence[int],
    stride: "Sequence[int] | None" = None,
    padding: "Sequence[int] | None" = None,
    out_pads: "Sequence[int] | None" = None,
    dilation: "Sequence[int] | None" = None,
    in_dilations: "Sequence[int] | None" = None,
    auto_pad: str = "not_set",
    ceil_mode: bool = False,
) -> Tensor:
    """Returns the mean of each window of t [n, c, ...], without padding.

    The mean of a window of padding only is 0.

    Args:
        t: The images.
        kernel_size: The window's size.
        stride: The step of the window; by default 1.
        padding: Elements added before all, then after all spatial axes.
        out_pads: Zeros added to the result before all, then after all spatial axes.
        dilation: The distance of the window's elements.
        in_dilations: The distance of the elements of `t`, with padding between them.
        auto_pad: Determines the padding, like pad_type of `conv`.
        ceil_mode: Whether the last window may end outside the image.

    Raises:
        ValueError: The numbers do not fit the image.
    """
    form = (stride, padding, out_pads, dilation, in_dilations, auto_pad, ceil_mode)
    pool = _pool("average_pool", t, kernel_size, *form)
    attrs: dict[str, Any] = {"kernel": pool.kernel, "strides": pool.strides, "padding": pool.low}
    attrs |= {"ceil_mode": ceil_mode, "count_include_pad": False}

    def body(op: OpBuild) -> Any:
        if pool.is_plain() and set(pool.dilation) == {1}:
            return pool.around(op, op("avg_pool", t, **attrs))
        return pool.around(op, _sums_over_counts(op, t, pool))

    return composed("AveragePool", [t], "averagepool_out", body)


def _sums_over_counts(op: OpBuild, t: Tensor, pool: _Pool) -> Any:
    """Returns means of any windows: a convolution with ones, divided by the element counts."""
    channels = t.shape[1]
    sums = op(
        "conv",
        pool.image(op, t, 0.0),
        op.array(np.ones((channels, 1, *pool.kernel)), t.dtype),
        strides=pool.strides,
        padding=[0] * len(pool.kernel),
        dilation=pool.dilation,
        groups=channels,
    )
    return op("div", sums, op.array(np.maximum(pool.met(), 1), t.dtype))


def max_pool(
    t: Tensor,
    kernel_size: Sequence[int],
    stride: "Sequence[int] | None" = None,
    padding: "Sequence[int] | None" = None,
    out_pads: "Sequence[int] | None" = None,
    dilation: "Sequence[int] | None" = None,
    in_dilations: "Sequence[int] | None" = None,
    auto_pad: str = "not_set",
    ceil_mode: bool = False,
    storage_order: str = "row",
) -> Tensor:
    """Returns the maximum of each window of t [n, c, ...]; minus infinity for padding only.

    The other arguments are those of `average_pool`.

    Args:
        t: The images.
        kernel_size: The window's size.
        storage_order: "row" or "column", ONNX's order for indices of the maxima. It has no effect,
            because this op does not return indices.
        stride: As for `average_pool`.
        padding: As for `average_pool`.
        out_pads: As for `average_pool`.
        dilation: As for `average_pool`.
        in_dilations: As for `average_pool`.
        auto_pad: As for `average_pool`.
        ceil_mode: As for `average_pool`.

    Raises:
        ValueError: The numbers do not fit the image.
    """
    form = (stride, padding, out_pads, dilation, in_dilations, auto_pad, ceil_mode)
    pool = _pool("max_pool", t, kernel_size, *form)
    if storage_order not in ("row", "column"):
        raise ValueError(f"storage_order must be 'row' or 'column' but is {storage_order!r}.")
    attrs: dict[str, Any] = {"kernel": pool.kernel, "strides": pool.strides}
    attrs["dilation"] = pool.dilation

    def body(op: OpBuild) -> Any:
        if pool.is_plain():
            attrs.update(padding=pool.low, ceil_mode=ceil_mode)
            greatest = op("max_pool", t, **attrs)
        else:
            attrs.update(padding=[0] * len(pool.kernel), ceil_mode=False)
            greatest = op("max_pool", pool.image(op, t, float("-inf")), **attrs)
        return pool.around(op, greatest)

    return composed("MaxPool", [t], "maxpool_out", body)
