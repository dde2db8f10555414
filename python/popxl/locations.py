"""Locations of tensors: on or off the chip, on which tiles, whole or in shards.

These values have no effect: the emulator places tensors by variables and buffers only.
"""

from dataclasses import dataclass
from enum import IntEnum


class ReplicatedTensorSharding(IntEnum):
    """Whether replicas keep shards of a tensor instead of copies."""

    Off = 0
    On = 1


class TensorStorage(IntEnum):
    """On the chip, or in the memory next to it."""

    Undefined = 0
    OnChip = 1
    OffChip = 2


class TileSet(IntEnum):
    """The tiles for computation, or those for input and output."""

    Undefined = 0
    Compute = 1
    IO = 2


@dataclass(frozen=True)
class TensorLocation:
    """A location for a tensor.

    Attributes:
        storage: On or off the chip.
        load_tile_set: The tiles to which it is loaded.
        storage_tile_set: The tiles that store it.
        replicated_tensor_sharding: Whether it is sharded over the replicas.
    """

    storage: TensorStorage = TensorStorage.Undefined
    load_tile_set: TileSet = TileSet.Compute
    storage_tile_set: TileSet = TileSet.Compute
    replicated_tensor_sharding: ReplicatedTensorSharding = ReplicatedTensorSharding.Off
