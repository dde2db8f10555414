"""Tests what programs read and set on the host: dtypes, seeds, strides, streams, graphs, groups."""

import numpy as np
import popart
import popxl
import pytest
from popxl import dtypes, ops, random_seed, testing, utils

F32 = popxl.float32


def test_types_of_64_bits_are_a_table():
    assert {k.name: to.name for k, to in utils.downcast_np_dtypes.items()} == {
        "int64": "int32",
        "uint64": "uint32",
        "float64": "float32",
    }


def test_seeds_of_64_bits_are_two_of_32():
    assert random_seed.two_uint32_to_uint64(*random_seed.uint64_to_two_uint32(2**40 + 7)) == (
        2**40 + 7
    )
    for call in (
        lambda: random_seed.uint64_to_two_uint32(random_seed.MAX_UINT64 + 1),
        lambda: random_seed.uint64_to_two_uint32(-1),
        lambda: random_seed.two_uint32_to_uint64(2**32, 0),
        lambda: random_seed.two_uint32_to_uint64(0, -1),
    ):
        with pytest.raises(ValueError):
            call()


def test_lists_of_dtypes():
    taken = {int: "int64", float: "float32", bool: "bool", "half": "float16", "i4": "int32"}
    taken |= {np.uint8: "uint8", "float": "float32", np.dtype("f8"): "float64"}
    assert {key: popxl.dtype.as_dtype(key).name for key in taken} == taken
    for wrong in ("i3", "S4", object, None):
        with pytest.raises(ValueError, match="no popxl dtype"):
            popxl.dtype.as_dtype(wrong)
    found = testing.get_all_dtypes()
    assert len(found) == 15 and popxl.bool not in found and set(found) < set(dtypes.ALL)
    assert [t.name for t in testing.get_all_int_dtypes(include_signed=False)] == [
        *("uint8", "uint16", "uint32", "uint64"),
    ]
    assert all(t.is_signed for t in testing.get_all_int_dtypes(include_unsigned=False))


def test_strides_are_bytes():
    with popxl.Ir().main_graph:
        v = popxl.variable(np.ones((2, 3)), popxl.float16)
    assert v.strides() == np.ones((2, 3), np.float16).strides
    assert v.strides((4, 5, 6)) == np.ones((4, 5, 6), np.float16).strides


def test_streams_are_tensors_of_the_main_graph():
    ir = popxl.Ir()
    with ir.main_graph:
        made = []

        def build(x):
            made.append(popxl.h2d_stream((), F32, "x"))
            made.append(popxl.d2h_stream((), F32, "x"))
            return x + ops.host_load(made[0])

        graph = ir.create_graph(build, popxl.TensorSpec((), F32))
        (y,) = ops.call(graph, popxl.constant(2.0, F32))
        ops.host_store(made[1], y)
    main = ir.main_graph
    assert made[0].tensor_id == "x" and made[1].tensor_id == "x__t0"
    assert all(stream.tensor_id in main._pb_graph for stream in made)
    shown = main._pb_graph.getTensor("x")
    assert shown.tensorType() == popart.TensorType.Stream
    assert len(popxl.Ir().main_graph.tensors) == 0 and len(main.tensors) == 4
    with popxl.Session(ir) as session:
        assert session.run({made[0]: np.float32(5)})[made[1]] == 7


@pytest.mark.parametrize("transfers", [1, 3])
@pytest.mark.parametrize("replicas", [1, 2])
def test_streams_that_no_op_uses_count(transfers, replicas):
    ir = popxl.Ir(replication=replicas)
    ir.num_host_transfers = transfers
    with ir.main_graph:
        taken, left = (popxl.h2d_stream((2,), F32, name) for name in ("taken", "left"))
        given, empty = (popxl.d2h_stream((2,), popxl.float16, name) for name in ("given", "empty"))

        def step():
            ops.host_store(given, ops.cast(ops.host_load(taken), popxl.float16))

        ops.repeat(ir.create_graph(step), transfers)
    assert ir.get_all_h2d_streams() == {taken, left}
    assert ir.get_all_d2h_streams() == {given, empty}
    assert len(ir.main_graph.tensors) == 4
    shape = tuple(n for n in (transfers, replicas) if n > 1) + (2,)
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    with popxl.Session(ir, "ipu_hw") as session:
        assert set(session.expected_inputs()) == {taken, left}
        results = session.run({taken: data, left: data})
        with pytest.raises(ValueError, match="missing"):
            session.run({taken: data})
        with pytest.raises(ValueError):
            session.run({taken: data, left: data[..., :1]})
    assert results[given].tolist() == data.tolist()
    assert (results[empty].shape, results[empty].dtype) == (shape, np.float16)
    assert not results[empty].any()


def test_inputs_of_the_main_graph_are_refused_by_sessions():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.graph_input((2,), F32, "x")
        _ = x + 1
    assert ir.main_graph.inputs == (x,)
    with pytest.raises(popart.popart_exception):
        popxl.Session(ir)


def test_graphs_refuse_what_is_none():
    ir = popxl.Ir()
    assert (ir.main_graph.name, ir.main_graph.id) == ("", "")
    assert repr(ir.create_empty_graph("g")) == "Graph[id=g_subgraph(0) name=g_subgraph(0)]"
    with pytest.raises(TypeError):
        _ = "x" in ir.main_graph
    with pytest.raises(TypeError):
        _ = ir.main_graph == "x"


GROUPINGS = [
    ([0, 0, 1, 1, 0, 0, 1, 1], (1, 2), [0, 1, 0, 1], [0, 1]),
    ([0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1], (1, 1), None, [0, 2]),
    ([0, 1, 1, 0, 0, 1, 1, 0], (1, 1), None, [0, 1]),
    ([0, 1, 0, 0, 1, 1, 0, 1], (1, 1), None, [0, 1]),
]


@pytest.mark.parametrize("assignment, const, to_device, to_host", GROUPINGS)
def test_groups_without_a_constant_stride(assignment, const, to_device, to_host):
    rg = popxl.Ir(replication=len(assignment)).replica_grouping_from_assignments(assignment)
    assert (rg.const_rg.stride, rg.const_rg.group_size) == const
    assert rg.to_device_map == (assignment if to_device is None else to_device)
    assert rg.to_host_map == to_host
    assert repr(rg) == f"ReplicaGrouping(assignment={assignment})"
    for call in (rg._to_variable_settings, lambda: rg._pb_replica_grouping):
        with pytest.raises(NotImplementedError):
            call()


def test_groups_of_constant_stride():
    rg = popxl.Ir(replication=8).replica_grouping(2, 2)
    assert rg.to_device_map is None and rg.to_host_map is None and rg.const_rg is rg
    with pytest.raises(TypeError):
        _ = rg == [0, 1]
    with pytest.raises(RuntimeError):
        popxl.ReplicaGrouping()
    settings = rg._to_variable_settings("all_replicas")
    assert isinstance(settings, popart.VariableSettings)
    assert (settings.getStride(), settings.getGroupSize(), settings.isUsingCommGroup()) == (
        *(2, 2),
        False,
    )
    assert settings.getRetrievalMode() == popart.VariableRetrievalMode.AllReplicas
    assert settings.groups(8) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert settings.shapeOnReplica([8, 3], 8) == (3,)
    assert rg._to_variable_settings().shapeOnReplica([4, 3], 8) == (3,)
    shown = rg._pb_replica_grouping
    assert isinstance(shown, popart._internal.ir.ReplicaGrouping)
    assert (shown.getNumReplicas(), shown.getStride(), shown.getGroupSize()) == (8, 2, 2)
    with pytest.raises(ValueError):
        rg._to_variable_settings("nobody")
