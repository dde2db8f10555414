"""Factories: they make a graph's named inputs, and later the variables that go in."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import popxl
from popxl.utils import to_numpy
from popxl_addons.dot_tree import DotTree
from popxl_addons.named_tensors import NamedTensors
from popxl_addons.sharded_spec import replica_sharded_spec


class VariableFactory:
    """Makes variables of one shape and dtype.

    data_iter: a function that gives the data of one variable, or an iterator of such arrays. It
        is asked once at construction, to see the shape; that data goes into the first variable.
    replica_grouping: one array is drawn for each of its groups.
    shard_over: replicas of a group of which each keeps a flat shard; inputs are shards then.
    TypeError: data_iter is neither.
    """

    def __init__(
        self,
        data_iter: "Callable[[], Any] | Iterator[Any]",
        dtype: "popxl.dtype | None" = None,
        name: "str | None" = None,
        by_ref: bool = False,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
        shard_over: int = 1,
    ) -> None:
        if callable(data_iter):
            self._next: Callable[[], Any] = data_iter
        elif isinstance(data_iter, Iterator):
            self._next = lambda: next(data_iter)
        else:
            raise TypeError(f"data_iter must be a function or an iterator, not {data_iter!r}.")
        self._peeked: np.ndarray | None = self._convert(self._next(), dtype)
        self.dtype = popxl.dtype.as_dtype(self._peeked)
        self.shape = self._peeked.shape
        self.name, self.by_ref, self.replica_grouping = name, by_ref, replica_grouping
        self.shard_over = shard_over
        self.sharded_variables: list[popxl.tensor.Variable] = []  # whose shards were created

    @staticmethod
    def _convert(data: Any, dtype: "popxl.dtype | None") -> np.ndarray:
        return to_numpy(data, dtype)

    def next_data(self) -> np.ndarray:
        """The data of the next variable, on the host: groups in front when there are several."""
        groups = self.replica_grouping.num_groups if self.replica_grouping else 1
        drawn = [self._next_one() for _ in range(groups)]
        return np.stack(drawn) if groups > 1 else drawn[0]

    def _next_one(self) -> np.ndarray:
        if self._peeked is not None:
            data, self._peeked = self._peeked, None
            return data
        return self._convert(self._next(), self.dtype)

    def create_input(self, prefix: "str | None" = None) -> popxl.Tensor:
        """An input of the current graph for such a variable, or for its shard."""
        spec = self.input_spec
        return popxl.graph_input(
            spec.shape, spec.dtype, self._named(prefix), self.by_ref, spec.meta_shape or None
        )

    @property
    def input_spec(self) -> popxl.TensorSpec:
        """Shape and dtype of the input."""
        return replica_sharded_spec(popxl.TensorSpec(self.shape, self.dtype), self.shard_over)

    def create_tensor(self, name: "str | None" = None, empty: bool = False) -> popxl.Tensor:
        """A variable of the main graph, or the shard of one. empty: zeros, without drawing data.

        The variables of shards are kept in `sharded_variables`, for the session.
        """
        return _variable(self, self._zeros() if empty else self.next_data(), name)

    def _zeros(self) -> np.ndarray:
        groups = self.replica_grouping.num_groups if self.replica_grouping else 1
        return np.zeros(((groups,) if groups > 1 else ()) + self.shape, self.dtype.as_numpy())

    def create_remote_tensor(
        self, buffer: popxl.RemoteBuffer, entry: int = 0, name: "str | None" = None
    ) -> "popxl.tensor.Variable":
        """A remote variable in row `entry` of a buffer, or one whose shards are there.

        It is sharded where the buffer is, which then has a meta shape.
        """
        sharded = bool(buffer.meta_shape)
        make = popxl.remote_replica_sharded_variable if sharded else popxl.remote_variable
        data, rg = self.next_data(), self.replica_grouping
        return make(data, buffer, entry, self.dtype, name or self.name, False, rg)

    def next_memmap(self, path: "str | Path", read_only_if_exists: bool = False) -> np.memmap:
        """The data of the next variable in a file, mapped into memory.

        read_only_if_exists: maps a file that is there instead of drawing data; a session does not
        write into it. ValueError: its size is another.
        """
        shape, dtype = self._zeros().shape, self.dtype.as_numpy()
        if read_only_if_exists and Path(path).exists():
            return np.memmap(path, dtype, "r", shape=shape)
        mapped = np.memmap(path, dtype, "w+", shape=shape)
        mapped[...] = self.next_data()
        mapped.flush()
        return mapped

    def _named(self, prefix: "str | None") -> "str | None":
        return f"{prefix}.{self.name}" if prefix and self.name else self.name or prefix


def _variable(factory: VariableFactory, data: np.ndarray, name: "str | None") -> popxl.Tensor:
    arguments = (data, factory.dtype, name or factory.name, False, factory.replica_grouping)
    if factory.shard_over == 1:
        return popxl.variable(*arguments)
    variable, shard = popxl.replica_sharded_variable(*arguments)
    factory.sharded_variables.append(variable)
    return shard


class NamedVariableFactories(DotTree[VariableFactory]):
    """Factories by name."""

    def init(
        self,
        prefix: "str | None" = None,
        empty: bool = False,
        memmap_dir: "str | Path | None" = None,
        read_only_if_exists: bool = False,
    ) -> NamedTensors:
        """A variable of the main graph from each factory, in alphabetical order of the names.

        prefix: put before the variables' names. empty: zeros instead of the factories' data.
        memmap_dir: a folder in which the data is kept, `<name>.raw`, and mapped into memory;
        with read_only_if_exists, files that are there are read.
        """
        out = NamedTensors()
        for key, factory in sorted(self.to_dict().items()):
            name = f"{prefix}.{key}" if prefix else key
            if memmap_dir is None or empty:
                out.insert(key, factory.create_tensor(name, empty))
                continue
            folder = Path(memmap_dir)
            folder.mkdir(parents=True, exist_ok=True)
            data = factory.next_memmap(folder / f"{name}.raw", read_only_if_exists)
            out.insert(key, _variable(factory, data, name))
        return out

    def init_remote(
        self, buffers: Any, entry: int = 0, prefix: "str | None" = None
    ) -> NamedTensors:
        """A remote variable from each factory, in row `entry` of the buffer of the same name."""
        out = NamedTensors()
        known = buffers.to_dict()
        for key, factory in sorted(self.to_dict().items()):
            name = f"{prefix}.{key}" if prefix else key
            out.insert(key, factory.create_remote_tensor(known[key], entry, name))
        return out

    def init_zero(self, prefix: "str | None" = None) -> NamedTensors:
        """Zeros in the current graph, by `ops.init`."""
        return self._init("zero", prefix)

    def init_undef(self, prefix: "str | None" = None) -> NamedTensors:
        """Memory in the current graph that is to be written first, by `ops.init`."""
        return self._init("undef", prefix)

    def _init(self, kind: str, prefix: "str | None") -> NamedTensors:
        out = NamedTensors()
        for key, factory in sorted(self.to_dict().items()):
            name = f"{prefix}.{key}" if prefix else key
            spec = factory.input_spec
            made = popxl.ops.init(spec.shape, spec.dtype, name, kind, spec.meta_shape or None)
            out.insert(key, made)
        return out

    def replica_groupings(self) -> DotTree:
        """The replica grouping of each factory, by name."""
        return DotTree.from_dict({k: f.replica_grouping for k, f in self.to_dict().items()})
