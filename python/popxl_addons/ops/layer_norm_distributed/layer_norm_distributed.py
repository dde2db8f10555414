"""Layer normalisation of rows that are spread over replicas."""

import popxl
from popxl import ops
from popxl.ops.collectives import replicated_all_reduce


def layer_norm_distributed(
    t: popxl.Tensor,
    w: popxl.Tensor,
    b: popxl.Tensor,
    epsilon: float = 1e-5,
    group: "popxl.ReplicaGrouping | None" = None,
) -> popxl.Tensor:
    """Returns (x - mean) / √(variance + epsilon) · w + b, of rows that are spread over a group.

    The statistics are of all replicas' columns, in float32. The result is differentiable.

    Args:
        t: This replica's columns [n, c].
        w: The scale [c].
        b: The shift [c].
        epsilon: Added to the variance.
        group: The replicas that share rows; by default all.

    Raises:
        AssertionError: An argument has another rank.
        ValueError: w or b has another shape.
    """
    if (t.rank, w.rank, b.rank) != (2, 1, 1):
        raise AssertionError("a matrix, a scale and a shift are needed")
    if w.shape != t.shape[-1:] or b.shape != t.shape[-1:]:
        raise ValueError(f"w and b of {t!r} must have shape {t.shape[-1:]}.")
    rg = group or popxl.gir().replica_grouping()
    share = 1.0 / (t.shape[-1] * rg.group_size)
    wide = t if t.dtype is popxl.float32 else ops.cast(t, popxl.float32)

    def mean_of_rows(t: popxl.Tensor) -> popxl.Tensor:
        return replicated_all_reduce(ops.sum(t, [-1], True), "add", rg) * share

    centred = wide - mean_of_rows(wide)
    normal = centred / ops.sqrt(mean_of_rows(centred * centred) + epsilon)
    normal = normal if t.dtype is popxl.float32 else ops.cast(normal, t.dtype)
    return normal * w + b
