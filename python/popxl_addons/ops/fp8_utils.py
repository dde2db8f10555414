"""Floating-point formats: how many bits they have, and what numbers these reach."""

from typing import NamedTuple

import popxl
from popxl.fp8_utils import is_float8


class FpDef(NamedTuple):
    """A format. fix_exponent_bias is taken from the bits of the exponent; max_exp and min_exp are
    exponents of the largest and the smallest number, that with denormals if there are any."""

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
    """The format of a float8 dtype. TypeError for another."""
    if not is_float8(fp8_format):
        raise TypeError(f"float8_143 or float8_152 is needed but got {fp8_format}.")
    return float8_143_def if fp8_format is popxl.float8_143 else float8_152_def


def check_source(src: popxl.Tensor) -> None:
    """RuntimeError unless a tensor is of float16 or float32: what float8 scales are found for."""
    if src.dtype not in (popxl.float16, popxl.float32):
        raise RuntimeError(f"Scales for float8 are found for float16 or float32, not for {src!r}.")
