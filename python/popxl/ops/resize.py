"""Resizing of images: interpolate, and means of regions by roi_align."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from popxl import dtypes
from popxl._impl.records import of
from popxl.ops.build import OpBuild, check_same_dtype, composed
from popxl.tensor import Tensor


def _source_places(size: int, scale: float, transform: str) -> np.ndarray:
    """Returns the source position of each element of a resized dimension."""
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


# Each function maps the fraction of a position above the element below it to weights of the
# elements around it, by their offset from that element.
_WEIGHTS = {"linear": _linear, "cubic": _cubic}


def _resized(op: OpBuild, value: Any, axis: int, places: np.ndarray, mode: str, rule: Any) -> Any:
    size, rank = value.type[1][axis], len(value.type[1])

    def taken(where: np.ndarray) -> Any:
        clipped = np.clip(where, 0, size - 1)
        return op("index_select", value, op.array(clipped, dtypes.int32), axis=axis)

    if mode == "nearest":
        return taken(rule(places))
    below = np.floor(places)
    dtype = dtypes.of_core_name(value.type[0])
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
    """Resizes `t` by a factor for each dimension.

    Args:
        t: The tensor.
        scale_factor: A factor for each dimension.
        mode: "nearest", "linear" or "cubic"; the last two need floating point numbers.
        nearest_mode: As in ONNX's Resize.
        coordinate_transformation_mode: As in ONNX's Resize.

    Raises:
        TypeError: The mode needs floating point numbers.
        ValueError: A mode is unknown, or a factor is missing.
    """
    if len(scale_factor) != t.rank:
        raise ValueError(f"{t!r} needs {t.rank} scale factors but got {list(scale_factor)}.")
    if mode not in ("nearest", *_WEIGHTS):
        raise ValueError(f"mode must be nearest, linear or cubic but is {mode!r}.")
    if mode != "nearest" and not t.dtype.is_floating_point:
        raise TypeError(f"interpolate mode {mode} takes floating point numbers but got {t!r}.")
    if nearest_mode not in _NEAREST:
        raise ValueError(f"nearest_mode must be one of {list(_NEAREST)}: {nearest_mode!r}.")
    rule = _NEAREST[nearest_mode]
    places = {
        axis: _source_places(n, s, coordinate_transformation_mode)
        for axis, (n, s) in enumerate(zip(t.shape, scale_factor, strict=True))
        if s != 1.0
    }

    def body(op: OpBuild) -> Any:
        value = of(t).read()
        for axis, where in places.items():
            value = _resized(op, value, axis, where, mode, rule)
        return value if places else op("identity", value)

    return composed("Resize", [t], "interpolate_out", body)


def roi_align(
    t: Tensor,
    rois: Tensor,
    batch_index: Tensor,
    output_size: Sequence[int],
    spatial_scale: float,
    sampling_ratio: int,
) -> Tensor:
    """Returns the means of regions of images, on a grid of samples between the pixels.

    Samples more than a pixel outside the image count as 0.

    Args:
        t: [n, c, h, w], float.
        rois: [regions, 4]: x1, y1, x2, y2; multiplied by spatial_scale, they are in pixels.
        batch_index: [regions], int: the image of each region.
        output_size: (rows, columns) of bins per region.
        spatial_scale: See rois.
        sampling_ratio: Samples per bin and axis. 0 or less: ceil(size of the region / bins), for
            each region and axis.

    Returns:
        [regions, c, rows, columns].

    Raises:
        ValueError: Shapes do not fit.
    """
    check_same_dtype("RoiAlign", t, rois)
    if t.rank != 4 or rois.rank != 2 or rois.shape[1] != 4 or len(output_size) != 2:
        raise ValueError(f"roi_align takes images, [regions, 4] and two sizes: {t!r}, {rois!r}.")
    if batch_index.shape != rois.shape[:1] or not batch_index.dtype.is_int:
        raise ValueError(f"batch_index must be ints of shape {rois.shape[:1]}: {batch_index!r}.")
    rows, columns = output_size

    def body(op: OpBuild) -> Any:
        image = op.cast(batch_index, dtypes.int32)
        attrs = {"rows": int(rows), "columns": int(columns), "scale": float(spatial_scale)}
        return op("roi_align", t, rois, image, samples=max(int(sampling_ratio), 0), **attrs)

    return composed("RoiAlign", [t, rois, batch_index], "roi_align_out", body)
