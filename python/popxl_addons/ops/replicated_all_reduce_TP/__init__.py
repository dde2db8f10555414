"""All-reduces for layers that are spread over replicas."""

from popxl_addons.ops.replicated_all_reduce_TP.replicated_all_reduce_TP import (
    replicated_all_reduce as replicated_all_reduce,
    replicated_all_reduce_identical_grad_inputs as replicated_all_reduce_identical_grad_inputs,
    replicated_all_reduce_identical_inputs as replicated_all_reduce_identical_inputs,
)
