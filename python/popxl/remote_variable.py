"""Variables that lie in remote buffers, or in shards over replicas.

A shard is a flat part of a variable: replica i of a group holds the i-th, padded with zeros.
"""

from typing import TypeVar

import numpy as np
from popxl.context import get_current_graph, scoped
from popxl.dtypes import dtype as dtype_class
from popxl.layout import Layout
from popxl.records import RemoteRecord, ShardedRecord, VariableRecord, of
from popxl.remote_buffer import RemoteBuffer
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor_base import DEFAULT_NAME, HostTensor, Tensor, TensorSpec, core_type, make_tensor
from popxl.utils import to_numpy
from popxl.variable import Variable, check_retrieval_mode


class RemoteVariable(Variable):
    """A variable in rows of a remote buffer: `ops.remote_load` and `remote_store` reach it."""


class ShardedVariable(Variable):
    """A variable of which each replica holds a shard."""


def _host(
    data: HostTensor, dtype: "dtype_class | None", downcast: bool, rg: ReplicaGrouping
) -> tuple[np.ndarray, tuple[int, ...]]:
    """The host's data, and the shape of one group's."""
    graph = get_current_graph()
    if graph is not graph.main_graph:
        raise ValueError(f"Variables belong to the main graph, but {graph.name} is current.")
    array = to_numpy(data, dtype, downcast)
    dtype_class.as_dtype(array)
    if rg.num_groups == 1:
        return array, array.shape
    if array.shape[:1] != (rg.num_groups,):
        raise ValueError(
            f"A variable of {rg.num_groups} replica groups needs data with that many rows but got "
            f"shape {array.shape}."
        )
    return array, array.shape[1:]


_Made = TypeVar("_Made", RemoteVariable, ShardedVariable)


def _named(
    kind: type[_Made],
    record: type[VariableRecord],
    name: "str | None",
    array: np.ndarray,
    layout: Layout,
    mode: str = "one_per_group",
) -> _Made:
    graph, full = get_current_graph(), scoped(name or DEFAULT_NAME)
    spec, slot = TensorSpec(layout.shape, dtype_class.as_dtype(array)), of(graph.ir).core_name(full)
    fields = dict(slot=slot, data=array, layout=layout, grouping=layout.rg, retrieval_mode=mode)
    made = make_tensor(kind, graph, full, spec=spec, record=record, **fields)
    of(graph.ir).slots[slot] = made
    return made


def _in_buffer(
    array: np.ndarray,
    layout: Layout,
    buffer: RemoteBuffer,
    offset: int,
    name: "str | None",
    mode: str = "one_per_group",
) -> RemoteVariable:
    of(buffer).check_ir()
    of(buffer).check_row(offset)
    made = _named(RemoteVariable, RemoteRecord, name, array, layout, mode)
    buffer.validate_tensor_matches_buffer(made, layout.shards)
    of(buffer).use()
    record = of(made)
    assert isinstance(record, RemoteRecord)
    record.buffer, record.offset = buffer, offset
    return made


def remote_variable(
    data: HostTensor,
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: "dtype_class | None" = None,
    name: "str | None" = None,
    downcast: bool = True,
    replica_grouping: "ReplicaGrouping | None" = None,
    retrieval_mode: str = "one_per_group",
) -> RemoteVariable:
    """A variable in row `offset` of a remote buffer, holding `data` when a session starts.

    Arguments as for `popxl.variable`. ValueError: the data is no row of the buffer.
    """
    check_retrieval_mode(retrieval_mode)
    rg = replica_grouping or get_current_graph().ir.replica_grouping()
    array, shape = _host(data, dtype, downcast, rg)
    return _in_buffer(array, Layout(rg, shape, 1), remote_buffer, offset, name, retrieval_mode)


def _sharding(
    data: HostTensor, dtype: "dtype_class | None", downcast: bool, rg: "ReplicaGrouping | None"
) -> tuple[np.ndarray, Layout]:
    ir = get_current_graph().ir
    if ir.replication_factor < 2:
        raise ValueError("Shards need several replicas: use popxl.Ir(replication=...).")
    rg = rg or ir.replica_grouping()
    array, shape = _host(data, dtype, downcast, rg)
    return array, Layout(rg, shape, rg.group_size)


def remote_replica_sharded_variable(
    data: HostTensor,
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: "dtype_class | None" = None,
    name: "str | None" = None,
    downcast: bool = True,
    replica_grouping: "ReplicaGrouping | None" = None,
    retrieval_mode: str = "one_per_group",
) -> RemoteVariable:
    """A variable whose shards lie in row `offset` of the replicas' remote buffers.

    retrieval_mode: "all_replicas" gives the session (replicas, elements of a shard): what each
    replica holds, padding included, instead of the whole.

    The buffer holds flat shards (`replica_sharded_buffer`); its meta shape is set, or must be the
    variable's shape. ValueError otherwise, and without several replicas.
    """
    check_retrieval_mode(retrieval_mode)
    array, layout = _sharding(data, dtype, downcast, replica_grouping)
    if not remote_buffer.meta_shape:
        remote_buffer.meta_shape = layout.shape
    elif remote_buffer.meta_shape != layout.shape:
        raise ValueError(
            f"The buffer's meta shape is {remote_buffer.meta_shape} but the variable's shape is "
            f"{layout.shape}."
        )
    made = _in_buffer(array, layout, remote_buffer, offset, name, retrieval_mode)
    of(made).meta_shape = layout.shape
    return made


def replica_sharded_variable(
    data: HostTensor,
    dtype: "dtype_class | None" = None,
    name: "str | None" = None,
    downcast: bool = True,
    replica_grouping: "ReplicaGrouping | None" = None,
    retrieval_mode: str = "one_per_group",
) -> tuple[ShardedVariable, Tensor]:
    """A variable of which each replica of a group keeps a shard: (variable, shard).

    retrieval_mode as for `remote_replica_sharded_variable`.

    The variable is for the session's data; the shard, flat with the variable's shape as meta
    shape, is what ops read and write. ValueError without several replicas.
    """
    check_retrieval_mode(retrieval_mode)
    array, layout = _sharding(data, dtype, downcast, replica_grouping)
    graph = get_current_graph()
    made = _named(ShardedVariable, ShardedRecord, name, array, layout, retrieval_mode)
    each, slot = -(-made.nelms // layout.shards), of(made).slot
    of(graph.ir).module.add_state(slot, core_type((each,), made.dtype), "parameter", 1, 1)
    value = of(graph).core.variable(slot)
    shard = make_tensor(Tensor, graph, f"{made.name}_shard", value, meta_shape=layout.shape)
    return made, shard


def replica_sharded_buffer(
    shape: "tuple[int, ...]",
    dtype: dtype_class,
    replica_grouping: "ReplicaGrouping | None" = None,
    shard_over: "int | None" = None,
    entries: int = 1,
) -> RemoteBuffer:
    """A remote buffer for flat shards of tensors of this shape: ceil(elements / shard_over) each.

    shard_over: by default the size of the replica groups.
    """
    if shard_over is None:
        rg = replica_grouping or get_current_graph().ir.replica_grouping()
        shard_over = rg.group_size
    elements = int(np.prod(shape, dtype=np.int64))
    buffer = RemoteBuffer((-(-elements // shard_over),), dtype, entries)
    buffer.meta_shape = tuple(shape)
    return buffer
