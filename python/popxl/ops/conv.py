"""Convolution, pooling, resizing of images [n, c, spatial...]."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from popxl.errors import unsupported
from popxl.ops.build import OpBuild, check_same_dtype, composed
from popxl.tensor import Tensor

PAD_TYPES = ("not_set", "same_upper", "same_lower", "valid")


def _pads(
    pad_type: str, padding: Sequence[int], sizes: Any, kernel: Any, stride: Any, dilation: Any
) -> tuple[list[int], list[int]]:
    """Elements to add before and behind each spatial dimension. ValueError for a wrong count."""
    rank = len(kernel)
    if pad_type not in PAD_TYPES:
        raise ValueError(f"pad_type must be one of {PAD_TYPES} but is {pad_type!r}.")
    if pad_type == "valid":
        return [0] * rank, [0] * rank
    if pad_type == "not_set":
        if len(padding) != 2 * rank:
            raise ValueError(f"padding takes {2 * rank} numbers, low then high: {padding}.")
        return list(padding[:rank]), list(padding[rank:])
    low, high = [], []
    for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
        total = max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        less, more = total // 2, total - total // 2
        low.append(less if pad_type == "same_upper" else more)
        high.append(more if pad_type == "same_upper" else less)
    return low, high


def _padded(op: OpBuild, value: Any, low: list[int], high: list[int], fill: float) -> Any:
    if low == high:
        return value
    return op("pad", value, low=[0, 0, *low], high=[0, 0, *high], value=fill)


def conv(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    available_memory_proportions: "Sequence[float] | None" = None,
    partials_types: "Sequence[Any] | None" = None,
    enable_conv_dithering: "Sequence[int] | None" = None,
) -> Tensor:
    """The convolution of t [n, c, ...] with weight [out, c / groups, ...].

    padding: elements added before, then behind, each spatial dimension; pad_type "same_upper",
    "same_lower" and "valid" choose them. The last three arguments are hints for hardware.
    ValueError: shapes, dtypes or numbers do not fit.
    """
    check_same_dtype("Conv", t, weight)
    kernel = weight.shape[2:]
    if t.rank != weight.rank or t.shape[1] != weight.shape[1] * groups:
        raise ValueError(f"conv cannot apply {weight!r} in {groups} groups to {t!r}.")
    low, high = _pads(pad_type, padding, t.shape[2:], kernel, stride, dilation)

    def body(op: OpBuild) -> Any:
        x = _padded(op, t._read(), low, high, 0.0)
        return op(
            "conv",
            x,
            weight,
            strides=list(stride),
            padding=low if low == high else [0] * len(kernel),
            dilation=list(dilation),
            groups=groups,
        )

    return composed("Conv", [t, weight], "conv_out", body)


def conv_transpose(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    pad_type: str = "not_set",
    output_padding: Sequence[int] = (),
    output_shape: Sequence[int] = (),
    available_memory_proportions: "Sequence[float] | None" = None,
    partials_types: "Sequence[Any] | None" = None,
    enable_conv_dithering: "Sequence[int] | None" = None,
) -> Tensor:
    """The transposed convolution of t [n, c, ...] with weight [c, out / groups, ...].

    padding: elements taken away before, then behind, each spatial dimension. UnsupportedError:
    output_shape, and a pad_type other than "not_set". ValueError: shapes do not fit.
    """
    if output_shape or pad_type != "not_set":
        raise unsupported("conv_transpose with output_shape or pad_type")
    check_same_dtype("ConvTranspose", t, weight)
    rank = weight.rank - 2
    if t.rank != weight.rank or t.shape[1] != weight.shape[0]:
        raise ValueError(f"conv_transpose cannot apply {weight!r} to {t!r}.")
    low, high = _pads(pad_type, padding, t.shape[2:], weight.shape[2:], stride, dilation)
    extra = list(output_padding) or [0] * rank

    def body(op: OpBuild) -> Any:
        out = op(
            "conv_transpose",
            t,
            weight,
            strides=list(stride),
            padding=low if low == high else [0] * rank,
            output_padding=extra,
            dilation=list(dilation),
            groups=groups,
        )
        if low == high:
            return out
        shape = out.type[1]
        stops = [n - h for n, h in zip(shape[2:], high, strict=True)]
        return op(
            "slice", out, starts=[0, 0, *low], stops=[*shape[:2], *stops], steps=[1] * len(shape)
        )

    return composed("ConvTranspose", [t, weight], "convtranspose_out", body)


def _pool_geometry(
    t: Tensor, kernel: Sequence[int], stride: Any, padding: Any, dilation: Any, auto_pad: str
) -> dict[str, Any]:
    rank = len(kernel)
    if t.rank != rank + 2:
        raise ValueError(f"A kernel of {rank} dimensions does not fit {t!r}.")
    stride = list(stride or [1] * rank)
    dilation = list(dilation or [1] * rank)
    pads = list(padding or [0] * 2 * rank)
    low, high = _pads(auto_pad, pads, t.shape[2:], kernel, stride, dilation)
    return {
        "kernel": list(kernel),
        "strides": stride,
        "dilation": dilation,
        "low": low,
        "high": high,
    }


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
    """The mean of each window, of those elements that are no padding. stride is 1 by default.

    UnsupportedError: out_pads, dilations, and padding that differs between the sides.
    """
    g = _pool_geometry(t, kernel_size, stride, padding, dilation, auto_pad)
    if any(out_pads or ()) or set(g["dilation"]) - {1} or set(in_dilations or (1,)) - {1}:
        raise unsupported("average_pool with out_pads or dilations")
    if g["low"] != g["high"]:
        raise unsupported("average_pool with padding that differs between the sides")
    attrs = {"kernel": g["kernel"], "strides": g["strides"], "padding": g["low"]}
    attrs |= {"ceil_mode": ceil_mode, "count_include_pad": False}
    return composed("AveragePool", [t], "averagepool_out", lambda op: op("avg_pool", t, **attrs))


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
    """The greatest of each window. stride is 1 by default.

    UnsupportedError: out_pads, in_dilations, storage_order other than "row".
    """
    g = _pool_geometry(t, kernel_size, stride, padding, dilation, auto_pad)
    if any(out_pads or ()) or set(in_dilations or (1,)) - {1} or storage_order != "row":
        raise unsupported("max_pool with out_pads, in_dilations or another storage_order")
    low, high = g["low"], g["high"]
    attrs = {k: g[k] for k in ("kernel", "strides", "dilation")} | {"ceil_mode": ceil_mode}
    attrs["padding"] = low if low == high else [0] * len(low)

    def body(op: OpBuild) -> Any:
        return op("max_pool", _padded(op, t._read(), low, high, float("-inf")), **attrs)

    return composed("MaxPool", [t], "maxpool_out", body)


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


def _resized(op: OpBuild, value: Any, axis: int, places: np.ndarray, nearest: Any) -> Any:
    from popxl import dtypes

    size, rank = value.type[1][axis], len(value.type[1])

    def taken(where: np.ndarray) -> Any:
        clipped = np.clip(where, 0, size - 1)
        return op("index_select", value, op.array(clipped, dtypes.int32), axis=axis)

    if nearest is not None:
        return taken(nearest(places))
    below = np.floor(places)
    dtype = dtypes._CORE_TO_POPXL[value.type[0]]
    share = (places - below).reshape([-1] + [1] * (rank - axis - 1))
    upper = op("mul", taken(below + 1), op.array(share, dtype))
    return op("add", op("mul", taken(below), op.array(1 - share, dtype)), upper)


def interpolate(
    t: Tensor,
    scale_factor: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Tensor:
    """`t` resized by a factor for each dimension.

    mode: "nearest" or "linear"; "cubic" raises UnsupportedError. nearest_mode and
    coordinate_transformation_mode as in ONNX's Resize; ValueError for others.
    """
    if len(scale_factor) != t.rank:
        raise ValueError(f"{t!r} needs {t.rank} scale factors but got {list(scale_factor)}.")
    if mode == "cubic":
        raise unsupported("interpolate(mode='cubic')")
    if mode not in ("nearest", "linear"):
        raise ValueError(f"mode must be nearest, linear or cubic but is {mode!r}.")
    if nearest_mode not in _NEAREST:
        raise ValueError(f"nearest_mode must be one of {list(_NEAREST)}: {nearest_mode!r}.")
    rule = _NEAREST[nearest_mode] if mode == "nearest" else None
    places = {
        axis: _source_places(n, s, coordinate_transformation_mode)
        for axis, (n, s) in enumerate(zip(t.shape, scale_factor, strict=True))
        if s != 1.0
    }

    def body(op: OpBuild) -> Any:
        value = t._read()
        for axis, where in places.items():
            value = _resized(op, value, axis, where, rule)
        return value if places else op("identity", value)

    return composed("Resize", [t], "interpolate_out", body)
