"""Images in other sizes: interpolate, and the means of regions by roi_align."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from popxl import dtypes
from popxl.errors import unsupported
from popxl.ops.build import OpBuild, check_same_dtype, composed
from popxl.tensor import Constant, Tensor


def _source_places(size: int, scale: float, transform: str) -> np.ndarray:
    """Where, in the source, each element of a resized dimension comes from."""
    out = np.arange(int(np.floor(size * scale)), dtype=np.float64)
    if transform == "half_pixel":
        return (out + 0.5) / scale - 0.5
    if transform == "asymmetric":
        return out / scale
    if transform == "align_corners":
        return out * (size - 1) / max(len(out) - 1, 1)
    if transform == "pytorch_half_pixel":
        return (out + 0.5) / scale - 0.5 if len(out) > 1 else out * 0
    raise ValueError(f"There is no coordinate_transformation_mode {transform!r}.")


_NEAREST = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _linear(share: np.ndarray) -> dict[int, np.ndarray]:
    return {0: 1 - share, 1: share}


def _cubic(share: np.ndarray) -> dict[int, np.ndarray]:
    """Keys' kernel with a = -0.75, as in ONNX."""
    a = -0.75

    def near(x: np.ndarray) -> np.ndarray:  # up to a distance of one
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: np.ndarray) -> np.ndarray:  # from one to two
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return {-1: far(1 + share), 0: near(share), 1: near(1 - share), 2: far(2 - share)}


# How much of the elements around a place goes into it, by their distance from the one below, for
# how far above that one the place is.
_WEIGHTS = {"linear": _linear, "cubic": _cubic}


def _resized(op: OpBuild, value: Any, axis: int, places: np.ndarray, mode: str, rule: Any) -> Any:
    size, rank = value.type[1][axis], len(value.type[1])

    def taken(where: np.ndarray) -> Any:
        clipped = np.clip(where, 0, size - 1)
        return op("index_select", value, op.array(clipped, dtypes.int32), axis=axis)

    if mode == "nearest":
        return taken(rule(places))
    below = np.floor(places)
    dtype = dtypes._CORE_TO_POPXL[value.type[0]]
    parts = []
    for step, weight in _WEIGHTS[mode](places - below).items():
        share = op.array(weight.reshape([-1] + [1] * (rank - axis - 1)), dtype)
        parts.append(op("mul", taken(below + step), share))
    return reduce(lambda total, part: op("add", total, part), parts)


def interpolate(
    t: Tensor,
    scale_factor: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Tensor:
    """`t` resized by a factor for each dimension.

    mode: "nearest", "linear" or "cubic"; the last two need floating point numbers (TypeError).
    nearest_mode and coordinate_transformation_mode as in ONNX's Resize; ValueError for others.
    """
    if len(scale_factor) != t.rank:
        raise ValueError(f"{t!r} needs {t.rank} scale factors but got {list(scale_factor)}.")
    if mode not in ("nearest", *_WEIGHTS):
        raise ValueError(f"mode must be nearest, linear or cubic but is {mode!r}.")
    if mode != "nearest" and not t.dtype.is_floating_point:
        raise TypeError(f"interpolate takes {mode} means of floating point numbers, not of {t!r}.")
    if nearest_mode not in _NEAREST:
        raise ValueError(f"nearest_mode must be one of {list(_NEAREST)}: {nearest_mode!r}.")
    rule = _NEAREST[nearest_mode]
    places = {
        axis: _source_places(n, s, coordinate_transformation_mode)
        for axis, (n, s) in enumerate(zip(t.shape, scale_factor, strict=True))
        if s != 1.0
    }

    def body(op: OpBuild) -> Any:
        value = t._read()
        for axis, where in places.items():
            value = _resized(op, value, axis, where, mode, rule)
        return value if places else op("identity", value)

    return composed("Resize", [t], "interpolate_out", body)


def _corner(op: OpBuild, at: Any, size: int) -> tuple[Any, Any, Any]:
    """For places along an axis: the elements below and above, and how near the upper one is."""
    f32 = dtypes.float32
    inside = op("clamp", at, low=0.0, high=float(size - 1))
    below = op("clamp", op("floor", inside), low=0.0, high=float(max(size - 2, 0)))
    share = op("sub", inside, below)
    lower = op.cast(below, dtypes.int32)
    above = op("clamp", op("add", below, op.scalar(f32, 1)), low=0.0, high=float(size - 1))
    return lower, op.cast(above, dtypes.int32), share


_FAR = 1e30  # outside of every image, in sizes of a region


def _samples_per_bin(rois: Tensor, first: int, bins: int, ratio: int, scale: float) -> np.ndarray:
    """[regions]: samples of a bin along an axis; without a ratio about one a pixel."""
    if ratio >= 1:
        return np.full(rois.shape[0], ratio)
    if not isinstance(rois, Constant):
        raise unsupported("roi_align without a sampling_ratio, of regions that are no constant,")
    boxes = rois._data.astype(np.float32) * np.float32(scale)
    sizes = np.maximum(boxes[:, first + 2] - boxes[:, first], np.float32(1))
    return np.ceil(sizes / np.float32(bins)).astype(np.int64)


def _sample_places(
    op: OpBuild, rois: Any, first: int, bins: int, samples: np.ndarray, scale: float
) -> Any:
    """[regions, bins · most samples]: places along an axis, column `first` of the regions.

    A region with fewer samples than another has the rest of its places far outside.
    """
    f32, count, most = dtypes.float32, rois.type[1][0], int(samples.max(initial=1))

    def column(i: int) -> Any:
        part = op("slice", rois, starts=[0, i], stops=[count, i + 1], steps=[1, 1])
        return op("mul", part, op.scalar(f32, scale))

    start = column(first)
    size = op("maximum", op("sub", column(first + 2), start), op.scalar(f32, 1))
    each = samples[:, None, None]
    steps = (np.arange(bins)[:, None] + (np.arange(most) + 0.5) / each) / bins
    steps = np.where(np.arange(most) < each, steps, _FAR).reshape(count, bins * most)
    return op("add", start, op("mul", size, op.array(steps, f32)))


def roi_align(
    t: Tensor,
    rois: Tensor,
    batch_index: Tensor,
    output_size: Sequence[int],
    spatial_scale: float,
    sampling_ratio: int,
) -> Tensor:
    """The means of regions of images, on a grid of samples between the pixels.

    t: [n, c, h, w], float. rois: [regions, 4]: x1, y1, x2, y2, times spatial_scale in pixels.
    batch_index: [regions], int: the image of each. output_size: (rows, columns) of bins a region.
    sampling_ratio: samples a bin and axis. 0 and less: ceil(size of the region / bins), for
    constant regions (UnsupportedError for others, whose number of samples is not known before the
    run). Samples more than a pixel outside of the image count as 0.
    Returns [regions, c, rows, columns]. ValueError: shapes do not fit.
    """
    check_same_dtype("RoiAlign", t, rois)
    if t.rank != 4 or rois.rank != 2 or rois.shape[1] != 4 or len(output_size) != 2:
        raise ValueError(f"roi_align takes images, [regions, 4] and two sizes: {t!r}, {rois!r}.")
    if batch_index.shape != rois.shape[:1] or not batch_index.dtype.is_int:
        raise ValueError(f"batch_index must be ints of shape {rois.shape[:1]}: {batch_index!r}.")
    (n, c, h, w), regions = t.shape, rois.shape[0]
    rows, columns = output_size
    f32, i32 = dtypes.float32, dtypes.int32
    wide = _samples_per_bin(rois, 0, columns, sampling_ratio, spatial_scale)
    high = _samples_per_bin(rois, 1, rows, sampling_ratio, spatial_scale)
    most_wide, most_high = int(wide.max(initial=1)), int(high.max(initial=1))
    across, down = columns * most_wide, rows * most_high

    def body(op: OpBuild) -> Any:
        boxes = op.cast(rois, f32)
        x = _sample_places(op, boxes, 0, columns, wide, spatial_scale)
        y = _sample_places(op, boxes, 1, rows, high, spatial_scale)
        # Pixels as rows of a table [n · h · w, c], the image's first row as offset.
        table = op("transpose", t._read(), permutation=[0, 2, 3, 1])
        table = op("reshape", op.cast(table, f32), shape=[n * h * w, c])
        image = op("mul", op.cast(batch_index, i32), op.scalar(i32, h * w))
        image = op("reshape", image, shape=[regions, 1, 1])

        def by(value: Any, axis: int) -> Any:
            shape = [regions, down, 1] if axis == 1 else [regions, 1, across]
            return op("reshape", value, shape=shape)

        (y0, y1, dy), (x0, x1, dx) = _corner(op, y, h), _corner(op, x, w)
        one = op.scalar(f32, 1)
        parts = []
        for row, near_y in ((y0, op("sub", one, dy)), (y1, dy)):
            for column, near_x in ((x0, op("sub", one, dx)), (x1, dx)):
                place = op("add", op("mul", by(row, 1), op.scalar(i32, w)), by(column, 2))
                place = op("reshape", op("add", image, place), shape=[regions * down * across])
                pixels = op("index_select", table, place, axis=0)
                weight = op("mul", by(near_y, 1), by(near_x, 2))
                weight = op("reshape", weight, shape=[regions * down * across, 1])
                parts.append(op("mul", pixels, weight))
        total = op("add", op("add", parts[0], parts[1]), op("add", parts[2], parts[3]))
        inside = op("logical_and", by(_inside(op, y, h), 1), by(_inside(op, x, w), 2))
        inside = op("reshape", inside, shape=[regions * down * across, 1])
        total = op("select", inside, total, op.scalar(f32, 0))
        grid = [regions, rows, most_high, columns, most_wide, c]
        total = op("sum", op("reshape", total, shape=grid), axes=[2, 4])
        mean = op("div", total, op.array((wide * high).reshape(regions, 1, 1, 1), f32))
        return op.cast(op("transpose", mean, permutation=[0, 3, 1, 2]), t.dtype)

    return composed("RoiAlign", [t, rois, batch_index], "roi_align_out", body)


def _inside(op: OpBuild, at: Any, size: int) -> Any:
    low = op("ge", at, op.scalar(dtypes.float32, -1))
    return op("logical_and", low, op("le", at, op.scalar(dtypes.float32, size)))
