"""float8 on the host."""

import numpy as np
import popxl
import pytest
from popxl.fp8_utils import (
    host_fp8_mse_scale,
    host_fp8_mse_scale_pb,
    host_pow2scale_cast_from_fp8,
    host_pow2scale_cast_to_fp8,
)

FORMATS = [(popxl.float8_143, 3, 8, 240.0), (popxl.float8_152, 2, 16, 57344.0)]


def number(byte, mantissa, bias):
    """What a byte stands for, by the definition."""
    sign, exponent = byte >> 7, (byte & 127) >> mantissa
    fraction = (byte & (2**mantissa - 1)) / 2**mantissa
    size = (
        2.0 ** (1 - bias) * fraction if exponent == 0 else 2.0 ** (exponent - bias) * (1 + fraction)
    )
    return -size if sign else size


@pytest.mark.parametrize("dtype, mantissa, bias, largest", FORMATS)
def test_every_byte_is_its_number(dtype, mantissa, bias, largest):
    codes = np.delete(np.arange(256), 128).astype(np.uint8)
    numbers = np.array([number(int(c), mantissa, bias) for c in codes])
    assert numbers.max() == largest
    got = host_pow2scale_cast_from_fp8(codes.view(dtype.as_numpy()), popxl.float32)
    np.testing.assert_array_equal(got, numbers)
    back = host_pow2scale_cast_to_fp8(numbers, dtype)
    assert back.dtype == dtype.as_numpy()
    np.testing.assert_array_equal(back.view(np.uint8), codes)
    nan = np.uint8([0x80]).view(dtype.as_numpy())
    assert np.isnan(host_pow2scale_cast_from_fp8(nan, popxl.float16)).all()


@pytest.mark.parametrize("dtype, mantissa, bias, largest", FORMATS)
def test_numbers_between_go_to_the_nearest_ties_to_even(dtype, mantissa, bias, largest):
    positive = np.array([number(c, mantissa, bias) for c in range(128)])
    middle = (positive[:-1] + positive[1:]) / 2
    ties = host_pow2scale_cast_to_fp8(middle, dtype).view(np.uint8)
    np.testing.assert_array_equal(ties, np.arange(127) + np.arange(127) % 2)
    below = host_pow2scale_cast_to_fp8(np.nextafter(middle, 0), dtype).view(np.uint8)
    np.testing.assert_array_equal(below, np.arange(127))
    minus = host_pow2scale_cast_to_fp8(-np.nextafter(middle, 0), dtype).view(np.uint8)
    np.testing.assert_array_equal(minus[1:], np.arange(1, 127) + 128)
    assert minus[0] == 0  # there is no negative zero


@pytest.mark.parametrize("dtype, mantissa, bias, largest", FORMATS)
def test_what_is_too_large_is_nan_or_the_largest(dtype, mantissa, bias, largest):
    x = np.float32([largest * 1.01, -largest * 2, np.inf, np.nan])
    codes = host_pow2scale_cast_to_fp8(x, dtype).view(np.uint8)
    assert codes.tolist() == [127, 128, 128, 128]
    codes = host_pow2scale_cast_to_fp8(x, dtype, nan_on_overflow=False).view(np.uint8)
    assert codes.tolist() == [127, 255, 127, 128]


def test_scales_are_powers_of_two():
    x = np.float16([[1.5, -6.0]])
    there = host_pow2scale_cast_to_fp8(x, popxl.float8_143, 3)
    assert there.shape == x.shape
    np.testing.assert_array_equal(
        host_pow2scale_cast_from_fp8(there, popxl.float32), [[12.0, -48.0]]
    )
    np.testing.assert_array_equal(host_pow2scale_cast_from_fp8(there, popxl.float16, -3), x)


def test_the_best_scale_brings_data_into_range():
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32) * 2**12
    error, scale = host_fp8_mse_scale(x, popxl.float8_143)
    assert scale == host_fp8_mse_scale_pb(x, popxl.float8_143)
    there = host_pow2scale_cast_to_fp8(x, popxl.float8_143, scale)
    back = host_pow2scale_cast_from_fp8(there, popxl.float32, -scale)
    assert np.isclose(np.mean((back - x) ** 2), error) and error < 1e-3 * np.mean(x**2)


def test_other_types_are_refused():
    with pytest.raises(ValueError):
        host_pow2scale_cast_to_fp8(np.float32([1]), popxl.float16)
    with pytest.raises(TypeError):
        host_pow2scale_cast_to_fp8(np.int32([1]), popxl.float8_143)
