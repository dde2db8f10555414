"""A module with a hand-written gradient, and torch's values for it."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl import ops

torch = pytest.importorskip("torch")
rng = np.random.default_rng(8)
F32 = popxl.float32
X = rng.uniform(-1, 1, (4, 6)).astype(np.float32)
W = rng.uniform(-1, 1, (6, 4)).astype(np.float32)

W_SPEC = popxl.TensorSpec(W.shape, F32)


class Product(addons.Module):
    def build(self, x: popxl.Tensor):
        self.w = self.add_variable_input("w", lambda: W)
        return x @ self.w


class ByHand(addons.Module):
    """Computes 2 tanh(x @ w), with a hand-written gradient, which `twist` scales."""

    def __init__(self, twist=1.0, grad_inlining_error="error"):
        super().__init__(grad_inlining_error=grad_inlining_error)
        self.twist, self.inner = twist, Product()

    def build(self, x: popxl.Tensor):
        product = self.inner(x)
        self.aux["x"], self.aux["w"], self.aux["two"] = x, self.inner.w, 2.0
        y = self.aux["unread"] = ops.tanh(product)
        self.aux["y"] = y
        assert "y" in self.aux and "z" not in self.aux
        return y * 2.0

    def build_grad(self, dy: popxl.Tensor):
        y, x, w = self.aux["y"], self.aux["x"], self.aux["w"]
        assert self.aux["y"] is y and self.aux["two"] == 2.0
        inner = dy * (2.0 * self.twist) * (1.0 - y * y)
        assert "inner.w" not in self.var_grad
        self.var_grad["inner.w"] = x.T @ inner
        assert "inner.w" in self.var_grad
        return inner @ w.T


def right(dy, twist=1.0):
    """Returns the output and the gradients of x and w, by torch."""
    xt, wt = torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)
    y = torch.tanh(xt @ wt) * 2
    y.backward(torch.tensor(dy) * twist)
    return y.detach(), xt.grad, wt.grad


def run(ir, tensors):
    with ir.main_graph:
        streams = [addons.host_store(t) for t in tensors]
    with popxl.Session(ir, "ipu_hw") as session:
        got = session.run()
    return [got[stream] for stream in streams]
