"""Graphs that are repeated, serialised and routed agree with the same arithmetic in NumPy."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl._impl.records import of
from popxl_addons.transforms.repeat_graph import repeat_graph
from program import run_graph

rng = np.random.default_rng(6)


def rand(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def test_a_repeated_graph_feeds_itself():
    def program(x, y):
        graph = popxl.gir().create_graph(lambda a, b: (a * b + 1.0,), x, y)
        inputs = graph.inputs
        assert repeat_graph(graph, 1) is graph and repeat_graph(graph, 0) is graph
        inner = repeat_graph(graph, 3)
        assert graph.inputs == inputs and [op.op_type for op in of(graph).ops] == ["Loop"]
        assert graph.called_graphs == (inner,) and inner.name.startswith("repeat_graph")
        assert [op.op_type for op in of(inner).ops] == ["Mul", "Add"]
        with pytest.raises(ValueError, match="is called already"):
            ops.call(graph, x, y)
            repeat_graph(graph, 2)
        return ops.call(graph, x, y)

    x, y = rand(2), rand(2)
    (z,) = run_graph(program, x, y)
    expected = x
    for _ in range(3):
        expected = expected * y + 1
    np.testing.assert_allclose(z, expected, rtol=1e-5)


def test_a_repeated_graph_carries_what_it_writes():
    def grow(total: popxl.TensorByRef, x: popxl.Tensor):
        ops.add_(total, ops.reshape_(x, (2,)))

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.float32([1, 2]))
        x = popxl.constant(np.float32([[10, 20]]))
        graph = ir.create_graph(grow, v, x)
        repeat_graph(graph, 4)
        ops.call(graph, v, x)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        session.run()
    assert session.get_tensor_data(v).tolist() == [41, 82]
    with ir.main_graph, pytest.raises(ValueError, match="more outputs"):
        repeat_graph(ir.create_graph(lambda a: (a, a + 1.0), x), 2)


@pytest.mark.parametrize("replication", [1, 2])
def test_the_main_graph_is_repeated(replication):
    """Variables are written in each round; views and constants are of the inner graph's inputs."""
    ir = popxl.Ir(replication=replication)
    with ir.main_graph, popxl.in_sequence():
        v, w = popxl.variable(np.float32([[1, 2]]), name="v"), popxl.variable(2.0, name="w")
        unused = popxl.variable(5.0, name="unused")
        stream, out = (f((2,), popxl.float32) for f in (popxl.h2d_stream, popxl.d2h_stream))
        x = ops.host_load(stream)
        graph = ir.create_graph(lambda a, b: a * b, x, w)
        flat = ops.reshape_(v, (2,))
        ops.add_(flat, ops.call(graph, x, w)[0] + popxl.constant(np.float32([10, 20])))
        ops.host_store(out, flat * 1.0)
        before = [op.op_type for op in of(ir.main_graph).ops]
        inner = repeat_graph(ir.main_graph, 3)
        assert [op.op_type for op in of(ir.main_graph).ops] == ["Loop"]
        assert [op.op_type for op in of(inner).ops] == before
        assert inner.name.startswith("repeat_graph")
        assert ir.main_graph.called_graphs == (inner,) and graph in inner.called_graphs
        assert {t.name for t in ir.main_graph.variables} == {"v", "w", "unused"}
        assert {"v", "w"} < {t.name for t in inner.inputs} and x in inner
        assert inner._by_ref_inputs == {*inner.inputs}
        after = addons.ops.host_store(ops.reshape(v, (2,)) + unused + w)
    ir.num_host_transfers = 3
    data = rand(3, 2) if replication == 1 else np.stack([rand(3, 2)] * 2, 1)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        got = session.run({stream: data})
    rounds = np.float32([1, 2]) + (2 * data + np.float32([10, 20])).cumsum(0)
    np.testing.assert_allclose(got[out], rounds, rtol=1e-5)
    np.testing.assert_allclose(session.get_tensor_data(v), rounds[-1].reshape(-1, 2)[:1], rtol=1e-5)
    np.testing.assert_allclose(got[after][0], rounds[-1] + 7, rtol=1e-5)
