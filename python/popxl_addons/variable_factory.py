"""Factories that make a graph's named inputs, and later the variables for them."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import popxl
import popxl.tensor
from popxl.utils import to_numpy
from popxl_addons.dot_tree import DotTree
from popxl_addons.instances import first_instance_first, is_so_on_first_instance
from popxl_addons.named_replica_grouping import NamedReplicaGrouping, fill_none_group
from popxl_addons.named_tensors import NamedRemoteBuffers, NamedTensors

DataIter = Callable[[], Any] | Iterable[Any]


def _label(data_iter: DataIter) -> str:
    """Returns the name of a function, or the text of another object, for messages."""
    return str(getattr(data_iter, "__qualname__", None) or repr(data_iter))


def _source(data_iter: DataIter) -> Callable[[], Any]:
    """Returns the function for the next variable's data. Raises ValueError if there is none."""
    if callable(data_iter):
        try:
            data_iter()
        except Exception as error:
            raise ValueError(
                f"data_iter, {_label(data_iter)}, could not be called: {type(error).__name__}: "
                f"{str(error).rstrip('.')}. Pass a function without arguments that returns the "
                "data of a variable."
            ) from error
        return data_iter
    if isinstance(data_iter, Iterable):
        return iter(data_iter).__next__
    raise ValueError(f"data_iter must be a function or an iterable, not {data_iter!r}.")


class VariableFactory:
    """Makes variables of one shape and dtype. Needs a current graph.

    Args:
        data_iter: A function that returns the data of one variable, or an iterable of such data. A
            function is called once as a test, and again for the shape; the second result is the
            data of the first variable.
        dtype: The element type; by default the data's.
        name: The variables' name.
        by_ref: Whether the input is by reference.
        replica_grouping: One array is drawn for each of its groups; by default one for all
            replicas.
        shard_over: The number of replicas of a group that hold flat shards. Inputs are then shards:
            `shape` is the shard's and `meta_shape` that of the whole, otherwise None.

    Raises:
        ValueError: data_iter is neither, raises or is empty; there are more shards than replicas in
            a group.
    """

    def __init__(
        self,
        data_iter: DataIter,
        dtype: "popxl.dtype | None" = None,
        name: "str | None" = None,
        by_ref: bool = False,
        replica_grouping: "popxl.ReplicaGrouping | None" = None,
        shard_over: int = 1,
    ) -> None:
        self.data_iter, self.name, self.by_ref = data_iter, name, by_ref
        self.replica_grouping = fill_none_group(replica_grouping)
        if not 1 <= shard_over <= self.replica_grouping.group_size:
            raise ValueError(
                f"shard_over is {shard_over}, but {self.replica_grouping!r} has groups of "
                f"{self.replica_grouping.group_size} replicas."
            )
        self._next = _source(data_iter)
        self._peeked: np.ndarray | None = self._convert(self._first(), dtype)
        self.dtype = popxl.dtype.as_dtype(self._peeked)
        self.shard_over, self.replica_sharded = shard_over, shard_over > 1
        self._whole: tuple[int, ...] = self._peeked.shape
        self.meta_shape = self._whole if self.replica_sharded else None
        self.shape = (self._peeked.size // shard_over,) if self.replica_sharded else self._whole
        self.sharded_variables: list[popxl.tensor.Variable] = []  # whose shards were created

    def _first(self) -> Any:
        try:
            return self._next()
        except StopIteration:
            raise ValueError(f"data_iter, {_label(self.data_iter)}, is empty.") from None

    @staticmethod
    def _convert(data: Any, dtype: "popxl.dtype | None") -> np.ndarray:
        if not (np.isscalar(data) or isinstance(data, (np.generic, Iterable))):
            raise ValueError(f"Data of variables are arrays, lists or numbers, not {data!r}.")
        return to_numpy(data, dtype)

    def next_data(self, empty: bool = False) -> np.ndarray:
        """Returns the next variable's host data, with groups in front if there are several.

        Args:
            empty: Whether to return uninitialised memory instead of drawing data.
        """
        if empty:
            return np.empty(self._shape_on_host, self.dtype.as_numpy())
        groups = self.replica_grouping.num_groups
        drawn = [self._next_one() for _ in range(groups)]
        return np.stack(drawn) if groups > 1 else drawn[0]

    @property
    def _shape_on_host(self) -> tuple[int, ...]:
        groups = self.replica_grouping.num_groups
        return ((groups,) if groups > 1 else ()) + self._whole

    def _next_one(self) -> np.ndarray:
        if self._peeked is not None:
            data, self._peeked = self._peeked, None
            return data
        data = self._convert(self._next(), self.dtype)
        if data.shape != self._whole:
            raise ValueError(
                f"data_iter, {_label(self.data_iter)}, gave data of shape {data.shape}, rank "
                f"{data.ndim}, after data of shape {self._whole}, rank {len(self._whole)}. A "
                "factory makes variables of one shape."
            )
        return data

    def next_memmap(
        self,
        memmap_dir: "str | Path",
        name: str,
        empty: bool = False,
        read_only_if_exists: bool = False,
    ) -> np.memmap:
        """Returns the next variable's data, memory-mapped from the file `<memmap_dir>/<name>.npy`.

        The file contains only the elements. An existing file keeps its data. With several
        instances, the first makes the file, and all map it.

        Args:
            memmap_dir: The folder.
            name: The file's name.
            empty: Whether to leave a new file unfilled.
            read_only_if_exists: Whether sessions must not write to an existing file.

        Raises:
            ValueError: The file has another size.
        """
        shape, dtype = self._shape_on_host, self.dtype.as_numpy()
        folder = Path(memmap_dir)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.npy"
        if is_so_on_first_instance(path.exists()):
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            if path.stat().st_size != size:
                raise ValueError(f"{path} has {path.stat().st_size} bytes but must have {size}.")
            return np.memmap(path, dtype, "r" if read_only_if_exists else "r+", shape=shape)
        data = None if empty else self.next_data()
        with first_instance_first() as is_first:
            mapped = np.memmap(path, dtype, "w+" if is_first else "r+", shape=shape)
            if is_first and data is not None:
                mapped[...] = data
                mapped.flush()
        return mapped

    def _data(
        self, name: str, empty: bool, memmap_dir: "str | Path | None", read_only_if_exists: bool
    ) -> np.ndarray:
        if memmap_dir is None:
            return self.next_data(empty)
        return self.next_memmap(memmap_dir, name, empty, read_only_if_exists)

    def create_input(self, prefix: "str | None" = None) -> popxl.Tensor:
        """Makes an input of the current graph, `prefix.name`, for a variable or its shard.

        Args:
            prefix: The text in front of the name.
        """
        name = f"{prefix}.{self.name}" if prefix and self.name else self.name or prefix
        return popxl.graph_input(self.shape, self.dtype, name, self.by_ref, self.meta_shape)

    @property
    def input_spec(self) -> popxl.TensorSpec:
        """Shape and dtype of the input."""
        return popxl.TensorSpec(self.shape, self.dtype, self.meta_shape or ())

    def create_tensor(
        self,
        name: "str | None" = None,
        empty: bool = False,
        memmap_dir: "str | Path | None" = None,
        read_only_if_exists: bool = False,
    ) -> popxl.Tensor:
        """Makes a variable of the main graph. Returns it, or its shard.

        The variables of shards are kept in `sharded_variables`, for the session.

        Args:
            name: By default the factory's name.
            empty: Whether to skip drawing data.
            memmap_dir: See `next_memmap`.
            read_only_if_exists: See `next_memmap`.

        Raises:
            ValueError: The number of shards does not divide the elements.
        """
        full = name or self.name
        data = self._data(full or "t", empty, memmap_dir, read_only_if_exists)
        arguments = (data, self.dtype, full, False, self.replica_grouping)
        if not self.replica_sharded:
            return popxl.variable(*arguments)
        count = math.prod(self._whole)
        if count % self.shard_over:
            raise ValueError(
                f"{full or 'A variable'} has {count} elements, which {self.shard_over} replicas "
                "cannot share: make it larger, or shard it over other groups."
            )
        variable, shard = popxl.replica_sharded_variable(*arguments, self.shard_over)
        self.sharded_variables.append(variable)
        return shard

    def create_remote_tensor(
        self,
        buffer: popxl.RemoteBuffer,
        entry: int = 0,
        name: "str | None" = None,
        empty: bool = False,
        memmap_dir: "str | Path | None" = None,
        read_only_if_exists: bool = False,
    ) -> "popxl.tensor.Variable":
        """Makes a remote variable, or its shards, in row `entry` of a buffer.

        It is sharded if the buffer has a meta shape. The other arguments are those of
        `create_tensor`.

        Args:
            buffer: The remote buffer.
            entry: The row of the buffer.
            name: The name of the variable.
            empty: Whether to leave the host data uninitialised instead of drawing it.
            memmap_dir: The folder of memory-mapped host data; None keeps the data in memory.
            read_only_if_exists: Whether existing memory-mapped files are opened for reading alone.
        """
        sharded = bool(buffer.meta_shape)
        make = popxl.remote_replica_sharded_variable if sharded else popxl.remote_variable
        full, rg = name or self.name, self.replica_grouping
        data = self._data(full or "t", empty, memmap_dir, read_only_if_exists)
        return make(data, buffer, entry, self.dtype, full, False, rg)


class NamedVariableFactories(DotTree[VariableFactory]):
    """Factories by name."""

    def _made(self, make: Callable[[str, str, VariableFactory], Any], prefix: Any) -> NamedTensors:
        """Returns `make(key, variable's name, factory)` by key, made in alphabetical order."""
        made = {}
        for key, factory in sorted(self.to_dict().items()):
            made[key] = make(key, f"{prefix}.{key}" if prefix else key, factory)
        return NamedTensors.from_dict(made)

    def init(
        self,
        prefix: "str | None" = None,
        empty: bool = False,
        memmap_dir: "str | Path | None" = None,
        read_only_if_exists: bool = False,
    ) -> NamedTensors:
        """Makes a variable of the main graph from each factory, in alphabetical order of names.

        Args:
            prefix: Put before the variables' names.
            empty: Whether to skip drawing data.
            memmap_dir: A folder for memory-mapped data, `<name>.npy`; existing files keep theirs.
            read_only_if_exists: Whether sessions must not write to existing files.
        """
        more = (empty, memmap_dir, read_only_if_exists)
        return self._made(lambda key, name, f: f.create_tensor(name, *more), prefix)

    def init_remote(
        self,
        buffers: NamedRemoteBuffers,
        entry: int = 0,
        prefix: "str | None" = None,
        empty: bool = False,
        memmap_dir: "str | Path | None" = None,
        read_only_if_exists: bool = False,
    ) -> NamedTensors:
        """Makes a remote variable from each factory, in row `entry` of the buffer of its name.

        The other arguments are those of `init`.

        Args:
            buffers: The remote buffers, by name.
            entry: The row of the buffers.
            prefix: The text in front of names.
            empty: Whether to leave the host data uninitialised instead of drawing it.
            memmap_dir: The folder of memory-mapped host data; None keeps the data in memory.
            read_only_if_exists: Whether existing memory-mapped files are opened for reading alone.

        Raises:
            KeyError: A buffer is missing.
        """
        more = (empty, memmap_dir, read_only_if_exists)
        make = lambda key, name, f: f.create_remote_tensor(buffers[key], entry, name, *more)  # noqa: E731
        return self._made(make, prefix)

    def init_zero(self) -> NamedTensors:
        """Makes zeros in the current graph, by `ops.init`, in the order of the factories."""
        return self._init("zero")

    def init_undef(self) -> NamedTensors:
        """Makes uninitialised tensors in the current graph, by `ops.init`."""
        return self._init("undef")

    def _init(self, kind: str) -> NamedTensors:
        init = popxl.ops.init
        return NamedTensors.from_dict(
            {
                key: init(factory.shape, factory.dtype, key, kind, factory.meta_shape)
                for key, factory in self.to_dict().items()
            }
        )

    @property
    def replica_groupings(self) -> NamedReplicaGrouping:
        """The replica grouping of each factory, by name."""
        return NamedReplicaGrouping.from_dict(
            {key: factory.replica_grouping for key, factory in self.to_dict().items()}
        )


def add_variable_input(
    name: str,
    data_iter: DataIter,
    dtype: "popxl.dtype | None" = None,
    by_ref: bool = False,
    replica_grouping: "popxl.ReplicaGrouping | None" = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """Makes an input of the current graph. Returns it and the factory of its variables.

    Args:
        name: The name.
        data_iter: A function or iterable that gives the variable's host data.
        dtype: The data type.
        by_ref: Whether the graph may write to the variable.
        replica_grouping: The groups of replicas that share a value; by default all replicas form
            one.
    """
    factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping)
    return factory.create_input(), factory


def add_replica_sharded_variable_input(
    name: str,
    data_iter: DataIter,
    dtype: "popxl.dtype | None" = None,
    by_ref: bool = False,
    replica_grouping: "popxl.ReplicaGrouping | None" = None,
    shard_over: "int | None" = None,
) -> tuple[popxl.Tensor, VariableFactory]:
    """Like `add_variable_input`, for a variable that is sharded over the replicas of a group.

    The input is the flat shard; its meta shape is the variable's shape.

    Args:
        name: The name.
        data_iter: A function or iterable that gives the variable's host data.
        dtype: The data type.
        by_ref: Whether the graph may write to the variable.
        replica_grouping: The groups of replicas that share a value; by default all replicas form
            one.
        shard_over: The number of shards; by default the size of the groups.
    """
    shards = shard_over or fill_none_group(replica_grouping).group_size
    factory = VariableFactory(data_iter, dtype, name, by_ref, replica_grouping, shards)
    return factory.create_input(), factory
