"""Tensors of outer graphs are routed into graphs that are already called."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl._impl.records import of
from popxl.errors import UnsupportedError
from popxl_addons import is_subgraph, route_tensor_into_graph
from program import run_graph

X, Y = np.float32([1, 2, 3]), np.float32([10, 20, 30])


def scaled(graph, t, **more):
    """Makes the graph's last op, which gives its output, multiply by a routed tensor, too."""
    with graph:
        inner = route_tensor_into_graph(t, **more)
        of(graph).set_outputs([graph.outputs[0] * inner])
    return inner


def plus_one(a):
    return a + 1.0


def test_subgraphs_are_called():
    with popxl.Ir().main_graph as main:
        inner = main.ir.create_graph(plus_one, popxl.constant(X))
        outer = main.ir.create_graph(lambda a: ops.call(inner, a), popxl.constant(X))
        assert is_subgraph(outer, inner) and is_subgraph(inner, inner)
        assert not is_subgraph(inner, outer) and not is_subgraph(main, inner)
        ops.call(outer, popxl.constant(X))
        assert is_subgraph(main, inner) and not is_subgraph(inner, main)


def test_every_path_is_connected():
    def program(x, y):
        ir = popxl.gir()
        inner = ir.create_graph(plus_one, x)
        left = ir.create_graph(lambda a: ops.call(inner, *ops.call(inner, a)), x)
        right = ir.create_graph(lambda a: ops.call(inner, a)[0] * 2.0, x)
        with popxl.name_scope("somewhere"):
            results = [*ops.call(left, x), *ops.call(right, x), *ops.call(inner, x)]
            routed = scaled(inner, y)
        assert [g.inputs[-1].name for g in (inner, left, right)] == [y.name] * 3
        assert [len(g.inputs) for g in (inner, left, right)] == [2] * 3
        for graph in (ir.main_graph, left, right):
            calls = [op for op in of(graph).ops if op.op_type == "Call"]
            assert all(len(op.inputs) == 2 for op in calls) and calls
        assert routed is inner.inputs[1] is route_tensor_into_graph(y, inner)
        assert left.inputs[1] is route_tensor_into_graph(y, left)
        assert route_tensor_into_graph(y) is y
        # Later calls are connected as well.
        late = ir.create_graph(lambda a: ops.call(inner, a), x)
        return *results, *ops.call(late, x)

    left, right, once, late = run_graph(program, X, Y)
    once_right = (X + 1) * Y
    np.testing.assert_allclose(left, (once_right + 1) * Y, rtol=1e-6)
    np.testing.assert_allclose(right, once_right * 2, rtol=1e-6)
    np.testing.assert_allclose(once, once_right, rtol=1e-6)
    np.testing.assert_allclose(late, once_right, rtol=1e-6)


def test_loops_get_a_constant():
    def program(x, y):
        ir = popxl.gir()
        inner = ir.create_graph(plus_one, x)
        step = ir.create_graph(lambda a: ops.call(inner, a), x)
        results = ops.repeat(step, 3, x)
        scaled(inner, y)
        (loop,) = (op for op in of(ir.main_graph).ops if op.op_type == "Loop")
        assert loop.inputs == [x, y] and step.inputs[1].name == y.name
        return results

    (z,) = run_graph(program, X, Y)
    expected = X
    for _ in range(3):
        expected = (expected + 1) * Y
    np.testing.assert_allclose(z, expected, rtol=1e-6)


def test_inputs_that_have_the_tensor_are_lent():
    def program(x, y):
        ir = popxl.gir()
        inner = ir.create_graph(lambda a, b: a + b, x, y)
        step = ir.create_graph(lambda a, b: ops.call(inner, a, b), x, y)
        (first,) = ops.call(step, x, y)
        assert scaled(inner, y) is inner.inputs[1]
        assert len(inner.inputs) == len(step.inputs) == 2
        # If calls pass different tensors, no input is reused.
        both = ir.create_graph(lambda a, b: a + b, x, y)
        second, third = *ops.call(both, x, y), *ops.call(both, y, x)
        assert scaled(both, y) is both.inputs[2]
        # An input that a loop feeds back is not reused either.
        fed = ir.create_graph(plus_one, x)
        (fourth,) = ops.repeat(fed, 2, x)
        assert scaled(fed, x) is fed.inputs[1]
        return first, second, third, fourth

    first, second, third, fourth = run_graph(program, X, Y)
    for got in (first, second, third):
        np.testing.assert_allclose(got, (X + Y) * Y, rtol=1e-6)
    np.testing.assert_allclose(fourth, ((X + 1) * X + 1) * X, rtol=1e-6)


@pytest.mark.parametrize("modified", [True, [slice(0, 1)]])
def test_what_is_written_reaches_the_tensor(modified):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v, x = popxl.variable(X), popxl.constant(Y)
        inner = ir.create_graph(plus_one, x)
        step = ir.create_graph(lambda a: ops.call(inner, a), x)
        before = addons.host_store(v + 0.0)
        ops.repeat(step, 2, x)
        with inner:
            ops.add_(route_tensor_into_graph(v, modified=modified), inner.inputs[0])
        (loop,) = (op for op in of(ir.main_graph).ops if op.op_type == "Loop")
        assert loop.modified == [v]
        after = addons.host_store(v + 0.0)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        got = session.run()
    expected = X + Y + (Y + 1)
    np.testing.assert_allclose(session.get_tensor_data(v), expected)
    np.testing.assert_allclose(got[before], X)
    np.testing.assert_allclose(got[after], expected)


@pytest.mark.parametrize("outside", ["result", "input", "output"])
def test_what_is_written_reaches_results_of_ops(outside):
    """Ops that use a result before a call see the old value; ops after the call see the written
    one."""

    def program(x, y):
        ir = popxl.gir()
        inner = ir.create_graph(plus_one, x)

        def calls(a, b):
            t = b if outside == "input" else b * 2.0
            before, view = t + 0.0, ops.reshape(t, (3, 1))
            ops.call(inner, a)
            between = t + 0.0
            ops.repeat(inner, 2, a)
            with inner:
                ops.add_(route_tensor_into_graph(t, inner, modified=True), inner.inputs[0])
            found = [before, between, t + 0.0, ops.reshape(view, (3,))]
            return [*found, t] if outside == "output" else found

        if outside == "result":
            return calls(x, y)
        return ops.call(ir.create_graph(calls, x, y), x, y)

    before, between, after, view, *rest = run_graph(program, X, Y)
    start = Y if outside == "input" else 2 * Y
    np.testing.assert_allclose(before, start)
    np.testing.assert_allclose(between, start + X)
    np.testing.assert_allclose(after, start + X + X + (X + 1))
    np.testing.assert_allclose(view, start)
    for t in rest:
        np.testing.assert_allclose(t, after)


def test_references_are_lent():
    def grow(total: popxl.TensorByRef, a: popxl.Tensor):
        return a + total

    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        v, x = popxl.variable(X), popxl.constant(Y)
        graph = ir.create_graph(grow, v, x)
        out = addons.host_store(ops.call(graph, v, x)[0])
        (call,) = (op for op in of(ir.main_graph).ops if op.op_type == "Call")
        total, a = graph.inputs
        assert route_tensor_into_graph(v, graph) is total and call.modified == []
        assert route_tensor_into_graph(v, graph, modified=True) is total and call.modified == [v]
        with graph:
            ops.add_(total, a)
        assert route_tensor_into_graph(v, graph) is total and len(graph.inputs) == 2
    session = popxl.Session(ir, "ipu_hw")
    with session:
        np.testing.assert_allclose(session.run()[out], X + Y)
    np.testing.assert_allclose(session.get_tensor_data(v), X + Y)


def test_variables_made_after_the_call_are_there():
    def program(x):
        graph = popxl.gir().create_graph(plus_one, x)
        results = ops.call(graph, x)
        scaled(graph, popxl.variable(Y))
        scaled(graph, popxl.constant(Y))
        return results

    (z,) = run_graph(program, X)
    np.testing.assert_allclose(z, (X + 1) * Y * Y, rtol=1e-6)


def test_tensors_of_other_graphs_are_refused():
    text = "is not in the graph .* and is not in a known parent graph"
    with popxl.Ir().main_graph as main:
        x = popxl.constant(X)
        graph = main.ir.create_graph(plus_one, x)
        with pytest.raises(ValueError, match=text):  # not called
            route_tensor_into_graph(x, graph)
        outer = main.ir.create_graph(lambda a: ops.call(graph, a), x)
        with pytest.raises(ValueError, match=text):  # called, but not from there
            route_tensor_into_graph(x, graph)
        with pytest.raises(ValueError, match=text):  # innermost first
            route_tensor_into_graph(graph.outputs[0], outer)
        assert len(graph.inputs) == len(outer.inputs) == 1
        assert route_tensor_into_graph(outer.inputs[0], graph) is graph.inputs[0]
        ops.call(graph, x)  # now the main graph, which has no such tensor, calls it
        with pytest.raises(ValueError, match=text):
            route_tensor_into_graph(outer.outputs[0], graph)


def called_before(x, y, where):
    """Calls a graph, routes a value made from y afterwards, and returns both results."""
    graph = popxl.gir().create_graph(plus_one, x)
    with where():
        (z,) = ops.call(graph, x)
        also = z * 3.0
        late = ops.tanh(y) + 1.0
        after = late * 2.0
    scaled(graph, late)
    return z, also, after


@pytest.mark.parametrize("where", [lambda: popxl.in_sequence(False), popxl.in_sequence])
def test_values_made_after_the_call_come_before_it(where):
    if where is popxl.in_sequence:  # it fixes the order
        with popxl.Ir().main_graph, pytest.raises(UnsupportedError, match="its value only later"):
            called_before(popxl.constant(X), popxl.constant(Y), where)
        return

    def program(x, y):
        results = called_before(x, y, where)
        kinds = [op.op_type for op in of(popxl.gmg()).ops]
        assert kinds.index("Tanh") < kinds.index("Call") < kinds.index("Mul")
        return results

    z, also, after = run_graph(program, X, Y / 30)
    late = np.tanh(Y / 30) + 1
    np.testing.assert_allclose(z, (X + 1) * late, rtol=1e-5)
    np.testing.assert_allclose(also, 3 * z, rtol=1e-5)
    np.testing.assert_allclose(after, 2 * late, rtol=1e-5)


def test_calls_wait_for_values_from_outside():
    """A transfer from the host cannot come earlier, but the calls can come later."""
    ir = popxl.Ir()
    with ir.main_graph:
        x, streams = popxl.constant(X), [popxl.h2d_stream((3,), popxl.float32) for _ in range(2)]
        graph = ir.create_graph(plus_one, x)
        first = ops.host_load(streams[0])
        (z,), (w,) = ops.call(graph, first), ops.call(graph, x)
        both = z + first + w
        scaled(graph, ops.host_load(streams[1]))
        out = addons.host_store(both)
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run({streams[0]: X, streams[1]: Y})[out]
    np.testing.assert_allclose(got, 2 * (X + 1) * Y + X)


@pytest.mark.parametrize("shared", [False, True])
def test_branches_pass_it_on(shared):
    def program(x, y, yes, no):
        ir = popxl.gir()
        double = ir.create_graph(lambda a: a * 2.0, x)
        other = double if shared else ir.create_graph(lambda a, b: a - b, x, y)
        infos, results, z = [], [], y * 5.0
        for condition in (yes, no):
            args = (double, other, [x], [x] if shared else [x, y])
            infos.append(ops.conditional_with_info(condition, *args))
            results += infos[-1].outputs
        scaled(double, y)
        if not shared:
            scaled(other, z)
            assert scaled(other, y) is other.inputs[1]  # passed already
        for info, condition in zip(infos, (yes, no), strict=True):
            rest = (y, x, y) if shared else (y, x, y, z)
            assert info.inputs == (condition, x, *rest)
            assert info.graph_to_parent(double.inputs[1]) is y
        late = ops.conditional(yes, double, other, [x], [x] if shared else [x, y])
        return *results, *late

    flags = np.bool_(True), np.bool_(False)
    one, two, late = run_graph(program, X, Y, *flags)
    np.testing.assert_allclose(one, 2 * X * Y)
    np.testing.assert_allclose(two, 2 * X * Y if shared else (X - Y) * 5 * Y * Y)
    np.testing.assert_allclose(late, one)


def differentiated(x, deep):
    """Returns a graph x², its given gradient graph, and the gradient graph of a caller, at some
    depth."""
    ir = popxl.gir()
    inner = ir.create_graph(lambda a: a * a, x)
    inner_grad = addons.autodiff(inner)
    outer = ir.create_graph(lambda a: ops.call(inner, a)[0] + a, x)
    if deep:
        middle = outer
        outer = ir.create_graph(lambda a: ops.call(middle, a), x)
    made = addons.autodiff(outer, called_graphs_grad_info={inner: inner_grad})
    return inner_grad.graph, outer, made


@pytest.mark.parametrize("deep", [False, True])
def test_gradient_graphs_pass_it_on(deep):
    def program(x, y, dy):
        grad, outer, made = differentiated(x, deep)
        call = ops.call_with_info(outer, x)
        results = made.call(dy, args=made.grad_graph_info.inputs_dict(call))
        assert is_subgraph(popxl.gmg(), grad) and is_subgraph(made.graph, grad)
        path = [made.graph]
        while grad not in path[-1].called_graphs:
            path += path[-1].called_graphs
        assert len(path) == 1 + deep
        assert scaled(grad, y) is grad.inputs[-1]
        assert all(graph.inputs[-1].name == y.name for graph in path)
        late = made.call(dy, args=made.grad_graph_info.inputs_dict(call))
        return *call.outputs, *results, *late

    z, dx, late = run_graph(program, X, Y, np.ones_like(X))
    np.testing.assert_allclose(z, X * X + X)
    np.testing.assert_allclose(dx, 2 * X * Y + 1)
    np.testing.assert_allclose(late, dx)


def test_copies_that_gradients_made_are_told():
    with popxl.Ir().main_graph as main:
        x = popxl.constant(X)
        inner = main.ir.create_graph(lambda a: a * a, x)
        outer = main.ir.create_graph(lambda a: ops.call(inner, a), x)
        addons.autodiff(outer)
        ops.call(outer, x)
        with pytest.raises(UnsupportedError, match="Route before autodiff"):
            route_tensor_into_graph(popxl.constant(Y), inner)
        assert len(outer.inputs) == len(inner.inputs) == 1
        assert route_tensor_into_graph(x, inner) is inner.inputs[0]  # passed already


def test_what_calls_cannot_pass_is_refused():
    with popxl.Ir().main_graph as main:
        x = popxl.constant(X)
        graph = main.ir.create_graph(plus_one, x)
        (z,) = ops.call(graph, x)
        with pytest.raises(UnsupportedError, match="has its value only later"):
            route_tensor_into_graph(z, graph)
        with pytest.raises(UnsupportedError, match="has its value only later"):
            route_tensor_into_graph(z * 2.0, graph)
        other = main.ir.create_graph(plus_one, x)
        ops.call(other, x)
        with pytest.raises(UnsupportedError, match="is a constant or a view"):
            route_tensor_into_graph(x, other, modified=True)
        with pytest.raises(UnsupportedError, match="has its value only later"):
            route_tensor_into_graph(x * 2.0, other, modified=True)
        branch = main.ir.create_graph(plus_one, x)
        ops.conditional(popxl.constant(True), branch, branch, [x], [x])
        with pytest.raises(UnsupportedError, match="to be written, through a branch"):
            route_tensor_into_graph(popxl.variable(Y), branch, modified=True)
        assert len(graph.inputs) == len(other.inputs) == len(branch.inputs) == 1


def test_values_that_only_the_written_order_gives_are_refused():
    """A write lies between, and a transfer that cannot come earlier."""
    with popxl.Ir().main_graph as main:
        v, x = popxl.variable(X), popxl.constant(Y)

        def count(total: popxl.TensorByRef):
            ops.add_(total, popxl.constant(1.0))

        graph = main.ir.create_graph(count, v)
        ops.call(graph, v)
        late = v + x
        with pytest.raises(UnsupportedError, match="has its value only later"):
            route_tensor_into_graph(late, graph)
        assert len(graph.inputs) == 1
