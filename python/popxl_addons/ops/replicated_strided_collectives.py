"""Collectives whose groups may have a stride: popxl's take any constant one by themselves."""

from popxl.ops.collectives import (
    replicated_all_gather as replicated_all_gather_strided,
    replicated_all_reduce as replicated_all_reduce_strided,
    replicated_all_reduce_ as replicated_all_reduce_strided_,
    replicated_reduce_scatter as replicated_reduce_scatter_strided,
)
from popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce_identical_grad_inputs as replicated_all_reduce_strided_identical_grad_inputs,  # noqa: E501
    replicated_all_reduce_identical_inputs as replicated_all_reduce_strided_identical_inputs,
)

__all__ = [
    "replicated_all_gather_strided",
    "replicated_all_reduce_strided",
    "replicated_all_reduce_strided_",
    "replicated_all_reduce_strided_identical_grad_inputs",
    "replicated_all_reduce_strided_identical_inputs",
    "replicated_reduce_scatter_strided",
]
