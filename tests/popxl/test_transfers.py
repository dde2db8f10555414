"""Tests merged transfers, tile sets, drawings, and groups of replicas by PopART's names."""

import re

import numpy as np
import popxl
import pytest
from popxl import ops, transforms
from popxl._impl.records import of
from popxl.ops.collectives import CommGroup, CommGroupType

F32 = popxl.float32


def streams(count):
    return [popxl.h2d_stream((2,), F32, f"x{i}") for i in range(count)]


def types(graph):
    return [op.op_type for op in of(graph).ops]


def test_independent_transfers_become_one_op():
    ir = popxl.Ir()
    with ir.main_graph:
        a, b = streams(2)
        out = popxl.d2h_stream((2,), F32)
        with transforms.merge_exchange():
            x, y = ops.host_load(a), ops.host_load(b)
        total = x + y
        ops.host_store(out, total)
    assert types(ir.main_graph) == ["Init", "Init", "MultiExchange", "Add", "HostStore"]
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run({a: np.float32([1, 2]), b: np.float32([10, 20])})
    assert got[out].tolist() == [11, 22]


def test_a_transfer_of_another_ones_result_stays_by_itself():
    ir = popxl.Ir()
    with ir.main_graph:
        (a,) = streams(1)
        outs = [popxl.d2h_stream((2,), F32) for _ in range(2)]
        with transforms.merge_exchange():
            x = ops.host_load(a)
            for out in outs:
                ops.host_store(out, x)
    assert types(ir.main_graph) == ["Init", "HostLoad", "MultiExchange"]
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run({a: np.float32([1, 2])})
    assert [got[out].tolist() for out in outs] == [[1, 2]] * 2


def test_io_tile_exchange_leaves_one_op_on_the_io_tiles():
    ir = popxl.Ir()
    with ir.main_graph:
        a, b = streams(2)
        with transforms.io_tile_exchange():
            x, y = ops.host_load(a), ops.host_load(b)
        assert (x.tile_set, y.tile_set) == ("io", "io")
        with pytest.raises(ValueError, match="io tiles"):
            _ = x + ops.host_load(streams(1)[0])
        z = ops.io_tile_copy(x)
        assert (z.tile_set, z.name) == ("compute", "x0_hostload_iotilecopy")
        assert ops.io_tile_copy(z).tile_set == "io"
        with pytest.raises(RuntimeError, match="could not be merged.*Add"):
            with transforms.io_tile_exchange():
                _ = ops.host_load(b) + 1.0
        with transforms.io_tile_exchange(verify_overlap=False):
            _ = ops.host_load(b) + 1.0


def test_remote_transfers_are_merged():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffers = [popxl.remote_buffer((2,), F32, 1) for _ in range(2)]
        t = popxl.variable(np.float32([3, 4]))
        with transforms.merge_exchange(), popxl.in_sequence(False):
            for buffer in buffers:
                ops.remote_store(buffer, 0, t)
        out = popxl.d2h_stream((2,), F32)
        ops.host_store(out, ops.remote_load(buffers[1], 0))
    assert types(ir.main_graph)[0] == "MultiExchange"
    with popxl.Session(ir, "ipu_hw") as session:
        assert session.run()[out].tolist() == [3, 4]


def test_sums_are_decomposed_already():
    ir = popxl.Ir()
    graph = ir.create_graph(lambda x: (x + x) * x, popxl.TensorSpec((2,), F32))
    info = transforms.autodiff(graph)
    assert transforms.decompose_sum(info.graph) is info.graph
    assert "Sum" not in types(info.graph)
    with pytest.raises(TypeError):
        transforms.decompose_sum("graph")


def test_code_loads_name_their_graph():
    ir = popxl.Ir()
    graph = ir.create_graph(lambda x: x + 1.0, popxl.TensorSpec((), F32))
    with ir.main_graph:
        ops.remote_code_load(graph, "executable")
        assert ir.main_graph.called_graphs == (graph,)
        with pytest.raises(ValueError):
            ops.remote_code_load(graph, "disk")
    from popxl.ops import code_copy

    with pytest.raises(NotImplementedError):
        code_copy.remote_code_store(graph, "executable")


def test_graphs_are_drawn(tmp_path):
    ir = popxl.Ir()
    with ir.main_graph:
        _ = popxl.variable(1.0, name="v") + 1.0 - 2.0
    ir.dot_checkpoint("start", tmp_path / "new")
    text = (tmp_path / "new/start.dot").read_text()
    add, sub = (op.id for op in of(ir.main_graph).ops)
    assert text.startswith("digraph") and text.count("{") == text.count("}") == 2
    assert re.search(rf'op{add} \[label="Add.{add}"\]', text)
    assert f'op{add} -> op{sub} [label="add_out"]' in text


def test_the_launcher_gives_the_replicas(monkeypatch):
    assert popxl.Ir(replication="popdist").replication_factor == 1
    monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", "4")
    assert popxl.Ir(replication="popdist").instance_replication_factor == 4
    monkeypatch.setenv("POPDIST_NUM_LOCAL_REPLICAS", "2")
    monkeypatch.setenv("POPDIST_REPLICA_INDEX_OFFSET", "2")
    ir = popxl.Ir(replication="popdist")
    assert (ir.replication_factor, ir.instance_replication_factor) == (4, 2)
    assert ir.replica_grouping().group_size == 4
    for given in ("many", "0", "-2"):
        monkeypatch.setenv("POPDIST_NUM_TOTAL_REPLICAS", given)
        with pytest.raises(ValueError, match=f"POPDIST_NUM_TOTAL_REPLICAS is '{given}'"):
            popxl.Ir(replication="popdist")


@pytest.mark.parametrize(
    "group, assignment",
    [
        (CommGroup(), [0] * 8),
        (CommGroup(CommGroupType.Consecutive, 2), [0, 0, 1, 1, 2, 2, 3, 3]),
        (CommGroup(CommGroupType.Orthogonal, 2), [0, 1, 2, 3] * 2),
        (CommGroup(CommGroupType.Ungrouped), list(range(8))),
    ],
)
def test_comm_groups_are_groupings(group, assignment):
    ir = popxl.Ir(replication=8)
    assert group.to_replica_grouping(ir).assignment == assignment
    with pytest.raises(ValueError):
        CommGroup(CommGroupType.Consecutive, 3).to_replica_grouping(ir)


def test_locations_are_values():
    place = popxl.TensorLocation(popxl.TensorStorage.OffChip)
    assert place == popxl.TensorLocation(storage=popxl.TensorStorage.OffChip)
    assert place.load_tile_set is popxl.TileSet.Compute
    assert place.replicated_tensor_sharding is popxl.ReplicatedTensorSharding.Off
