"""Which part of a variable's data on the host lies on which replica."""

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

    def rows(self, spread: np.ndarray) -> np.ndarray:
        """What every replica holds of its group's data."""
        if self.shards == 1:
            return spread
        out = []
        for replica, whole in enumerate(spread):
            rank = self._inside[self._home[replica]].index(replica) % self.shards
            out.append(sharded(whole, self.shards)[rank])
        return np.stack(out)

    def gathered(self, rows: "list[np.ndarray]") -> np.ndarray:
        """The data of every replica's group, from what all replicas hold."""
        if self.shards == 1:
            return np.stack(rows)
        out = []
        for replica in range(self.replicas):
            members = self._inside[self._home[replica]]
            first = members.index(replica) // self.shards * self.shards
            flat = np.concatenate([rows[m] for m in members[first : first + self.shards]])
            out.append(flat[: self._elements].reshape(self.shape))
        return np.stack(out)

    def whole(self, rows: "list[np.ndarray]") -> np.ndarray:
        """The host's data, from what all replicas hold."""
        gathered = self.gathered(rows)
        firsts = [members[0] for members in replicas_by_group(self.rg)]
        return gathered[firsts] if self.rg.num_groups > 1 else gathered[0]


def sharded(whole: np.ndarray, shards: int) -> np.ndarray:
    each = -(-whole.size // shards)
    return np.pad(whole.ravel(), (0, each * shards - whole.size)).reshape(shards, each)
