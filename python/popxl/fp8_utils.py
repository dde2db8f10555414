"""float8 on the host: casts with a scale that is a power of two.

float8_143 has 4 bits of exponent (bias 8) and reaches 240, float8_152 has 5 (bias 16) and reaches
57344. Byte 0x80 is the only NaN; there are neither infinities nor a negative zero.
"""

from functools import cache

import numpy as np
from popxl import dtypes
from popxl.dtypes import dtype as dtype_class

_NAN = 0x80
_FORMATS = {dtypes.float8_143: (3, 8), dtypes.float8_152: (2, 16)}  # bits of mantissa, bias
_SCALES = range(-31, 32)


def is_float8(dtype: dtype_class) -> bool:
    """Whether it is float8_143 or float8_152."""
    return dtype in _FORMATS


@cache
def _values(dtype: dtype_class) -> np.ndarray:
    """The number that each byte stands for, float64."""
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
    """src · 2**log2_scale, rounded to the nearest float8 (ties to even).

    src: float16, float32 or float64. What is too large becomes NaN, or the largest number if not
    nan_on_overflow. Returns an array of `dtype.as_numpy()`. ValueError for another dtype;
    TypeError for other data.
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
    code = np.where((size >= positive[127] + step / 2) & nan_on_overflow, _NAN, code)
    signed = np.where((scaled < 0) & (code > 0) & (code < _NAN), code + 128, code)
    signed = np.where(np.isnan(scaled), _NAN, signed).astype(np.uint8)
    return signed.view(dtype.as_numpy()).reshape(src.shape)


def host_pow2scale_cast_from_fp8(
    src: np.ndarray, dtype: dtype_class, log2_scale: int = 0
) -> np.ndarray:
    """float8 as `dtype`, then times 2**log2_scale.

    src: of float8's NumPy type. ValueError for other data.
    """
    kind = dtype_class.as_dtype(src)
    codes = np.ascontiguousarray(src).view(np.uint8).reshape(src.shape)
    plain = _values(kind)[codes].astype(dtype.as_numpy())
    return np.ldexp(plain, log2_scale).astype(dtype.as_numpy())


def host_fp8_mse_scale(src: np.ndarray, dtype: dtype_class) -> tuple[float, int]:
    """The scale of [-31, 31] by which float8 keeps `src` best: (mean squared error, log2_scale)."""
    src = np.asarray(src, np.float64)
    found = []
    for scale in _SCALES:
        there = host_pow2scale_cast_to_fp8(src, dtype, scale, nan_on_overflow=False)
        back = host_pow2scale_cast_from_fp8(there, dtypes.float64, -scale)
        found.append((float(np.mean((back - src) ** 2)), scale))
    return min(found)


def host_fp8_mse_scale_pb(src: np.ndarray, dtype: dtype_class) -> int:
    """The scale that `host_fp8_mse_scale` finds."""
    return host_fp8_mse_scale(src, dtype)[1]
