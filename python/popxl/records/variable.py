"""The records of variables and constants, which have data on the host."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from popxl.dtypes import as_bits
from popxl.records.link import of
from popxl.records.tensor import TensorRecord

if TYPE_CHECKING:
    from popxl.layout import Layout
    from popxl.remote_buffer import RemoteBuffer


@dataclass(eq=False)
class ConstantRecord(TensorRecord):
    """What the library keeps of a constant."""

    data: Any = None


@dataclass(eq=False)
class VariableRecord(TensorRecord):
    """What the library keeps of a variable.

    slot: the name of its state. layout: of a slot that every replica has for itself.
    """

    slot: str = ""
    data: Any = None
    layout: "Layout | None" = None
    grouping: Any = None
    retrieval_mode: str = "one_per_group"

    @property
    def all_replicas(self) -> bool:
        """Whether the session gives every replica's value."""
        return self.retrieval_mode == "all_replicas" and len(self.grouping.assignment) > 1

    def known_layout(self) -> "Layout":
        """The layout, of a variable that has one."""
        assert self.layout is not None
        return self.layout

    def host_copy(self) -> np.ndarray:
        """The session's buffer: memory-mapped data stands for itself."""
        if self.all_replicas:
            return self.rows(self.data)
        return self.data if isinstance(self.data, np.memmap) else self.data.copy()

    def rows(self, data: np.ndarray) -> np.ndarray:
        """What each replica holds."""
        layout = self.known_layout()
        return np.stack([layout.row(data, r) for r in range(layout.replicas)])

    def send(self, executable: Any, data: np.ndarray) -> None:
        """Writes the host's data to the device."""
        if self.layout is not None and not self.all_replicas:
            data = self.rows(data)
        executable.write_state(self.slot, as_bits(data))

    def fetch(self, executable: Any) -> np.ndarray:
        """The device's data as the host has it."""
        rows = executable.read_state(self.slot).view(self.dtype.as_numpy())
        if self.layout is None or self.all_replicas:
            return rows
        return self.layout.whole(list(rows))


@dataclass(eq=False)
class RemoteRecord(VariableRecord):
    """What the library keeps of a variable in row `offset` of a remote buffer."""

    buffer: "RemoteBuffer | None" = None
    offset: int = 0

    def in_buffer(self) -> "RemoteBuffer":
        """The buffer. It is set once the variable is known to fit."""
        assert self.buffer is not None
        return self.buffer

    def read(self) -> Any:
        """ValueError: ops take what is loaded."""
        raise ValueError(
            f"{self.tensor!r} lies in remote buffer {self.in_buffer().remote_buffer_id}, row "
            f"{self.offset}: load it with ops.remote_load."
        )

    def send(self, executable: Any, data: np.ndarray) -> None:
        """Writes the host's data to the rows of all replicas."""
        name = of(self.in_buffer()).use()
        rows = data if self.all_replicas else self.rows(data)
        for replica, row in enumerate(rows):
            executable.write_remote(name, replica, self.offset, np.ascontiguousarray(row))

    def fetch(self, executable: Any) -> np.ndarray:
        """The rows of all replicas as the host has them."""
        name, layout = of(self.in_buffer()).use(), self.known_layout()
        rows = [executable.read_remote(name, r, self.offset) for r in range(layout.replicas)]
        return np.stack(rows) if self.all_replicas else layout.whole(rows)


@dataclass(eq=False)
class ShardedRecord(VariableRecord):
    """What the library keeps of a variable of which each replica holds a shard."""

    def read(self) -> Any:
        """ValueError: ops take the shard."""
        raise ValueError(f"{self.tensor!r} lies in shards: use the shard, or gather it.")

    def send(self, executable: Any, data: np.ndarray) -> None:
        """Writes the shards of the host's data."""
        rows = data if self.all_replicas else self.rows(data)
        executable.write_state(self.slot, np.ascontiguousarray(rows))

    def fetch(self, executable: Any) -> np.ndarray:
        """The shards as the host has them: the whole, or every replica's."""
        rows = executable.read_state(self.slot)
        return rows if self.all_replicas else self.known_layout().whole(list(rows))
