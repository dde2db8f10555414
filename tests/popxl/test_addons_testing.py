"""Tests helpers for tests of programs: running modules on data, counting ops by class."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popart._internal import ir as _ir
from popxl import ops
from popxl_addons.testing_utils import TensorInput, ops_of_type, run_module

X = np.random.default_rng(12).uniform(-1, 1, (4, 6)).astype(np.float32)


class Net(addons.Module):
    def __init__(self):
        super().__init__()
        self.first = addons.layers.Linear(3)

    def build(self, x: popxl.Tensor, factor, *, shift: popxl.Tensor):
        return self.first(x) * factor, shift + 1.0


@pytest.mark.parametrize("by_function", [True, False])
def test_modules_run_on_data(by_function):
    weight = np.random.default_rng(1).uniform(-1, 1, (6, 3)).astype(np.float32)
    module, seen = Net(), []

    def weights(variables):
        assert isinstance(variables, addons.NamedTensors)
        seen.append(variables)
        return {variables.first.weight: weight}

    given = weights if by_function else {}
    y, z = run_module(
        module, TensorInput(X), 2.0, weights=given, shift=TensorInput(X[0], popxl.float16)
    )
    assert len(seen) == by_function and z.dtype == np.float16
    np.testing.assert_allclose(z, X[0] + 1, rtol=1e-2)
    if by_function:
        np.testing.assert_allclose(y, 2 * X @ weight, rtol=1e-5, atol=1e-6)
    else:
        assert y.std() > 0


def test_modules_may_write_into_what_they_are_given():
    class Writes(addons.Module):
        def build(self, x: popxl.TensorByRef, y: popxl.Tensor):
            ops.add_(x, y)
            return x * 1.0

    (z,) = run_module(Writes(), TensorInput(X), TensorInput(2 * X))
    np.testing.assert_allclose(z, 3 * X, rtol=1e-6)


def test_ops_are_counted_by_class():
    ir = popxl.Ir()
    with ir.main_graph:
        t = popxl.variable(X)
        _ = (t + t) * t + t
    found = ir.main_graph._pb_graph.getOps()
    assert ops_of_type(found, _ir.op.AddOp) == 2
    assert ops_of_type(found, _ir.op.MulOp) == 1
    assert ops_of_type(found, _ir.op.SubtractOp) == 0
