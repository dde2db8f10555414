"""Programs with gradients, and the same in torch."""

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.transforms import autodiff

torch = pytest.importorskip("torch")
rng = np.random.default_rng(8)


def rand(*shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def with_gradients(function, count):
    """Returns a program: `function` of the first `count` tensors, and gradients for the last
    tensor."""

    def program(*xs):
        *xs, dy = xs
        graph = popxl.gir().create_graph(lambda xs: function(*xs), list(xs))
        info = autodiff(graph, grads_required=graph.inputs[:count])
        call = ops.call_with_info(graph, *xs)
        return call.outputs[0], *ops.call(info.graph, dy, inputs_dict=info.inputs_dict(call))

    return program


def torchs(function, count, *arrays):
    """Returns the same in torch."""
    *xs, dy = (torch.tensor(a) for a in arrays)
    xs = [x.requires_grad_(i < count) for i, x in enumerate(xs)]
    y = function(*xs)
    return y.detach().numpy(), *(g.numpy() for g in torch.autograd.grad(y, xs[:count], dy))


def check(results, expected, tolerance=1e-4):
    assert len(results) == len(expected)
    for result, right in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, right, rtol=tolerance, atol=tolerance)
