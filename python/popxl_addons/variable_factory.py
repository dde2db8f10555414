"""Factories: they make a graph's named inputs, and later the variables that go in."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import popxl
from popxl.utils import to_numpy
from popxl_addons.dot_tree import DotTree
from popxl_addons.named_tensors import NamedTensors


class VariableFactory:
    """Makes variables of one shape and dtype.

    data_iter: a function that gives the data of one variable, or an iterator of such arrays. It
        is asked once at construction, to see the shape; that data goes into the first variable.
    replica_grouping: one array is drawn for each of its groups.
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
        if shard_over != 1:
            from popxl_addons.missing import unsupported

            raise unsupported("VariableFactory(shard_over=...)")
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
        """An input of the current graph for such a variable."""
        return popxl.graph_input(self.shape, self.dtype, self._named(prefix), by_ref=self.by_ref)

    def create_tensor(
        self, name: "str | None" = None, empty: bool = False
    ) -> "popxl.tensor.Variable":
        """A variable of the main graph. empty: holding zeros, without drawing data."""
        groups = self.replica_grouping.num_groups if self.replica_grouping else 1
        shape = ((groups,) if groups > 1 else ()) + self.shape
        data = np.zeros(shape, self.dtype.as_numpy()) if empty else self.next_data()
        return popxl.variable(
            data,
            self.dtype,
            name or self.name,
            downcast=False,
            replica_grouping=self.replica_grouping,
        )

    def _named(self, prefix: "str | None") -> "str | None":
        return f"{prefix}.{self.name}" if prefix and self.name else self.name or prefix


class NamedVariableFactories(DotTree[VariableFactory]):
    """Factories by name."""

    def init(self, prefix: "str | None" = None, empty: bool = False) -> NamedTensors:
        """A variable of the main graph from each factory, in alphabetical order of the names.

        prefix: put before the variables' names. empty: zeros instead of the factories' data.
        """
        out = NamedTensors()
        for key, factory in sorted(self.to_dict().items()):
            name = f"{prefix}.{key}" if prefix else key
            out.insert(key, factory.create_tensor(name, empty))
        return out

    def init_remote(
        self, buffers: Any, entry: int = 0, prefix: "str | None" = None
    ) -> NamedTensors:
        """A remote variable from each factory, in row `entry` of the buffer of the same name."""
        from popxl_addons.remote import init_remote

        return init_remote(self, buffers, entry, prefix)

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
            out.insert(key, popxl.ops.init(factory.shape, factory.dtype, name, kind))
        return out

    def replica_groupings(self) -> DotTree:
        """The replica grouping of each factory, by name."""
        return DotTree.from_dict({k: f.replica_grouping for k, f in self.to_dict().items()})
