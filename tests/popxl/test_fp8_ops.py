"""float8 variables, streams, casts and products on the device agree with ml_dtypes and NumPy."""

import ml_dtypes
import numpy as np
import popxl
import pytest
from popxl import ops, transforms
from program import run_graph

# The same formats in ml_dtypes: no infinities, 0x80 the only NaN.
PEERS = {
    popxl.float8_143: ml_dtypes.float8_e4m3fnuz,
    popxl.float8_152: ml_dtypes.float8_e5m2fnuz,
}
DTYPES = list(PEERS)
rng = np.random.default_rng(4)


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def numbers(dtype, *shape):
    """Returns float8 numbers, as popxl holds them and as float32."""
    held = rng.uniform(-3, 3, shape).astype(PEERS[dtype])
    return bits(held).view(dtype.as_numpy()).reshape(shape), held.astype(np.float32)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("source", [np.float16, np.float32])
@pytest.mark.parametrize("scale", [0, -3, 5])
def test_casts_to_float8(dtype, source, scale):
    x = np.concatenate([rng.normal(size=500) * 10.0**e for e in (-4, -2, 0, 2)]).astype(source)
    x[:4] = [np.nan, np.inf, 0.0, -0.0]
    (y,) = run_graph(lambda t: ops.pow2scale_cast_to_fp8(t, scale, dtype), x)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = (x.astype(np.float32) * np.float32(2.0**scale)).astype(PEERS[dtype])
    assert y.dtype == dtype.as_numpy()
    np.testing.assert_array_equal(bits(y), bits(expected))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("target", [popxl.float16, popxl.float32], ids=str)
def test_every_byte_is_cast_from_float8(dtype, target):
    codes = np.arange(256, dtype=np.uint8)
    scale = np.int32(-2)
    (y,) = run_graph(
        lambda t, s: ops.pow2scale_cast_from_fp8(t, s, target), codes.view(dtype.as_numpy()), scale
    )
    expected = codes.view(PEERS[dtype]).astype(target.as_numpy()) * target.as_numpy().type(0.25)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("kinds", [(a, b) for a in DTYPES for b in DTYPES], ids=str)
@pytest.mark.parametrize("shapes", [((3, 5), (5, 4)), ((2, 3, 5), (5, 4)), ((5,), (5, 2))])
def test_products(kinds, shapes):
    (a, wide_a), (b, wide_b) = (numbers(k, *s) for k, s in zip(kinds, shapes, strict=True))
    (y,) = run_graph(lambda x, z: ops.matmul_pow2scaled(x, z, 3), a, b)
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, wide_a @ wide_b * 8, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_convolutions(dtype):
    torch = pytest.importorskip("torch")
    (x, wide_x), (w, wide_w) = numbers(dtype, 2, 4, 6, 6), numbers(dtype, 4, 2, 3, 3)
    (y,) = run_graph(
        lambda t, k: ops.conv_pow2scaled(t, k, -1, (2, 1), (1, 0, 1, 2), groups=2), x, w
    )
    padded = np.pad(wide_x, [(0, 0), (0, 0), (1, 1), (0, 2)])
    expected = torch.nn.functional.conv2d(
        torch.tensor(padded), torch.tensor(wide_w), stride=(2, 1), groups=2
    )
    np.testing.assert_allclose(y, expected.numpy() / 2, rtol=1e-3, atol=1e-2)

    (w, wide_w) = numbers(dtype, 4, 3, 3, 3)
    (y,) = run_graph(lambda t, k: ops.conv_transpose_pow2scaled(t, k, 1, (2, 2)), x, w)
    expected = torch.nn.functional.conv_transpose2d(
        torch.tensor(wide_x), torch.tensor(wide_w), stride=2
    )
    np.testing.assert_allclose(y, expected.numpy() * 2, rtol=1e-3, atol=2e-2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_variables_and_constants_keep_their_bytes(dtype):
    data = rng.uniform(-3, 3, (2, 3)).astype(np.float32)
    expected = bits((data * 4).astype(PEERS[dtype]))
    ir = popxl.Ir()
    with ir.main_graph:
        v = popxl.variable(data, dtype, log2_scale=2)
        c = popxl.constant(data, dtype, log2_scale=2)
        streams = []
        for t in (v, c):
            wide = ops.pow2scale_cast_from_fp8(t, -2, popxl.float32)
            streams.append(popxl.d2h_stream(wide.shape, wide.dtype))
            ops.host_store(streams[-1], wide)
    session = popxl.Session(ir, "ipu_hw")
    with session:
        got = session.run()
    for stream in streams:
        np.testing.assert_array_equal(got[stream], expected.view(PEERS[dtype]).astype("f4") / 4)
    np.testing.assert_array_equal(bits(session.get_tensor_data(v)), expected)
    session.write_variable_data(v, np.zeros((2, 3), np.uint8).view(dtype.as_numpy()))
    assert not bits(session.get_tensor_data(v)).any()


def test_overflow_of_data_is_nan_or_the_largest():
    ir = popxl.Ir()
    with ir.main_graph:
        nan = popxl.variable([1e6], popxl.float8_143)
        most = popxl.variable([1e6], popxl.float8_143, nan_on_overflow=False)
        _ = ops.pow2scale_cast_from_fp8(nan, 0, popxl.float16)
    session = popxl.Session(ir)
    assert bits(session.get_tensor_data(nan)) == 0x80 and bits(session.get_tensor_data(most)) == 127


def test_scales_beyond_the_range_end_the_run():
    with pytest.raises(popxl.errors.Error, match=r"log2_scale is 32 but must be in \[-32, 32\)"):
        run_graph(
            lambda t, s: ops.pow2scale_cast_to_fp8(t, s, popxl.float8_143),
            np.float32([1]),
            np.int32(32),
        )


def weighed(x, w):
    """Has two outputs, one of float8."""
    wide = ops.pow2scale_cast_from_fp8(w, 0, x.dtype)
    return x * wide, ops.pow2scale_cast_to_fp8(x, 0, w.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("calls", [1, 2])
def test_gradients_pass_calls_with_float8(dtype, given, calls):
    """w's gradient is not requested, and the float8 output has no gradient: zeros."""

    def program(x, w, dy):
        ir = popxl.gir()
        outer = graph = ir.create_graph(weighed, x, w)
        infos = {}
        if given:
            infos = {graph: transforms.autodiff(graph, graph.outputs[:1], graph.inputs[:1])}
        for _ in range(calls):
            outer = ir.create_graph(lambda x, w, g=outer: ops.call(g, x, w)[:2], x, w)
        info = transforms.autodiff(outer, outer.outputs[:1], outer.inputs[:1], infos)
        call = ops.call_with_info(outer, x, w)
        return ops.call(info.graph, dy, inputs_dict=info.inputs_dict(call))

    held, wide = numbers(dtype, 5)
    x, dy = rng.normal(size=(2, 5)).astype(np.float32)
    (dx,) = run_graph(program, x, held, dy)
    np.testing.assert_array_equal(dx, dy * wide)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_new_memory_and_missing_inputs_are_zero(dtype):
    def program(x):
        def sums(x, w, v: popxl.TensorByRef):
            casts = (ops.pow2scale_cast_from_fp8(t, 0, x.dtype) for t in (w, v))
            return x + sum(casts, popxl.constant(0.0, x.dtype))

        spec = popxl.TensorSpec(x.shape, dtype)
        graph = popxl.gir().create_graph(sums, x, spec, spec)
        info = ops.call_with_info(graph, x, check_inputs=False)
        return *info.outputs, ops.pow2scale_cast_from_fp8(ops.init(x.shape, dtype), 0, x.dtype)

    x = rng.normal(size=3).astype(np.float32)
    y, zero = run_graph(program, x)
    assert y.tolist() == x.tolist() and zero.tolist() == [0, 0, 0]


F8 = popxl.float8_143

ERRORS = {
    "scale of a number": (ValueError, lambda x, y: ops.pow2scale_cast_to_fp8(x, 32, F8)),
    "scale's shape": (ValueError, lambda x, y: ops.pow2scale_cast_to_fp8(x, x, F8)),
    "scale's dtype": (
        TypeError,
        lambda x, y: ops.pow2scale_cast_to_fp8(x, popxl.constant(1.0), F8),
    ),
    "cast of ints": (
        TypeError,
        lambda x, y: ops.pow2scale_cast_to_fp8(popxl.constant(1, popxl.int32), 0, F8),
    ),
    "cast to float16": (TypeError, lambda x, y: ops.pow2scale_cast_to_fp8(x, 0, popxl.float16)),
    "cast from float32": (TypeError, lambda x, y: ops.pow2scale_cast_from_fp8(x, 0, popxl.float16)),
    "cast to int": (TypeError, lambda x, y: ops.pow2scale_cast_from_fp8(y, 0, popxl.int32)),
    "product of float32": (TypeError, lambda x, y: ops.matmul_pow2scaled(x, y, 0)),
    "product's sizes": (ValueError, lambda x, y: ops.matmul_pow2scaled(y, y, 0)),
    "convolution of float32": (TypeError, lambda x, y: ops.conv_pow2scaled(x, y, 0)),
    "plain cast": (TypeError, lambda x, y: ops.cast(y, popxl.float32)),
    "scale without float8": (RuntimeError, lambda x, y: popxl.variable(1.0, log2_scale=1)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_float8_refuses(name):
    error, call = ERRORS[name]
    with popxl.Ir().main_graph, pytest.raises(error):
        x = popxl.constant(np.ones((2, 3), np.float32))
        call(x, popxl.constant(np.ones((2, 3)), popxl.float8_143))
