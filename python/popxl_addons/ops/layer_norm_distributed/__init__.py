"""Layer normalisation of rows that are spread over replicas."""

from popxl_addons.ops.layer_norm_distributed.layer_norm_distributed import (
    layer_norm_distributed as layer_norm_distributed,
)
