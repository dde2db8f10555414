"""The distribution of a variable's host data over replicas."""

from collections.abc import Mapping

import numpy as np
from popxl.replica_grouping import ReplicaGrouping, replicas_by_group


class Layout:
    """The parts of a variable's host data that replicas hold.

    Args:
        rg: The groups of replicas that share data.
        shape: The shape of one group's data.
        shards: The number of parts of it; the replicas of a group of constant stride hold them in
            turn.
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
        """The shape of a replica's part."""
        return self.shape if self.shards == 1 else (-(-self._elements // self.shards),)

    @property
    def _elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def spread(self, data: np.ndarray) -> np.ndarray:
        """Returns the data of each replica's group, from the data of each group."""
        groups = self.rg.assignment
        whole = [data[groups[r]] if self.rg.num_groups > 1 else data for r in range(self.replicas)]
        return np.stack(whole)

    def row(self, whole: np.ndarray, replica: int) -> np.ndarray:
        """Returns a replica's part of its group's data."""
        if self.shards == 1:
            return whole
        rank = self._inside[self._home[replica]].index(replica) % self.shards
        return sharded(whole, self.shards)[rank]

    def _holders(self, replica: int) -> list[int]:
        """Returns the replicas that hold the shards of a replica's group, in order of shards."""
        members = self._inside[self._home[replica]]
        first = members.index(replica) // self.shards * self.shards
        return members[first : first + self.shards]

    def sources(self, wanted: "list[int]") -> list[int]:
        """Returns the replicas whose rows form the data of these replicas' groups, ascending."""
        return sorted({holder for replica in wanted for holder in self._holders(replica)})

    def whole(self, rows: "Mapping[int, np.ndarray]", replica: int) -> np.ndarray:
        """Returns the data of a replica's group, from the rows of `sources`."""
        if self.shards == 1:
            return rows[replica]
        flat = np.concatenate([rows[holder] for holder in self._holders(replica)])
        return flat[: self._elements].reshape(self.shape)


def sharded(whole: np.ndarray, shards: int) -> np.ndarray:
    each = -(-whole.size // shards)
    return np.pad(whole.ravel(), (0, each * shards - whole.size)).reshape(shards, each)
