"""Tests variables in remote buffers and in shards over replicas."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.ops import collectives

DATA = np.arange(10, dtype=np.float32).reshape(2, 5)


def test_a_remote_variable_is_loaded_changed_and_stored():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2, 5), popxl.float32, entries=2)
        variables = [popxl.remote_variable(DATA + i, buffer, i, name=f"v{i}") for i in range(2)]
        t = ops.remote_load(buffer, 1, "v")
        ops.remote_store(buffer, 0, t * 2.0)
    session = popxl.Session(ir, "ipu_hw")
    np.testing.assert_array_equal(session.get_tensor_data(variables[0]), DATA)
    with session:
        session.run()
        np.testing.assert_array_equal(session.get_tensor_data(variables[0]), 2 * (DATA + 1))
        session.write_variable_data(variables[1], 5 * DATA)
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(variables[0]), 10 * DATA)
    np.testing.assert_array_equal(session.get_tensor_data(variables[1]), 5 * DATA)


def test_every_replicas_row_of_a_remote_variable_is_retrieved():
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), popxl.float32)
        rg = ir.replica_grouping(group_size=2)
        data = np.float32([[1, 2], [3, 4]])
        v = popxl.remote_variable(data, buffer, replica_grouping=rg, retrieval_mode="all_replicas")
        x = popxl.h2d_stream((), popxl.float32)
        ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) + ops.host_load(x))
    session = popxl.Session(ir, "ipu_hw")
    np.testing.assert_array_equal(session.get_tensor_data(v), data[[0, 0, 1, 1]])
    with session:
        session.run({x: np.float32([10, 20, 30, 40])})
    got = session.get_tensor_data(v)
    np.testing.assert_array_equal(got, data[[0, 0, 1, 1]] + np.float32([[10], [20], [30], [40]]))


def test_a_sharded_remote_variable_is_gathered_and_updated_by_shards():
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.replica_sharded_buffer((2, 5), popxl.float32)
        assert (buffer.tensor_shape, buffer.meta_shape) == ((3,), (2, 5))
        v = popxl.remote_replica_sharded_variable(DATA, buffer)
        shard = ops.remote_load(buffer, 0)
        whole = collectives.replicated_all_gather(shard)
        out = popxl.d2h_stream(whole.shape, whole.dtype)
        ops.host_store(out, whole)
        ops.remote_store(buffer, 0, shard + 1.0)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        np.testing.assert_array_equal(session.run()[out], np.stack([DATA] * 4))
    np.testing.assert_array_equal(session.get_tensor_data(v), DATA + 1)


@pytest.mark.parametrize("group", [None, (1, 2), (2, 2)])
def test_a_sharded_variable_keeps_its_shards_between_runs(group):
    ir = popxl.Ir(replication=4)
    data = DATA if group is None else np.stack([DATA, -DATA])
    with ir.main_graph, popxl.in_sequence():
        rg = group and ir.replica_grouping(*group)
        v, shard = popxl.replica_sharded_variable(data, replica_grouping=rg)
        assert shard.meta_shape == (2, 5) and v.shape_on_host == data.shape
        whole = collectives.replicated_all_gather(shard, group=rg)
        out = popxl.d2h_stream(whole.shape, whole.dtype)
        ops.host_store(out, whole)
        ops.add_(shard, shard)
    session = popxl.Session(ir, "ipu_hw")
    assignment = (rg or ir.replica_grouping()).assignment
    with session:
        for factor in (1, 2):
            got = session.run()[out]
            for replica, g in enumerate(assignment):
                right = data if group is None else data[g]
                np.testing.assert_array_equal(got[replica], factor * right)
    np.testing.assert_array_equal(session.get_tensor_data(v), 4 * data)


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("group", [None, (1, 2), (2, 2)])
def test_the_whole_of_every_replicas_shards_is_retrieved(remote, group):
    ir = popxl.Ir(replication=4)
    data = DATA if group is None else np.stack([DATA, -DATA])
    with ir.main_graph, popxl.in_sequence():
        rg = group and ir.replica_grouping(*group)
        how = {"replica_grouping": rg, "retrieval_mode": "all_replicas"}
        if remote:
            buffer = popxl.replica_sharded_buffer(data.shape, popxl.float32, rg)
            v = popxl.remote_replica_sharded_variable(data, buffer, **how)
            ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) + 1.0)
        else:
            v, shard = popxl.replica_sharded_variable(data, **how)
            ops.add_(shard, popxl.constant(1.0))
    session = popxl.Session(ir, "ipu_hw")
    assignment = (rg or ir.replica_grouping()).assignment
    expected = np.stack([data if group is None else data[g] for g in assignment])
    np.testing.assert_array_equal(session.get_tensor_data(v), expected)
    with session:
        session.run()
    np.testing.assert_array_equal(session.get_tensor_data(v), expected + 1)
    with pytest.raises(NotImplementedError, match="all replicas"):
        session.write_variable_data(v, data)


def test_grouped_remote_variables_differ_between_groups():
    ir = popxl.Ir(replication=2)
    data = np.stack([DATA, -DATA])
    with ir.main_graph:
        buffer = popxl.remote_buffer((2, 5), popxl.float32)
        rg = ir.replica_grouping(group_size=1)
        popxl.remote_variable(data, buffer, replica_grouping=rg)
        t = ops.remote_load(buffer, 0)
        out = popxl.d2h_stream(t.shape, t.dtype)
        ops.host_store(out, t)
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run()[out], data)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda b: popxl.remote_variable(np.zeros(2, int), b), "^Tensor t does not match buffer."),
        (lambda b: popxl.remote_variable(np.zeros(2), b, 1), "not one of the 1"),
        (lambda b: popxl.remote_variable(np.zeros(2), b) + 1, "load it with"),
        (lambda b: popxl.remote_replica_sharded_variable(np.zeros(2), b), "several replicas"),
        (lambda b: popxl.replica_sharded_variable(np.zeros(2)), "several replicas"),
    ],
)
def test_remote_variables_refuse(call, message):
    ir = popxl.Ir()
    with ir.main_graph, pytest.raises(ValueError, match=message):
        call(popxl.remote_buffer((2,), popxl.float32))


def test_layers_run_one_after_the_other_on_rows_of_remote_buffers():
    x = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        h = popxl.constant(x)
        facts, layer = addons.layers.Linear(3).create_graph(h)
        buffers = addons.named_variable_buffers(facts, entries=3)
        rows = [facts.init_remote(buffers, i, f"layer{i}") for i in range(3)]
        load, names = addons.load_remote_graph(buffers)
        assert names == ["bias", "weight"]
        for i in range(3):
            loaded = addons.NamedTensors.pack(names, load.call(i))
            (h,) = layer.bind(loaded).call(h)
            new = {"weight": loaded.weight * 2.0, "bias": loaded.bias, "extra": h}
            addons.store_remote(buffers, addons.NamedTensors.from_dict(new), i)
        last = addons.load_remote(buffers, 2)
        streams = [addons.ops.host_store(t) for t in (h, last.weight)]
    session = popxl.Session(ir)
    data = session.get_tensors_data([r.weight for r in rows])
    weights = [data[r.weight].copy() for r in rows]
    assert rows[1].weight.name == "layer1.weight" and not np.allclose(weights[0], weights[1])
    with session:
        got = session.run()
    np.testing.assert_allclose(got[streams[0]], x @ weights[0] @ weights[1] @ weights[2], rtol=1e-3)
    np.testing.assert_allclose(got[streams[1]], 2 * weights[2])
    np.testing.assert_allclose(session.get_tensor_data(rows[1].weight), 2 * weights[1])
