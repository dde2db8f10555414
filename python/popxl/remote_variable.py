"""Variables in remote buffers, or sharded over replicas.

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
    """A variable in rows of a remote buffer, for `ops.remote_load` and `remote_store`."""


class ShardedVariable(Variable):
    """A variable that is sharded over replicas."""


def _host(
    data: HostTensor, dtype: "dtype_class | None", downcast: bool, rg: ReplicaGrouping, scale: dict
) -> tuple[np.ndarray, tuple[int, ...]]:
    """Returns the host's data, and the shape of one group's data."""
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
    """Makes a variable in row `offset` of a remote buffer, holding `data` when a session starts.

    The data starts at the beginning of the row, whatever the shapes. A session raises
    popart_exception if it is larger than the row.

    Args:
        data: The data; this and the other arguments are those of `popxl.variable`.
        remote_buffer: The buffer.
        offset: The row.
        dtype: The data type; by default that of the data.
        name: The name.
        downcast: Whether 64-bit data become 32-bit data.
        replica_grouping: The groups of replicas that share a value; by default all replicas form
            one.
        retrieval_mode: Which replicas' values the host gets.
        log2_scale: The power of two that scales float8 data.
        nan_on_overflow: Whether float8 values that are too large become NaN instead of the largest.

    Raises:
        ValueError: The dtype differs from the buffer's.
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
    """Makes a variable whose shards are in row `offset` of the replicas' remote buffers.

    The buffer (`replica_sharded_buffer`) or its shapes determine the number of shards; otherwise
    the variable is sharded over its groups. The buffer holds flat shards. This sets its meta shape,
    or requires that it is the variable's shape.

    Args:
        data: The data; this and the other arguments are those of `popxl.variable`.
        remote_buffer: The buffer.
        offset: The row.
        retrieval_mode: "all_replicas" gives the session the whole data of every replica's shards:
            (replicas, *shape).
        dtype: The data type; by default that of the data.
        name: The name.
        downcast: Whether 64-bit data become 32-bit data.
        replica_grouping: The groups of replicas that share a value; by default all replicas form
            one.
        log2_scale: The power of two that scales float8 data.
        nan_on_overflow: Whether float8 values that are too large become NaN instead of the largest.

    Raises:
        ValueError: The buffer's meta shape is another; there is only one replica.
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
    """Makes a variable that is sharded over the replicas of a group.

    The variable is for the session's data. Ops read and write the shard, which is flat and has the
    variable's shape as meta shape. The program shows a load named `<name>_rts` when weights are
    sent from the host, and a store when they are fetched.

    Args:
        data: The data; this and the other arguments are those of `popxl.variable`.
        shard_over: The number of replicas of a group that hold shards; by default all.
        retrieval_mode: See `remote_replica_sharded_variable`.
        dtype: The data type; by default that of the data.
        name: The name.
        downcast: Whether 64-bit data become 32-bit data.
        replica_grouping: The groups of replicas that share a value; by default all replicas form
            one.
        log2_scale: The power of two that scales float8 data.
        nan_on_overflow: Whether float8 values that are too large become NaN instead of the largest.

    Returns:
        The variable and the shard.

    Raises:
        ValueError: There is only one replica; see also `replica_sharded_buffer`.
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
    """Returns the shard, as the tensor that the program loads and stores with the weights."""
    graph, shape, name = get_current_graph(), of(made).known_layout().shape, f"{made.name}_rts"
    shard = make_tensor(Tensor, graph, f"{name}_remote_loaded", value, meta_shape=shape)
    show_transfers(shard, name)
    return shard


def show_transfers(loaded: Tensor, name: str) -> None:
    """Shows a load of the tensor when weights are sent from the host, and a store after."""
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
    """Makes a remote buffer for flat shards of tensors: ceil(elements / shard_over) each.

    Args:
        shape: The tensors' shape; with several replica groups, their number comes first, as in a
            variable's data.
        dtype: The element type.
        replica_grouping: The replicas that share data; by default all.
        shard_over: The number of shards; by default the size of the replica groups, or of the
            groups of constant stride in them.
        entries: The number of rows.

    Raises:
        ValueError: shard_over does not divide that size; the first dimension is not the number of
            groups.
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
