"""Tests functions that make several ops: the ops and tensors that programs see, and accepted
arguments.
"""

import numpy as np
import popxl
import pytest
from popart import popart_exception
from popxl import ops
from popxl.ops import collectives, var_updates
from program import ids, run_graph, t

F32, F16, I32, BOOL = popxl.float32, popxl.float16, popxl.int32, popxl.bool


def shown(function, *specs, replication=1):
    """Returns op types and tensor names of a graph of `function`."""
    ir = popxl.Ir(replication=replication)
    with ir.main_graph:
        graph = ir.create_graph(function, *(popxl.TensorSpec(*spec) for spec in specs))
    names = [t.name for t in graph.tensors]
    return [op.opType() for op in graph._pb_graph.getOps()], names


def test_what_ops_are_made_of():
    x = ((2, 3), F32)
    assert shown(ops.log2, x) == (["Log", "Log", "Div"], ["t", "log_out", "t__t0", *ANY(2)])
    types, names = shown(ops.isfinite, x)
    assert types == ["IsNaN", "IsInf", "Or", "Not", "Identity"] and len(names) == 6
    types, names = shown(ops.logical_and, x, ((2, 3), BOOL))
    assert types == ["Cast", "And"] and "lhs_bool" in names
    assert shown(ops.logical_or, x, x)[0] == ["Cast", "Cast", "Or"]
    assert shown(ops.logical_or, ((2,), BOOL), ((2,), BOOL))[0] == ["Or"]
    assert shown(ops.logical_not, x)[0] == ["Cast", "Not"]
    assert shown(ops.where, ((2,), I32), ((2,), F32), ((2,), F32))[0] == ["Cast", "Where"]
    types, names = shown(lambda t: ops.cumsum(t, 1), x)
    assert types == ["CumSum"] and "dim" in names
    types, names = shown(collectives.replicated_all_gather, x, replication=2)
    assert types == ["ReplicatedAllGather", "Reshape", "Reshape"] and len(names) == 4


class ANY(list):
    """Equals any list of `count` names."""

    def __init__(self, count):
        super().__init__(_Any() for _ in range(count))


class _Any:
    def __eq__(self, other):
        return True


def test_rows_of_buffers_and_scales_are_constants():
    with popxl.Ir().main_graph as main:
        buffer = popxl.remote_buffer((2,), F32, 4)
        x = ops.remote_load(buffer, 3)
        ops.remote_store(buffer, 2, x)
        ops.pow2scale_cast_to_fp8(x, 5, popxl.float8_143)
    assert [c.name for c in main.constants] == ["offset", "offset__t0", "offset__t1"]
    init, load, store, cast = main._pb_graph.getOps()
    assert init.getOutputIds() == ["id_1_offset_offset_remote_load"]
    assert load.getOutputIds() == ["id_1_offset_offset_remote_loaded"]
    assert load.getInputIds()[1] == "offset" and store.getInputIds()[1] == "offset__t0"
    assert cast.getInputIds()[1] == "offset__t1"


X = np.arange(1.0, 13, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    "strides, expected", [(2, X[::2]), ([3], X[::3]), ([2, 3], X[::2, ::3]), ([1, 2], X[:, ::2])]
)
def test_strides_of_the_first_dimensions(strides, expected):
    (y,) = run_graph(lambda x: ops.subsample(x, strides), X)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("key", [True, False, np.bool_(True), "a", 1.0, (0, True), (0, "a"), None])
def test_keys_that_are_no_places(key):
    with popxl.Ir().main_graph, pytest.raises(TypeError, match="cannot be indexed by"):
        t(4, 4)[key]


def test_conditions_of_any_type():
    (y,) = run_graph(lambda c, a, b: ops.where(c, a, b), np.float32([0, 2, -1]), X[0, :3], X[1, :3])
    assert y.tolist() == [5, 2, 3]


def test_the_whole_shape_of_a_transposed_convolution():
    with popxl.Ir().main_graph:
        x, w = t(1, 2, 4, 4), t(2, 3, 2, 2)
        assert ops.conv_transpose(x, w, output_shape=(1, 3, 4, 4)).shape == (1, 3, 4, 4)
        pairs = ops.conv_transpose(x, w, groups=2, output_shape=(1, 6, 4, 4))
        assert pairs.shape == (1, 6, 4, 4)
        for wrong in ((4, 4), (2, 3, 4, 4), (1, 6, 4, 4)):
            with pytest.raises(ValueError, match="output_shape"):
                ops.conv_transpose(x, w, output_shape=wrong)


# name: (kernel, stride, dilation, pad_type, output_padding, sizes of the output)
LONGER = {
    "one more": (2, 2, 1, "not_set", (), (9, 9)),
    "up to the stride": (1, 4, 1, "not_set", (), (16, 14)),
    "up to the dilation": (2, 1, 3, "not_set", (), (9, 8)),
    "one dimension more, one less": (2, 2, 1, "not_set", (), (9, 6)),
    "besides output_padding": (2, 3, 1, "not_set", (1, 0), (13, 12)),
    "same_upper": (1, 3, 1, "same_upper", (), ()),
    "same_lower": (2, 3, 1, "same_lower", (), ()),
    "same_lower and a shape": (2, 2, 1, "same_lower", (), (9, 9)),
}


@pytest.mark.parametrize("name", LONGER)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_padding_makes_longer_transposed_convolutions(name, dtype):
    torch = pytest.importorskip("torch")
    size, stride, dilation, pad_type, extra, sizes = LONGER[name]
    x = np.random.default_rng(1).uniform(-1, 1, (1, 2, 4, 4)).astype(dtype)
    w = np.random.default_rng(2).uniform(-1, 1, (2, 3, size, size)).astype(dtype)
    dy = np.random.default_rng(3).uniform(-1, 1, (1, 3, *(sizes or (12, 12)))).astype(dtype)

    def program(x, w, dy):
        def convolve(x, w):
            return ops.conv_transpose(
                x, w, (stride,) * 2, dilation=(dilation,) * 2, pad_type=pad_type,
                output_padding=extra, output_shape=(1, 3, *sizes) if sizes else (),
            )  # fmt: skip

        graph = popxl.gir().create_graph(convolve, x, w)
        info = popxl.transforms.autodiff(graph)
        forward = ops.call_with_info(graph, x, w)
        assert forward.outputs[0].shape == dy.shape
        grads = ops.call(info.graph, dy, inputs_dict=info.inputs_dict(forward))
        return forward.outputs[0], *grads

    given = [torch.tensor(a.astype(np.float32), requires_grad=True) for a in (x, w)]
    whole = torch.nn.functional.conv_transpose2d(*given, None, stride, dilation=dilation)
    missing = [n - m for n, m in zip(dy.shape[2:], whole.shape[2:], strict=True)]
    expected = torch.nn.functional.pad(whole, (0, max(missing[1], 0), 0, max(missing[0], 0)))
    for axis, more in enumerate(missing):  # without pad_type, the start loses more
        start = (-more + 1) // 2 if more < 0 else 0
        expected = expected.narrow(2 + axis, start, dy.shape[2 + axis])
    expected.backward(torch.tensor(dy.astype(np.float32)))
    tolerance = 1e-5 if dtype == np.float32 else 5e-3
    rights = (expected, *(operand.grad for operand in given))
    for got, right in zip(run_graph(program, x, w, dy), rights, strict=True):
        np.testing.assert_allclose(got, right.detach(), rtol=tolerance, atol=tolerance)


FLOAT_OPS = ("exp", "log", "sqrt", "sin", "cos", "tanh", "gelu", "geluerf", "swish")


@pytest.mark.parametrize("name", FLOAT_OPS)
def test_ops_of_floats_take_whole_numbers(name):
    call = getattr(ops, name)
    y, right = run_graph(
        lambda x: (call(x), ops.cast(call(ops.cast(x, F32)), I32)), np.int32([1, 2, 5])
    )
    assert y.dtype == np.int32 and y.tolist() == right.tolist()


def test_labels_may_be_floats():
    probs, labels = np.float32([[0.5, 0.5], [0.25, 0.75]]), np.float32([0, 1])
    (y,) = run_graph(lambda p, n: ops.nll_loss(p, n, reduction="none"), probs, labels)
    np.testing.assert_allclose(y, -np.log([0.5, 0.75]), rtol=1e-6)


REFUSED = {
    "larger": lambda: ops.dynamic_update(t(4), ids(1), t(3), [0], [2], True),
    "of another rank": lambda: ops.dynamic_update(t(4), ids(1), t(2, 2, 2), [0], [2], True),
    "axis": lambda: var_updates.sparse_accumulate_(popxl.variable([1.0]), t(1), ids(1), axis=3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_some_sizes_are_refused_by_sessions_alone(name):
    ir = popxl.Ir()
    with ir.main_graph:
        made = REFUSED[name]()
        assert made.shape in ((4,), (1,))
    with pytest.raises(popart_exception, match="DynamicUpdate|PopartSparseAccumulate"):
        popxl.Session(ir)
