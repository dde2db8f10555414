"""The names of popxl_addons that are not implemented here: asking for one says so.

docs/popxl.md lists them; a test holds both to the same list.
"""

from collections.abc import Callable
from typing import Any

from popxl.errors import unsupported

MISSING: dict[str, tuple[str, ...]] = {
    "popxl_addons": (
        *("NamedReplicaGrouping", "repeat_graph"),
        *("pipelined_execution", "batch_serialise", "batch_serialise_fwd_and_grad"),
        *("BatchSerialResult", "RemoteHandle", "batch_serial_buffer"),
        *("set_available_memory_proportion_by_ipu", "enable_fc_pass", "disable_fc_pass"),
        "patterns",
        "rts",
        *("named_replica_grouping", "AdamOptimizerStep", "TaskSession"),
        *("write_variables_pb", "seed_variable"),
        *("route_tensor_into_graph", "is_subgraph", "array_munging", "evaluate_FLOPs"),
        *("total_FLOPs", "print_FLOPs", "testing_utils", "WeightsDict", "OrderedDict", "timer"),
    ),
    "popxl_addons.layers": (
        *("Conv2D", "Embedding", "LayerNormDistributed", "LinearFP8", "LinearGQ"),
    ),
    "popxl_addons.ops": (
        *("fp8_amax_scale", "fp8_mse_scale", "cross_entropy_sharded_loss"),
        *("cross_entropy_sharded_wr_loss", "grad_reduce_square_add", "group_quantize_decompress"),
        *("layer_norm_distributed", "linear_layout", "replicated_all_reduce_TP"),
        *("replicated_strided_collectives", "rotary_pos_embed", "trig_tables"),
        *("static_sparse_ops",),
    ),
}


def refuse(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: UnsupportedError for a missing name, else AttributeError."""

    def getattribute(name: str) -> Any:
        if name in MISSING[module]:
            raise unsupported(f"{module}.{name}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return getattribute


__all__ = ["MISSING", "refuse", "unsupported"]
