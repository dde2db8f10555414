"""Convolution of images [n, c, spatial...], and padding, which pools also use."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from popxl._impl.records import of
from popxl.ops.build import OpBuild, check_same_dtype, composed
from popxl.ops.linear import memory_plan
from popxl.tensor import Tensor

PadType: TypeAlias = Literal["not_set", "same_upper", "same_lower", "valid"]
PAD_TYPES = ("not_set", "same_upper", "same_lower", "valid")


def pads(
    pad_type: str, padding: Sequence[int], sizes: Any, kernel: Any, stride: Any, dilation: Any
) -> tuple[list[int], list[int]]:
    """Returns the padding before and after each spatial dimension. Raises ValueError if unfit."""
    rank = len(kernel)
    if len(stride) != rank or len(dilation) != rank:
        raise ValueError(f"{rank} strides and dilations are needed: {stride}, {dilation}.")
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


def padded(op: OpBuild, value: Any, low: list[int], high: list[int], fill: float) -> Any:
    """Returns the value with elements `fill` before and after each spatial dimension."""
    if not any(low) and not any(high):
        return value
    return op("pad", value, low=[0, 0, *low], high=[0, 0, *high], value=fill)


def _plan(shares: "Sequence[float] | None", partials: "Sequence[Any] | None") -> dict[str, Any]:
    """Returns the attributes for the hints of one convolution: the first of each list."""
    return memory_plan(shares[0] if shares else None, partials[0] if partials else None)


def conv_body(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    pad_type: str,
    plan: "dict[str, Any] | None" = None,
) -> Callable[[OpBuild, Any, Any], Any]:
    """Returns a function that convolves values like `t` with values like `weight`.

    Raises:
        ValueError: They do not fit.
    """
    kernel = weight.shape[2:]
    channels_fit = t.rank == weight.rank and t.shape[1] == weight.shape[1] * groups
    if not channels_fit or weight.shape[0] % groups:
        raise ValueError(f"conv cannot apply {weight!r} in {groups} groups to {t!r}.")
    low, high = pads(pad_type, padding, t.shape[2:], kernel, stride, dilation)

    def body(op: OpBuild, x: Any, w: Any) -> Any:
        return op(
            "conv",
            x if low == high else padded(op, x, low, high, 0.0),
            w,
            strides=list(stride),
            padding=low if low == high else [0] * len(kernel),
            dilation=list(dilation),
            groups=groups,
            **(plan or {}),
        )

    return body


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
    """Convolves t [n, c, ...] with weight [out, c / groups, ...].

    Args:
        t: The images.
        weight: The kernels.
        stride: The step of the window for each spatial dimension.
        padding: Elements added before all, then after all spatial dimensions.
        dilation: The distance of the kernel's elements.
        groups: The number of groups of channels.
        pad_type: "same_upper", "same_lower" and "valid" determine the padding.
        available_memory_proportions: The share of a tile's memory for temporary data, 0 to 1, in a
            list. It changes modelled cycles and memory.
        partials_types: The type of partial sums in float16, in a list: "half", which rounds them,
            or "float", the default.
        enable_conv_dithering: A hint for hardware.

    Raises:
        ValueError: Shapes, dtypes or numbers do not fit.
    """
    check_same_dtype("Conv", t, weight)
    plan = _plan(available_memory_proportions, partials_types)
    body = conv_body(t, weight, stride, padding, dilation, groups, pad_type, plan)
    values = lambda op: body(op, of(t).read(), of(weight).read())  # noqa: E731
    hints = {
        "available_memory_proportions": available_memory_proportions,
        "partials_types": partials_types,
        "enable_conv_dithering": enable_conv_dithering,
    }
    return composed("Conv", [t, weight], "conv_out", values, **hints)


def _transpose_pads(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    pad_type: str,
    output_padding: Sequence[int],
    output_shape: Sequence[int],
) -> tuple[list[int], list[int], list[int]]:
    """Returns elements removed before and after each spatial dimension, and added after it.

    As in ONNX, output_shape determines the padding. So do pad_type "same_upper" and "same_lower",
    whose output has size · stride elements. Missing elements are added after the dimension, as by
    output_padding: fewer than the stride or the dilation.
    """
    rank = weight.rank - 2
    extra = list(output_padding) or [0] * rank
    sizes, kernel = t.shape[2:], weight.shape[2:]
    if output_shape and len(output_shape) != rank + 2:
        raise ValueError(f"output_shape takes {rank + 2} sizes but is {tuple(output_shape)}.")
    whole = (t.shape[0], weight.shape[1] * groups)
    if output_shape and tuple(output_shape)[:2] != whole:
        raise ValueError(f"output_shape begins with {whole} here but is {tuple(output_shape)}.")
    wanted = list(output_shape)[2:]
    if not wanted and pad_type in ("same_upper", "same_lower"):
        wanted = [n * s for n, s in zip(sizes, stride, strict=True)]
    if not wanted:
        return *pads(pad_type, padding, sizes, kernel, stride, dilation), extra
    if pad_type not in PAD_TYPES:
        raise ValueError(f"pad_type must be one of {PAD_TYPES} but is {pad_type!r}.")
    low, high = [], []
    for i, (n, k, out) in enumerate(zip(sizes, kernel, wanted, strict=True)):
        s, d = stride[i], dilation[i]
        made = s * (n - 1) + (k - 1) * d + 1
        total = made + extra[i] - out
        if total < 0 and out - made < max(s, d):
            extra[i], total = out - made, 0
        if total < 0:
            raise ValueError(
                f"An output of {tuple(wanted)} is larger than the convolution's result: dimension "
                f"{i} has {made} elements, and padding adds up to {max(s, d) - 1}."
            )
        more, less = total - total // 2, total // 2
        low.append(less if pad_type == "same_upper" else more)
        high.append(more if pad_type == "same_upper" else less)
    return low, high, extra


def conv_transpose_body(
    t: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    pad_type: str,
    output_padding: Sequence[int],
    output_shape: Sequence[int],
    plan: "dict[str, Any] | None" = None,
) -> Callable[[OpBuild, Any, Any], Any]:
    """Returns a function for the transposed convolution of values like `t` and `weight`."""
    rank = weight.rank - 2
    if t.rank != weight.rank or t.shape[1] != weight.shape[0]:
        raise ValueError(f"conv_transpose cannot apply {weight!r} to {t!r}.")
    low, high, extra = _transpose_pads(
        t, weight, stride, padding, dilation, groups, pad_type, output_padding, output_shape
    )

    def body(op: OpBuild, x: Any, w: Any) -> Any:
        out = op(
            "conv_transpose",
            x,
            w,
            strides=list(stride),
            padding=low if low == high else [0] * rank,
            output_padding=extra,
            dilation=list(dilation),
            groups=groups,
            **(plan or {}),
        )
        if low == high:
            return out
        shape = out.type[1]
        stops = [n - h for n, h in zip(shape[2:], high, strict=True)]
        return op(
            "slice", out, starts=[0, 0, *low], stops=[*shape[:2], *stops], steps=[1] * len(shape)
        )

    return body


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
    """Returns the transposed convolution of t [n, c, ...] with weight [c, out / groups, ...].

    The other arguments are those of `conv`.

    Args:
        t: The images.
        weight: The kernels.
        padding: Elements removed before all, then after all spatial dimensions.
        pad_type: Determines the padding as in ONNX.
        output_padding: Elements added after each spatial dimension.
        output_shape: The whole shape of the result, which determines the padding as in ONNX.
        stride: The step of the window, in each dimension.
        dilation: The distance between the kernel's elements, in each dimension.
        groups: The number of groups of channels.
        available_memory_proportions: See `conv`.
        partials_types: See `conv`.
        enable_conv_dithering: A hint for hardware.

    Raises:
        ValueError: Shapes do not fit.
    """
    check_same_dtype("ConvTranspose", t, weight)
    plan = _plan(available_memory_proportions, partials_types)
    body = conv_transpose_body(
        t, weight, stride, padding, dilation, groups, pad_type, output_padding, output_shape, plan
    )
    values = lambda op: body(op, of(t).read(), of(weight).read())  # noqa: E731
    hints = {
        "available_memory_proportions": available_memory_proportions,
        "partials_types": partials_types,
        "enable_conv_dithering": enable_conv_dithering,
    }
    return composed("ConvTranspose", [t, weight], "convtranspose_out", values, **hints)
