"""The records of variables and constants, which have data on the host."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from poptorch_core import _core
from popxl._impl.instances import exchanged
from popxl._impl.records.link import of
from popxl._impl.records.tensor import TensorRecord
from popxl.dtypes import as_bits
from popxl.errors import popart_exception
from popxl.replica_grouping import replicas_by_group

_WARNING = 3  # a level of the core's log
_COPIED = (
    "you have passed np.memmap data and a non-const replica grouping. A copy of the data is used, "
    "and the file is not written."
)

if TYPE_CHECKING:
    from popxl._impl.layout import Layout
    from popxl.remote_buffer import RemoteBuffer


@dataclass(eq=False)
class ConstantRecord(TensorRecord):
    """The library's state of a constant."""

    data: Any = None


@dataclass(eq=False)
class VariableRecord(TensorRecord):
    """The library's state of a variable.

    Attributes:
        slot: The name of its state slot.
        data: The initial data.
        layout: The layout of a slot with separate data in each replica; else None.
        grouping: The replicas that share a value.
        retrieval_mode: "one_per_group" or "all_replicas".
    """

    slot: str = ""
    data: Any = None
    layout: "Layout | None" = None
    grouping: Any = None
    retrieval_mode: str = "one_per_group"

    @property
    def all_replicas(self) -> bool:
        """Whether the session returns every replica's value."""
        return self.retrieval_mode == "all_replicas" and len(self.grouping.assignment) > 1

    def known_layout(self) -> "Layout":
        """Returns the layout of a variable that has one."""
        assert self.layout is not None
        return self.layout

    def host_copy(self) -> np.ndarray:
        """Returns the session's buffer: a copy of the data, or the memory-mapped data itself."""
        if self.all_replicas:
            return self.known_layout().spread(self.data)
        mapped = isinstance(self.data, np.memmap)
        if mapped and not self.grouping.is_const:
            _core.log(_WARNING, f"{self.tensor!r}: {_COPIED}")
            mapped = False
        return self.data if mapped else np.array(self.data)

    def row(self, data: np.ndarray, replica: int) -> np.ndarray:
        """Returns a replica's part of the session's buffer."""
        layout, groups = self.known_layout(), self.grouping.assignment
        if self.all_replicas:
            return layout.row(data[replica], replica)
        return layout.row(data[groups[replica]] if layout.rg.num_groups > 1 else data, replica)

    def returned(self, executable: Any, root: int) -> list[int]:
        """Returns the replicas whose values the session's buffer holds.

        These are all replicas, or one of each group: the first of instance `root` if it has one,
        else the first of the group.
        """
        if self.all_replicas:
            return list(range(len(self.grouping.assignment)))
        _, here, _ = executable.replicas
        return [
            min(members, key=lambda replica: (replica // here != root, replica))
            for members in replicas_by_group(self.grouping)
        ]

    def of_rows(self, rows: "Mapping[int, np.ndarray]", returned: list[int]) -> np.ndarray:
        """Returns the session's buffer, from the replicas' rows."""
        layout = self.known_layout()
        found = [layout.whole(rows, replica) for replica in returned]
        return np.stack(found) if self.all_replicas or len(found) > 1 else found[0]

    def send(self, executable: Any, data: np.ndarray) -> None:
        """Writes the host's data to the device."""
        rows = data if self.layout is None else self._rows(executable, data)
        executable.write_state(self.slot, as_bits(np.asarray(rows, order="C")))

    def _rows(self, executable: Any, data: np.ndarray) -> np.ndarray:
        """Returns the replicas' rows; 0 for replicas of other instances."""
        first, here, everywhere = executable.replicas
        rows = np.zeros((everywhere, *self.known_layout().row_shape), data.dtype)
        for replica in range(first, first + here):
            rows[replica] = self.row(data, replica)
        return rows

    def fetch(self, executable: Any, root: int = 0) -> np.ndarray:
        """Returns the device's data in host form. All instances call it; root: see `returned`."""
        rows, what = executable.read_state(self.slot), f"fetching {self.tensor!r}"
        returned = self.returned(executable, root)
        if self.layout is not None:
            sources = self.layout.sources(returned)
            held = exchanged(executable, rows[sources], sources, what).view(self.dtype.as_numpy())
            return self.of_rows(dict(zip(sources, held, strict=True)), returned)
        by_group = rows.reshape(len(returned), *self.shape)
        exchanged(executable, by_group, returned, what)
        return rows.view(self.dtype.as_numpy())


@dataclass(eq=False)
class RemoteRecord(VariableRecord):
    """The library's state of a variable in row `offset` of a remote buffer."""

    buffer: "RemoteBuffer | None" = None
    offset: int = 0

    def in_buffer(self) -> "RemoteBuffer":
        """Returns the buffer, which is set after the check that the variable fits."""
        assert self.buffer is not None
        return self.buffer

    def read(self) -> Any:
        """Raises ValueError: ops take the tensor that remote_load returns."""
        raise ValueError(
            f"{self.tensor!r} is in remote buffer {self.in_buffer().remote_buffer_id}, row "
            f"{self.offset}: load it with ops.remote_load."
        )

    def send(self, executable: Any, data: np.ndarray) -> None:
        """Writes the host's data to the rows of this instance's replicas.

        Raises:
            popart_exception: A replica's part is larger than a row.
        """
        buffer = of(self.in_buffer())
        name, size = buffer.use(), int(np.prod(buffer.shape, dtype=np.int64))
        first, here, _ = executable.replicas
        for replica in range(first, first + here):
            flat = as_bits(np.asarray(self.row(data, replica), order="C")).ravel()
            if flat.size > size:
                raise popart_exception(
                    f"{self.tensor!r} has {flat.size} elements on a replica, but a row of remote "
                    f"buffer {buffer.id} has {size}."
                )
            padded = np.pad(flat, (0, size - flat.size)).reshape(buffer.shape)
            executable.write_remote(name, replica, self.offset, padded)

    def fetch(self, executable: Any, root: int = 0) -> np.ndarray:
        """Returns the rows of replicas in host form. All instances call it."""
        name, layout = of(self.in_buffer()).use(), self.known_layout()
        shape, kind = layout.row_shape, self.dtype.as_numpy()
        first, here, _ = executable.replicas
        returned = self.returned(executable, root)
        sources, elements = layout.sources(returned), int(np.prod(shape, dtype=np.int64))
        held = np.zeros((len(sources), elements), as_bits(np.empty(0, kind)).dtype)
        for place, replica in enumerate(sources):
            if first <= replica < first + here:
                row = executable.read_remote(name, replica, self.offset)
                held[place] = row.ravel()[:elements]
        exchanged(executable, held, sources, f"fetching {self.tensor!r}")
        rows = held.view(kind).reshape(-1, *shape)
        return self.of_rows(dict(zip(sources, rows, strict=True)), returned)


@dataclass(eq=False)
class ShardedRecord(VariableRecord):
    """The library's state of a variable that is sharded over replicas."""

    def read(self) -> Any:
        """Raises ValueError: ops take the shard."""
        raise ValueError(f"{self.tensor!r} is sharded: use the shard, or gather it.")
