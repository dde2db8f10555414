"""Graphs repeated, serialised and routed, against the same arithmetic in NumPy."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.records import of
from popxl_addons import RemoteHandle, batch_serial_buffer
from program import run_graph

F32 = popxl.float32
rng = np.random.default_rng(6)


def rand(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


class Scale(addons.Module):
    """tanh(x @ weight)."""

    def build(self, x: popxl.Tensor):
        weight = self.add_variable_input("weight", lambda: rand(x.shape[-1], x.shape[-1]))
        return ops.tanh(x @ weight)


def test_a_repeated_graph_feeds_itself():
    def program(x, y):
        graph = popxl.gir().create_graph(lambda a, b: (a * b + 1.0,), x, y)
        inputs = graph.inputs
        assert addons.repeat_graph(graph, 3) is graph
        assert graph.inputs == inputs and [op.op_type for op in of(graph).ops] == ["Loop"]
        assert graph.called_graphs[0].name.endswith("_repeated")
        with pytest.raises(ValueError, match="called already"):
            ops.call(graph, x, y)
            addons.repeat_graph(graph, 2)
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
        graph = addons.repeat_graph(ir.create_graph(grow, v, x), 4)
        ops.call(graph, v, x)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        session.run()
    assert session.get_tensor_data(v).tolist() == [41, 82]
    with ir.main_graph, pytest.raises(ValueError, match="more outputs"):
        addons.repeat_graph(ir.create_graph(lambda a: (a, a + 1.0), x), 2)


def streams_of(array):
    return popxl.h2d_stream(array.shape[1:], popxl.dtype.as_dtype(array), "x")


@pytest.mark.parametrize("io_mode", ["io", "compute", "io_overlapped"])
def test_steps_load_and_store(io_mode):
    steps, x = 3, rand(3, 2, 4)
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        stream, out = streams_of(x), popxl.d2h_stream((2, 4), F32)
        facts, graph = Scale().create_graph(popxl.TensorSpec((2, 4), F32))
        variables = facts.init()
        (source,) = (t for t in graph.graph.inputs if t.shape == (2, 4))
        y = graph.graph.outputs[0]
        buffer = batch_serial_buffer(y, steps)
        result = addons.batch_serialise(
            graph, steps, {source: stream}, {y: out}, {y: RemoteHandle(buffer)}, io_mode=io_mode
        )
        assert list(result.graph.args.to_dict()) == ["weight"]
        assert result.stored_buffers[y].buffer is buffer
        assert list(result.remap_tensors.values()) == list(result.graph.args.to_dict().values())
        result.graph.bind(variables).call()
        last = popxl.d2h_stream((2, 4), F32)
    session = popxl.Session(ir, "ipu_hw")
    assert last not in ir.get_all_d2h_streams()
    with session:
        got = session.run({stream: x})[out]
        kept = [session._executable.read_remote(of(buffer).use(), 0, i) for i in range(steps)]
    expected = np.tanh(x @ session.get_tensor_data(variables.weight))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(np.stack(kept), got)


def test_forward_and_gradient_in_steps():
    steps, x, dy = 3, rand(3, 2, 4), rand(3, 2, 4)
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        x_stream, dy_stream = streams_of(x), streams_of(dy)
        dx_stream = popxl.d2h_stream((2, 4), F32)
        facts, graph = Scale().create_graph(popxl.TensorSpec((2, 4), F32))
        (source,) = (t for t in graph.graph.inputs if t.shape == (2, 4))
        accum_facts, grad = addons.autodiff_with_accumulation(
            graph, [graph.args.weight], grads_required=[source]
        )
        variables, accums = facts.init(), accum_facts.init()
        forward, backward = addons.batch_serialise_fwd_and_grad(
            graph,
            grad,
            steps,
            {source: x_stream, grad.graph.inputs[0]: dy_stream},
            {grad.graph.outputs[0]: dx_stream},
        )
        assert source in forward.stored_buffers  # a stream is read once: x is kept
        forward.graph.bind(variables).call()
        weights = {
            backward.remap_tensors[inner]: variables.weight
            for inner, c in zip(grad.graph.inputs, grad.grad_graph_info.inputs, strict=False)
            if c.fwd_tensor is graph.args.weight
        }
        backward.graph.bind(accums).bind(weights).call()
    session = popxl.Session(ir, "ipu_hw")
    with session:
        dx = session.run({x_stream: x, dy_stream: dy})[dx_stream]
    torch = pytest.importorskip("torch")
    w = torch.tensor(session.get_tensor_data(variables.weight), requires_grad=True)
    xt = torch.tensor(x, requires_grad=True)
    torch.tanh(xt @ w).backward(torch.tensor(dy))
    np.testing.assert_allclose(dx, xt.grad, rtol=1e-4, atol=1e-5)
    mean = session.get_tensor_data(accums.accum.weight)
    np.testing.assert_allclose(mean, w.grad / steps, rtol=1e-3, atol=1e-5)


def copied(ir, steps, loads, streams=None, stores=None, shape=(2, 4)):
    """Runs a graph that copies, for all steps: from and to streams or buffers."""
    graph = addons.GraphWithNamedArgs(
        ir.create_graph(lambda x: x + 0.0, popxl.TensorSpec(shape, F32))
    )
    (x,), (y,) = graph.graph.inputs, graph.graph.outputs
    moved = lambda value: {} if value is None else {y: value}  # noqa: E731
    addons.batch_serialise(graph, steps, {x: loads}, moved(streams), moved(stores)).graph.call()


def test_rows_are_layers_run_in_phases():
    steps, layers, x = 2, 3, rand(2, 2, 4)
    ir = popxl.Ir()
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        stream, out = streams_of(x), popxl.d2h_stream((2, 4), F32)
        facts, graph = Scale().create_graph(popxl.TensorSpec((2, 4), F32))
        (source,) = (t for t in graph.graph.inputs if t.shape == (2, 4))
        # Row i of the buffer is what layer i takes; weights come from remote memory, too.
        kept = batch_serial_buffer(source, steps, layers + 1)
        weights = addons.named_variable_buffers(facts, layers)
        for i in range(layers):
            facts.init_remote(weights, i, f"layer{i}")
        copied(ir, steps, stream, stores=RemoteHandle(kept))
        layer = addons.batch_serialise(
            graph,
            steps,
            {source: RemoteHandle(kept)},
            store_buffers={graph.graph.outputs[0]: RemoteHandle(kept, 1)},
            rows=layers,
        )
        for i in range(layers):
            layer.graph.bind(addons.load_remote(weights, i)).call(i)
        copied(ir, steps, RemoteHandle(kept, layers), streams=out)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        y = session.run({stream: x})[out]
        rows = [
            session._executable.read_remote(of(weights.weight).use(), 0, i) for i in range(layers)
        ]
    for weight in rows:
        x = np.tanh(x @ weight)
    np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-5)


def test_handles_keep_shards():
    steps, x = 2, rand(2, 4, 3, 3)
    x[:] = x[:, :1]  # the same on all replicas: each keeps a part
    ir = popxl.Ir(replication=4)
    ir.num_host_transfers = steps
    with ir.main_graph, popxl.in_sequence():
        stream, out = popxl.h2d_stream((3, 3), F32), popxl.d2h_stream((3, 3), F32)
        rg = ir.replica_grouping()
        buffer = batch_serial_buffer(popxl.TensorSpec((3, 3), F32), steps, shard_group=rg)
        assert (buffer.tensor_shape, buffer.meta_shape) == ((3,), (3, 3))
        handle = RemoteHandle(buffer, shard_group=rg)
        copied(ir, steps, stream, stores=handle, shape=(3, 3))
        copied(ir, steps, handle, streams=out, shape=(3, 3))
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run({stream: x})[out], x)


def test_every_step_has_a_seed():
    ir = popxl.Ir()
    ir.num_host_transfers = 2
    with ir.main_graph, popxl.in_sequence():
        out = popxl.d2h_stream((4,), F32)
        graph = addons.GraphWithNamedArgs(
            ir.create_graph(
                lambda seed: ops.random_uniform(seed, (4,)), popxl.TensorSpec((2,), popxl.uint32)
            )
        )
        (seed,) = graph.graph.inputs
        result = addons.batch_serialise(
            graph, 2, {}, {graph.graph.outputs[0]: out}, seed_input=seed
        )
        variable, data = addons.seed_variable(3)
        assert data.shape == (2,) and data.dtype == np.uint32
        result.graph.call(variable)
    with popxl.Session(ir, "ipu_hw") as session:
        first, second = session.run()[out]
    assert (first != second).all()


def test_batch_serialisation_refuses():
    ir = popxl.Ir()
    with ir.main_graph:
        graph = addons.GraphWithNamedArgs(ir.create_graph(lambda x: x + 1.0, popxl.constant(1.0)))
        (x,), other = graph.graph.inputs, popxl.constant(1.0)
        stream = popxl.h2d_stream((), F32)
        for arguments in (
            {"steps": 0, "load_handles": {}},
            {"steps": 2, "load_handles": {}, "rows": 0},
            {"steps": 2, "load_handles": {}, "io_mode": "both"},
            {"steps": 2, "load_handles": {other: stream}},
            {"steps": 2, "load_handles": {}, "store_streams": {x: stream}},
        ):
            with pytest.raises(ValueError):
                addons.batch_serialise(graph, **arguments)


def test_tensors_are_routed_through_the_graphs_between():
    def program(x, y):
        ir = popxl.gir()

        def inner(a):
            return a * addons.route_tensor_into_graph(y)

        innermost = ir.create_graph(inner, x)
        outer = ir.create_graph(lambda a: ops.call(innermost, a)[0] + 1.0, x)
        results = ops.call(outer, x)
        assert addons.is_subgraph(innermost, outer) and not addons.is_subgraph(outer, innermost)
        assert addons.is_subgraph(innermost, ir.main_graph)
        with pytest.raises(ValueError, match="called already"):
            addons.route_tensor_into_graph(x, outer)
        assert addons.route_tensor_into_graph(x) is x
        return results

    x, y = rand(3), rand(3)
    (z,) = run_graph(program, x, y)
    np.testing.assert_allclose(z, x * y + 1, rtol=1e-6)


def test_shards_are_gathered_and_reduced_by_name():
    x = rand(4, 2, 3)

    def program(x):
        specs = addons.NamedTensors.from_dict({"a": x, "b": x.flatten()})
        reduce, names = addons.reduce_replica_sharded_graph(specs, "add")
        assert names == ["a", "b"]
        shards = addons.NamedTensors.pack(names, reduce.bind(specs).call())
        assert shards.a.spec == addons.replica_sharded_spec(x, 4) and shards.a.shape == (2,)
        gather, names = addons.all_gather_replica_sharded_graph(shards)
        return gather.bind(shards).call()

    a, b = run_graph(program, x, replication=4)
    np.testing.assert_allclose(a, np.broadcast_to(x.sum(0), x.shape), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(b, a.reshape(4, 6), rtol=1e-6)


class Sharded(addons.Module):
    def build(self, x: popxl.Tensor):
        shard = self.add_replica_sharded_variable_input("w", lambda: np.arange(9.0).reshape(3, 3))
        return x @ addons.gather_replica_sharded_tensor(shard)


@pytest.mark.parametrize("remote", [False, True])
def test_modules_have_sharded_variables(remote):
    x = rand(4, 2, 3)
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        stream = popxl.h2d_stream((2, 3), F32)
        t = ops.host_load(stream)
        facts, graph = Sharded().create_graph(t)
        assert facts.w.input_spec == popxl.TensorSpec((3,), F32, (3, 3))
        if remote:
            buffers = addons.named_variable_buffers(facts)
            assert buffers.w.meta_shape == (3, 3)
            facts.init_remote(buffers)
            variables = addons.load_remote(buffers)
        else:
            variables = facts.init()
            assert facts.w.sharded_variables[0].shape == (3, 3)
        out = addons.ops.host_store(graph.bind(variables).call(t)[0])
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run({stream: x})[out]
    np.testing.assert_allclose(got, x @ np.arange(9.0).reshape(3, 3), rtol=1e-5, atol=1e-5)
