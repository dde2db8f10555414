"""Where tensors are kept: on the chip or beside it, on which tiles, whole or in shards.

The emulator decides by variables and buffers alone; these values travel along.
"""

from dataclasses import dataclass
from enum import IntEnum


class ReplicatedTensorSharding(IntEnum):
    """Whether replicas keep shards of a tensor instead of copies."""

    Off = 0
    On = 1


class TensorStorage(IntEnum):
    """On the chip, or in the memory beside it."""

    Undefined = 0
    OnChip = 1
    OffChip = 2


class TileSet(IntEnum):
    """The tiles that compute, or those kept for input and output."""

    Undefined = 0
    Compute = 1
    IO = 2


@dataclass(frozen=True)
class TensorLocation:
    """A place for a tensor.

    storage: on or beside the chip. load_tile_set: where it arrives; storage_tile_set: where it
    stays. replicated_tensor_sharding: in shards over the replicas or not.
    """

    storage: TensorStorage = TensorStorage.Undefined
    load_tile_set: TileSet = TileSet.Compute
    storage_tile_set: TileSet = TileSet.Compute
    replicated_tensor_sharding: ReplicatedTensorSharding = ReplicatedTensorSharding.Off
