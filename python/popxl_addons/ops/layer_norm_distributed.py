"""Layer normalisation of rows that are spread over replicas."""

import popxl
from popxl import ops
from popxl.ops.collectives import replicated_all_reduce


def layer_norm_distributed(
    x: popxl.Tensor,
    weight: popxl.Tensor,
    bias: popxl.Tensor,
    epsilon: float = 1e-5,
    group: "popxl.ReplicaGrouping | None" = None,
) -> popxl.Tensor:
    """(x - mean) / √(variance + epsilon) · weight + bias, of rows whose columns are on a group.

    x: [..., c], this replica's columns; weight, bias: [c]. Statistics are of all replicas'
    columns, in float32. Differentiable. ValueError for scales of another shape.
    """
    if weight.shape != x.shape[-1:] or bias.shape != x.shape[-1:]:
        raise ValueError(f"weight and bias of {x!r} must have shape {x.shape[-1:]}.")
    rg = group or popxl.gir().replica_grouping()
    share = 1.0 / (x.shape[-1] * rg.group_size)
    wide = x if x.dtype is popxl.float32 else ops.cast(x, popxl.float32)

    def mean_of_rows(t: popxl.Tensor) -> popxl.Tensor:
        return replicated_all_reduce(ops.sum(t, [-1], True), "add", rg) * share

    centred = wide - mean_of_rows(wide)
    normal = centred / ops.sqrt(mean_of_rows(centred * centred) + epsilon)
    normal = normal if x.dtype is popxl.float32 else ops.cast(normal, x.dtype)
    return normal * weight + bias
