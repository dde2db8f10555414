"""Ops composed of popxl's ops. Most are in separate packages: `popxl_addons.ops.<name>`."""

from popxl_addons.ops.cross_entropy import (
    cross_entropy as cross_entropy,
    cross_entropy_with_grad as cross_entropy_with_grad,
)
from popxl_addons.ops.fp8_amax_scale import fp8_amax_scale as fp8_amax_scale
from popxl_addons.ops.streams import host_load as host_load, host_store as host_store
