"""Gradient graphs may compute in another dtype than the inputs of their calls have."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops
from popxl.transforms import autodiff
from popxl_addons.layers.linear_fp8 import LinearFP8
from program import run_graph

F8, F16, F32 = popxl.float8_143, popxl.float16, popxl.float32
rng = np.random.default_rng(8)
X = rng.uniform(-1, 1, (4, 6)).astype(np.float32)
DY = rng.uniform(-1, 1, (4, 6)).astype(np.float32)
W = rng.uniform(-1, 1, (6, 6)).astype(np.float16)


class Tanh(addons.Module):
    """tanh, whose gradient has the dtype `kind`."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def build(self, x: popxl.Tensor):
        self.aux["y"] = y = ops.tanh(x)
        return y

    def build_grad(self, dy: popxl.Tensor):
        y = self.aux["y"]
        return ops.cast(dy * (1.0 - y * y), self.kind)


def gradient(graph, info, *inputs, dy):
    """Returns the output of a graph, and the gradients of its inputs."""
    forward = ops.call_with_info(graph, *inputs)
    grads = ops.call(info.graph, dy, inputs_dict=info.inputs_dict(forward))
    for t, connection in zip(grads, info.expected_outputs, strict=True):
        assert t.spec == connection.fwd_tensor.spec
    return forward.outputs[0], *grads


def slope(x):
    return 1 - np.tanh(x) ** 2


# name: (function of a graph that calls `inner`, its derivative)
CALLERS = {
    "call": (lambda inner, x: ops.call(inner, x)[0], slope),
    "call of a result": (lambda inner, x: ops.call(inner, x * 0.5)[0], lambda x: slope(x / 2) / 2),
    "call and another use": (lambda inner, x: ops.call(inner, x)[0] + x, lambda x: slope(x) + 1),
    "two calls": (
        lambda inner, x: ops.call(inner, ops.call(inner, x)[0])[0],
        lambda x: slope(np.tanh(x)) * slope(x),
    ),
    "call in a loop": (
        lambda inner, x: ops.repeat(
            popxl.gir().create_graph(lambda t: ops.call(inner, t)[0], x.spec), 2, x
        )[0],
        lambda x: slope(np.tanh(x)) * slope(x),
    ),
    "call of a cast": (
        lambda inner, x: ops.call(inner, ops.cast(ops.cast(x, F16), x.dtype))[0],
        slope,
    ),
}


@pytest.mark.parametrize("name", CALLERS)
@pytest.mark.parametrize("data", [F16, F32])
@pytest.mark.parametrize("kind", [F16, F32])
def test_gradients_by_hand_are_cast_to_the_operand(name, data, kind):
    function, derivative = CALLERS[name]

    def program(x, dy):
        ir = popxl.gir()
        _, graph = Tanh(kind).create_graph(x)
        given = {graph.graph: graph.autodiff().grad_graph_info}
        outer = ir.create_graph(lambda t: function(graph.graph, t), x)
        info = autodiff(outer, called_graphs_grad_info=given)
        return gradient(outer, info, x, dy=dy)

    _, dx = run_graph(program, X.astype(data.as_numpy()), DY.astype(data.as_numpy()))
    assert dx.dtype == data.as_numpy()
    tolerance = 1e-5 if data is kind is F32 and "cast" not in name else 4e-3
    np.testing.assert_allclose(dx, DY * derivative(X), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("inside", [False, True])
def test_layers_of_half_under_data_of_float32(given, inside):
    """The data is cast before the call, or inside the called graph."""

    def program(x, dy, w):
        ir = popxl.gir()
        if inside:
            inner = ir.create_graph(lambda t, w: ops.cast(ops.cast(t, F16) @ w, F32), x, w)
        else:
            inner = ir.create_graph(lambda t, w: t @ w, popxl.TensorSpec(X.shape, F16), w)
        extra = {"called_graphs_grad_info": {inner: autodiff(inner)}} if given else {}

        def call(t, w):
            operand = t if inside else ops.cast(t, F16)
            return ops.cast(ops.call(inner, operand, w)[0], F32)

        outer = ir.create_graph(call, x, w)
        return gradient(outer, autodiff(outer, **extra), x, w, dy=dy)

    y, dx, dw = run_graph(program, X, DY, W)
    assert (y.dtype, dx.dtype, dw.dtype) == (np.float32, np.float32, np.float16)
    wide = W.astype(np.float32)
    np.testing.assert_allclose(y, X @ wide, rtol=4e-3, atol=4e-3)
    np.testing.assert_allclose(dx, DY @ wide.T, rtol=4e-3, atol=4e-3)
    np.testing.assert_allclose(dw, X.T @ DY, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("given", [False, True])
def test_operands_cast_to_float8(given):
    def program(x, dy, w):
        ir = popxl.gir()

        def narrow(t):
            return ops.pow2scale_cast_to_fp8(t, popxl.constant(0, popxl.int32), F8)

        def product(a, b):
            return ops.matmul_pow2scaled(a, b, popxl.constant(0, popxl.int32))

        specs = [popxl.TensorSpec(X.shape, F8), popxl.TensorSpec(W.shape, F8)]
        inner = ir.create_graph(product, *specs)
        extra = {"called_graphs_grad_info": {inner: autodiff(inner)}} if given else {}

        def call(t, w):
            return ops.cast(ops.call(inner, narrow(t), narrow(w))[0], F32)

        outer = ir.create_graph(call, x, w)
        return gradient(outer, autodiff(outer, **extra), x, w, dy=dy)

    y, dx, dw = run_graph(program, X, DY, W)
    assert (dx.dtype, dw.dtype) == (np.float32, np.float16)
    wide = W.astype(np.float32)
    np.testing.assert_allclose(y, X @ wide, rtol=0.1, atol=0.2)
    np.testing.assert_allclose(dx, DY @ wide.T, rtol=0.1, atol=0.2)
    np.testing.assert_allclose(dw, X.T @ DY, rtol=0.1, atol=0.2)


@pytest.mark.parametrize("data", [F16, F32])
@pytest.mark.parametrize("depth", [1, 2])
def test_layers_of_float8_below_other_modules(data, depth):
    class Below(addons.Module):
        def __init__(self, module):
            super().__init__()
            self.inner = module

        def build(self, x: popxl.Tensor):
            return self.call_module(self.inner)(x)[0]

    module = LinearFP8(3, bias=True)
    for _ in range(depth):
        module = Below(module)
    dy = DY[:, :3].astype(data.as_numpy())

    def program(x, dy):
        facts, graph = module.create_graph(x)
        grads = addons.autodiff(graph)
        variables = facts.init()
        forward = graph.bind(variables).call_with_info(x)
        info = grads.grad_graph_info
        dx, *of_variables = grads.call(dy, args=info.inputs_dict(forward))
        for t, connection in zip((dx, *of_variables), info.expected_outputs, strict=True):
            assert t.spec == connection.fwd_tensor.spec
        weight = next(t for t in variables.tensors if t.rank == 2)
        return dx, ops.identity(weight)

    dx, weight = run_graph(program, X.astype(data.as_numpy()), dy)
    assert dx.dtype == data.as_numpy()
    right = dy.astype(np.float32) @ weight.astype(np.float32).T
    np.testing.assert_allclose(dx, right, rtol=0.1, atol=0.2 * abs(right).max())
