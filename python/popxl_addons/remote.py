"""Named variables in remote buffers: buffers for them, and graphs that load and store them."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import popxl
from popxl import ops
from popxl.transforms import io_tile_exchange, merge_exchange
from popxl_addons.dot_tree import DotTree
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_replica_grouping import fill_none_group
from popxl_addons.named_tensors import NamedRemoteBuffers, NamedTensors
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory


def _buffer(spec: "popxl.TensorSpec | popxl.Tensor", entries: int) -> popxl.RemoteBuffer:
    buffer = popxl.remote_buffer(spec.shape, spec.dtype, entries)
    buffer.meta_shape = spec.meta_shape
    return buffer


def create_remote_buffer(
    spec: "popxl.TensorSpec | popxl.Tensor",
    entries: int = 1,
    replica_group: "popxl.ReplicaGrouping | None" = None,
    shard_over: "int | None" = None,
) -> popxl.RemoteBuffer:
    """Makes a buffer for tensors like `spec`, or for their shards.

    Args:
        spec: The tensors' spec. A spec with a meta shape is already that of a shard.
        entries: The number of rows.
        replica_group: The replicas that share data; by default all.
        shard_over: The number of replicas that share a tensor; by default a group's.

    Raises:
        ValueError: shard_over does not divide the elements or the group.
    """
    rg = fill_none_group(replica_group)
    shards = rg.const_rg.group_size if shard_over is None else shard_over
    if spec.meta_shape or shards <= 1:
        return _buffer(spec, entries)
    count = math.prod(spec.shape)
    if count % shards:
        raise ValueError(f"{count} elements of {spec!r} cannot be divided by {shards}.")
    shape = ((rg.num_groups,) if rg.num_groups > 1 else ()) + tuple(spec.shape)
    return popxl.replica_sharded_buffer(shape, spec.dtype, rg, shards, entries)


def named_buffers(tensors: "DotTree", entries: int = 1) -> NamedRemoteBuffers:
    """Makes an unsharded buffer of `entries` rows for every tensor or spec, under its name.

    Args:
        tensors: The tensors or specs, by name.
        entries: The number of rows of each buffer.
    """
    made = {name: _buffer(t, entries) for name, t in tensors.to_dict().items()}
    return NamedRemoteBuffers.from_dict(made)


def _shards(choice: Any, name: str, factory: VariableFactory) -> int:
    """Returns the number of replicas over which a factory's variables are sharded."""
    rg = factory.replica_grouping.const_rg
    if isinstance(choice, Mapping):
        choice = choice.get(name, True)
    if isinstance(choice, bool):
        choice = rg.group_size if choice else 1
    if not isinstance(choice, int):
        raise ValueError(
            f"shard_over_dict is a bool, an int or a dict of these, but is {choice!r}."
        )
    if factory.replica_sharded:
        return factory.shard_over
    if not 1 <= choice <= rg.group_size:
        raise ValueError(f"{name} can be sharded over 1 to {rg.group_size} replicas, not {choice}.")
    return choice


def named_variable_buffers(
    factories: NamedVariableFactories,
    entries: int = 1,
    shard_over_dict: "bool | int | Mapping[str, int]" = True,
) -> NamedRemoteBuffers:
    """Makes a buffer of `entries` rows for the variables of every factory, under its name.

    Args:
        factories: The factories.
        entries: The number of rows.
        shard_over_dict: The number of replicas over which variables are sharded: all of the
            factory's group (True), none (False), a number, or these by name. Names that are missing
            are sharded over the whole group. Factories that are sharded keep their shards.

    Raises:
        ValueError: A number is larger than a group or does not divide the elements; the argument
            has another type.
    """
    made = {}
    for name, factory in factories.to_dict().items():
        whole = factory.meta_shape or factory.shape
        shards = _shards(shard_over_dict, name, factory)
        spec = popxl.TensorSpec(whole, factory.dtype)
        made[name] = create_remote_buffer(spec, entries, factory.replica_grouping, shards)
    return NamedRemoteBuffers.from_dict(made)


@contextmanager
def _exchange(use_io_tiles: bool) -> Iterator[None]:
    """Merges transfers inside into one op, on the io tiles with use_io_tiles, in any order."""
    with popxl.in_sequence(False):
        with io_tile_exchange() if use_io_tiles else merge_exchange():
            yield


def _raise_entries(buffers: NamedRemoteBuffers, entries: int) -> None:
    for buffer in buffers.to_dict().values():
        if buffer.entries < entries:
            buffer.entries = entries


def load_remote(
    buffers: NamedRemoteBuffers, entry: "popxl.Tensor | int" = 0, use_io_tiles: bool = False
) -> NamedTensors:
    """Loads row `entry` of every buffer in the current graph. Returns the tensors by name.

    Args:
        buffers: The remote buffers, by name.
        entry: The row of the buffers: an int or a scalar int tensor.
        use_io_tiles: Whether the transfer uses the I/O tiles.
    """
    names, rows = buffers.unpack()
    with _exchange(use_io_tiles):
        loaded = [ops.remote_load(b, entry, n) for n, b in zip(names, rows, strict=True)]
    if use_io_tiles:
        with popxl.in_sequence(False):
            loaded = [ops.io_tile_copy(t) for t in loaded]
    return NamedTensors.pack(names, loaded)


def store_remote(
    buffers: NamedRemoteBuffers,
    tensors: NamedTensors,
    entry: "popxl.Tensor | int" = 0,
    use_io_tiles: bool = False,
) -> None:
    """Stores tensors into row `entry` of the buffers of the same names, in the current graph.

    Args:
        buffers: The remote buffers, by name.
        tensors: The tensors, by name.
        entry: The row of the buffers: an int or a scalar int tensor.
        use_io_tiles: Whether the transfer uses the I/O tiles.
    """
    known = tensors.to_dict()
    if use_io_tiles:
        with popxl.in_sequence(False):
            known = {name: ops.io_tile_copy(t) for name, t in known.items()}
            entry = ops.io_tile_copy(entry) if isinstance(entry, popxl.Tensor) else entry
    with _exchange(use_io_tiles):
        for name, buffer in zip(*buffers.unpack(), strict=True):
            ops.remote_store(buffer, entry, known[name])


def load_remote_graph(
    buffers: NamedRemoteBuffers, entries: int = 1, use_io_tiles: bool = False
) -> tuple[GraphWithNamedArgs, list[str]]:
    """Makes a graph that loads row `load_index` of every buffer.

    Args:
        buffers: The buffers.
        entries: The minimum number of rows of the buffers.
        use_io_tiles: Whether to load on the io tiles.

    Returns:
        The graph, and the sorted names of its outputs.
    """
    _raise_entries(buffers, entries)
    graph = popxl.gir().create_empty_graph("load_remote")
    with graph:
        index = popxl.graph_input((), popxl.int32, "load_index")
        names, loaded = load_remote(buffers, index, use_io_tiles).unpack()
        for t in loaded:
            popxl.graph_output(t)
    return GraphWithNamedArgs(graph), list(names)


def store_remote_graph(
    buffers: NamedRemoteBuffers, entries: int = 1, use_io_tiles: bool = False
) -> GraphWithNamedArgs:
    """Makes a graph that stores its named inputs into row `store_index` of the buffers.

    Args:
        buffers: The remote buffers, by name.
        entries: The minimum number of rows of the buffers.
        use_io_tiles: Whether the transfer uses the I/O tiles.
    """
    _raise_entries(buffers, entries)
    made = {}
    graph = popxl.gir().create_empty_graph("store_remote")
    with graph:
        index = popxl.graph_input((), popxl.int32, "store_index")
        for name, buffer in zip(*buffers.unpack(), strict=True):
            meta = buffer.meta_shape or None
            spec = (buffer.tensor_shape, buffer.tensor_dtype)
            made[name] = popxl.graph_input(*spec, name, meta_shape=meta)
        args = NamedTensors.from_dict(made)
        store_remote(buffers, args, index, use_io_tiles)
    return GraphWithNamedArgs(graph, args)
