"""Tests shapes, shards and float8 of variables in remote buffers."""

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.errors import popart_exception
from popxl.ops import collectives
from popxl.utils import to_numpy

F32, F8 = popxl.float32, popxl.float8_143


@pytest.mark.parametrize("shape, row", [((1, 1), (1,)), ((), (1,)), ((2, 3), (6,)), ((2,), (5,))])
def test_data_lies_at_the_begin_of_a_row(shape, row):
    data = np.arange(1.0, 1 + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer(row, F32)
        v = popxl.remote_variable(data, buffer)
        ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) * 2)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), 2 * data)


def test_data_that_is_too_large_is_refused_by_sessions():
    ir = popxl.Ir()
    with ir.main_graph:
        buffer = popxl.remote_buffer((2,), F32)
        popxl.remote_variable(np.ones((5, 3, 7, 7)), buffer)
        _ = ops.remote_load(buffer, 0) + 1
    with (
        pytest.raises(popart_exception, match="735 elements .* has 2"),
        popxl.Session(ir, "ipu_hw"),
    ):
        pass


def test_a_buffer_of_whole_tensors_takes_shards():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        buffer = popxl.remote_buffer((4,), F32)
        v = popxl.remote_replica_sharded_variable(np.arange(4.0), buffer)
        out = popxl.d2h_stream((4,), F32)
        ops.host_store(out, ops.remote_load(buffer, 0))
    with popxl.Session(ir, "ipu_hw") as session:
        assert session.run()[out].tolist() == [[0, 1, 0, 0], [2, 3, 0, 0]]
        assert session.get_tensor_data(v).tolist() == [0, 1, 2, 3]


ROW = np.arange(6, dtype=np.float32)
CUTS = [(None, 4, None, (2,)), ((1, 2), 1, None, (6,)), ((1, 4), 2, None, (3,))]
CUTS += [((1, 2), None, None, (3,)), ((2, 2), 2, None, (3,))]
CUTS += [(None, None, [0, 0, 1, 1, 0, 0, 1, 1], (3,))]


@pytest.mark.parametrize("stride_size, over, assignment, row", CUTS)
@pytest.mark.parametrize("mode", ["one_per_group", "all_replicas"])
def test_shards_are_over_a_part_of_a_group(stride_size, over, assignment, row, mode):
    ir = popxl.Ir(replication=8 if assignment else 4)
    rg = ir.replica_grouping(*(stride_size or ()))
    if assignment:
        rg = ir.replica_grouping_from_assignments(assignment)
    data = np.stack([ROW + 10 * g for g in range(rg.num_groups)])
    data = data if rg.num_groups > 1 else ROW
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.replica_sharded_buffer(data.shape, F32, rg, over)
        remote = popxl.remote_replica_sharded_variable(
            data, buffer, replica_grouping=rg, retrieval_mode=mode
        )
        v, shard = popxl.replica_sharded_variable(
            data, name="v", replica_grouping=rg, shard_over=over, retrieval_mode=mode
        )
        ops.add_(shard, shard)
        ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) + 1)
    assert buffer.tensor_shape == shard.shape == row and buffer.meta_shape == (6,)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        session.run()
    whole = np.stack([ROW + 10 * g for g in rg.assignment]) if mode == "all_replicas" else data
    np.testing.assert_array_equal(session.get_tensor_data(v), 2 * whole)
    np.testing.assert_array_equal(session.get_tensor_data(remote), whole + 1)


@pytest.mark.parametrize(
    "arguments",
    [((8,), None, 8), ((8,), None, 3), ((8,), None, 0), ((8,), (1, 2), None), ((2, 8), (1, 2), 4)],
)
def test_buffers_of_shards_refuse(arguments):
    shape, group, over = arguments
    ir = popxl.Ir(replication=4)
    with ir.main_graph, pytest.raises(ValueError):
        popxl.replica_sharded_buffer(shape, F32, group and ir.replica_grouping(*group), over)


def test_shards_count_the_replicas_of_all_processes():
    ir = popxl.Ir(replication=2)
    options = ir._pb_ir.getSessionOptions()
    options.enableDistributedReplicatedGraphs, options.globalReplicationFactor = True, 8
    with ir.main_graph:
        assert popxl.replica_sharded_buffer((16,), F32).tensor_shape == (2,)


def test_a_sharded_variable_is_loaded_and_stored_with_the_weights():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        popxl.replica_sharded_variable(ROW, name="v")
    found = [
        (op.opType(), op.getSettings().executionContext.name, *op.getOutputIds())
        for op in ir.main_graph._pb_graph.getOps()
    ]
    load, store = "WeightsFromHostFragment", "WeightsToHostFragment"
    assert found == [
        ("Init", load, "v_rts_remote_load"),
        ("RemoteLoad", load, "v_rts_remote_loaded"),
        ("RemoteStore", store),
    ]


def plain(data, scale):
    return popxl.variable(data, F8, **scale), None


def remote(data, scale):
    buffer = popxl.remote_buffer(data.shape, F8)
    return popxl.remote_variable(data, buffer, 0, F8, **scale), buffer


def remote_shards(data, scale):
    buffer = popxl.replica_sharded_buffer(data.shape, F8)
    return popxl.remote_replica_sharded_variable(data, buffer, 0, F8, **scale), buffer


def shards(data, scale):
    return popxl.replica_sharded_variable(data, F8, **scale)


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("make", [plain, remote, remote_shards, shards])
def test_float8_lies_anywhere(make, literal):
    numbers = np.float32([1, -2, 0.5, 3, 7])
    scale = {} if literal else {"log2_scale": 1, "nan_on_overflow": False}
    bits = to_numpy(numbers, F8, **({} if literal else {"log2_scale": 1}))
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        v, where = make(bits if literal else numbers, scale)
        if isinstance(where, popxl.RemoteBuffer):
            read = ops.remote_load(where, 0)
        else:
            read = v if where is None else where
        if read.meta_shape:
            read = collectives.replicated_all_gather(read)
        out = popxl.d2h_stream(numbers.shape, F32)
        ops.host_store(out, ops.pow2scale_cast_from_fp8(read, 0, F32))
    session = popxl.Session(ir, "ipu_hw")
    with session:
        assert session.run()[out].tolist() == [(numbers * (1 if literal else 2)).tolist()] * 2
    assert session.get_tensor_data(v).tolist() == bits.tolist()
    zeros = np.zeros(5, np.uint8).view(F8.as_numpy())
    session.write_variable_data(v, zeros)
    with session:
        assert not session.run()[out].any()
    assert session.get_tensor_data(v).tolist() == zeros.tolist()


def test_remote_buffers_change_and_compare():
    with popxl.Ir().main_graph:
        a, b = popxl.RemoteBuffer([2, 3], F32, 1), popxl.remote_buffer((2,), F32)
        assert a.tensor_shape == (2, 3) and a != b and len({a, b, a}) == 2
        a.set_remote_buffer_info(popxl.float16, (7,), 3)
        assert (a.tensor_dtype, a.tensor_shape, a.entries) == (popxl.float16, (7,), 3)
        ops.remote_load(a, 2)
        with pytest.raises(ValueError, match="once an op uses it"):
            a.set_remote_buffer_info(F32, (7,), 3)
        for name in ("tensor_shape", "tensor_dtype"):
            with pytest.raises(AttributeError) as info:
                setattr(a, name, 1)
            assert info.value.args[0] == f"can't set attribute '{name}'"
