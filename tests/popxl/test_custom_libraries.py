"""Tests ops.custom_op: libraries' ops in PopXL graphs, with their gradients, and refusals."""

import numpy as np
import popxl
import pytest
from popxl import ops
from popxl.errors import popart_exception
from popxl.transforms import autodiff

pytestmark = pytest.mark.usefixtures("custom_ops")


def stored(tensors):
    """Stores the tensors, in the current graph, to streams that it returns."""
    streams = [popxl.d2h_stream(t.shape, t.dtype) for t in tensors]
    for stream, t in zip(streams, tensors, strict=True):
        ops.host_store(stream, t)
    return streams


def outputs(ir, streams):
    with popxl.Session(ir, "ipu_model") as session:
        found = session.run()
    return [found[stream] for stream in streams]


@pytest.mark.shared
def test_values():
    ir = popxl.Ir()
    x = np.array([1.0, -2.0, 3.0], np.float32)
    with ir.main_graph:
        v = popxl.variable(x, name="x")
        cubes, squares = ops.custom_op([v, v], "Cube", "com.acme", 1)
        (y,) = ops.custom_op([cubes], "LeakyRelu", "com.acme", attributes={"alpha": 0.5})
        streams = stored([squares, y])
    squares, y = outputs(ir, streams)
    np.testing.assert_array_equal(squares, x**2)
    np.testing.assert_array_equal(y, np.where(x < 0, 0.5, 1) * (x**3 + x))


def test_autodiff():
    def forward(x, bias):
        cubes, squares = ops.custom_op([x, bias], "Cube", "com.acme")
        return ops.custom_op([cubes], "LeakyRelu", "com.acme", attributes={"alpha": 0.5})[
            0
        ], squares

    ir = popxl.Ir()
    x = np.array([1.0, -2.0, 3.0], np.float32)
    with ir.main_graph:
        v = popxl.variable(x, name="x")
        bias = popxl.variable(np.ones(3, np.float32), name="bias")
        ones = popxl.constant(np.ones(3, np.float32))
        graph = ir.create_graph(forward, v, bias)
        gradient = autodiff(graph)
        info = ops.call_with_info(graph, v, bias)
        made = ops.call(gradient.graph, ones, ones, inputs_dict=gradient.inputs_dict(info))
        streams = stored(made)
    slope = np.where(x**3 + 1 < 0, 0.5, 1)
    of_x, of_bias = outputs(ir, streams)
    np.testing.assert_array_equal(of_x, 3 * x**2 * slope + 2 * x)
    np.testing.assert_array_equal(of_bias, slope)


@pytest.mark.parametrize("replicas", [1, 2])
def test_replicas(replicas):
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph:
        v = popxl.variable(np.array([6.0], np.float32))
        # The value is summed over the replicas before the op, which divides by their number.
        (mean,) = ops.custom_op([v], "MeanOfReplicas", "trial")
        x, numbers = ops.custom_op([mean], "Replica", "trial")
        streams = stored([x, numbers])
    x, numbers = outputs(ir, streams)
    assert x.reshape(-1).tolist() == [6.0] * replicas
    assert numbers.reshape(replicas, 2).tolist() == [[r, replicas] for r in range(replicas)]


def test_gather():
    ir = popxl.Ir()
    with ir.main_graph:
        data = popxl.variable(np.arange(6, dtype=np.float32).reshape(2, 3))
        indices = popxl.constant(np.array([[2], [0]], np.int32))
        (y,) = ops.custom_op([data, indices], "FastGatherLastDim", "poptorch.custom_ops")
        streams = stored([y])
    assert outputs(ir, streams)[0].tolist() == [[2.0], [3.0]]


@pytest.mark.parametrize(
    ("name", "attributes", "error", "text"),
    [
        ("Cubes", {}, popart_exception, "Did you mean 'Cube' of domain 'com.acme'"),
        ("LeakyRelu", {"alpha": 1e300}, popart_exception, "1e+300 is too high"),
        ("LeakyRelu", {"alpha": 1}, popart_exception, "as a float but got an int, 1."),
        ("LeakyRelu", {"alpha": [1, 2.0]}, ValueError, "must all be the same"),
    ],
)
def test_refusals(name, attributes, error, text):
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(np.ones(3, np.float32))
        with pytest.raises(error) as caught:
            ops.custom_op([v], name, "com.acme", attributes=attributes)
    assert text in str(caught.value)


def test_inputs_are_a_list():
    with popxl.Ir().main_graph:
        v = popxl.variable(np.ones(3, np.float32))
        with pytest.raises(TypeError, match="takes a list or tuple of tensors but got"):
            ops.custom_op(v, "LeakyRelu", "com.acme")
