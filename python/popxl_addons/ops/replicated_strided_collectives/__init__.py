"""Collectives over groups of replicas with a stride."""

from popxl_addons.ops.replicated_strided_collectives.replicated_all_gather_strided import (
    replicated_all_gather_strided as replicated_all_gather_strided,
)
from popxl_addons.ops.replicated_strided_collectives.replicated_all_reduce_strided import (
    replicated_all_reduce_strided as replicated_all_reduce_strided,
    replicated_all_reduce_strided_graph as replicated_all_reduce_strided_graph,
    replicated_all_reduce_strided_identical_grad_inputs as replicated_all_reduce_strided_identical_grad_inputs,  # noqa: E501
    replicated_all_reduce_strided_identical_inputs as replicated_all_reduce_strided_identical_inputs,  # noqa: E501
)
from popxl_addons.ops.replicated_strided_collectives.replicated_reduce_scatter_strided import (
    replicated_reduce_scatter_strided as replicated_reduce_scatter_strided,
)
