"""All-gathers over groups of replicas with a stride."""

import popxl
from popxl import ops
from popxl.ops.collectives import replicated_all_gather

_NAME = "replicated_all_gather_strided_out"


def replicated_all_gather_strided(
    t: popxl.Tensor, group: "popxl.ReplicaGrouping | None" = None
) -> popxl.Tensor:
    """Gathers the elements of all replicas of the group, concatenated and flat.

    For a shard, it returns the whole tensor with its meta shape.
    """
    if t.meta_shape:
        whole = replicated_all_gather(t, group=group, output_shape="meta_shape")
        return ops.identity(whole, _NAME)
    flat = t if t.rank == 1 else ops.reshape(t, (t.nelms,))
    return ops.identity(replicated_all_gather(flat, group=group), _NAME)
