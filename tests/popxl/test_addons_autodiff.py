"""Tests gradient graphs: of called graphs, accumulated, and connected to other graphs."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl._impl.records import of
from popxl.transforms.in_place import show_in_place
from program import run_graph

rng = np.random.default_rng(3)


def rand(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


class Scale(addons.Module):
    def build(self, x: popxl.Tensor):
        w = self.add_variable_input("deep.w", lambda: np.ones(x.shape), x.dtype)
        return ops.tanh(x * w)


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_accumulators_are_like_their_tensors(kind):
    dtype = popxl.dtype.as_dtype(kind)
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        facts, graph = Scale().create_graph(popxl.TensorSpec((3,), dtype))
        (x,) = (t for t in graph.graph.inputs if t not in graph.args.tensors)
        pairs = ir.replica_grouping(group_size=1)
        groups = addons.NamedReplicaGrouping.from_dict({"deep.w": pairs})
        made, grad = addons.autodiff_with_accumulation(
            graph, [graph.args.deep.w, x], grads_required=[x], replica_groupings=groups
        )
        assert sorted(made.to_dict()) == ["accum.deep.w", "accum.x", "mean_accum_counter"]
        assert made.accum.deep.w.dtype is made.accum.x.dtype is dtype
        assert made.mean_accum_counter.dtype is popxl.float32
        assert made.accum.deep.w.replica_grouping == pairs
        assert made.accum.x.replica_grouping == ir.replica_grouping()
        assert grad.args.accum.deep.w in grad.graph.inputs
        # Accumulated gradients are not returned, even on request.
        assert grad.graph.outputs == () and grad.grad_graph_info.expected_outputs == ()
        last = of(grad.graph).ops[-1]
        assert last.op_type == "Accumulate" and last.inputs[0] is grad.args.mean_accum_counter


def types(graph):
    return [op.op_type for op in of(graph).ops]


IN_PLACE = {
    "left": (lambda a, b: ops.tanh(a) * b, "MulLhsInplace"),
    "right": (lambda a, b: b + ops.tanh(a), "AddRhsInplace"),
    "the first of both": (lambda a, b: ops.tanh(a) + ops.tanh(b), "AddLhsInplace"),
    "of one input": (lambda a, b: ops.relu(a + b), "ReluInplace"),
    "without such a type": (lambda a, b: ops.tanh(a) - b, "Sub"),
    "inputs of the graph": (lambda a, b: a * b, "Mul"),
    "used again": (lambda a, b: (lambda t: [t - b, t * b])(ops.tanh(a)), "Mul"),
    "used twice": (lambda a, b: (lambda t: t * t)(ops.tanh(a)), "Mul"),
    "an output": (lambda a, b: (lambda t: [t * b, t])(ops.tanh(a)), "Mul"),
    "of another shape": (lambda a, b: ops.tanh(ops.sum(a)) * b, "Mul"),
    "a constant": (lambda a, b: popxl.constant(rand(3)) * b, "Mul"),
}


@pytest.mark.parametrize("case", IN_PLACE)
def test_ops_are_in_place_where_nobody_else_needs_the_input(case):
    build, kind = IN_PLACE[case]
    with popxl.Ir().main_graph as main:
        spec = popxl.TensorSpec((3,), popxl.float32)
        graph = main.ir.create_graph(build, spec, spec)
        show_in_place([graph])
        assert types(graph)[-1] == kind
        written = of(graph).ops[-1].modified
        assert len(written) == kind.endswith("Inplace") and not {*written} & {*graph.inputs}


def test_elementwise_ops_of_gradients_may_be_in_place():
    """The in-place ops compute the same, and can be differentiated."""

    def program(a, b, dy):
        graph = popxl.gir().create_graph(lambda a, b: ops.tanh(a * b) * b, a, b)
        plain = popxl.transforms.autodiff(graph, grads_required=graph.inputs[:1]).graph
        twin = popxl.gir().create_graph(lambda a, b: ops.tanh(a * b) * b, a, b)
        made = addons.autodiff(twin, grads_required=twin.inputs[:1])
        pairs = zip(types(plain), types(made.graph), strict=True)
        assert {pair for pair in pairs if len({*pair}) == 2} == {("Mul", "MulLhsInplace")}
        for op, view in zip(of(made.graph).ops, made.graph._pb_graph.getOps(), strict=True):
            written = [i for i in range(len(op.inputs)) if view.modifiesIndex(i)]
            assert written == ([0] if op.op_type.endswith("LhsInplace") else [])
            assert not any(op.inputs[i] in made.graph.inputs for i in written)
        call = ops.call_with_info(twin, a, b)
        info = made.grad_graph_info
        again = addons.autodiff(made, grads_required=[made.graph.inputs[0]])
        back = made.call_with_info(dy, args=info.inputs_dict(call))
        more = again.call(dy, args=again.grad_graph_info.inputs_dict(back))
        return back.outputs[0], *more

    a, b, dy = rand(3), rand(3), rand(3)
    (da, more) = run_graph(program, a, b, dy)
    slope = b * b * (1 - np.tanh(a * b) ** 2)
    np.testing.assert_allclose(da, dy * slope, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(more, dy * slope, rtol=1e-4, atol=1e-6)


def test_unnamed_tensors_accumulate_under_a_name_made_for_them():
    with popxl.Ir().main_graph:
        spec = popxl.TensorSpec((2,), popxl.float32)
        with popxl.name_scope("outer"):
            made = popxl.gir().create_graph(lambda x: x * x, spec)
        graph = addons.GraphWithNamedArgs(made)
        (x,) = made.inputs
        factories, _ = addons.autodiff_with_accumulation(graph, [x])
        assert [*factories.accum.keys()] == [addons.sanitise(x.name)]


def by_hand(like):
    """Returns a graph x → x² whose gradient graph gives 5 · dy, unlike autodiff's."""
    ir = popxl.gir()
    graph = ir.create_graph(lambda x: x * x, like)
    grad = addons.autodiff(graph)
    info, twin = grad.grad_graph_info, ir.create_graph(lambda dy, x: dy * 5.0, like, like)
    return graph, addons.transforms.remap_grad_info(info, graph, twin)


KEYS = {
    "graph": lambda g: g,
    "named": addons.GraphWithNamedArgs,
    "bound": lambda g: addons.GraphWithNamedArgs(g).bind(),
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["info", "named"])
@pytest.mark.parametrize("own", [False, True])
def test_called_graphs_may_have_gradient_graphs_of_their_own(key, value, own):
    def program(x, dy):
        graph, info = by_hand(x)
        assert info.graph is not info.forward_graph is graph
        given = {KEYS[key](graph): info}
        if value == "named":
            given = {k: addons.GraphWithNamedArgs.from_grad_graph(v) for k, v in given.items()}
        outer = addons.GraphWithNamedArgs(
            popxl.gir().create_graph(lambda x: ops.call(graph, x)[0] + 1.0, x)
        )
        if own:
            outer.called_graphs_grad_info = given
            grad = addons.autodiff(outer)
        else:
            grad = addons.autodiff(outer, called_graphs_grad_info=given)
        call = outer.call_with_info(x)
        info = grad.grad_graph_info
        return grad.call(dy, args=info.inputs_dict(call))

    x, dy = rand(3), rand(3)
    (dx,) = run_graph(program, x, dy)
    np.testing.assert_allclose(dx, 5 * dy, rtol=1e-6)


def test_connections_are_moved_to_other_graphs():
    with popxl.Ir().main_graph:
        spec = popxl.TensorSpec((2,), popxl.float32)
        f = lambda x, y: x * y  # noqa: E731
        first, second = (popxl.gir().create_graph(f, spec, spec) for _ in range(2))
        grad = addons.autodiff(first)
        addons.autodiff(second)
        back = popxl.gir().create_graph(lambda a, b, c: (a * b, a * c), spec, spec, spec)
        moved = addons.remap_grad_info(grad.grad_graph_info, second, back)
        assert (moved.graph, moved.forward_graph) == (back, second)
        pairs = zip(grad.grad_graph_info.expected_inputs, moved.expected_inputs, strict=True)
        places = [*first.inputs, *first.outputs], [*second.inputs, *second.outputs]
        for old, new in pairs:
            assert old.connection_type is new.connection_type
            assert places[0].index(old.fwd_tensor) == places[1].index(new.fwd_tensor)
        outs = [c.fwd_tensor for c in moved.expected_outputs]
        assert outs == list(second.inputs)


def test_recomputing_graphs_take_gradients_and_inputs_in_their_order():
    with popxl.Ir().main_graph:
        spec = popxl.TensorSpec((2,), popxl.float32)
        inner = popxl.gir().create_graph(
            lambda a, b, c: ops.tanh(a) * ops.exp(c) + b, spec, spec, spec
        )
        graph = addons.GraphWithNamedArgs(inner, addons.NamedTensors(c=inner.inputs[2]))
        _, grad = addons.autodiff_with_accumulation(
            graph, [inner.inputs[2]], grads_required=[inner.inputs[0]]
        )
        again = addons.recompute_graph(grad)
        assert again.graph.name.startswith(addons.suffix_graph_name(grad.graph.name, "recomp"))
        found = [c.fwd_tensor for c in again.grad_graph_info.expected_inputs]
        assert len(found) == 4 and {*found} == {*inner.inputs, inner.outputs[0]}
        old = [c.fwd_tensor for c in grad.grad_graph_info.expected_inputs]
        kept = [t for t in old if t in (*inner.inputs, inner.outputs[0])]
        assert found[: len(kept)] == kept
        names = ["accum.c", "mean_accum_counter"]
        assert sorted(again.args.to_dict()) == names
        assert list(again.graph.inputs[4:]) == [again.args.mean_accum_counter, again.args.accum.c]
