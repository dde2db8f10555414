"""Shape of a shard of a tensor."""

import popxl


def replica_sharded_spec(
    t: "popxl.Tensor | popxl.TensorSpec", shard_over: "int | popxl.ReplicaGrouping"
) -> popxl.TensorSpec:
    """The spec of a shard of `t`, with t's shape as meta shape.

    shard_over: replicas that share it; 1 leaves `t` as it is.
    """
    count = shard_over if isinstance(shard_over, int) else shard_over.group_size
    if count == 1:
        return popxl.TensorSpec(t.shape, t.dtype, t.meta_shape)
    elements = 1
    for size in t.shape:
        elements *= size
    return popxl.TensorSpec((-(-elements // count),), t.dtype, t.shape)
