"""Tests the mapping of tensors across branches, calls and gradient graphs, and streams of several
transfers.
"""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.ops.conditional import ConditionalSiteInfo
from popxl.transforms import ExpectedConnection, GradGraphInfo, autodiff
from program import run_graph, t

F32 = popxl.float32


def test_a_branch_tells_what_is_which():
    ir = popxl.Ir()
    with ir.main_graph:
        cond, x, y = t(1, dtype=popxl.bool), t(2), t(2)
        then = ir.create_graph(lambda a: (a + 1, a * 2), x)
        other = ir.create_graph(lambda a, b: (a * b, a - b), x, y)
        info = ops.conditional_with_info(cond, then, other, [x], [y, x])
    assert isinstance(info, ConditionalSiteInfo)
    assert info.called_graph == (then, other) and info.inputs == (cond, x, y, x)
    assert [info.graph_to_parent_input_index(0), info.graph_to_parent_input_index(1, False)] == [
        *(1, 3),
    ]
    assert [info.parent_to_graph_input_index(i) for i in (1, 2, 3)] == [0, 0, 1]
    assert [info.is_parent_index_in_then_branch(i) for i in (1, 2, 3)] == [True, False, False]
    assert info.graph_to_parent_output_index(1) == info.parent_to_graph_output_index(1, False) == 1
    assert info.parent_input(0) is cond and info.parent_output(1) is info.outputs[1]
    assert info.graph_to_parent(other.inputs[0]) is y
    assert info.graph_to_parent(other.outputs[1]) is info.outputs[1]
    assert info.parent_to_graph(x) is then.inputs[0] and info.parent_to_graph(y) is other.inputs[0]
    assert info.parent_to_graph(info.outputs[0]) is then.outputs[0]
    for wrong in (
        lambda: info.parent_input(4),
        lambda: info.parent_output(2),
        lambda: info.graph_to_parent_input_index(1),
        lambda: info.graph_to_parent_input_index(2, False),
        lambda: info.parent_to_graph_input_index(0),
        lambda: info.parent_to_graph_input_index(4),
        lambda: info.is_parent_index_in_then_branch(0),
        lambda: info.graph_to_parent_output_index(2),
        lambda: info.parent_to_graph_output_index(-1),
    ):
        with pytest.raises(IndexError):
            wrong()
    for wrong in (lambda: info.graph_to_parent(x), lambda: info.parent_to_graph(then.inputs[0])):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(NotImplementedError):
        info.set_parent_input_modified(x)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("truth", [True, False])
def test_a_condition_has_one_element(shape, truth):
    def program(x, cond):
        graph = popxl.gir().create_graph(lambda a: a + 1, x)
        other = popxl.gir().create_graph(lambda a: a * 5, x)
        same = ops.conditional(cond, graph, graph, [x], [x])
        return *ops.conditional(cond, graph, other, [x], [x]), *same

    x = np.float32([1, 2])
    y, same = run_graph(program, x, np.full(shape, truth))
    assert y.tolist() == (x + 1 if truth else x * 5).tolist() and same.tolist() == [2, 3]
    with popxl.Ir().main_graph, pytest.raises(ValueError, match="one element"):
        program(t(2), t(2, dtype=popxl.bool))


def test_a_gradient_graph_tells_its_tensors():
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(lambda a, b: a * b, t(2), t(2))
        info = autodiff(graph)
    a, b = graph.inputs
    assert info.inputs[0] is graph.outputs[0] and set(info.inputs[1:]) == {a, b}
    assert info.outputs == (a, b)
    assert isinstance(info._expected_inputs, list) and isinstance(info._expected_outputs, list)
    text = repr(info)
    assert text.startswith("GradGraphInfo[\n")
    for name in ("graph=", "expected_inputs=", "expected_outputs="):
        assert f"\n  {name}" in text
    connection = info.expected_inputs[0]
    pair = (connection.fwd_tensor, connection.connection_type)
    for make in (
        GradGraphInfo,
        ExpectedConnection,
        lambda: GradGraphInfo(info.graph, graph, [], []),
        lambda: ExpectedConnection(*pair),
    ):
        with pytest.raises(TypeError):
            make()


def test_gradient_graphs_take_no_references():
    def program(a, dy):
        def product(x: popxl.TensorByRef, y):
            return x * y

        v = popxl.variable(np.float32([3, 4]))
        graph = popxl.gir().create_graph(product, v, a)
        grad = autodiff(graph)
        assert len(graph._by_ref_inputs) == 1 and not grad.graph._by_ref_inputs
        info = ops.call_with_info(graph, v, a)
        return ops.call(grad.graph, dy, inputs_dict=grad.inputs_dict(info))

    dx, dy = run_graph(program, A, B)
    assert dx.tolist() == (A * B).tolist() and dy.tolist() == (B * [3, 4]).tolist()


def test_tensors_by_reference_name_their_class():
    ir = popxl.Ir()
    seen = {}

    def inner(total: popxl.TensorByRef, x: popxl.Tensor, *more: popxl.TensorByRef):
        seen.update(total=total, x=x, more=more[0], made=popxl.graph_input((), F32, "s", True))
        seen["result"] = total + x

    class WithState(addons.Module):
        def build(self, x):
            self.add_variable_input("state", lambda: np.zeros(2), F32, by_ref=True)
            return x

    with ir.main_graph:
        v, x = popxl.variable(np.zeros(2), F32, name="v"), t(2)
        graph = ir.create_graph(inner, v, x, v)
        _, module = WithState().create_graph(x)
        ops.call(graph, v, x, v, 0.0)
        assert repr(v) == "Tensor[v popxl.dtypes.float32 (2,)]"  # as tutorials print it
    of_state = module.args.state
    for tensor in (seen["total"], seen["more"], seen["made"], of_state):
        assert repr(tensor) == f"TensorByRef[{tensor.name} popxl.dtypes.float32 {tensor.shape}]"
        assert isinstance(tensor, popxl.TensorByRef)
    for tensor in (seen["x"], seen["result"]):
        assert repr(tensor).startswith("Tensor[") and not isinstance(tensor, popxl.TensorByRef)
    assert [type(i) is popxl.TensorByRef for i in graph.inputs] == [
        *(True, False, True, True),
    ]
    assert graph._by_ref_inputs == {i for i in graph.inputs if isinstance(i, popxl.TensorByRef)}


def test_streams_may_transfer_less_than_the_most():
    ir = popxl.Ir()
    ir.num_host_transfers = 4
    with ir.main_graph, popxl.in_sequence():
        often, once = popxl.h2d_stream((2,), F32, "often"), popxl.h2d_stream((2,), F32, "once")
        outs = [popxl.d2h_stream((2,), F32) for _ in range(2)]

        def step(x: popxl.TensorByRef):
            ops.add_(x, ops.host_load(often))
            ops.host_store(outs[0], x)

        total = popxl.variable(np.zeros(2), F32)
        ops.repeat(ir.create_graph(step, total), 3, total)
        ops.host_store(outs[1], ops.host_load(once) * 2)
    data = np.arange(8, dtype=np.float32).reshape(4, 2)
    with popxl.Session(ir) as session:
        assert session.create_host_outputs()[outs[1]].shape == (4, 2)
        got = session.run({often: data, once: data + 1})
    assert got[outs[0]].tolist() == [*np.cumsum(data[:3], 0).tolist(), [0, 0]]
    assert got[outs[1]].tolist() == [[2, 4], [0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize("shape", [(10,), (10, 1), (10, 1, 1)])
def test_data_of_scalars_may_have_dimensions_of_one(shape):
    ir = popxl.Ir()
    ir.num_host_transfers = 10
    with ir.main_graph, popxl.in_sequence():
        stream, out = popxl.h2d_stream((), F32), popxl.d2h_stream((), F32)
        graph = ir.create_graph(lambda: ops.host_store(out, ops.host_load(stream) + 1))
        ops.repeat(graph, 10)
    data = np.arange(10, dtype=np.float32)
    with popxl.Session(ir) as session:
        assert session.run({stream: data.reshape(shape)})[out].tolist() == (data + 1).tolist()
        with pytest.raises(ValueError):
            session.run({stream: data.reshape(2, 5)})


def writes(a, b):
    ops.add_(a, b)
    ops.add_(b, a)
    return a * 2.0


def left_in(function, told, count, *arrays):
    """Returns the results of a call (count None) or loop, then its inputs afterwards."""

    def program(*tensors):
        graph = popxl.gir().create_graph(function, *tensors)
        given = [ops.identity(t) for t in tensors]
        run = ops.call_with_info if count is None else ops.repeat_with_info
        info = run(graph, *(() if count is None else (count,)), *given)
        after = [out + 0.0 for out in info.outputs]  # before values that the call returns later
        for index in told:
            info.set_parent_input_modified(given[index])
        return *after, *info.outputs, *given

    return [out.tolist() for out in run_graph(program, *arrays)]


A, B = np.float32([1, 2]), np.float32([10, 20])
EVERY = [(), (0,), (1,), (0, 1), (1, 0)]


@pytest.mark.parametrize("told", EVERY)
def test_what_a_call_writes_stays_inside_unless_it_is_told(told):
    y, again, a, b = left_in(writes, told, None, A, B)
    assert y == again == (2 * (A + B)).tolist()
    assert a == (A + B if 0 in told else A).tolist()
    assert b == (A + 2 * B if 1 in told else B).tolist()


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("told", EVERY)
def test_what_a_loop_writes_stays_inside_unless_it_is_told(told, count):
    """Its output feeds input 0; input 1 starts every round with its first value, unless it is
    marked."""
    y, again, a, b = left_in(writes, told, count, A, B)
    fed, left, kept = A, A, B
    for _ in range(count):
        left = fed + kept
        kept = kept + left if 1 in told else B
        fed = left * 2
    assert y == again == fed.tolist()
    assert a == (left if 0 in told else A).tolist()
    assert b == kept.tolist()


def test_an_input_may_be_told_of_for_two_graph_inputs():
    def program(a):
        graph = popxl.gir().create_graph(writes, a, a)
        v = ops.identity(a)
        info = ops.call_with_info(graph, v, v)
        info.set_parent_input_modified(v)
        info.set_parent_input_modified(v)
        return v

    assert run_graph(program, A)[0].tolist() == (3 * A).tolist()


def test_what_is_told_of_may_be_memory_that_changes_later():
    """A copy of a variable that the graph leaves in an input is not the variable."""

    def copies(a, v: popxl.TensorByRef):
        ops.var_updates.copy_var_update_(a, v)
        ops.add_(v, v)

    def program(a):
        v = popxl.variable(np.float32([3, 4]))
        graph = popxl.gir().create_graph(copies, a, v)
        x = ops.identity(a)
        info = ops.call_with_info(graph, x, v)
        info.set_parent_input_modified(x)
        return x, v

    assert [out.tolist() for out in run_graph(program, A)] == [[3, 4], [6, 8]]


def test_tensors_are_routed_before_inputs_are_told_of():
    with popxl.Ir().main_graph:
        graph = popxl.gir().create_graph(writes, t(2), t(2))
        x, outer = t(2), popxl.variable(A)
        ops.call_with_info(graph, x, t(2)).set_parent_input_modified(x)
        with graph, pytest.raises(popxl.errors.UnsupportedError, match="set_parent_input_modified"):
            addons.route_tensor_into_graph(outer, graph)


def test_what_is_told_of_may_become_memory_before():
    """A graph that was called earlier then writes the input: the call reads the written value."""

    def program(a, b):
        ir = popxl.gir()
        graph, doubling = ir.create_graph(writes, a, b), ir.create_graph(lambda: None)
        x, y = ops.identity(a), ops.identity(b)
        ops.call(doubling)
        info = ops.call_with_info(graph, x, y)
        info.set_parent_input_modified(x)
        with doubling:
            inner = addons.route_tensor_into_graph(y, modified=True)
            ops.add_(inner, inner)
        info.set_parent_input_modified(y)
        return x, y

    x, y = run_graph(program, A, B)
    assert x.tolist() == (A + 2 * B).tolist() and y.tolist() == (A + 4 * B).tolist()


def test_only_what_goes_in_is_told_of():
    with popxl.Ir().main_graph:
        info = ops.repeat_with_info(popxl.gir().create_graph(writes, t(2), t(2)), 2, t(2), t(2))
        with pytest.raises(ValueError, match="is not an input of this call"):
            info.set_parent_input_modified(t(2))
