"""Reduce-scatters over groups of replicas with a stride."""

import popxl
from popxl.ops.collectives import replicated_reduce_scatter


def replicated_reduce_scatter_strided(
    t: popxl.Tensor,
    op: str = "add",
    group: "popxl.ReplicaGrouping | None" = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> popxl.Tensor:
    """See `popxl.ops.collectives.replicated_reduce_scatter`, which also takes such groups."""
    return replicated_reduce_scatter(t, op, group, configure_output_for_replicated_tensor_sharding)
