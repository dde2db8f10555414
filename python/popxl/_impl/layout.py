"""Which part of a variable's data on the host lies on which replica."""

from collections.abc import Mapping

import numpy as np
from popxl.replica_grouping import ReplicaGrouping, replicas_by_group


class Layout:
    """Which part of a variable's host data lies on a replica.

    shape: of one group's data. shards: how many parts it is cut into; a group of constant stride
    holds them in turn.
    """

    def __init__(self, rg: ReplicaGrouping, shape: tuple[int, ...], shards: int) -> None:
        self.rg, self.shape, self.shards = rg, shape, shards
        self._inside = replicas_by_group(rg.const_rg)
        self._home = dict(enumerate(rg.const_rg.assignment))

    @property
    def replicas(self) -> int:
        return len(self.rg.assignment)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of what a replica holds."""
        return self.shape if self.shards == 1 else (-(-self._elements // self.shards),)

    @property
    def _elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def spread(self, data: np.ndarray) -> np.ndarray:
        """The data of every replica's group, from one of each group."""
        groups = self.rg.assignment
        whole = [data[groups[r]] if self.rg.num_groups > 1 else data for r in range(self.replicas)]
        return np.stack(whole)

    def row(self, whole: np.ndarray, replica: int) -> np.ndarray:
        """What a replica holds of its group's data."""
        if self.shards == 1:
            return whole
        rank = self._inside[self._home[replica]].index(replica) % self.shards
        return sharded(whole, self.shards)[rank]

    def _holders(self, replica: int) -> list[int]:
        """The replicas that hold the shards of its group's data, in their order."""
        members = self._inside[self._home[replica]]
        first = members.index(replica) // self.shards * self.shards
        return members[first : first + self.shards]

    def sources(self, wanted: "list[int]") -> list[int]:
        """The replicas whose rows make the data of these replicas' groups, ascending."""
        return sorted({holder for replica in wanted for holder in self._holders(replica)})

    def whole(self, rows: "Mapping[int, np.ndarray]", replica: int) -> np.ndarray:
        """The data of a replica's group, from what `sources` hold."""
        if self.shards == 1:
            return rows[replica]
        flat = np.concatenate([rows[holder] for holder in self._holders(replica)])
        return flat[: self._elements].reshape(self.shape)


def sharded(whole: np.ndarray, shards: int) -> np.ndarray:
    each = -(-whole.size // shards)
    return np.pad(whole.ravel(), (0, each * shards - whole.size)).reshape(shards, each)
