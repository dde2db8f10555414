"""Programs on several IPUs give the same results as on one."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops

X = np.random.default_rng(4).normal(size=(4, 6)).astype(np.float32)
LABELS = np.int32([0, 2, 1, 2])


class Split(addons.Module):
    """Two layers, each on a separate IPU."""

    def __init__(self, ipus):
        super().__init__()
        self.ipus = ipus
        self.first, self.last = addons.layers.Linear(5), addons.layers.Linear(3)

    def build(self, x: popxl.Tensor):
        with popxl.ipu(self.ipus[0]):
            h = ops.gelu(self.first(x))
        if self.ipus[0] != self.ipus[1]:
            h = h.copy_to_ipu(self.ipus[1])
        with popxl.ipu(self.ipus[1]):
            return self.last(h)


def train(ipus, steps=3):
    """Returns losses, weights and the number of IPUs that held something."""
    np.random.seed(0)
    ir = popxl.Ir()
    with ir.main_graph:
        with popxl.ipu(ipus[0]):
            x = ops.host_load(popxl.h2d_stream(X.shape, popxl.float32, "x"))
        with popxl.ipu(ipus[1]):
            labels = ops.host_load(popxl.h2d_stream(LABELS.shape, popxl.int32, "labels"))
        facts, graph = Split(ipus).create_graph(x)
        grad = addons.autodiff(graph)
        variables = facts.init()
        call = graph.bind(variables).call_with_info(x)
        with popxl.ipu(ipus[1]):
            y = call.outputs[0]
            loss, dy = addons.ops.cross_entropy_with_grad(y, labels)
            out = addons.ops.host_store(loss)
        info = grad.grad_graph_info
        back = grad.call_with_info(dy, args=info.inputs_dict(call))
        grads = info.fwd_parent_ins_to_grad_parent_outs(call, back)
        for name, variable in variables.to_dict().items():
            with popxl.ipu(ipus[0] if name.startswith("first") else ipus[1]):
                ops.scaled_add_(variable, grads[variable], b=-0.5)
    session = popxl.Session(ir, "ipu_hw")
    inputs = dict(zip(session.expected_inputs(), (X, LABELS), strict=True))
    with session:
        losses = [session.run(inputs)[out].item() for _ in range(steps)]
    held = sum(ipu["state_bytes"] > 0 for ipu in session._executable.report()["ipus"])
    return losses, session.get_tensors_data(variables.tensors).values(), held


@pytest.mark.parametrize("ipus", [(0, 1), (1, 0), (1, 3)])
def test_training_on_two_ipus_is_training_on_one(ipus):
    losses, weights, held = train((0, 0))
    assert held == 1 and losses[-1] < losses[0]
    split_losses, split_weights, held = train(ipus)
    assert held == 2 and split_losses == losses
    for a, b in zip(weights, split_weights, strict=True):
        np.testing.assert_array_equal(a, b)


F32 = popxl.float32
W = [np.random.default_rng(i).normal(size=(2, 2)).astype(np.float32) * 0.5 for i in range(2)]
START = np.float32([[1, -2], [0.5, 3]])


def two_layers(x, a, b):
    """Computes tanh of x @ a on IPU 0, tanh of that @ b on IPU 1, and copies back."""
    with popxl.ipu(0):
        h = ops.tanh(x @ a)
    h = h.copy_to_ipu(1)
    with popxl.ipu(1):
        y = ops.tanh(h @ b)
    return y.copy_to_ipu(0)


def expected(x, rounds):
    for _ in range(rounds):
        x = np.tanh(np.tanh(x @ W[0]) @ W[1])
    return x


def run_loop(build, transfers=1):
    """Returns the results of a program on START (for each transfer), and its session."""
    ir = popxl.Ir()
    ir.num_host_transfers = transfers
    with ir.main_graph, popxl.in_sequence():
        weights = []
        for ipu in range(2):
            with popxl.ipu(ipu):
                weights.append(popxl.variable(W[ipu]))
        x_stream = popxl.h2d_stream(START.shape, F32)
        out = popxl.d2h_stream(START.shape, F32)
        build(ir, x_stream, out, weights)
    session = popxl.Session(ir, "ipu_hw")
    data = START if transfers == 1 else np.stack([START * i for i in range(transfers)])
    with session:
        return session.run({x_stream: data})[out], session


@pytest.mark.parametrize("nested", [False, True])
def test_a_loop_carries_values_over_two_ipus(nested):
    def build(ir, x_stream, out, weights):
        with popxl.ipu(0):
            x = ops.host_load(x_stream)
        graph = ir.create_graph(two_layers, x, *weights)
        if nested:
            inner = graph
            graph = ir.create_graph(lambda x, a, b: ops.repeat(inner, 2, x, a, b), x, *weights)
        (y,) = ops.repeat(graph, 3, x, *weights)
        with popxl.ipu(0):
            ops.host_store(out, y)

    got, session = run_loop(build)
    np.testing.assert_allclose(got, expected(START, 6 if nested else 3), rtol=1e-5)
    work = [ipu["compute_cycles"] for ipu in session._executable.report()["ipus"]]
    assert len(work) == 2 and min(work) > 0


def test_a_loop_over_two_ipus_streams_and_writes():
    totals = []

    def build(ir, x_stream, out, weights):
        with popxl.ipu(1):
            totals.append(popxl.variable(np.zeros((2, 2)), F32))

        @popxl.in_sequence()
        def body(a, b, total: popxl.TensorByRef):
            with popxl.ipu(0):
                y = two_layers(ops.host_load(x_stream), a, b)
            y = y.copy_to_ipu(1)
            with popxl.ipu(1):
                ops.host_store(out, y)
                ops.add_(total, y)

        ops.repeat(ir.create_graph(body, *weights, totals[0]), 4, *weights, totals[0])

    got, session = run_loop(build, 4)
    want = [expected(START * i, 1) for i in range(4)]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(session.get_tensor_data(totals[0]), sum(want), rtol=1e-4, atol=1e-5)


def test_what_a_loop_carries_changes_places_across_ipus():
    def build(ir, x_stream, out, _weights):
        with popxl.ipu(0):
            x = ops.host_load(x_stream)
        with popxl.ipu(1):
            z = popxl.constant(np.zeros((2, 2)), F32) + 1.0

        def body(a, b, old, older):
            with popxl.ipu(0):
                c = a * 2.0
            with popxl.ipu(1):
                d = b + 3.0
            return d.copy_to_ipu(0), c.copy_to_ipu(1), a, old

        graph = ir.create_graph(body, x, z, x, x)
        *_, oldest = ops.repeat(graph, 5, x, z, x, x)
        with popxl.ipu(0):
            ops.host_store(out, oldest)

    a, b, old, older = START, np.ones((2, 2), np.float32), START, START
    for _ in range(5):
        a, b, old, older = b + 3, a * 2, a, old
    np.testing.assert_allclose(run_loop(build)[0], older, rtol=1e-6)


@pytest.mark.parametrize("taken", [True, False])
def test_the_branches_of_a_conditional_work_on_two_ipus(taken):
    def build(ir, x_stream, out, weights):
        with popxl.ipu(0):
            x = ops.host_load(x_stream)
            big = ops.greater(ops.sum(x), popxl.constant(-10.0 if taken else 10.0, F32))

        def other(x, b):
            h = x.copy_to_ipu(1, 0)
            with popxl.ipu(1):
                return (h @ b).copy_to_ipu(0)

        branches = ir.create_graph(two_layers, x, *weights), ir.create_graph(other, x, weights[1])
        (y,) = ops.conditional(big, *branches, [x, *weights], [x, weights[1]])
        with popxl.ipu(0):
            ops.host_store(out, y + 1.0)

    got, session = run_loop(build)
    want = expected(START, 1) if taken else START @ W[1]
    np.testing.assert_allclose(got, want + 1, rtol=1e-5)
    report = session._executable.report()
    assert all(ipu["link_cycles"] > 0 for ipu in report["ipus"])


def on_ipu(ipu, *shape):
    with popxl.ipu(ipu):
        return popxl.constant(np.ones(shape), F32) + 1.0


STRANGERS = {
    "one input": ("Exp", lambda a, v: ops.exp(a)),
    "two inputs": ("Add", lambda a, v: a + a),
    "written in place": ("ReluInplace", lambda a, v: ops.relu_(a)),
    "a store": ("HostStore", lambda a, v: ops.host_store(popxl.d2h_stream((2,), F32), a)),
    "a variable used elsewhere": ("Neg", lambda a, v: -v),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_an_op_of_one_ipu_takes_no_tensors_of_another(name):
    op, call = STRANGERS[name]
    with popxl.Ir().main_graph:
        a, v = on_ipu(0, 2), popxl.variable(np.ones(2), F32, name="v")
        with popxl.ipu(0):
            _ = a + v  # the first use says where a variable is
        text = rf"{op} is written inside popxl.ipu\(1\) but takes .* of IPU 0.*ipu_copy\(t, 1, sour"
        with popxl.ipu(1), pytest.raises(ValueError, match=text):
            call(a, v)


def test_what_is_copied_or_has_no_place_yet_may_be_used():
    ir = popxl.Ir()
    with ir.main_graph:
        a, v = on_ipu(0, 2), popxl.variable(np.float32([3, 4]), name="v")
        w = popxl.variable(np.float32([5, 6]), name="w")
        with popxl.ipu(0):
            a = a * v
        with popxl.ipu(1):
            v = ops.ipu_copy(v, 1, source=0)
            y = ops.ipu_copy(a, 1) + v + w
            out = popxl.d2h_stream((2,), F32)
            ops.host_store(out, y)
        assert [t.ipu for t in (a, v, w, y)] == [0, 1, 1, 1]
        with pytest.raises(ValueError, match=r"is on IPU 1: ops.ipu_copy cannot take it from 0"):
            ops.ipu_copy(w, 1, source=0)
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run()[out], [6 + 3 + 5, 8 + 4 + 6])


@pytest.mark.parametrize("nested", [False, True])
def test_a_graph_without_ipus_works_on_its_callers(nested):
    ir = popxl.Ir()
    with ir.main_graph:
        x = on_ipu(1, 2)
        graph = ir.create_graph(lambda x: ops.exp(x), x)
        if nested:
            inner = graph
            graph = ir.create_graph(lambda x: ops.call(inner, x), x)
        (y,) = ops.call(graph, x)
        assert y.ipu == 1
        with popxl.ipu(1):
            out = popxl.d2h_stream((2,), F32)
            ops.host_store(out, y + x)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        np.testing.assert_allclose(session.run()[out], np.exp([2, 2]) + 2, rtol=1e-6)
    assert [ipu["link_cycles"] for ipu in session._executable.report()["ipus"]] == [0, 0]


def test_a_branch_leaves_its_result_on_its_ipu():
    ir = popxl.Ir()
    with ir.main_graph:
        x = on_ipu(1, 2)
        with popxl.ipu(0):
            yes = ops.greater(popxl.constant(1.0, F32), popxl.constant(0.0, F32))

        def twice(x):
            with popxl.ipu(1):
                return x * 2.0

        graph = ir.create_graph(twice, x)
        (y,) = ops.conditional(yes, graph, ir.create_graph(ops.exp, x), [x], [x])
        with popxl.ipu(1):
            out = popxl.d2h_stream((2,), F32)
            ops.host_store(out, y + x)
    with popxl.Session(ir, "ipu_hw") as session:
        np.testing.assert_array_equal(session.run()[out], [6, 6])
