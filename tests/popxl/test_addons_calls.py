"""Tests modules with hand-written gradients in other graphs, inlined or called."""

import warnings

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from by_hand import W_SPEC, ByHand, W, X, right, rng, run
from popxl import ops


class Inlining(addons.Module):
    def __init__(self, mode):
        super().__init__()
        self.hand = ByHand(3.0, mode)

    def build(self, x: popxl.Tensor):
        return self.hand(x)


@pytest.mark.parametrize("write", ["module", "main", "ir"])
def test_calling_a_module_leaves_its_gradient_out(write):
    text = "`build_grad` has been implemented"

    def called(mode):
        with popxl.Ir().main_graph as main:
            x = popxl.constant(X)
            if write == "module":
                Inlining(mode).create_graph(x)
            elif write == "ir":
                main.ir.create_graph(Inlining(mode).hand, x)
            else:
                main.ir.create_graph(lambda t: Inlining(mode)(t), x)

    with pytest.raises(Exception, match=text):
        called("error")
    with pytest.warns(UserWarning, match=text):
        called("warning")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        called("none")


@pytest.mark.parametrize("value", ["Error", "ignore", "", None, True])
def test_what_inlining_does_is_one_of_three(value):
    with pytest.raises(ValueError, match="grad_inlining_error should be one of"):
        addons.Module(grad_inlining_error=value)


def test_gradients_by_hand_have_no_cache():
    class Cached(ByHand):
        def __init__(self):
            addons.Module.__init__(self, cache=True)

    with pytest.raises(ValueError, match="You cannot use graph caching if you have implemented"):
        Cached()


class Calling(addons.Module):
    """A module that calls the graph of another twice, and inlines a module that calls one."""

    def __init__(self, autodiff="auto", deep=False):
        super().__init__()
        self.method, self.deep = autodiff, deep
        self.below = Calling(autodiff) if deep else None

    def build(self, x: popxl.Tensor):
        if self.deep:
            return self.below(x)
        hand = ByHand(3.0)
        self.first = self.call_module(hand, autodiff=self.method)
        (y,) = self.first(x)
        assert self.first.n_outputs_pre_autodiff == 1
        again = self.call_module(
            hand,
            "again",
            autodiff=self.method,
            grads_provided=lambda graph: graph.graph.outputs[:1],
            grads_required=lambda graph: [graph.graph.inputs[0], graph.args.inner.w],
        )
        (z,) = again(x)
        return y + z


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(("method", "twist"), [("auto", 3), ("build_grad", 3), ("autodiff", 1)])
def test_calls_know_gradients(method, twist, deep):
    ir = popxl.Ir()
    dy = rng.uniform(-1, 1, (4, 4)).astype(np.float32)
    with ir.main_graph:
        x, module = popxl.constant(X), Calling(method, deep)
        facts, graph = module.create_graph(x)
        prefix = "below." if deep else ""
        names = [f"{prefix}ByHand.inner.w", f"{prefix}again.inner.w"]
        assert facts.keys_flat() == graph.args.keys_flat() == names
        inner = (module.below if deep else module).first
        assert inner.var_factories.keys_flat() == ["inner.w"]
        assert inner.graph.graph in graph.called_graphs_grad_info
        assert len(graph.called_graphs_grad_info) == 2
        assert len(inner.graph.graph.outputs) > 1
        grad = addons.autodiff(graph)
        variables = facts.init()
        call = graph.bind(variables).call_with_info(x)
        info = grad.grad_graph_info
        back = grad.call_with_info(popxl.constant(dy), args=info.inputs_dict(call))
        grads = info.fwd_parent_ins_to_grad_parent_outs(call, back)
        weights = [grads[variables[name]] for name in names]
    y, dx, dw = right(dy, twist)
    got = run(ir, [call.outputs[0], grads[x], *weights])
    for array, expected in zip(got, [2 * y, 2 * dx, dw, dw], strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)


def test_a_graph_that_two_call_gives_its_outputs_to_both():
    class Cached(addons.Module):
        def build(self, x: popxl.Tensor):
            return ops.tanh(x @ self.add_variable_input("w", lambda: W))

    class Sum(addons.Module):
        def __init__(self):
            super().__init__()
            self.inner = Cached(cache=True)

        def build(self, x: popxl.Tensor):
            first = self.call_module(self.inner, "first", autodiff="autodiff")
            second = self.call_module(self.inner, "second", autodiff="autodiff")
            (y,), (z,) = first(x), second(x)
            assert first.graph.graph is second.graph.graph
            assert first.n_outputs_pre_autodiff == second.n_outputs_pre_autodiff == 1
            return y + z

    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.constant(X)
        facts, graph = Sum().create_graph(x)
        made = graph.autodiff()
        call = graph.bind(facts.init()).call_with_info(x)
        dy = popxl.constant(np.ones((4, 4), np.float32))
        found = made.call(dy, args=made.grad_graph_info.inputs_dict(call))
    y, dx, _ = right(np.ones((4, 4), np.float32))  # of twice the tanh
    for array, expected in zip(run(ir, [call.outputs[0], found[0]]), [y, dx], strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)


def test_unsafe_graphs_need_their_gradient():
    ir = popxl.Ir()
    with ir.main_graph:
        x, module = popxl.constant(X), Calling("none")
        _, graph = module.create_graph(x)
        assert graph.called_graphs_grad_info == {}
        with pytest.raises(Exception, match="marked as unsafe to autodiff"):
            addons.autodiff(graph)
        # A graph around it is marked as well.
        outer = ir.create_graph(lambda t, u, v: ops.call(graph.graph, t, u, v), x, W_SPEC, W_SPEC)
        with pytest.raises(Exception, match="marked as unsafe to autodiff"):
            popxl.transforms.autodiff(outer)


@pytest.mark.parametrize("key", [lambda g: g.graph, lambda g: g, lambda g: g.bind()])
def test_gradients_of_called_graphs_come_in_any_form(key):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.constant(X)
        _, inner = ByHand(3.0).create_graph(x)
        grad = inner.autodiff()
        outer = addons.GraphWithNamedArgs(
            ir.create_graph(lambda t, w: ops.call(inner.graph, t, w)[0], x, W_SPEC)
        )
        made = outer.autodiff(called_graphs_grad_info={key(inner): grad})
        w = popxl.variable(W)
        call = outer.call_with_info(x, w)
        dy = popxl.constant(np.ones((4, 4), np.float32))
        found = made.call(dy, args=made.grad_graph_info.inputs_dict(call))
    _, dx, dw = right(np.ones((4, 4), np.float32), 3.0)
    for array, expected in zip(run(ir, found), [dx, dw], strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)


def test_marking_is_of_callers():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.constant(X)
        inner = ir.create_graph(lambda t: ops.exp(t), x)
        inner._pb_graph.setCanBeRecursivelyAutodiffed(False)
        outer = ir.create_graph(lambda t: ops.call(inner, t), x)
        with pytest.raises(Exception, match="marked as unsafe to autodiff"):
            popxl.transforms.autodiff(outer)
        inner._pb_graph.setCanBeRecursivelyAutodiffed(True)
        assert popxl.transforms.autodiff(outer)
        other = ir.create_graph(lambda t: ops.exp(t), x)
        other._pb_graph.setCanBeRecursivelyAutodiffed(False)
        assert popxl.transforms.autodiff(other)
