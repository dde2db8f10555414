"""Tests float8 conversion on the host."""

from fractions import Fraction

import numpy as np
import popxl
import pytest
from popxl import fp8_utils
from popxl.fp8_utils import (
    host_fp8_mse_scale,
    host_fp8_mse_scale_pb,
    host_pow2scale_cast_from_fp8,
    host_pow2scale_cast_to_fp8,
)
from popxl.utils import to_numpy

FORMATS = [(popxl.float8_143, 3, 8, 240.0), (popxl.float8_152, 2, 16, 57344.0)]


def number(byte, mantissa, bias):
    """Returns the number that a byte stands for, by the definition."""
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
    assert codes.tolist() == [127, 255, 128, 128]  # an infinity is not saturated
    with np.errstate(over="ignore"):
        infinite = np.float64([70000]).astype(np.float16)
    codes = host_pow2scale_cast_to_fp8(infinite, dtype, nan_on_overflow=False)
    assert codes.view(np.uint8).tolist() == [128]


def test_scales_are_powers_of_two():
    x = np.float16([[1.5, -6.0]])
    there = host_pow2scale_cast_to_fp8(x, popxl.float8_143, 3)
    assert there.shape == x.shape
    np.testing.assert_array_equal(
        host_pow2scale_cast_from_fp8(there, popxl.float32), [[12.0, -48.0]]
    )
    np.testing.assert_array_equal(host_pow2scale_cast_from_fp8(there, popxl.float16, -3), x)


def by_definition(src, dtype):
    """Computes `host_fp8_mse_scale` bin by bin."""
    low, high = (-10, 7) if dtype is popxl.float8_143 else (-17, 15)
    bits = {np.dtype("f2"): 10, np.dtype("f4"): 23}[src.dtype]
    span, loss = high - low + 1, 2.0 ** (-2 * (bits - (3 if dtype is popxl.float8_143 else 2)))
    size = np.abs(src.astype(np.float64))
    limits = [2.0 ** (i - 126) for i in range(253)]
    found = [np.mean((size >= x) & ((size < 2 * x) | (i == 252))) for i, x in enumerate(limits)]
    share = list(map(Fraction, found))
    costs, s = [], max(0, low + 95)
    while s <= min(low + 157, 253):
        k, cost = len(costs), [Fraction(limits[0] / 2) ** 2 if s > 0 else 0]
        for i, x in enumerate(limits):
            if i < s:
                cost.append(Fraction(x) ** 2 * share[i])
            elif i < s + span:
                cost.append(Fraction(loss) * Fraction(x) ** 2 * share[i])
            else:
                cost.append(Fraction(limits[k + span - 1] - x) ** 2 * share[i])
        costs.append(sum(cost))
        s += 1
    ties = [k for k, cost in enumerate(costs) if cost == min(costs)]
    return float(min(costs)), 31 - ties[len(ties) // 2]


@pytest.mark.shared
@pytest.mark.parametrize("dtype, mantissa, bias, largest", FORMATS)
@pytest.mark.parametrize("power", [-20, -5, 0, 12])
@pytest.mark.parametrize("wide", [np.float16, np.float32])
def test_the_best_scale_is_found_by_exponents(dtype, mantissa, bias, largest, power, wide):
    src = (np.random.default_rng(0).normal(size=300) * 2.0**power).astype(wide)
    error, scale = host_fp8_mse_scale(src, dtype)
    expected, expected_scale = by_definition(src, dtype)
    assert np.isclose(error, expected) and scale == expected_scale
    assert scale == host_fp8_mse_scale_pb(src, dtype)


@pytest.mark.parametrize("dtype, mantissa, bias, largest", FORMATS)
def test_scales_bring_data_into_range(dtype, mantissa, bias, largest):
    assert host_fp8_mse_scale(np.float32([largest * 64] * 4), dtype)[1] < 0
    assert host_fp8_mse_scale(np.float32([2.0**-30] * 4), dtype)[1] > 0


def test_host_data_becomes_float8():
    bits = to_numpy([1.5, 1e6], popxl.float8_143, log2_scale=1, nan_on_overflow=False)
    expected = fp8_utils.host_pow2scale_cast_to_fp8(
        np.float32([1.5, 1e6]), popxl.float8_143, 1, nan_on_overflow=False
    )
    assert bits.dtype == popxl.float8_143.as_numpy() and bits.tolist() == expected.tolist()
    assert to_numpy(bits, popxl.float8_143).tolist() == bits.tolist()
    assert popxl.utils.host_pow2scale_cast_to_fp8 is fp8_utils.host_pow2scale_cast_to_fp8
    with pytest.raises(TypeError):
        to_numpy([1, 2], popxl.float8_143)
    with pytest.raises(RuntimeError):
        to_numpy([1.0], popxl.float16, nan_on_overflow=True)
    with popxl.Ir().main_graph, pytest.raises(TypeError, match="needs a dtype"):
        popxl.constant(bits)


def test_other_types_are_refused():
    with pytest.raises(ValueError):
        host_pow2scale_cast_to_fp8(np.float32([1]), popxl.float16)
    with pytest.raises(TypeError):
        host_pow2scale_cast_to_fp8(np.int32([1]), popxl.float8_143)
    with pytest.raises(RuntimeError):
        host_fp8_mse_scale(np.float64([1]), popxl.float8_143)
