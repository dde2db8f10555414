"""Tests hand-written gradients of modules."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from by_hand import ByHand, X, right, rng, run
from popxl import ops
from popxl.errors import popart_exception
from popxl.transforms import ExpectedConnectionType as Kind


@pytest.mark.parametrize("how", ["create_grad_graph", "auto", "build_grad", "autodiff"])
def test_gradients_are_written_by_hand(how):
    ir, module = popxl.Ir(), ByHand()
    dy = rng.uniform(-1, 1, (4, 4)).astype(np.float32)
    with ir.main_graph:
        x = popxl.constant(X)
        facts, graph = module.create_graph(x)
        assert graph.from_module is module and module.implements_grad_graph
        y = graph.graph.outputs[0]
        if how == "create_grad_graph":
            grad = module.create_grad_graph(graph)
        else:
            grad = graph.autodiff(method=how)
        info = grad.grad_graph_info
        if how != "autodiff":
            assert [t.name for t in info.graph.inputs] == ["dy", "y", "x", "w"]
            kept = [c.fwd_tensor for c in info.expected_inputs]
            assert kept == [y, graph.aux["y"], graph.aux["x"], graph.aux["w"]]
            kinds = [c.connection_type for c in info.expected_inputs]
            assert kinds == [Kind.FwdGrad, Kind.Fwd, Kind.Fwd, Kind.Fwd]
            assert graph.graph.outputs == (y, *dict.fromkeys(kept[2:] + [kept[1]]))
        found = [c.fwd_tensor for c in info.expected_outputs]
        assert found == [graph.graph.inputs[0], graph.args.inner.w]
        variables = facts.init()
        call = graph.bind(variables).call_with_info(x)
        back = grad.call_with_info(popxl.constant(dy), args=info.inputs_dict(call))
        grads = info.fwd_parent_ins_to_grad_parent_outs(call, back)
    got = run(ir, [call.outputs[0], grads[x], grads[variables.inner.w]])
    for array, expected in zip(got, right(dy), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)


class Two(addons.Module):
    """Computes (a u + b v), and sets its gradients in another order."""

    def build(self, a: popxl.Tensor, b: popxl.Tensor):
        self.aux["a"], self.aux["b"] = a, b
        u = self.aux["u"] = self.add_variable_input("u", lambda: np.full(2, 3.0))
        v = self.aux["v"] = self.add_variable_input("v", lambda: np.full(2, 5.0))
        return a * u + b * v, a - b

    def build_grad(self, dy0: popxl.Tensor, dy1: popxl.Tensor):
        self.var_grad["v"] = dy0 * self.aux["b"]
        self.var_grad["u"] = dy0 * self.aux["a"]
        return dy0 * self.aux["u"] + dy1, dy0 * self.aux["v"] - dy1


@pytest.mark.parametrize(
    "order", [("a", "b", "u", "v"), ("b", "a", "v", "u"), ("v", "a", "b", "u")]
)
def test_outputs_are_in_the_order_required(order):
    class Reordered(Two):
        def build_grad(self, dy0: popxl.Tensor, dy1: popxl.Tensor):
            found = dict(zip("ab", super().build_grad(dy0, dy1), strict=True))
            return [found[name] for name in order if name in found]

    ir = popxl.Ir()
    with ir.main_graph:
        a, b = popxl.constant([1.0, 2.0]), popxl.constant([3.0, 4.0])
        facts, graph = Reordered().create_graph(a, b)
        named = {**graph.graph.inputs_by_name}
        grad = graph.autodiff(grads_required=[named[name] for name in order])
        placed = [c.fwd_tensor.name for c in grad.grad_graph_info.expected_outputs]
        assert placed == sorted(order, key=lambda name: name in "uv")
        call = graph.bind(facts.init()).call_with_info(a, b)
        args = grad.grad_graph_info.inputs_dict(call)
        one, ten = popxl.constant([1.0, 1.0]), popxl.constant([10.0, 10.0])
        grads = grad.call(one, ten, args=args)
    expected = {"a": [13, 13], "b": [-5, -5], "u": [1, 2], "v": [3, 4]}
    for name, got in zip(placed, run(ir, grads), strict=True):
        assert got.tolist() == expected[name]


def test_gradients_of_some():
    class Some(Two):
        def build_grad(self, dy: popxl.Tensor):
            self.var_grad["v"] = dy * self.aux["b"]
            self.var_grad["u"] = dy * self.aux["a"]  # not required: left out

    ir = popxl.Ir()
    with ir.main_graph:
        a, b = popxl.constant([1.0, 2.0]), popxl.constant([3.0, 4.0])
        facts, graph = Some().create_graph(a, b)
        outputs = graph.graph.outputs
        grad = graph.autodiff([outputs[0]], [graph.args.v])
        assert [c.fwd_tensor for c in grad.grad_graph_info.expected_outputs] == [graph.args.v]
        call = graph.bind(facts.init()).call_with_info(a, b)
        (dv,) = grad.call(popxl.constant([1.0, 1.0]), args=grad.grad_graph_info.inputs_dict(call))
    assert run(ir, [dv])[0].tolist() == [3, 4]


def gradient(build_grad, provided=None, required=None):
    """Returns a gradient graph of Two, made by a function."""
    cls = type("Written", (Two,), {"build_grad": build_grad})
    with popxl.Ir().main_graph:
        x = popxl.constant([1.0, 2.0])
        module = cls()
        _, graph = module.create_graph(x, x)
        choose = lambda what, names: None if names is None else [what.get(n, n) for n in names]  # noqa: E731
        outs = dict(enumerate(graph.graph.outputs))
        return module.create_grad_graph(
            graph, choose(outs, provided), choose(graph.graph.inputs_by_name, required)
        )


def setting(**grads):
    """Returns a build_grad of one output that sets these functions of the module and dy."""

    def build_grad(self, dy):
        for name, grad in grads.items():
            self.var_grad[name] = grad(self, dy)

    return build_grad


WRONG = {
    "any number": (
        lambda self, *dys: None,
        {},
        TypeError,
        "method signature must only have a fixed number of positional parameters as inputs.",
    ),
    "by keyword": (lambda self, dy, *, more=1: None, {}, TypeError, "method signature must only"),
    "too few parameters": (lambda self, dy: None, {}, ValueError, "do not match the signature"),
    "no output": (Two.build_grad, {"provided": [7]}, ValueError,
        "A Tensor specified in `grads_provided` is not a output of `fwd_graph`"),
    "no input": (Two.build_grad, {"required": ["z"]}, ValueError,
        "A Tensor specified in `grads_required` is not a input of `fwd_graph`"),
    "provided twice": (Two.build_grad, {"provided": [0, 0]}, ValueError, "twice"),
    "required twice": (Two.build_grad, {"required": ["a", "a"]}, ValueError, "twice"),
    "no gradient of a variable": (
        lambda self, a, b: [a, b], {}, Exception, "Not all variable gradients have been specified"),
    "too many": (
        lambda self, a, b: [a, b], {"required": ["a"]}, Exception,
        "Too many outputs in the grad graph"),
    "too few": (lambda self, a, b: a, {"required": ["a", "b"]}, Exception,
        "Not all forward graph inputs have been specified"),
    "another shape": (
        lambda self, a, b: [a, ops.sum(b)], {"required": ["a", "b"]}, ValueError,
        "Shape or meta-shape of output Tensor at position 1"),
    "variable's shape": (setting(u=lambda self, dy: ops.sum(dy)), {"provided": [0]}, ValueError,
        "Shape or meta-shape of Tensor does not match variable."),
    "no tensor": (setting(u=lambda self, dy: 1.0), {"provided": [0]}, TypeError, "Not a tensor"),
    "no variable": (setting(a=lambda self, dy: dy), {"provided": [0]}, KeyError, "Not a variable"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_are_refused(name):
    build_grad, more, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        gradient(build_grad, **more)


def test_what_is_kept_is_used_in_build_grad():
    module = Two()
    text = "You can only get items within the `build_graph` method"
    module.aux["a"] = 1
    with pytest.raises(Exception, match=text):
        _ = module.aux["a"]
    for use in (lambda: module.var_grad["u"], lambda: module.var_grad.update(u=1)):
        with pytest.raises(Exception, match=" within the `build_graph` method"):
            use()
    with popxl.Ir().main_graph, pytest.raises(NotImplementedError):
        linear = addons.layers.Linear(2)
        assert not linear.implements_grad_graph
        linear.create_grad_graph(linear.create_graph(popxl.constant(X))[1])


def test_the_gradient_comes_before_calls():
    with popxl.Ir().main_graph:
        x = popxl.constant(X)
        facts, graph = ByHand().create_graph(x)
        graph.bind(facts.init()).call(x)
        with pytest.raises(popart_exception, match="Call autodiff before calling the graph"):
            graph.autodiff()


def test_gradients_are_made_again():
    with popxl.Ir().main_graph:
        _, graph = ByHand().create_graph(popxl.constant(X))
        first, second = graph.autodiff(), graph.autodiff(force=True)
        assert first.graph is not second.graph
        expected = [made.grad_graph_info.expected_inputs for made in (first, second)]
        assert expected[0] == expected[1]


def test_methods_of_autodiff():
    with popxl.Ir().main_graph as main:
        x = popxl.constant(X)
        plain = addons.GraphWithNamedArgs(main.ir.create_graph(lambda t: ops.exp(t), x))
        with pytest.raises(ValueError, match="'some'"):
            plain.autodiff(method="some")
        with pytest.raises(Exception, match="`from_module` is specified"):
            plain.autodiff(method="build_grad")
        assert not plain.autodiff_applied
        grad = plain.autodiff()
        assert plain.autodiff_applied and plain.copy().autodiff_applied
        with pytest.raises(Exception, match="Autodiff has already been applied"):
            plain.autodiff()
        assert plain.autodiff(force=True).graph is not grad.graph
        assert grad.copy().grad_graph_info is grad.grad_graph_info
        with pytest.raises(AttributeError, match="not made by autodiff"):
            _ = plain.grad_graph_info
        plain.grad_graph_info = grad.grad_graph_info
        assert plain.grad_graph_info is grad.grad_graph_info
        args = addons.NamedTensors(dy=grad.graph.inputs[0])
        made = addons.GraphWithNamedArgs.from_grad_graph(grad.grad_graph_info, args)
        assert made.args is args and made.graph is grad.graph


def test_what_is_kept_is_read_as_it_was():
    kept, read = object(), {}

    class Keeping(addons.Module):
        def build(self, x: popxl.Tensor):
            self.aux["x"], self.aux["object"], self.aux["unread"] = x, kept, x + 1.0
            assert "x" in self.aux and "y" not in self.aux and "w" not in self.var_grad
            return x * self.add_variable_input("w", lambda: np.ones(2), x.dtype)

        def build_grad(self, dy: popxl.Tensor):
            read.update(one=self.aux["x"], again=self.aux["x"], object=self.aux["object"])
            assert "unread" in self.aux and "w" not in self.var_grad
            self.var_grad["w"] = dy * read["one"]
            assert "w" in self.var_grad
            return dy * 2.0

    with popxl.Ir(replication=2).main_graph:
        spec = popxl.TensorSpec((2,), popxl.float16, (4,))
        module = Keeping()
        _, graph = module.create_graph(spec)
        assert "x" not in module.aux  # it was passed to the graph
        with pytest.raises(ValueError, match="Shape or meta-shape"):
            graph.autodiff()  # a shard has no gradient
        (x,) = (t for t in graph.graph.inputs if t.name == "x")
    assert read["one"] is read["again"] and read["object"] is kept
    assert (read["one"].name, read["one"].spec) == ("x", x.spec)
    assert x.spec == spec
