"""The records of variables and constants, which have data on the host."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from poptorch_core import _core
from popxl.dtypes import as_bits
from popxl.errors import popart_exception
from popxl.records.link import of
from popxl.records.tensor import TensorRecord

_WARNING = 3  # a level of the core's log
_COPIED = (
    "you have passed np.memmap data and a non-const replica grouping. A copy of the data is used, "
    "and the file is not written."
)

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
            return self.known_layout().spread(self.data)
        mapped = isinstance(self.data, np.memmap)
        if mapped and not self.grouping.is_const:
            _core.log(_WARNING, f"{self.tensor!r}: {_COPIED}")
            mapped = False
        return self.data if mapped else np.array(self.data)

    def rows(self, data: np.ndarray) -> np.ndarray:
        """What each replica holds of the session's buffer."""
        layout = self.known_layout()
        return layout.rows(data if self.all_replicas else layout.spread(data))

    def of_rows(self, rows: "list[np.ndarray]") -> np.ndarray:
        """The session's buffer, from what each replica holds."""
        layout = self.known_layout()
        return layout.gathered(rows) if self.all_replicas else layout.whole(rows)

    def send(self, executable: Any, data: np.ndarray) -> None:
        """Writes the host's data to the device."""
        rows = data if self.layout is None else self.rows(data)
        executable.write_state(self.slot, as_bits(np.asarray(rows, order="C")))

    def fetch(self, executable: Any) -> np.ndarray:
        """The device's data as the host has it."""
        rows = executable.read_state(self.slot).view(self.dtype.as_numpy())
        return rows if self.layout is None else self.of_rows(list(rows))


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
        """Writes the host's data to the rows of all replicas.

        popart_exception: what a replica holds is larger than a row.
        """
        buffer = of(self.in_buffer())
        name, size = buffer.use(), int(np.prod(buffer.shape, dtype=np.int64))
        for replica, row in enumerate(self.rows(data)):
            flat = as_bits(np.asarray(row, order="C")).ravel()
            if flat.size > size:
                raise popart_exception(
                    f"{self.tensor!r} has {flat.size} elements on a replica, but a row of remote "
                    f"buffer {buffer.id} has {size}."
                )
            padded = np.pad(flat, (0, size - flat.size)).reshape(buffer.shape)
            executable.write_remote(name, replica, self.offset, padded)

    def fetch(self, executable: Any) -> np.ndarray:
        """The rows of all replicas as the host has them."""
        name, layout = of(self.in_buffer()).use(), self.known_layout()
        shape, kind = layout.row_shape, self.dtype.as_numpy()
        rows = []
        for replica in range(layout.replicas):
            row = executable.read_remote(name, replica, self.offset).view(kind).ravel()
            rows.append(row[: int(np.prod(shape, dtype=np.int64))].reshape(shape))
        return self.of_rows(rows)


@dataclass(eq=False)
class ShardedRecord(VariableRecord):
    """What the library keeps of a variable of which each replica holds a shard."""

    def read(self) -> Any:
        """ValueError: ops take the shard."""
        raise ValueError(f"{self.tensor!r} lies in shards: use the shard, or gather it.")
