"""Rows of remote buffers that loops load and store, step by step."""

from dataclasses import dataclass

import popxl
from popxl import ops
from popxl.ops.collectives import replica_sharded_slice, replicated_all_gather


@dataclass(frozen=True)
class RemoteHandle:
    """Where a tensor of a loop is: row `(row + row_offset) · steps + step` of a buffer.

    shard_group: replicas of which each keeps a shard; the buffer then holds flat shards.
    """

    buffer: popxl.RemoteBuffer
    row_offset: int = 0
    shard_group: "popxl.ReplicaGrouping | None" = None

    def load(self, offset: popxl.Tensor, name: str) -> popxl.Tensor:
        """The whole tensor at row `offset` of the buffer."""
        loaded = ops.remote_load(self.buffer, offset, name)
        if self.shard_group is None:
            return loaded
        return replicated_all_gather(loaded, group=self.shard_group)

    def store(self, offset: popxl.Tensor, t: popxl.Tensor) -> None:
        """`t` into row `offset`: this replica's shard of it, if it is sharded."""
        if self.shard_group is not None:
            t = replica_sharded_slice(t, self.shard_group)
        ops.remote_store(self.buffer, offset, t)


def batch_serial_buffer(
    t: "popxl.Tensor | popxl.TensorSpec",
    steps: int,
    rows: int = 1,
    shard_group: "popxl.ReplicaGrouping | None" = None,
) -> popxl.RemoteBuffer:
    """A buffer for `t` of every step and row, or for its shards."""
    if shard_group is not None:
        return popxl.replica_sharded_buffer(
            t.shape, t.dtype, shard_over=shard_group.group_size, entries=steps * rows
        )
    return popxl.remote_buffer(t.shape, t.dtype, steps * rows)
