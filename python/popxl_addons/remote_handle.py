"""Rows of remote buffers that loops load and store in each step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import popxl
from popxl import ops
from popxl.ops.collectives import replica_sharded_slice, replicated_all_gather
from popxl_addons.rts import replica_sharded_spec

RowOffset = int | None | Callable[[popxl.Tensor], popxl.Tensor]


@dataclass
class RemoteHandle:
    """The buffer entries of a tensor in a loop of `steps` steps.

    Attributes:
        buffer: The buffer.
        row_offset: A number, for entry `(row + row_offset) · steps + step`; None, for entry `step`
            in every row; or a function of the row, an int32 scalar, for
            `row_offset(row) · steps + step`.
        shard_group: The replicas over which the tensor is sharded; the buffer then holds flat
            shards.
    """

    buffer: popxl.RemoteBuffer
    row_offset: RowOffset = 0
    shard_group: "popxl.ReplicaGrouping | None" = None

    @classmethod
    def of(cls, handle: Any) -> Any:
        """Returns a handle for a tuple of its fields; returns handles and streams unchanged.

        Args:
            handle: The handle, a tuple of its fields, or a stream.
        """
        return cls(*handle) if isinstance(handle, tuple) else handle

    def entry(self, row: popxl.Tensor, step: popxl.Tensor, steps: int) -> popxl.Tensor:
        """Returns the entry of a step of a row, an int32 scalar.

        Args:
            row: The row.
            step: The number of the step.
            steps: The number of steps.
        """
        if self.row_offset is None:
            return step
        if not isinstance(self.row_offset, int):
            row = self.row_offset(row)
        elif self.row_offset:
            row = row + self.row_offset
        return row * popxl.constant(steps, popxl.int32) + step

    def grow(self, steps: int, rows: int) -> None:
        """Enlarges the buffer to the entries for the rows, unless row_offset is a function.

        Args:
            steps: The number of steps.
            rows: The number of rows.
        """
        if self.row_offset is None:
            needed = steps
        elif isinstance(self.row_offset, int):
            needed = (rows + self.row_offset) * steps
        else:
            return
        if self.buffer.entries < needed:
            self.buffer.entries = needed

    def load(self, entry: popxl.Tensor, name: str) -> popxl.Tensor:
        """Loads the whole tensor from an entry of the buffer.

        Args:
            entry: The row of the buffer.
            name: The name of the result.
        """
        loaded = ops.remote_load(self.buffer, entry, name)
        if self.shard_group is None or not loaded.meta_shape:
            return loaded
        return replicated_all_gather(loaded, group=self.shard_group)

    def store(self, entry: popxl.Tensor, t: popxl.Tensor) -> None:
        """Stores `t`, or this replica's shard of it, into an entry.

        Args:
            entry: The row of the buffer.
            t: The tensor, or its shard.
        """
        if self.shard_group is not None and self.buffer.meta_shape and not t.meta_shape:
            t = replica_sharded_slice(t, self.shard_group)
        ops.remote_store(self.buffer, entry, t)


def batch_serial_buffer(
    t: "popxl.Tensor | popxl.TensorSpec",
    steps: int = 1,
    rows: int = 1,
    shard_group: "popxl.ReplicaGrouping | None" = None,
) -> popxl.RemoteBuffer:
    """Makes a buffer for `t` of every step and row, or for its shards if the group divides it.

    Args:
        t: The tensor or spec.
        steps: The number of steps.
        rows: The number of rows.
        shard_group: The group over which values are sharded.
    """
    spec = t.spec if isinstance(t, popxl.Tensor) else t
    if shard_group is not None:
        spec = replica_sharded_spec(spec, shard_group)
    buffer = popxl.remote_buffer(spec.shape, spec.dtype, steps * rows)
    buffer.meta_shape = spec.meta_shape
    return buffer
