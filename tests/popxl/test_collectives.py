"""Ops between replicas and IPUs agree with NumPy on the stacked replicas."""

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.ops import collectives
from popxl.transforms import autodiff
from popxl_addons.ops import replicated_all_reduce_TP
from program import run_graph

X = np.random.default_rng(2).uniform(-1, 1, (4, 2, 3)).astype(np.float32)
TOLERANCE = {np.float32: {"rtol": 1e-5, "atol": 1e-6}, np.float16: {"rtol": 2e-3, "atol": 2e-3}}
GROUPS = {"all": None, "neighbours": (1, 2), "strided": (2, 2)}


def members(group):
    """Returns the replicas of each group, for 4 replicas."""
    if GROUPS[group] is None:
        return [[0, 1, 2, 3]]
    return {"neighbours": [[0, 1], [2, 3]], "strided": [[0, 2], [1, 3]]}[group]


def grouping(group):
    return GROUPS[group] and popxl.gir().replica_grouping(*GROUPS[group])


def on_each(group, function):
    """Applies `function` (stack, rank) → array to the stacked members of each replica's group."""
    out = [None] * 4
    for replicas in members(group):
        for rank, replica in enumerate(replicas):
            out[replica] = function(X[replicas], rank)
    return np.stack(out)


REDUCTIONS = {
    "add": lambda s: s.sum(0),
    "mean": lambda s: s.mean(0),
    "mul": lambda s: s.prod(0),
    "min": lambda s: s.min(0),
    "max": lambda s: s.max(0),
    "square_add": lambda s: (s * s).sum(0),
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_all_reduce(group, op):
    (y,) = run_graph(
        lambda x: collectives.replicated_all_reduce(x, op, grouping(group)), X, replication=4
    )
    expected = on_each(group, lambda s, _: REDUCTIONS[op](s))
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op, function", [("and", np.logical_and), ("or", np.logical_or)])
def test_all_reduce_of_truth_values(op, function):
    x = np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1], [1, 0, 1]], bool)
    (y,) = run_graph(lambda x: collectives.replicated_all_reduce(x, op), x, replication=4)
    np.testing.assert_array_equal(y, np.broadcast_to(function.reduce(x), x.shape))


@pytest.mark.parametrize("group", GROUPS)
def test_all_reduce_in_place_is_seen_later(group):
    def program(x):
        collectives.replicated_all_reduce_(x, group=grouping(group))
        return x + 0.0

    (y,) = run_graph(program, X, replication=4)
    np.testing.assert_allclose(y, on_each(group, lambda s, _: s.sum(0)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("axis", [0, 1])
def test_all_gather(group, axis):
    def program(x):
        gather = collectives.replicated_all_gather
        return (
            gather(x, axis, grouping(group)),
            gather(x, group=grouping(group), output_shape="new_axis"),
        )

    lined, stacked = run_graph(program, X, replication=4)
    np.testing.assert_array_equal(lined, on_each(group, lambda s, _: np.concatenate(s, axis)))
    np.testing.assert_array_equal(stacked, on_each(group, lambda s, _: s))


@pytest.mark.parametrize("group", GROUPS)
def test_shards_are_padded_with_zeros_and_gathered_back(group):
    def program(x):
        rg = grouping(group)
        summed = collectives.replicated_reduce_scatter(x, "add", rg, True)
        mine = collectives.replica_sharded_slice(x, rg)
        return (
            summed,
            mine,
            collectives.replicated_all_gather(summed, group=rg),
            collectives.replicated_slice(
                x[:, :2].T @ x[:, :2], 0, popxl.gir().replica_grouping(1, 2)
            ),
        )

    summed, mine, whole, rows = run_graph(program, X, replication=4)

    def shard(value, rank, count):
        each = -(-6 // count)
        return np.pad(value.ravel(), (0, each * count - 6)).reshape(count, each)[rank]

    def summed_shard(s, rank):
        return shard(s.sum(0), rank, len(s))

    np.testing.assert_allclose(summed, on_each(group, summed_shard), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(mine, on_each(group, lambda s, r: shard(s[r], r, len(s))))
    np.testing.assert_allclose(whole, on_each(group, lambda s, _: s.sum(0)), rtol=1e-5, atol=1e-6)
    squares = [x[:, :2].T @ x[:, :2] for x in X]
    expected = np.stack([squares[r][[r % 2]] for r in range(4)])
    np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_the_gradient_of_a_slice_is_gathered(axis):
    x = np.concatenate([X, X], 2)[:, :, :4]
    part = (1, 4) if axis == 0 else (2, 2)
    dy = np.random.default_rng(1).uniform(-1, 1, (4, *part)).astype(np.float32)

    def program(x, dy):
        rg = popxl.gir().replica_grouping(1, 2)
        graph = popxl.gir().create_graph(lambda x: collectives.replicated_slice(x, axis, rg), x)
        info = autodiff(graph)
        forward = ops.call_with_info(graph, x)
        backward = ops.call_with_info(info.graph, dy, inputs_dict=info.inputs_dict(forward))
        return forward.outputs[0], backward.outputs[0]

    y, dx = run_graph(program, x, dy, replication=4)
    for replica in range(4):
        pair = [replica // 2 * 2, replica // 2 * 2 + 1]
        right = np.split(x[replica], 2, axis)[replica % 2]
        np.testing.assert_array_equal(y[replica], right)
        np.testing.assert_array_equal(dx[replica], np.concatenate(dy[pair], axis))


def nested(ir, graph, spec):
    return ir.create_graph(lambda t: ops.call(graph, t)[0], spec), {}


def given(ir, graph, spec):
    info = {graph: autodiff(graph)}
    return nested(ir, graph, spec)[0], {"called_graphs_grad_info": info}


@pytest.mark.parametrize("wrap", [nested, given])
@pytest.mark.parametrize("group", [(1, 4), (2, 2), (1, 1)])
@pytest.mark.parametrize("shape, axis", [((4,), 0), ((4, 8), 0), ((4, 8), -1), ((2, 4, 8), 1)])
def test_slices_in_called_graphs_and_their_gradients_keep_their_rank(wrap, group, shape, axis):
    x = np.random.default_rng(1).uniform(-1, 1, (4, *shape)).astype(np.float32)
    part = list(shape)
    part[axis] //= group[1]
    dy = np.random.default_rng(2).uniform(-1, 1, (4, *part)).astype(np.float32)

    def program(x, dy):
        ir = popxl.gir()
        rg = ir.replica_grouping(*group)
        inner = ir.create_graph(lambda t: collectives.replicated_slice(t, axis, rg), x)
        outer, more = wrap(ir, inner, x)
        info = autodiff(outer, **more)
        forward = ops.call_with_info(outer, x)
        backward = ops.call_with_info(info.graph, dy, inputs_dict=info.inputs_dict(forward))
        assert [t.shape for t in forward.outputs] == [tuple(part)]
        assert [t.spec for t in backward.outputs] == [x.spec]
        return forward.outputs[0], backward.outputs[0]

    y, dx = run_graph(program, x, dy, replication=4)
    stride, size = group
    for replica in range(4):
        rank = replica // stride % size
        members = [replica + (i - rank) * stride for i in range(size)]
        np.testing.assert_array_equal(y[replica], np.split(x[replica], size, axis)[rank])
        np.testing.assert_array_equal(dx[replica], np.concatenate(dy[members], axis))


def others(x):
    return np.stack([np.prod(np.delete(x, i, 0), 0) for i in range(len(x))])


# Reduction → the gradient of each member from the sum of the results' gradients.
GRADIENTS = {
    "add": lambda x, dy: np.stack([dy] * len(x)),
    "mean": lambda x, dy: np.stack([dy / len(x)] * len(x)),
    "mul": lambda x, dy: dy * others(x),
    "min": lambda x, dy: dy * (x == x.min(0)) / (x == x.min(0)).sum(0),
    "max": lambda x, dy: dy * (x == x.max(0)) / (x == x.max(0)).sum(0),
    "square_add": lambda x, dy: dy * 2 * x,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("op", GRADIENTS)
def test_gradients_of_reductions(op, scattered, dtype):
    x = np.round(X * 4).astype(dtype) / 4  # ties and zeros
    x[0, 0] = x[:2, 1, 1] = 0
    dy = np.random.default_rng(1).uniform(-1, 1, (4, 3) if scattered else X.shape).astype(dtype)
    function = collectives.replicated_all_reduce
    if scattered:
        function = collectives.replicated_reduce_scatter

    def program(x, dy):
        rg = popxl.gir().replica_grouping(2, 2)
        graph = popxl.gir().create_graph(lambda x: function(x, op, rg), x)
        info = autodiff(graph)
        forward = ops.call_with_info(graph, x)
        return ops.call(info.graph, dy, inputs_dict=info.inputs_dict(forward))

    (dx,) = run_graph(program, x, dy, replication=4)
    for pair in ([0, 2], [1, 3]):
        total = np.stack(dy[pair]) if scattered else dy[pair].sum(0)
        expected = GRADIENTS[op](x[pair].astype(np.float32), total.astype(np.float32))
        np.testing.assert_allclose(dx[pair], expected, **TOLERANCE[dtype])


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("place", range(4))
def test_what_is_no_number_is_the_least_and_the_largest(op, place):
    x = np.arange(4, dtype=np.float32)[:, None]
    x[place] = np.nan
    (y,) = run_graph(lambda x: collectives.replicated_all_reduce(x, op), x, replication=4)
    assert np.isnan(y).all()


def gathered(t):
    return collectives.replicated_all_gather(t, 1, popxl.gir().replica_grouping(1, 2))


def scattered(t):
    return collectives.replicated_reduce_scatter(t, "add", popxl.gir().replica_grouping(1, 2))


OF_COLLECTIVES = {
    "all_gather": (gathered, lambda dy, r: np.split(dy[r], 2, 1)[r % 2]),
    "all_reduce": (collectives.replicated_all_reduce, lambda dy, r: dy.sum(0)),
    "slice": (
        lambda t: collectives.replicated_slice(t, 0, popxl.gir().replica_grouping(1, 2)),
        lambda dy, r: np.concatenate(dy[r // 2 * 2 : r // 2 * 2 + 2]),
    ),
    "reduce_scatter": (
        scattered,
        lambda dy, r: np.concatenate(dy[r // 2 * 2 : r // 2 * 2 + 2])[:6].reshape(2, 3),
    ),
    "same inputs": (
        lambda t: collectives.all_reduce_identical_inputs([t, t])[0],
        lambda dy, r: 2 * dy[r],
    ),
    "same gradients": (
        lambda t: collectives.all_reduce_identical_grad_inputs([t, t])[0],
        lambda dy, r: dy[r],
    ),
    "TP": (
        replicated_all_reduce_TP.replicated_all_reduce_identical_inputs,
        lambda dy, r: dy.sum(0),
    ),
}


@pytest.mark.parametrize("name", OF_COLLECTIVES)
def test_gradients_need_nothing_of_the_forward_graph(name):
    call, expected = OF_COLLECTIVES[name]
    found = []

    def program(x):
        graph = popxl.gir().create_graph(lambda t: call(t * 2.0), x)
        info = autodiff(graph)
        assert len(graph.outputs) == 1 and len(info.graph.inputs) == 1
        forward = ops.call_with_info(graph, x)
        (y,) = forward.outputs
        found.append(y.shape)
        dy = y * 0.5 + x.reshape((-1,))[0:1].reshape((1,) * y.rank)
        return dy, *ops.call(info.graph, dy, inputs_dict=info.inputs_dict(forward))

    dy, dx = run_graph(program, X[:, :2], replication=4)
    right = np.stack([2 * expected(dy, r).reshape(dx.shape[1:]) for r in range(4)])
    np.testing.assert_allclose(dx, right, rtol=1e-5)


def test_all_reduce_between_ipus():
    ir = popxl.Ir()
    with ir.main_graph:
        parts = []
        for i in range(3):
            with popxl.ipu(i):
                parts.append(popxl.constant(X[i], name="x") + 0.0)
        results = collectives.all_reduce(parts)
        assert [t.ipu for t in results] == [0, 1, 2]
        streams = []
        for t in results:
            streams.append(popxl.d2h_stream(t.shape, t.dtype))
            ops.host_store(streams[-1], t)
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run()
    for stream in streams:
        np.testing.assert_allclose(got[stream], X[:3].sum(0), rtol=1e-6)


def test_data_parallel_training_is_training_on_the_whole_batch():
    steps, rate, rng = 4, 0.1, np.random.default_rng(11)
    ir = popxl.Ir()
    ir.replication_factor = 4
    with ir.main_graph, popxl.in_sequence():
        x_stream = popxl.h2d_stream((2, 3), popxl.float32, "x")
        y_stream = popxl.h2d_stream((2, 1), popxl.float32, "y")
        w = popxl.variable(np.zeros((3, 1)), popxl.float32, "w")
        squares = lambda x, w, y: ops.mean((x @ w - y) ** 2.0)  # noqa: E731
        graph = ir.create_graph(squares, x_stream.spec, w.spec, y_stream.spec)
        info = autodiff(graph, grads_required=[graph.inputs[1]])
        call = ops.call_with_info(graph, ops.host_load(x_stream), w, ops.host_load(y_stream))
        one = popxl.constant(1.0, popxl.float32)
        (dw,) = ops.call(info.graph, one, inputs_dict=info.inputs_dict(call))
        ops.scaled_add_(w, collectives.replicated_all_reduce(dw, "mean"), b=-rate)
        loss = collectives.replicated_all_reduce(call.outputs[0], "mean")
        out = popxl.d2h_stream((), popxl.float32)
        ops.host_store(out, loss)
    session, expected = popxl.Session(ir, "ipu_hw"), np.zeros((3, 1))
    with session:
        for _ in range(steps):
            x = rng.normal(size=(4, 2, 3)).astype(np.float32)
            y = rng.normal(size=(4, 2, 1)).astype(np.float32)
            losses = session.run({x_stream: x, y_stream: y})[out]
            flat = x.reshape(8, 3)
            error = flat @ expected - y.reshape(8, 1)
            np.testing.assert_allclose(losses, [np.mean(error**2)] * 4, rtol=1e-5)
            expected = expected - rate * 2 * flat.T @ error / 8
    np.testing.assert_allclose(session.get_tensor_data(w), expected, rtol=1e-5, atol=1e-6)


def test_grouped_variables_differ_between_groups():
    ir = popxl.Ir(replication=4)
    data = np.float32([[1, 2], [3, 4]])
    with ir.main_graph, popxl.in_sequence():
        rg = ir.replica_grouping(stride=2, group_size=2)
        v = popxl.variable(data, replica_grouping=rg)
        out = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, v)
        ops.add_(v, v)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        assert session.run()[out].tolist() == [[1, 2], [3, 4], [1, 2], [3, 4]]
    np.testing.assert_array_equal(session.get_tensor_data(v), 2 * data)


@pytest.mark.parametrize(
    "error, call",
    [
        (ValueError, lambda t: collectives.replicated_all_reduce(t, "sub")),
        (ValueError, lambda t: collectives.replicated_all_gather(t, output_shape="row")),
        (ValueError, lambda t: collectives.replicated_all_gather(t, output_shape="meta_shape")),
        (ValueError, lambda t: collectives.replicated_slice(t)),
        (
            NotImplementedError,
            lambda t: collectives.replicated_all_reduce(
                t, group=popxl.gir().replica_grouping_from_assignments([0, 1, 1, 0])
            ),
        ),
    ],
)
def test_collectives_refuse(error, call):
    with popxl.Ir(replication=4).main_graph, pytest.raises(error):
        call(popxl.constant(np.zeros(3, np.float32)))
