"""float8 on the host: casts with a scale that is a power of two.

float8_143 has 4 bits of exponent (bias 8) and reaches 240, float8_152 has 5 (bias 16) and reaches
57344. Byte 0x80 is the only NaN; there are neither infinities nor a negative zero.
"""

import math
from functools import cache

import numpy as np
from popxl import dtypes
from popxl.dtypes import dtype as dtype_class

_NAN = 0x80
_FORMATS = {dtypes.float8_143: (3, 8), dtypes.float8_152: (2, 16)}  # bits of mantissa, bias
_EXPONENTS = {dtypes.float8_143: (-10, 7), dtypes.float8_152: (-17, 15)}  # minimum, maximum
_MANTISSAS = {np.dtype(np.float16): 10, np.dtype(np.float32): 23}
LARGEST_SCALE = 31
_LIMITS = 253  # limits of `mse_scale`'s histogram


def is_float8(dtype: dtype_class) -> bool:
    """Returns whether a type is float8_143 or float8_152.

    Args:
        dtype: The data type.
    """
    return dtype in _FORMATS


@cache
def _values(dtype: dtype_class) -> np.ndarray:
    """Returns the number that each byte represents, as float64."""
    if dtype not in _FORMATS:
        raise ValueError(f"float8_143 or float8_152 is needed but got {dtype}.")
    mantissa, bias = _FORMATS[dtype]
    byte = np.arange(128)
    exponent, fraction = byte >> mantissa, (byte & ((1 << mantissa) - 1)) / (1 << mantissa)
    denormal = exponent == 0
    power = np.where(denormal, 1, exponent) - bias
    positive = np.ldexp(fraction + ~denormal, power)
    out = np.concatenate([positive, -positive])
    out[_NAN] = np.nan
    return out


def host_pow2scale_cast_to_fp8(
    src: np.ndarray, dtype: dtype_class, log2_scale: int = 0, nan_on_overflow: bool = True
) -> np.ndarray:
    """Returns src · 2**log2_scale, rounded to the nearest float8 (ties to even).

    Args:
        src: Data of float16, float32 or float64.
        dtype: float8_143 or float8_152.
        log2_scale: The exponent of the scale.
        nan_on_overflow: Whether a number that is too large becomes NaN, instead of the largest
            number. Infinities always become NaN.

    Returns:
        An array of `dtype.as_numpy()`.

    Raises:
        ValueError: The dtype is not float8.
        TypeError: The data has another type.
    """
    values = _values(dtype)
    src = np.asarray(src)
    if src.dtype not in (np.float16, np.float32, np.float64):
        raise TypeError(f"float16, float32 or float64 data is needed but got {src.dtype}.")
    scaled = np.ldexp(src.astype(np.float64), log2_scale)
    positive = values[:128]
    size = np.abs(scaled)
    above = np.clip(np.searchsorted(positive, size), 1, 127)
    low, high = positive[above - 1], positive[above]
    even = np.where((above - 1) % 2 == 0, above - 1, above)
    nearest = np.where(size - low < high - size, above - 1, above)
    code = np.where(size - low == high - size, even, nearest)
    step = positive[127] - positive[126]
    too_large = (size >= positive[127] + step / 2) & nan_on_overflow
    code = np.where(too_large | np.isinf(src), _NAN, code)
    signed = np.where((scaled < 0) & (code > 0) & (code < _NAN), code + 128, code)
    signed = np.where(np.isnan(scaled), _NAN, signed).astype(np.uint8)
    return signed.view(dtype.as_numpy()).reshape(src.shape)


def host_pow2scale_cast_from_fp8(
    src: np.ndarray, dtype: dtype_class, log2_scale: int = 0
) -> np.ndarray:
    """Returns float8 data converted to `dtype`, then multiplied by 2**log2_scale.

    Args:
        src: Data of float8's NumPy type.
        dtype: The type of the result.
        log2_scale: The exponent of the scale.

    Raises:
        ValueError: The data is not float8.
    """
    kind = dtype_class.as_dtype(src)
    codes = np.ascontiguousarray(src).view(np.uint8).reshape(src.shape)
    plain = _values(kind)[codes].astype(dtype.as_numpy())
    return np.ldexp(plain, log2_scale).astype(dtype.as_numpy())


def _shares(src: np.ndarray) -> np.ndarray:
    """Returns the fractions of elements by absolute value.

    The first is below 2**-126. Fraction i + 1 starts at 2**(i - 126), i = 0..252. The last one has
    no upper limit: it starts at 2**126.
    """
    size = np.abs(src.astype(np.float64)).ravel()
    size = size[~np.isnan(size)]
    bins = np.where(np.isinf(size), _LIMITS, np.frexp(size)[1] + 126)
    bins = np.where(size == 0, 0, np.clip(bins, 0, _LIMITS))
    return np.bincount(bins, minlength=_LIMITS + 1) / max(1, size.size)


@cache
def mse_costs(dtype: dtype_class, mantissa: int) -> np.ndarray:
    """Returns the error of an element as [scales, sizes]: scales from 31 down, sizes of `_shares`.

    Elements below the format's range become 0, and those above become the largest number. Elements
    inside lose the bits of the `mantissa` that the format lacks. The sizes exclude those below
    2**-126, which all scales lose.
    """
    if dtype not in _FORMATS:
        raise ValueError(f"float8_143 or float8_152 is needed but got {dtype}.")
    low, high = _EXPONENTS[dtype]
    span, rounding = high - low + 1, 2.0 ** (-2 * (mantissa - _FORMATS[dtype][0]))
    limits, place = np.ldexp(1.0, np.arange(_LIMITS) - 126), np.arange(_LIMITS)
    rows, least = [], max(0, low + 95)
    for first in range(least, min(low + 157, _LIMITS) + 1):
        largest = limits[first - least + span - 1]
        kept = np.where(place < first + span, rounding * limits**2, (largest - limits) ** 2)
        rows.append(np.where(place < first, limits**2, kept))
    return np.stack(rows)


def mse_scale(src: np.ndarray, dtype: dtype_class, mantissa: int) -> tuple[float, int]:
    """Returns (error, log2_scale) of the scale in [-31, 31] with the smallest estimated error.

    Args:
        src: The values.
        dtype: The data type.
        mantissa: The number of bits of the mantissa.
    """
    # fsum is exact, so that equal costs compare equal.
    share, below = _shares(src)[1:], (2.0**-126 / 2) ** 2
    costs = [math.fsum([below, *row]) for row in mse_costs(dtype, mantissa) * share]
    best = min(costs)
    ties = [k for k, cost in enumerate(costs) if cost == best]
    return float(best), LARGEST_SCALE - ties[len(ties) // 2]


def host_fp8_mse_scale(src: np.ndarray, dtype: dtype_class) -> tuple[float, int]:
    """Returns (error, log2_scale) of the scale in [-31, 31] with which float8 keeps `src` best.

    A histogram of exponents determines it: data near overflow gives a negative scale, data near
    underflow a positive one.

    Args:
        src: Data of float16 or float32.
        dtype: float8_143 or float8_152.

    Raises:
        RuntimeError: The data has another type.
    """
    src = np.asarray(src)
    if src.dtype not in _MANTISSAS:
        raise RuntimeError(f"float16 or float32 data is needed but got {src.dtype}.")
    return mse_scale(src, dtype, _MANTISSAS[src.dtype])


def host_fp8_mse_scale_pb(src: np.ndarray, dtype: dtype_class) -> int:
    """Returns the scale that `host_fp8_mse_scale` finds.

    Args:
        src: The values.
        dtype: The data type.
    """
    return host_fp8_mse_scale(src, dtype)[1]
