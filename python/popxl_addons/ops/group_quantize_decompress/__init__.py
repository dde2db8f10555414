"""Weights of 4 bits."""

from popxl_addons.ops.group_quantize_decompress.group_quantize_decompress import (
    group_quantize_compress_numpy as group_quantize_compress_numpy,
    group_quantize_decompress as group_quantize_decompress,
    group_quantize_decompress_numpy as group_quantize_decompress_numpy,
)
