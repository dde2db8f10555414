"""PopXL programs agree with NumPy: graphs, calls, memory, streams and sessions."""

import subprocess
import sys

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.errors import popart_exception
from popxl.transforms import autodiff
from program import run_graph

RANDOM = np.random.default_rng(7)


def rand(*shape):
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def test_import_needs_no_torch():
    code = "import sys, popxl; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_variables_keep_what_a_run_writes():
    start, x = rand(2, 3), rand(4, 2)
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        w = popxl.variable(start, name="w")
        stream = popxl.h2d_stream(x.shape, popxl.float32)
        y = ops.host_load(stream) @ w
        out = popxl.d2h_stream(y.shape, y.dtype)
        ops.host_store(out, y)
        ops.scaled_add_(w, w, b=-0.5)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        np.testing.assert_allclose(session.run({stream: x})[out], x @ start, rtol=1e-5)
        np.testing.assert_allclose(session.run({stream: x})[out], x @ start / 2, rtol=1e-5)
        np.testing.assert_allclose(session.get_tensor_data(w), start / 4, rtol=1e-6)
        session.write_variable_data(w, start)
        np.testing.assert_allclose(session.run({stream: x})[out], x @ start, rtol=1e-5)
    np.testing.assert_allclose(session.get_tensor_data(w), start / 2, rtol=1e-6)


def test_what_changed_in_place_is_read_by_views_of_it():
    x, y = rand(2, 3), rand(3, 2)

    def program(x, y):
        view = x.T_
        flat = view.reshape_((6,))
        ops.add_(view, y)
        before = ops.identity(flat)
        ops.relu_(flat)
        return x, view, flat, before

    expected = x.T + y
    relu = np.maximum(expected, 0)
    results = run_graph(program, x, y)
    for result, right in zip(results, [relu.T, relu, relu.ravel(), expected.ravel()], strict=True):
        np.testing.assert_allclose(result, right, rtol=1e-6)


@pytest.mark.parametrize("memory", ["variable", "intermediate", "view"])
def test_by_reference_inputs_reach_the_caller(memory):
    x = rand(2, 3)
    ir = popxl.Ir()

    def double_into(t: popxl.TensorByRef, s: popxl.Tensor):
        ops.add_(t, t)
        return t + s

    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(x, name="v")
        target = {"variable": lambda: v, "intermediate": lambda: v + 0.0, "view": lambda: v.T_}
        t = target[memory]()
        graph = ir.create_graph(double_into, t.spec, t.spec)
        (y,) = ops.call(graph, t, t)
        outs = []
        for result in (t, y, v):
            outs.append(popxl.d2h_stream(result.shape, result.dtype))
            ops.host_store(outs[-1], result)
    with popxl.Session(ir) as session:
        got = session.run()
    like = (lambda a: a.T) if memory == "view" else (lambda a: a)
    np.testing.assert_allclose(got[outs[0]], like(2 * x), rtol=1e-6)
    np.testing.assert_allclose(got[outs[1]], like(3 * x), rtol=1e-6)
    np.testing.assert_allclose(got[outs[2]], x if memory == "intermediate" else 2 * x)


def test_loops_carry_outputs_and_references():
    x = rand(3)
    ir = popxl.Ir()

    def step(x: popxl.Tensor, total: popxl.TensorByRef, c: popxl.Tensor):
        x = x * c
        ops.add_(total, x)
        return x

    with ir.main_graph:
        total = popxl.variable(np.zeros(3), popxl.float32)
        start = popxl.variable(x)
        graph = ir.create_graph(step, start.spec, total.spec, popxl.TensorSpec((), popxl.float32))
        with popxl.in_sequence():
            (last,) = ops.repeat(graph, 4, start, total, 0.5)
            out = popxl.d2h_stream(last.shape, last.dtype)
            ops.host_store(out, last)
    session = popxl.Session(ir)
    with session:
        np.testing.assert_allclose(session.run()[out], x * 0.5**4, rtol=1e-6)
    np.testing.assert_allclose(session.get_tensor_data(total), x * (1 - 0.5**4), rtol=1e-6)


def test_a_stream_in_a_loop_takes_the_next_transfer_each_round():
    data = rand(5, 2)
    ir = popxl.Ir()
    ir.num_host_transfers = 5
    with ir.main_graph:
        stream = popxl.h2d_stream((2,), popxl.float32)
        out = popxl.d2h_stream((2,), popxl.float32)
        total = popxl.variable(np.zeros(2), popxl.float32)

        def step(total: popxl.TensorByRef):
            with popxl.in_sequence():
                ops.add_(total, ops.host_load(stream))
                ops.host_store(out, total)

        ops.repeat(ir.create_graph(step, total), 5, total)
    with popxl.Session(ir) as session:
        np.testing.assert_allclose(session.run({stream: data})[out], data.cumsum(0), rtol=1e-5)


@pytest.mark.parametrize("condition", [True, False])
def test_conditional_runs_one_branch(condition):
    x, y = rand(3), rand(3)

    def program(c, x, y):
        ir = popxl.gir()
        add = ir.create_graph(lambda a, b: a + b, x, y)
        neg = ir.create_graph(lambda a: -a, x)
        return ops.conditional(c, add, neg, [x, y], [x])

    (got,) = run_graph(program, np.array(condition), x, y)
    np.testing.assert_allclose(got, x + y if condition else -x, rtol=1e-6)


def test_autodiff_of_nested_calls_matches_the_formula():
    x, w, dy = rand(4, 3), rand(3, 3), rand(4, 3)

    def program(x, w, dy):
        ir = popxl.gir()
        inner = ir.create_graph(lambda x, w: ops.tanh(x @ w), x, w)

        def net(x, w):
            (h,) = ops.call(inner, x, w)
            (h,) = ops.call(inner, h, w)
            return h

        graph = ir.create_graph(net, x, w)
        info = autodiff(graph)
        forward = ops.call_with_info(graph, x, w)
        backward = ops.call_with_info(info.graph, dy, inputs_dict=info.inputs_dict(forward))
        grads = info.fwd_parent_ins_to_grad_parent_outs(forward, backward)
        return forward.outputs[0], grads[x], grads[w]

    y, dx, dw = run_graph(program, x, w, dy)
    h1 = np.tanh(x @ w)
    h2 = np.tanh(h1 @ w)
    d2 = dy * (1 - h2**2)
    d1 = (d2 @ w.T) * (1 - h1**2)
    np.testing.assert_allclose(y, h2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx, d1 @ w.T, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(dw, x.T @ d1 + h1.T @ d2, rtol=1e-4, atol=1e-6)


def test_replicas_have_their_own_data():
    x = rand(4, 3)
    (y,) = run_graph(lambda x: x * 2.0, x, replication=4)
    np.testing.assert_allclose(y, 2 * x)


def test_remote_buffers_keep_rows_between_runs():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        buffer = popxl.remote_buffer((2,), popxl.float32, entries=3)
        row = popxl.h2d_stream((), popxl.int32)
        x = ops.remote_load(buffer, ops.host_load(row), "r")
        out = popxl.d2h_stream(x.shape, x.dtype)
        ops.host_store(out, x)
        ops.remote_store(buffer, 1, x + 1.5)
    with popxl.Session(ir) as session:
        seen = [session.run({row: np.int32(r)})[out].tolist() for r in (1, 1, 0, 1)]
    assert seen == [[0, 0], [1.5, 1.5], [0, 0], [1.5, 1.5]]


def test_in_place_writes_need_an_order():
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.ones(2), popxl.float32)
        _ = v * 2.0
        ops.add_(v, v)
    with pytest.raises(popart_exception, match="Inplacing ambiguity detected.*Mul.*AddLhsInplace"):
        popxl.Session(ir)


def test_names_of_another_kind_are_attribute_errors():
    assert not hasattr(popxl, "nonsense")


def test_debug_contexts_leave_programs_alone():
    from popxl.context import debug_context_frame_offset, op_debug_context

    @debug_context_frame_offset(1)
    @op_debug_context("scaled")
    def scaled(t):
        return op_debug_context(ops.mul)(t, t)

    with popxl.Ir().main_graph, debug_context_frame_offset(2) as offset:
        assert offset == 2 and scaled(popxl.constant(2.0)).name == "mul_out"
