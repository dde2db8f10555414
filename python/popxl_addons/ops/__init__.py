"""Ops made of popxl's."""

from popxl_addons.ops import (
    replicated_all_reduce_TP as replicated_all_reduce_TP,
    replicated_strided_collectives as replicated_strided_collectives,
    static_sparse_ops as static_sparse_ops,
    trig_tables as trig_tables,
)
from popxl_addons.ops.cross_entropy import (
    cross_entropy as cross_entropy,
    cross_entropy_with_grad as cross_entropy_with_grad,
)
from popxl_addons.ops.cross_entropy_sharded import (
    cross_entropy_sharded_loss as cross_entropy_sharded_loss,
    cross_entropy_sharded_wr_loss as cross_entropy_sharded_wr_loss,
)
from popxl_addons.ops.fp8 import fp8_amax_scale as fp8_amax_scale, fp8_mse_scale as fp8_mse_scale
from popxl_addons.ops.group_quantize import (
    group_quantize_compress_numpy as group_quantize_compress_numpy,
    group_quantize_decompress as group_quantize_decompress,
    group_quantize_decompress_numpy as group_quantize_decompress_numpy,
)
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed as layer_norm_distributed
from popxl_addons.ops.rotary import rotary_pos_embed as rotary_pos_embed
from popxl_addons.ops.small import (
    grad_reduce_square_add as grad_reduce_square_add,
    linear_layout as linear_layout,
)
from popxl_addons.ops.streams import host_load as host_load, host_store as host_store
