"""The scale by which float8 keeps a tensor best."""

from popxl_addons.ops.fp8_mse_scale.fp8_mse_scale import (
    fp8_mse_scale as fp8_mse_scale,
)
