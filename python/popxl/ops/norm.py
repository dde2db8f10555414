"""Normalisation."""

from typing import Any

from popxl.ops.build import OpBuild, check_same_dtype, simple
from popxl.tensor import Tensor


def batch_norm_inference(
    t: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> Tensor:
    """Returns (t - mean) / √(var + epsilon) · scale + bias, for each channel.

    Args:
        t: [n, c, ...].
        scale: [c].
        bias: [c].
        mean: [c].
        var: [c].
        epsilon: Added to the variance.
        momentum: For training only; has no effect.
    """
    inputs = [t, scale, bias, mean, var]
    return simple(
        "BatchNormalization", "batch_norm_inference", inputs, "batch_norm_out", eps=epsilon
    )


def _normalised(t: Tensor, weight: Tensor, bias: Tensor, emit: Any, back: Any) -> Tensor:
    check_same_dtype("GroupNormalization", t, weight, bias)
    op = OpBuild("GroupNormalization", t, weight, bias)
    y, mean, inv_std = emit(op).results
    out = op.output(back(op, y), "group_norm_out")
    op.output(mean, "group_norm_mean")
    op.output(inv_std, "group_norm_inv_std_dev")
    op.done()
    return out


def group_norm(
    t: Tensor, weight: Tensor, bias: Tensor, num_groups: int, eps: float = 1e-5
) -> Tensor:
    """Normalises each group of channels to mean 0 and variance 1, then scales and shifts.

    Args:
        t: [n, c, ...].
        weight: [c].
        bias: [c].
        num_groups: The number of groups.
        eps: Added to the variance.

    Raises:
        ValueError: num_groups does not divide the channels.
    """
    if t.rank < 2 or t.shape[1] % num_groups:
        raise ValueError(f"{num_groups} groups do not divide the channels of {t!r}.")
    return _normalised(
        t,
        weight,
        bias,
        lambda op: op.emit("group_norm", t, weight, bias, groups=num_groups, eps=eps),
        lambda op, y: y,
    )


def layer_norm(t: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """Normalises the last dimension to mean 0 and variance 1, then scales and shifts.

    Args:
        t: [..., c].
        weight: [c].
        bias: [c].
        eps: Added to the variance.
    """
    return _normalised(
        t,
        weight,
        bias,
        lambda op: op.emit("layer_norm", t, weight, bias, axes_count=1, eps=eps),
        lambda op, y: y,
    )
