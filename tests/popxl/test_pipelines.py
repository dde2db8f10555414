"""Pipelined stages over several IPUs give the results of sequential steps, and run at the same
time.
"""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl._impl.records import of

F32 = popxl.float32
rng = np.random.default_rng(6)


def rand(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


class Scale(addons.Module):
    """Computes tanh(x @ weight)."""

    def build(self, x: popxl.Tensor):
        weight = self.add_variable_input("weight", lambda: rand(x.shape[-1], x.shape[-1]))
        return ops.tanh(x @ weight)


def pipeline(steps, stages, width=8):
    """Trains `stages` layers on as many IPUs, with accumulated gradients."""
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        x_stream = popxl.h2d_stream((2, width), F32, "x")
        out = popxl.d2h_stream((2, width), F32, "y")
        spec = popxl.TensorSpec((2, width), F32)
        layers = []
        for i in range(stages):
            with popxl.ipu(i):
                facts, graph = Scale().create_graph(spec)
                grad = addons.autodiff(graph)
                variables = facts.init(f"layer{i}")
                total = popxl.variable(np.zeros((width, width)), F32, f"grad{i}")
                layers.append((graph.bind(variables), grad, variables, total))
        with addons.pipelined_execution(steps) as pipeline:
            calls = []
            with popxl.ipu(0), pipeline.stage(0):
                x = ops.host_load(x_stream)
            for i, (graph, *_) in enumerate(layers):
                with pipeline.stage(i), popxl.ipu(i):
                    x = x if i == 0 else x.copy_to_ipu(i)
                    calls.append(graph.call_with_info(x))
                    x = calls[-1].outputs[0]
            with pipeline.stage(stages - 1), popxl.ipu(stages - 1):
                ops.host_store(out, x)
            dx = x
            for i in reversed(range(stages)):
                (_, grad, variables, total), call = layers[i], calls[i]
                with pipeline.stage(2 * stages - 1 - i), popxl.ipu(i):
                    dx = dx if i == stages - 1 else dx.copy_to_ipu(i)
                    info = grad.grad_graph_info
                    kept = pipeline.stash_and_restore_activations(call, info)
                    done = grad.call_with_info(dx, args=kept)
                    found = info.fwd_parent_ins_to_grad_parent_outs(call, done)
                    dx = found[next(t for t in found if t.shape == (2, width))]
                    weight_grad = next(g for g in found.values() if g.shape == (width, width))
                    ops.add_(total, weight_grad)
    return ir, x_stream, out, [(v.weight, total) for _, _, v, total in layers]


def test_a_pipeline_trains_as_one_step_after_the_other():
    steps, stages = 8, 2
    ir, x_stream, out, layers = pipeline(steps, stages)
    session = popxl.Session(ir, "ipu_hw")
    x = rand(steps, 2, 8)
    with session:
        y = session.run({x_stream: x})[out]
    torch = pytest.importorskip("torch")
    weights = [torch.tensor(session.get_tensor_data(w), requires_grad=True) for w, _ in layers]
    for step in range(steps):
        h = torch.tensor(x[step])
        for w in weights:
            h = torch.tanh(h @ w)
        np.testing.assert_allclose(y[step], h.detach(), rtol=1e-4, atol=1e-5)
        h.backward(h.detach())
    for w, (_, total) in zip(weights, layers, strict=True):
        np.testing.assert_allclose(session.get_tensor_data(total), w.grad, rtol=1e-3, atol=1e-4)


def test_pipelines_are_as_long_as_their_stages_whatever_the_steps():
    lengths = {
        len(popxl.Session(pipeline(steps, 2)[0], "ipu_hw")._executable.text("program").splitlines())
        for steps in (8, 40)
    }
    assert len(lengths) == 1
    assert sum(op.op_type == "Loop" for op in of(pipeline(8, 2)[0].main_graph).ops) == 1


def test_stages_of_a_pipeline_work_at_the_same_time():
    report = popxl.Session(pipeline(32, 4, 64)[0], "ipu_hw")._executable.report()
    kinds = ("compute_cycles", "link_cycles", "host_cycles", "streaming_cycles")
    work = [sum(ipu[kind] for kind in kinds) for ipu in report["ipus"]]
    assert len(work) == 4 and all(ipu["state_bytes"] > 0 for ipu in report["ipus"])
    assert max(work) < report["cycles_per_run"] < 0.75 * sum(work)


def test_a_pipeline_on_one_ipu_is_a_loop():
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph, popxl.in_sequence():
        total, x = popxl.variable(np.float32([0, 0])), popxl.h2d_stream((2,), F32)
        out = popxl.d2h_stream((2,), F32)
        with addons.pipelined_execution(4) as pipe:
            two = popxl.constant(np.float32([2, 2]))
            with pipe.stage(0):
                t = ops.host_load(x) * two
            with pipe.stage(1):
                ops.add_(total, t)
                ops.host_store(out, pipe.stash_and_restore_tensor(t) + total)
    assert [op.op_type for op in of(ir.main_graph).ops] == ["Loop"]
    session, data = popxl.Session(ir), rand(4, 2)
    with session:
        got = session.run({x: data})[out]
    np.testing.assert_allclose(got, 2 * data + (2 * data).cumsum(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(session.get_tensor_data(total), 2 * data.sum(0), rtol=1e-5)


def test_pipelines_refuse():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1.0)
        with pytest.raises(ValueError, match="at least 4 steps"):
            with addons.pipelined_execution(3) as p:
                for i in range(2):
                    with p.stage(i):
                        _ = x + 1.0
        with pytest.raises(ValueError, match="0 stages"), addons.pipelined_execution(3):
            pass
        with pytest.raises(ValueError, match="must not go backwards"):
            with addons.pipelined_execution(4) as p:
                with p.stage(1):
                    y = x + 1.0
                with p.stage(0):
                    _ = y + 1.0
        with pytest.raises(ValueError, match="inside stage 0"):
            with addons.pipelined_execution(4) as p, p.stage(0), p.stage(1):
                pass


class Grow(addons.Module):
    def build(self, x: popxl.Tensor):
        total = self.add_variable_input("total", lambda: np.zeros(2), F32, by_ref=True)
        ops.add_(total, x)
        return total * 1.0


@pytest.mark.parametrize("ipus", [1, 2])
def test_what_is_no_op_may_be_made_in_a_stage(ipus):
    """Variables, streams, buffers, graphs and constants belong to the enclosing graph."""
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph, popxl.in_sequence():
        with addons.pipelined_execution(4) as pipe:
            with pipe.stage(0), popxl.ipu(0):
                assert popxl.gcg() is ir.main_graph
                stream = popxl.h2d_stream((2,), F32, "x")
                with popxl.transforms.merge_exchange():
                    x = ops.host_load(stream) * popxl.variable(np.float32([2, 3]), name="scale")
            with pipe.stage(1), popxl.ipu(ipus - 1):
                facts, graph = Grow().create_graph(popxl.TensorSpec((2,), F32))
                variables = facts.init("grow")
                x = x if ipus == 1 else x.copy_to_ipu(1)
                (y,) = graph.bind(variables).call(x + popxl.constant(np.float32([1, 1])))
                out = addons.ops.host_store(y)
        assert {v.name for v in ir.main_graph.variables} == {"scale", "grow.total"}
    session, data = popxl.Session(ir, "ipu_hw"), rand(4, 2)
    with session:
        got = session.run({stream: data})
    expected = (data * np.float32([2, 3]) + 1).cumsum(0)
    np.testing.assert_allclose(got[out], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(session.get_tensor_data(variables.total), expected[-1], rtol=1e-5)


def test_ops_and_stashes_are_of_stages():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1.0)
        with pytest.raises(RuntimeError, match="Operation must be created in a stage context"):
            with addons.pipelined_execution(2):
                _ = x + 1.0
        with addons.pipelined_execution(4) as p:
            with p.stage(0):
                y = x + 1.0
            with pytest.raises(RuntimeError, match="only inside a stage"):
                p.stash_and_restore_tensor(y)
            with p.stage(1):
                with pytest.raises(RuntimeError, match="from_stage"):
                    p.stash_and_restore_tensor(x)
                z = p.stash_and_restore_tensor(x, from_stage=0) + p.stash_and_restore_tensor(y)
                out = addons.ops.host_store(z)
        _ = x + 1.0  # after it, ops are written as before
    ir.num_host_transfers = 4
    with popxl.Session(ir) as session:
        assert session.run()[out].tolist() == [3.0] * 4
