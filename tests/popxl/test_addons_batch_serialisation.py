"""Graphs that run for several micro-batches agree with the same arithmetic in NumPy and torch."""

import logging

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl._impl.records import of
from popxl_addons import RemoteHandle, batch_serial_buffer
from popxl_addons.transforms import batch_serialisation as serial

F32 = popxl.float32
rng = np.random.default_rng(6)


def rand(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


class Scale(addons.Module):
    """tanh(x @ weight)."""

    def build(self, x: popxl.Tensor):
        weight = self.add_variable_input("weight", lambda: rand(x.shape[-1], x.shape[-1]))
        return ops.tanh(x @ weight)


def program(steps=1, replication=1, io_tiles=32):
    ir = popxl.Ir(replication=replication)
    ir.num_host_transfers = steps
    ir._pb_ir.getSessionOptions().numIOTiles = io_tiles
    return ir


def streams_of(array):
    return popxl.h2d_stream(array.shape[1:], popxl.dtype.as_dtype(array), "x")


def rows_of(session, buffer, count):
    read = session._executable.read_remote
    return np.stack([read(of(buffer).use(), 0, i) for i in range(count)])


@pytest.mark.parametrize("io_mode", ["io", "compute", "io_overlapped"])
@pytest.mark.parametrize("as_tuple", [False, True])
def test_steps_load_and_store(io_mode, as_tuple):
    steps, x = 3, rand(3, 2, 4)
    ir = program(steps, io_tiles=0 if io_mode == "compute" else 32)
    with ir.main_graph, popxl.in_sequence():
        stream, out = streams_of(x), popxl.d2h_stream((2, 4), F32)
        facts, graph = Scale().create_graph(popxl.TensorSpec((2, 4), F32))
        variables = facts.init()
        (source,) = (t for t in graph.graph.inputs if t.shape == (2, 4))
        y = graph.graph.outputs[0]
        buffer = batch_serial_buffer(y)
        handle = (buffer, 0) if as_tuple else RemoteHandle(buffer)
        result = addons.batch_serialise(
            graph, steps, {source: stream}, {y: out}, {y: handle}, io_mode=io_mode
        )
        assert buffer.entries == steps
        assert list(result.graph.args.to_dict()) == ["weight"]
        row, weight = result.graph.graph.inputs
        assert (row.name, row.spec) == (
            "batch_serial_loop_index",
            popxl.TensorSpec((), popxl.int32),
        )
        assert result.graph.args.weight is weight and weight.name == graph.args.weight.name
        assert result.stored_buffers == {y: RemoteHandle(buffer, 0)}
        remapped = result.remap_tensors(addons.NamedTensors(mine=graph.args.weight))
        assert remapped.to_dict() == {"mine": weight}
        result.graph.bind(variables).call(0)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        got = session.run({stream: x})[out]
        kept = rows_of(session, buffer, steps)
    expected = np.tanh(x @ session.get_tensor_data(variables.weight))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(kept, got)


def check_gradients(session, x, dy, dx, weight, mean):
    torch = pytest.importorskip("torch")
    w = torch.tensor(session.get_tensor_data(weight), requires_grad=True)
    xt = torch.tensor(x, requires_grad=True)
    torch.tanh(xt @ w).backward(torch.tensor(dy))
    np.testing.assert_allclose(dx, xt.grad, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(session.get_tensor_data(mean), w.grad / len(x), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("source_is", ["stream", "buffer"])
@pytest.mark.parametrize("stored", [False, True])
def test_forward_and_gradient_in_steps(source_is, stored):
    steps, x, dy = 3, rand(3, 2, 4), rand(3, 2, 4)
    ir = program(steps)
    with ir.main_graph, popxl.in_sequence():
        x_stream, dy_stream = streams_of(x), streams_of(dy)
        dx_stream = popxl.d2h_stream((2, 4), F32)
        facts, graph = Scale().create_graph(popxl.TensorSpec((2, 4), F32))
        (source,) = (t for t in graph.graph.inputs if t.shape == (2, 4))
        accum_facts, grad = addons.autodiff_with_accumulation(
            graph, [graph.args.weight], grads_required=[source]
        )
        variables, accums = facts.init(), accum_facts.init()
        y, stores, load = graph.graph.outputs[0], {}, x_stream
        if source_is == "buffer":
            load = RemoteHandle(batch_serial_buffer(source))
            copied(ir, steps, x_stream, stores=load)
        if stored:
            stores[y] = RemoteHandle(batch_serial_buffer(y))
        forward, backward = addons.batch_serialise_fwd_and_grad(
            graph,
            grad,
            graph.args,
            steps,
            {source: load, grad.graph.inputs[0]: dy_stream},
            {grad.graph.outputs[0]: dx_stream},
            stores,
        )
        # A stream can be read only once, so x is kept; a buffer is loaded again.
        assert (source in forward.stored_buffers) is (source_is == "stream")
        assert not stored or forward.stored_buffers[y] is stores[y]
        names = ["accum.weight", "mean_accum_counter", "weight"]
        assert sorted(backward.graph.args.to_dict()) == names
        forward.graph.bind(variables).call(0)
        backward.graph.bind(accums).bind(variables).call(0)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        dx = session.run({x_stream: x, dy_stream: dy})[dx_stream]
    check_gradients(session, x, dy, dx, variables.weight, accums.accum.weight)


def test_activations_may_be_kept_in_shards():
    steps, x, dy = 2, rand(2, 2, 4), rand(2, 2, 4)
    ir = program(steps, replication=2)
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
            graph.args,
            steps,
            {source: x_stream, grad.graph.inputs[0]: dy_stream},
            {grad.graph.outputs[0]: dx_stream},
            {source: ir.replica_grouping()},
        )
        kept = forward.stored_buffers[source]
        assert kept.shard_group == ir.replica_grouping()
        assert (kept.buffer.tensor_shape, kept.buffer.meta_shape) == ((4,), (2, 4))
        forward.graph.bind(variables).call(0)
        backward.graph.bind(accums).bind(variables).call(0)
    session = popxl.Session(ir, "ipu_hw")
    twice = lambda a: np.stack([a, a], 1)  # noqa: E731 replicas
    with session:
        dx = session.run({x_stream: twice(x), dy_stream: twice(dy)})[dx_stream]
    for r in range(2):
        check_gradients(session, x, dy, dx[:, r], variables.weight, accums.accum.weight)


def copied(ir, steps, loads, streams=None, stores=None, shape=(2, 4), row=0, rows=1):
    """Runs a graph that copies, for all steps: from and to streams or buffers."""
    graph = addons.GraphWithNamedArgs(
        ir.create_graph(lambda x: x + 0.0, popxl.TensorSpec(shape, F32))
    )
    (x,), (y,) = graph.graph.inputs, graph.graph.outputs
    moved = lambda value: {} if value is None else {y: value}  # noqa: E731
    result = addons.batch_serialise(
        graph, steps, {x: loads}, moved(streams), moved(stores), rows=rows
    )
    result.graph.call(row)
    return result, x, y


def test_rows_are_layers_run_in_phases():
    steps, layers, x = 2, 3, rand(2, 2, 4)
    ir = program(steps)
    with ir.main_graph, popxl.in_sequence():
        stream, out = streams_of(x), popxl.d2h_stream((2, 4), F32)
        facts, graph = Scale().create_graph(popxl.TensorSpec((2, 4), F32))
        (source,) = (t for t in graph.graph.inputs if t.shape == (2, 4))
        # Layer i reads row i of the buffer; weights come from remote memory, too.
        kept = batch_serial_buffer(source, steps)
        weights = addons.named_variable_buffers(facts, layers)
        for i in range(layers):
            facts.init_remote(weights, i, f"layer{i}")
        layer = addons.batch_serialise(
            graph,
            steps,
            {source: RemoteHandle(kept)},
            store_buffers={graph.graph.outputs[0]: (kept, 1)},
            rows=layers,
        )
        assert kept.entries == (layers + 1) * steps
        copied(ir, steps, stream, stores=RemoteHandle(kept))
        for i in range(layers):
            layer.graph.bind(addons.load_remote(weights, i)).call(i)
        copied(ir, steps, RemoteHandle(kept, layers), streams=out)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        y = session.run({stream: x})[out]
        rows = rows_of(session, weights.weight, layers)
    for weight in rows:
        x = np.tanh(x @ weight)
    np.testing.assert_allclose(y, x, rtol=1e-4, atol=1e-5)


OFFSETS = {
    "number": (2, 1, [6, 7]),
    "none": (None, 1, [0, 1]),
    "function": (lambda row: popxl.constant(3, popxl.int32) - row, 1, [4, 5]),
}


@pytest.mark.parametrize("offset, row, entries", OFFSETS.values(), ids=OFFSETS)
def test_handles_say_which_rows(offset, row, entries):
    steps, x = 2, rand(2, 2, 4)
    ir = program(steps)
    with ir.main_graph, popxl.in_sequence():
        stream, out = streams_of(x), popxl.d2h_stream((2, 4), F32)
        buffer = popxl.remote_buffer((2, 4), F32, 8)
        handle = RemoteHandle(buffer)
        handle.row_offset = offset
        copied(ir, steps, stream, stores=handle, row=row, rows=2)
        copied(ir, steps, (buffer, offset, None), streams=out, row=row, rows=2)
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run({stream: x})[out], x)
        np.testing.assert_array_equal(rows_of(session, buffer, 8)[entries], x)


def test_what_a_handle_loads_is_not_stored_again():
    steps, x = 2, rand(2, 2, 4)
    ir = program(steps)
    with ir.main_graph, popxl.in_sequence():
        stream, out = streams_of(x), popxl.d2h_stream((2, 4), F32)
        source = RemoteHandle(batch_serial_buffer(popxl.TensorSpec((2, 4), F32)))
        copied(ir, steps, stream, stores=source)
        graph = addons.GraphWithNamedArgs(
            ir.create_graph(lambda x: x * 2.0, popxl.TensorSpec((2, 4), F32))
        )
        (x_in,), (y,) = graph.graph.inputs, graph.graph.outputs
        unused = RemoteHandle(batch_serial_buffer(x_in))
        result = addons.batch_serialise(graph, steps, {x_in: source}, {y: out}, {x_in: unused})
        assert result.stored_buffers == {x_in: source}
        assert of(unused.buffer).core_name is None
        result.graph.call(0)
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run({stream: x})[out], 2 * x)


def test_handles_keep_shards():
    steps, x = 2, rand(2, 4, 3, 4)
    x[:] = x[:, :1]  # the same on all replicas: each keeps a part
    ir = program(steps, replication=4)
    with ir.main_graph, popxl.in_sequence():
        stream, out = popxl.h2d_stream((3, 4), F32), popxl.d2h_stream((3, 4), F32)
        rg = ir.replica_grouping()
        buffer = batch_serial_buffer(popxl.TensorSpec((3, 4), F32), shard_group=rg)
        assert (buffer.tensor_shape, buffer.meta_shape) == ((3,), (3, 4))
        handle = RemoteHandle(buffer, shard_group=rg)
        copied(ir, steps, stream, stores=handle, shape=(3, 4))
        copied(ir, steps, handle, streams=out, shape=(3, 4))
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run({stream: x})[out], x)


def test_every_step_has_a_seed():
    ir = program(3)
    with ir.main_graph, popxl.in_sequence():
        out, seeds = popxl.d2h_stream((4,), F32), popxl.d2h_stream((2,), popxl.uint32)
        graph = addons.GraphWithNamedArgs(
            ir.create_graph(
                lambda seed: ops.random_uniform(seed, (4,)), popxl.TensorSpec((2,), popxl.uint32)
            )
        )
        (seed,) = graph.graph.inputs
        result = addons.batch_serialise(
            graph, 3, {}, {graph.graph.outputs[0]: out, seed: seeds}, seed_input=seed
        )
        names = [t.name for t in result.graph.graph.inputs]
        assert names == ["batch_serial_loop_index", "batch_serial_random_seed"]
        with pytest.raises(KeyError):
            result.remap_tensors(addons.NamedTensors(seed=seed))
        _, loaded = addons.seed_variable(3)
        result.graph.call(0, loaded)
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run()
    assert len(np.unique(got[out], axis=0)) == 3
    ir = program()
    with ir.main_graph:  # one is for the graph, one for the next step
        state, streams = addons.seed_variable(3)[1], []
        for _ in range(3):
            mine, state = ops.split_random_seed(state)
            streams.append(addons.ops.host_store(mine))
    with popxl.Session(ir, "ipu_hw") as session:
        by_hand = session.run()
    np.testing.assert_array_equal(got[seeds], np.stack([by_hand[s] for s in streams]))


def test_gradients_see_the_seed_of_their_step():
    """Dropout: the gradient is 0 where the output is 0."""
    steps, x = 3, np.ones((3, 64), np.float32)
    ir = program(steps)
    with ir.main_graph, popxl.in_sequence():
        stream, y_out = streams_of(x), popxl.d2h_stream((64,), F32)
        dy_stream, dx_out = streams_of(x), popxl.d2h_stream((64,), F32)
        spec = popxl.TensorSpec((2,), popxl.uint32)
        graph = addons.GraphWithNamedArgs(
            ir.create_graph(lambda x, s: ops.dropout(x, s, 0.5), popxl.TensorSpec((64,), F32), spec)
        )
        x_in, seed = graph.graph.inputs
        grad = addons.autodiff(graph, grads_required=[x_in])
        forward, backward = addons.batch_serialise_fwd_and_grad(
            graph,
            grad,
            graph.args,
            steps,
            {x_in: stream, grad.graph.inputs[0]: dy_stream},
            {graph.graph.outputs[0]: y_out, grad.graph.outputs[0]: dx_out},
            {},
            seed,
        )
        _, loaded = addons.seed_variable(3)
        forward.graph.call(0, loaded)
        backward.graph.call(0)
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run({stream: x, dy_stream: x})
    np.testing.assert_array_equal(got[y_out] == 0, got[dx_out] == 0)
    assert 0.3 < (got[y_out] == 0).mean() < 0.7
    assert (got[y_out][0] != got[y_out][1]).any() and (got[y_out][1] != got[y_out][2]).any()


def test_batch_serialisation_refuses():
    ir = program()
    with ir.main_graph:
        graph = addons.GraphWithNamedArgs(ir.create_graph(lambda x: x + 1.0, popxl.constant(1.0)))
        (x,), other = graph.graph.inputs, popxl.constant(1.0)
        stream = popxl.h2d_stream((), F32)
        for text, arguments in (
            ("must be >0", {"steps": 0, "load_handles": {}}),
            ("rows must be >0", {"steps": 2, "load_handles": {}, "rows": 0}),
            ("Unknown 'io_mode'", {"steps": 2, "load_handles": {}, "io_mode": "both"}),
            ("are not inputs", {"steps": 2, "load_handles": {other: stream}}),
            ("are not inputs", {"steps": 2, "load_handles": {}, "store_streams": {other: stream}}),
        ):
            with pytest.raises(ValueError, match=text):
                addons.batch_serialise(graph, **arguments)
        grad = addons.autodiff(graph)
        with pytest.raises(ValueError, match="must have a load_handle specified"):
            addons.batch_serialise_fwd_and_grad(graph, grad, graph.args, 2, {x: stream}, {}, {})
    with program(io_tiles=0).main_graph:
        graph = addons.GraphWithNamedArgs(popxl.gir().create_graph(lambda x: x + 1.0, other.spec))
        for mode in ("io", "io_overlapped"):
            with pytest.raises(ValueError, match="IR must have IO tiles"):
                addons.batch_serialise(graph, 2, {}, io_mode=mode)


def test_overlap_needs_two_steps(caplog):
    ir = program()
    with ir.main_graph, caplog.at_level(logging.WARNING):
        graph = addons.GraphWithNamedArgs(ir.create_graph(lambda x: x + 1.0, popxl.constant(1.0)))
        serial.batch_serialise_non_overlapped(graph, 1, {})
        assert not caplog.messages
        serial.batch_serialise_overlapped(graph, 1, {})
    assert "io_overlapped" in caplog.messages[0]
