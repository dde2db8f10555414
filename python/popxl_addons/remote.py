"""Named variables in remote buffers: buffers for them, and graphs that load and store them."""

from collections.abc import Mapping

import popxl
from popxl import ops
from popxl_addons.dot_tree import DotTree
from popxl_addons.graph import GraphWithNamedArgs
from popxl_addons.named_tensors import NamedRemoteBuffers, NamedTensors
from popxl_addons.sharded_spec import replica_sharded_spec
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory


def create_remote_buffer(spec: popxl.TensorSpec, entries: int = 1) -> popxl.RemoteBuffer:
    """A buffer for tensors like `spec`."""
    buffer = popxl.remote_buffer(spec.shape, spec.dtype, entries)
    buffer.meta_shape = spec.meta_shape
    return buffer


def named_buffers(specs: "DotTree", entries: int = 1) -> NamedRemoteBuffers:
    """A buffer of `entries` rows for every tensor or spec, under its name."""
    made = {
        name: create_remote_buffer(spec.spec if isinstance(spec, popxl.Tensor) else spec, entries)
        for name, spec in specs.to_dict().items()
    }
    return NamedRemoteBuffers.from_dict(made)  # type: ignore[return-value]


def named_variable_buffers(
    factories: NamedVariableFactories,
    entries: int = 1,
    shard_over_dict: "bool | Mapping[str, int]" = True,
) -> NamedRemoteBuffers:
    """A buffer of `entries` rows for the variables of every factory, under its name.

    shard_over_dict: whether buffers hold shards where factories say so, or by name over how many
    replicas.
    """

    def shards(name: str, factory: VariableFactory) -> int:
        if isinstance(shard_over_dict, bool):
            return factory.shard_over if shard_over_dict else 1
        return shard_over_dict.get(name, 1)

    made = {
        name: create_remote_buffer(
            replica_sharded_spec(popxl.TensorSpec(f.shape, f.dtype), shards(name, f)), entries
        )
        for name, f in factories.to_dict().items()
    }
    return NamedRemoteBuffers.from_dict(made)  # type: ignore[return-value]


def load_remote_graph(
    buffers: NamedRemoteBuffers, use_offset: bool = True
) -> tuple[GraphWithNamedArgs, list[str]]:
    """A graph that loads a row of every buffer, and the names of its outputs, sorted.

    use_offset: the graph takes the row, an int32 scalar; else it loads row 0.
    """
    names, rows = buffers.unpack()

    def load(offset: "popxl.Tensor | int") -> list[popxl.Tensor]:
        return [ops.remote_load(b, offset, n) for n, b in zip(names, rows, strict=True)]

    offset = popxl.TensorSpec((), popxl.int32) if use_offset else 0
    with popxl.in_sequence():
        graph = popxl.gir().create_graph(load, offset)
    return GraphWithNamedArgs(graph), list(names)


def store_remote_graph(
    buffers: NamedRemoteBuffers, use_offset: bool = True
) -> tuple[GraphWithNamedArgs, list[str]]:
    """A graph that stores its named inputs into a row of the buffers, and their names, sorted.

    use_offset: the graph takes the row first, an int32 scalar; else it stores to row 0.
    """
    names, rows = buffers.unpack()
    args = NamedTensors()

    def store(offset: "popxl.Tensor | int") -> None:
        for name, buffer in zip(names, rows, strict=True):
            meta = buffer.meta_shape or None
            t = popxl.graph_input(buffer.tensor_shape, buffer.tensor_dtype, name, meta_shape=meta)
            args.insert(name, t)
            ops.remote_store(buffer, offset, t)

    offset = popxl.TensorSpec((), popxl.int32) if use_offset else 0
    with popxl.in_sequence():
        graph = popxl.gir().create_graph(store, offset)
    return GraphWithNamedArgs(graph, args), list(names)


def load_remote(buffers: NamedRemoteBuffers, row_offset: "popxl.Tensor | int" = 0) -> NamedTensors:
    """Row `row_offset` of every buffer, by name."""
    graph, names = load_remote_graph(buffers)
    loaded = graph.call(row_offset)
    return NamedTensors.pack(names, loaded)  # type: ignore[return-value]


def store_remote(
    tensors: NamedTensors,
    buffers: NamedRemoteBuffers,
    row_offset: "popxl.Tensor | int" = 0,
) -> None:
    """Tensors into row `row_offset` of the buffers of the same names."""
    graph, _ = store_remote_graph(buffers)
    graph.bind(tensors).call(row_offset)
