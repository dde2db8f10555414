"""Floating-point formats: their bits and their ranges."""

from typing import NamedTuple

import popxl
from popxl.fp8_utils import is_float8


class FpDef(NamedTuple):
    """A format.

    Attributes:
        fix_exponent_bias: Subtracted from the exponent's bits.
        max_exp: The exponent of the largest number.
        min_exp: The exponent of the smallest number, including denormals if there are any.
    """

    num_exp_bits: int
    num_mantissa_bits: int
    fix_exponent_bias: int
    include_denorm: bool
    has_nans: bool
    max_value: float
    max_exp: int
    min_exp: int


ieee_fp32_no_denorms = FpDef(8, 23, 127, False, True, 3.4028235e38, 127, -126)
ieee_fp16_denorms = FpDef(5, 10, 15, True, True, 65504, 15, -14)
float8_152_def = FpDef(5, 2, 16, True, False, 57344, 15, -17)
float8_143_def = FpDef(4, 3, 8, True, False, 240, 7, -10)


def definition(fp8_format: popxl.dtype) -> FpDef:
    """Returns the format of a float8 dtype. Raises TypeError for another dtype."""
    if not is_float8(fp8_format):
        raise TypeError(f"The dtype must be float8_143 or float8_152 but is {fp8_format}.")
    return float8_143_def if fp8_format is popxl.float8_143 else float8_152_def


def check_source(src: popxl.Tensor) -> None:
    """Raises RuntimeError unless a tensor is of float16 or float32."""
    if src.dtype not in (popxl.float16, popxl.float32):
        raise RuntimeError(f"Scales for float8 need float16 or float32 tensors, not {src!r}.")
