"""Which part of a variable's data on the host lies on which replica."""

import numpy as np
from popxl.replica_grouping import ReplicaGrouping


class Layout:
    """Which part of a variable's host data lies on a replica."""

    def __init__(self, rg: ReplicaGrouping, shape: tuple[int, ...], shards: int) -> None:
        self.rg, self.shape, self.shards = rg, shape, shards

    @property
    def replicas(self) -> int:
        return len(self.rg.assignment)

    def row(self, data: np.ndarray, replica: int) -> np.ndarray:
        """What `replica` holds."""
        group = self.rg.assignment[replica]
        whole = data[group] if self.rg.num_groups > 1 else data
        if self.shards == 1:
            return whole
        rank = self.rg.to_device_map[group].index(replica) % self.shards
        return sharded(whole, self.shards)[rank]

    def whole(self, rows: "list[np.ndarray]") -> np.ndarray:
        """The host's data, from what all replicas hold."""
        out = []
        for members in self.rg.to_device_map.values():
            if self.shards == 1:
                out.append(rows[members[0]])
                continue
            flat = np.concatenate([rows[m] for m in members[: self.shards]])
            out.append(flat[: int(np.prod(self.shape))].reshape(self.shape))
        return np.stack(out) if self.rg.num_groups > 1 else out[0]


def sharded(whole: np.ndarray, shards: int) -> np.ndarray:
    each = -(-whole.size // shards)
    return np.pad(whole.ravel(), (0, each * shards - whole.size)).reshape(shards, each)
