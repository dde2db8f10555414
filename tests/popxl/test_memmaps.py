"""Tests variables whose data is mapped from files, and private names that programs use."""

import gc

import numpy as np
import popxl
import pytest
from popxl import context, ops

DATA = np.arange(6, dtype=np.float32)


def mapped(folder, mode="w+", data=DATA):
    path = folder / "data"
    if mode != "w+":
        np.memmap(path, np.float32, "w+", shape=data.shape)[...] = data
    array = np.memmap(path, np.float32, mode, shape=data.shape)
    if mode == "w+":
        array[...] = data
    return array


def plain(data):
    v = popxl.variable(data)
    ops.add_(v, popxl.constant(1.0))
    return v


def remote(data):
    buffer = popxl.remote_buffer(data.shape, popxl.float32)
    ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) + 1)
    return popxl.remote_variable(data, buffer)


def remote_shards(data):
    buffer = popxl.replica_sharded_buffer(data.shape, popxl.float32)
    ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) + 1)
    return popxl.remote_replica_sharded_variable(data, buffer)


def shards(data):
    v, shard = popxl.replica_sharded_variable(data)
    ops.add_(shard, popxl.constant(1.0))
    return v


@pytest.mark.parametrize("make", [plain, remote, remote_shards, shards])
def test_a_file_is_the_hosts_buffer(make, tmp_path):
    ir, array = popxl.Ir(replication=2), mapped(tmp_path)
    with ir.main_graph, popxl.in_sequence():
        v = make(array)
        assert v._memmap_arr is array and popxl.variable(DATA)._memmap_arr is None
    session = popxl.Session(ir, "ipu_hw")
    assert session.get_tensor_data(v) is array
    with session:
        session.run()
    assert session.get_tensor_data(v) is array
    np.testing.assert_array_equal(np.fromfile(tmp_path / "data", np.float32), DATA + 1)


@pytest.mark.parametrize("make", [plain, remote, remote_shards, shards])
def test_a_read_only_file_is_not_written(make, tmp_path):
    ir, array = popxl.Ir(replication=2), mapped(tmp_path, "r")
    with ir.main_graph, popxl.in_sequence():
        v = make(array)
    with popxl.Session(ir, "ipu_hw") as session:
        session.run()
        with pytest.raises(RuntimeError, match="read-only"):
            session.weights_to_host()
    assert session.get_tensor_data(v) is array
    np.testing.assert_array_equal(array, DATA)


def test_a_group_without_a_stride_takes_a_copy(tmp_path, capfd):
    ir, array = popxl.Ir(replication=4), mapped(tmp_path, data=DATA.reshape(2, 3))
    with ir.main_graph:
        rg = ir.replica_grouping_from_assignments([0, 1, 1, 0])
        v = popxl.variable(array, replica_grouping=rg)
        ops.add_(v, popxl.constant(1.0))
    with popxl.Session(ir, "ipu_hw") as session:
        session.run()
    assert (
        "you have passed np.memmap data and a non-const replica grouping" in capfd.readouterr().err
    )
    np.testing.assert_array_equal(session.get_tensor_data(v), DATA.reshape(2, 3) + 1)
    np.testing.assert_array_equal(array, DATA.reshape(2, 3))


def test_sessions_check_what_a_run_would():
    ir = popxl.Ir()
    with ir.main_graph:
        stream, out = popxl.h2d_stream((2,), popxl.float32), popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, ops.host_load(stream))
    session = popxl.Session(ir)
    assert session.ir_ is ir
    session._validate_run_inputs({stream: DATA[:2]})
    session._validate_run_outputs({out: np.zeros(2, np.float32)})
    for wrong in (
        lambda: session._validate_run_inputs({stream: DATA}),
        lambda: session._validate_run_inputs({}),
        lambda: session._validate_run_outputs({}),
        lambda: session._validate_run_outputs({out: DATA}),
    ):
        with pytest.raises(ValueError):
            wrong()


def test_mapped_data_that_is_read_may_be_converted(tmp_path):
    wide = np.memmap(tmp_path / "wide", np.float64, "w+", shape=(3, 2))
    wide[...] = DATA.reshape(3, 2)
    ir = popxl.Ir()
    with ir.main_graph:
        stream, out = (
            popxl.h2d_stream((2, 3), popxl.float32),
            popxl.d2h_stream((2, 3), popxl.float32),
        )
        v = popxl.variable(np.zeros((2, 3), np.float32))
        ops.host_store(out, ops.host_load(stream) + v)
    with popxl.Session(ir) as session:
        narrow = mapped(tmp_path, data=DATA.reshape(3, 2)).T
        session.write_variable_data(v, narrow)
        np.testing.assert_array_equal(session.run({stream: wide.T})[out], 2 * DATA.reshape(3, 2).T)


def test_names_of_the_inside():
    ir = popxl.Ir()
    with ir.main_graph as main:
        v, c = popxl.variable(DATA, name="v"), popxl.constant(DATA, name="c")
        for user in (v, c, v + c):
            shown = main._pb_graph.getTensor(user.id)
            assert popxl.Tensor._from_pb_tensor(shown) is user
        assert v._ensure_tensor(c) is c
        made = v._ensure_tensor(3, popxl.int32)
        assert (made.dtype, made.shape) == (popxl.int32, ())
        assert v._ensure_tensor(2).dtype is popxl.float32
        assert v._ensure_tensor([], raise_on_empty=False).shape == (0,)
        with pytest.raises(ValueError):
            v._ensure_tensor([])

        def build(x: popxl.TensorByRef, y):
            with popxl.name_scope("a"):
                assert popxl.gcg()._create_tensor_id("x") == f"{popxl.gcg().id}/a/x"
            assert popxl.gcg()._create_tensor_id("x").startswith(f"{popxl.gcg().id}/x__t")

        graph = ir.create_graph(build, v, c)
        assert graph._by_ref_inputs == {graph.inputs[0]}
        assert popxl.remote_buffer((1,), popxl.float32)._current_ir is ir
        with popxl.ipu(3), popxl.io_tiles(), popxl.name_scope("s"):
            settings = context._get_op_settings("name")
    assert popxl.Graph._from_pb(graph._pb_graph) is graph and popxl.Ir._from_pb(ir._pb_ir) is ir
    assert (settings.vgraphId, settings.tileSet, settings.scope) == (3, popxl.TileSet.IO, "s")
    assert settings.name == "name"
    number = ir.id
    assert popxl.Ir._ir_cache[number] is ir
    del ir, main, v, c, user, shown, made, graph, build
    gc.collect()
    assert number not in popxl.Ir._ir_cache
