"""Variables that lie in remote buffers, or in shards over replicas.

A shard is a flat part of a variable: replica i of a group holds the i-th, padded with zeros.
"""

from typing import Any, TypeVar

import numpy as np
from popxl._impl.layout import Layout
from popxl._impl.records import RemoteRecord, ShardedRecord, VariableRecord, of
from popxl.context import ExecutionContext, execution_context, get_current_graph, scoped
from popxl.dtypes import dtype as dtype_class
from popxl.remote_buffer import RemoteBuffer
from popxl.replica_grouping import ReplicaGrouping, make_grouping
from popxl.tensor_base import DEFAULT_NAME, HostTensor, Tensor, TensorSpec, core_type, make_tensor
from popxl.variable import Variable, check_retrieval_mode, host_data


class RemoteVariable(Variable):
    """A variable in rows of a remote buffer: `ops.remote_load` and `remote_store` reach it."""


class ShardedVariable(Variable):
    """A variable of which each replica holds a shard."""


def _host(
    data: HostTensor, dtype: "dtype_class | None", downcast: bool, rg: ReplicaGrouping, scale: dict
) -> tuple[np.ndarray, tuple[int, ...]]:
    """The host's data, and the shape of one group's."""
    graph = get_current_graph()
    if graph is not graph.main_graph:
        raise ValueError(f"Variables belong to the main graph, but {graph.name} is current.")
    array = host_data(data, dtype, downcast, **scale)
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
    if made.dtype is not buffer.tensor_dtype:
        raise ValueError(
            f"Tensor {made.id} does not match buffer. It is {made.dtype} but remote buffer "
            f"{buffer.remote_buffer_id} holds {buffer.tensor_dtype}."
        )
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
    log2_scale: "int | None" = None,
    nan_on_overflow: "bool | None" = None,
) -> RemoteVariable:
    """A variable in row `offset` of a remote buffer, holding `data` when a session starts.

    Arguments as for `popxl.variable`. The data lies at the begin of the row, whatever the shapes: a
    session raises popart_exception when it is larger. ValueError: another dtype than the buffer's.
    """
    check_retrieval_mode(retrieval_mode)
    rg = replica_grouping or get_current_graph().ir.replica_grouping()
    scale = {"log2_scale": log2_scale, "nan_on_overflow": nan_on_overflow}
    array, shape = _host(data, dtype, downcast, rg, scale)
    return _in_buffer(array, Layout(rg, shape, 1), remote_buffer, offset, name, retrieval_mode)


def _sharding(
    data: HostTensor,
    dtype: "dtype_class | None",
    downcast: bool,
    rg: "ReplicaGrouping | None",
    scale: dict,
    shards: "int | None",
) -> tuple[np.ndarray, Layout]:
    ir = get_current_graph().ir
    if ir.replication_factor < 2:
        raise ValueError("Shards need several replicas: use popxl.Ir(replication=...).")
    rg = rg or ir.replica_grouping()
    array, shape = _host(data, dtype, downcast, rg, scale)
    return array, Layout(rg, shape, shards or rg.const_rg.group_size)


def remote_replica_sharded_variable(
    data: HostTensor,
    remote_buffer: RemoteBuffer,
    offset: int = 0,
    dtype: "dtype_class | None" = None,
    name: "str | None" = None,
    downcast: bool = True,
    replica_grouping: "ReplicaGrouping | None" = None,
    retrieval_mode: str = "one_per_group",
    log2_scale: "int | None" = None,
    nan_on_overflow: "bool | None" = None,
) -> RemoteVariable:
    """A variable whose shards lie in row `offset` of the replicas' remote buffers.

    It is cut over as many replicas as the buffer was made for (`replica_sharded_buffer`) or as its
    shapes say, otherwise over its groups. retrieval_mode: "all_replicas" gives the session the
    whole of every replica's shards: (replicas, *shape).

    The buffer holds flat shards; its meta shape is set, or must be the variable's shape. ValueError
    otherwise, and without several replicas.
    """
    check_retrieval_mode(retrieval_mode)
    scale = {"log2_scale": log2_scale, "nan_on_overflow": nan_on_overflow}
    shards = of(remote_buffer).known_shards()
    array, layout = _sharding(data, dtype, downcast, replica_grouping, scale, shards)
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
    shard_over: "int | None" = None,
    retrieval_mode: str = "one_per_group",
    log2_scale: "int | None" = None,
    nan_on_overflow: "bool | None" = None,
) -> tuple[ShardedVariable, Tensor]:
    """A variable of which each replica of a group keeps a shard: (variable, shard).

    shard_over: over how many replicas of a group it is cut, all of them by default.
    retrieval_mode as for `remote_replica_sharded_variable`.

    The variable is for the session's data; the shard, flat with the variable's shape as meta
    shape, is what ops read and write. The program shows a load named `<name>_rts` when weights come
    from the host, and a store when they go there. ValueError without several replicas, and as for
    `replica_sharded_buffer`.
    """
    check_retrieval_mode(retrieval_mode)
    scale = {"log2_scale": log2_scale, "nan_on_overflow": nan_on_overflow}
    graph = get_current_graph()
    array, layout = _sharding(data, dtype, downcast, replica_grouping, scale, shard_over)
    kind = dtype_class.as_dtype(array)
    replica_sharded_buffer(array.shape, kind, layout.rg, shard_over)
    made = _named(ShardedVariable, ShardedRecord, name, array, layout, retrieval_mode)
    slot = of(made).slot
    of(graph.ir).module.add_state(slot, core_type(layout.row_shape, kind), "parameter", 1, 1)
    return made, _loaded_shard(made, of(graph).core.variable(slot))


def _loaded_shard(made: ShardedVariable, value: Any) -> Tensor:
    """The shard, as what the program loads and stores with the weights."""
    graph, shape, name = get_current_graph(), of(made).known_layout().shape, f"{made.name}_rts"
    shard = make_tensor(Tensor, graph, f"{name}_remote_loaded", value, meta_shape=shape)
    show_transfers(shard, name)
    return shard


def show_transfers(loaded: Tensor, name: str) -> None:
    """Shows a load of the tensor when weights come from the host, and a store when they go."""
    main, spec = of(of(loaded).graph), TensorSpec(loaded.shape, loaded.dtype)
    with execution_context(ExecutionContext.WeightsFromHostFragment):
        init = main.add_op("Init", [])
        load = main.add_op("RemoteLoad", [])
    target = make_tensor(Tensor, main.graph, f"{name}_remote_load", base=loaded, spec=spec)
    with execution_context(ExecutionContext.WeightsToHostFragment):
        store = main.add_op("RemoteStore", [loaded])
    init.outputs, load.inputs, load.outputs = [target], [target], [loaded]
    for op in (init, load, store):
        main.created(op)


def replica_sharded_buffer(
    shape: "tuple[int, ...]",
    dtype: dtype_class,
    replica_grouping: "ReplicaGrouping | None" = None,
    shard_over: "int | None" = None,
    entries: int = 1,
) -> RemoteBuffer:
    """A remote buffer for flat shards of tensors of this shape: ceil(elements / shard_over) each.

    shape: with several replica groups, their number comes first, as in a variable's data.
    shard_over: by default the size of the replica groups, of those of constant stride in them.
    ValueError: shard_over does not divide that; the first dimension is not the number of groups.
    """
    ir = get_current_graph().ir
    rg = replica_grouping or make_grouping(
        ir._pb_ir.getSessionOptions().getGlobalReplicationFactor()
    )
    size, shape = rg.const_rg.group_size, tuple(shape)
    if shard_over is None:
        shard_over = size
    if shard_over < 1 or size % shard_over:
        raise ValueError(f"shard_over must divide the groups of {size} replicas: {shard_over}.")
    if rg.num_groups > 1:
        if shape[:1] != (rg.num_groups,):
            raise ValueError(f"{rg.num_groups} replica groups need that many rows: {shape}.")
        shape = shape[1:]
    elements = int(np.prod(shape, dtype=np.int64))
    buffer = RemoteBuffer((-(-elements // shard_over),), dtype, entries)
    buffer.meta_shape, of(buffer).shards = shape, shard_over
    return buffer
