"""Scales for float8 and 4-bit weights agree with their formulas."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl_addons.ops import fp8_utils
from popxl_addons.ops.fp8_mse_scale import fp8_mse_scale
from popxl_addons.ops.group_quantize_decompress import (
    group_quantize_compress_numpy,
    group_quantize_decompress,
    group_quantize_decompress_numpy,
)
from program import run_graph

rng = np.random.default_rng(8)


def host_mse_scale(x, dtype):
    return popxl.fp8_utils.mse_scale(x, dtype, mantissa=10)[1]


@pytest.mark.parametrize("dtype", [popxl.float8_143, popxl.float8_152], ids=str)
@pytest.mark.parametrize("kind", ["float16", "float32"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 3e3])
def test_scales_for_float8(dtype, kind, size):
    x = (rng.normal(size=(7, 9)) * size).astype(kind)
    amax, mse = run_graph(
        lambda t: (addons.ops.fp8_amax_scale(t, dtype), fp8_mse_scale(t, dtype)), x
    )
    largest = {popxl.float8_143: 240.0, popxl.float8_152: 57344.0}[dtype]
    top = float(np.abs(x).max())
    assert amax == np.clip(np.floor(np.log2(largest / top)), -31, 31)
    assert mse == host_mse_scale(x, dtype)
    assert amax.dtype == mse.dtype == np.int32 and amax.shape == mse.shape == ()


@pytest.mark.parametrize(
    "x",
    [
        [1.0],
        [0.0],
        [2.0**-20, 2.0**15],
        [0.999, 1.0, 2.0],
        [2.0**-126],
        [np.nan, 1.0, np.nan],
        [np.inf, 1.0],
        [1e-45, 0.0],
        [3e38, 1.0],
    ],
)
def test_scales_for_few_numbers(x):
    (scale,) = run_graph(fp8_mse_scale, np.float32(x))
    assert scale == host_mse_scale(np.float32(x), popxl.float8_143)


def test_formats_of_numbers():
    for dtype, spec in (("float16", fp8_utils.ieee_fp16_denorms), ("float32", None)):
        spec, info = spec or fp8_utils.ieee_fp32_no_denorms, np.finfo(dtype)
        assert (spec.num_exp_bits, spec.num_mantissa_bits) == (info.nexp, info.nmant)
        assert (np.float32(spec.max_value), spec.max_exp) == (info.max, info.maxexp - 1)
        assert (spec.min_exp, spec.fix_exponent_bias) == (info.minexp, info.maxexp - 1)
    assert fp8_utils.float8_152_def == (5, 2, 16, True, False, 57344, 15, -17)
    assert fp8_utils.float8_143_def._asdict()["min_exp"] == -10


@pytest.mark.parametrize("dim", [-1, 0])
@pytest.mark.parametrize("rank", [2, 3])
def test_groups_of_4_bits(dim, rank):
    x = rng.normal(size=(6, 32) if dim else (32, 6)).astype(np.float32)
    parts = group_quantize_compress_numpy(x, 8, dim)
    assert [p.shape for p in parts] == [(6, 4, 2), (6, 4, 1), (6, 4, 1)]
    packed, scale, bias = parts
    if rank == 2:
        scale, bias = scale[..., 0], bias[..., 0]
    (y,) = run_graph(lambda *a: group_quantize_decompress(*a, dim), packed, scale, bias)
    np.testing.assert_array_equal(y, group_quantize_decompress_numpy(*parts, dim))
    step = np.moveaxis(parts[1].astype(np.float32).repeat(8, -1).reshape(6, 32), -1, dim)
    assert y.shape == x.shape and (np.abs(y - x) <= 0.51 * step + 8e-3).all()
    with pytest.raises(ValueError, match="groups of 6"):
        group_quantize_compress_numpy(x, 6)
    with pytest.raises(ValueError, match="finite"):
        group_quantize_compress_numpy(np.full((2, 8), np.inf), 4)


def test_the_first_of_four_bits_are_the_highest():
    packed, scale, bias = group_quantize_compress_numpy(np.float32([[0, 15, 1, 2]]), 4)
    assert (packed.item(), scale.item(), bias.item()) == (0x0F12, 1, 0)
    many = group_quantize_compress_numpy(rng.normal(size=(2, 3, 16)), 8)
    assert [p.shape for p in many] == [(2, 3, 2, 2), (2, 3, 2, 1), (2, 3, 2, 1)]
    assert group_quantize_decompress_numpy(*many).shape == (2, 3, 16)
