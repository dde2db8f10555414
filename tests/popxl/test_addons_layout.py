"""Modules and names of popxl_addons can be imported by the paths that programs use."""

import importlib
from types import ModuleType

import popxl_addons as addons
import pytest

# Module → the names that programs import from it.
PATHS = {
    "dot_tree": "DotTree sanitise to_mapping",
    "named_tensors": "NamedTensorData NamedTensors TensorMap print_named_tensors",
    "remote": "NamedRemoteBuffers named_buffers named_variable_buffers create_remote_buffer "
    "load_remote_graph load_remote store_remote_graph store_remote",
    "variable_factory": "VariableFactory NamedVariableFactories add_variable_input "
    "add_replica_sharded_variable_input",
    "named_replica_grouping": "NamedReplicaGrouping fill_none_group get_instance_replica_grouping "
    "is_cross_instance get_ild_size_from_popdist get_ild_replica_grouping is_cross_ild",
    "module": "Module",
    "graph": "GraphWithNamedArgs BoundGraph",
    "graph_common": "GraphLike GradGraphInfoLike CalledGraphsGradInfoLike CalledGraphsGradInfo",
    "graph_cache": "GraphCache function",
    "route_tensor": "is_subgraph route_tensor_into_graph",
    "layers": "Embedding LayerNorm GroupNorm Linear Conv2D",
    "layers.embedding": "Embedding",
    "layers.layer_norm": "LayerNorm",
    "layers.group_norm": "GroupNorm",
    "layers.linear": "Linear",
    "layers.conv": "Conv2D",
    "layers.layer_norm_distributed": "LayerNormDistributed",
    "layers.linear_fp8": "LinearFP8",
    "layers.linear_gq": "LinearGQ",
    "optimizers": "AdamOptimizerStep",
    "optimizers.adam": "AdamOptimizerStep",
    "ops": "host_load host_store cross_entropy cross_entropy_with_grad fp8_amax_scale",
    "ops.cross_entropy": "cross_entropy cross_entropy_with_grad",
    "ops.streams": "host_load host_store",
    "ops.fp8_amax_scale": "fp8_amax_scale",
    "ops.fp8_utils": "FpDef ieee_fp32_no_denorms ieee_fp16_denorms float8_152_def float8_143_def",
    "ops.replicated_all_reduce_TP": "replicated_all_reduce "
    "replicated_all_reduce_identical_inputs replicated_all_reduce_identical_grad_inputs",
    "ops.static_sparse_ops": "dense_const_sparse_matmul",
    "ops.static_sparse_ops.dense_sparse_matmul": "dense_const_sparse_matmul random_sparse",
    "transforms": "autodiff autodiff_with_accumulation remap_grad_info recompute_graph "
    "batch_serialise batch_serialise_fwd_and_grad BatchSerialResult RemoteHandle "
    "batch_serialise_non_overlapped batch_serialise_overlapped "
    "batch_serial_buffer pipelined_execution set_available_memory_proportion_by_ipu "
    "enable_fc_pass disable_fc_pass set_graph_available_memory_proportion_by_ipu",
    "transforms.autodiff": "autodiff autodiff_with_accumulation remap_grad_info",
    "transforms.available_memory_proportion": "set_available_memory_proportion_by_ipu "
    "set_graph_available_memory_proportion_by_ipu",
    "transforms.use_fc_pass": "enable_fc_pass disable_fc_pass",
    "transforms.repeat_graph": "repeat_graph",
    "transforms.recomputation": "recompute_graph",
    "transforms.pipelining": "pipelined_execution",
    "transforms.batch_serialisation": "RemoteHandle BatchSerialResult batch_serial_buffer "
    "batch_serialise batch_serialise_fwd_and_grad batch_serialise_non_overlapped "
    "batch_serialise_overlapped",
    "performance_utils": "total_FLOPs evaluate_ir_FLOPs evaluate_FLOPs print_FLOPs "
    "format_flops_scientific",
    "seed_variable": "seed_variable",
    "debugging": "print_tensor print_text",
    "testing_utils": "ops_of_type TensorInput run_module",
    "utils": "timer OrderedDict WeightsDict null_context suffix_graph_name overrides "
    "duplicate_items",
    "patterns": "apply_pre_alias_patterns",
    "rts": "replica_sharded_spec gather_replica_sharded_tensor",
    "streams": "InputStreams OutputStreams",
    "task_session": "TaskSession",
    "array_munging": "shard unshard repeat repeat_axis split2D shard2D unshard2D repeat_shard "
    "tensor_parallel_input tensor_parallel_output pad_axis squeeze_safe unshard_arrays "
    "handle_negative_axis",
}
# Packages whose function is also in a module of the same name.
TWICE = (
    *("cross_entropy_sharded_loss", "cross_entropy_sharded_wr_loss", "fp8_mse_scale"),
    *("grad_reduce_square_add", "group_quantize_decompress", "layer_norm_distributed"),
    *("linear_layout", "rotary_pos_embed"),
)
STRIDED = (
    *("replicated_all_gather_strided", "replicated_all_reduce_strided"),
    "replicated_reduce_scatter_strided",
)
PATHS |= {f"ops.{name}": name for name in TWICE}
PATHS |= {f"ops.{name}.{name}": name for name in TWICE}
PATHS["ops.replicated_all_reduce_TP.replicated_all_reduce_TP"] = PATHS[
    "ops.replicated_all_reduce_TP"
]
PATHS["ops.replicated_strided_collectives"] = " ".join(STRIDED)
PATHS |= {f"ops.replicated_strided_collectives.{name}": name for name in STRIDED}
# Modules whose names the package also has.
AT_THE_TOP = (
    *("module", "graph_cache", "remote", "route_tensor", "ops", "transforms", "seed_variable"),
    *("streams", "task_session", "performance_utils", "debugging", "array_munging"),
    *("variable_factory", "named_tensors", "graph", "dot_tree"),
)


@pytest.mark.parametrize("path", PATHS)
def test_names_are_imported_by_path(path):
    module = importlib.import_module(f"popxl_addons.{path}")
    for name in PATHS[path].split():
        assert not isinstance(getattr(module, name), ModuleType), name


@pytest.mark.parametrize("path", AT_THE_TOP)
def test_names_are_the_packages_too(path):
    module = importlib.import_module(f"popxl_addons.{path}")
    for name in PATHS[path].split():
        assert getattr(addons, name) is getattr(module, name)


@pytest.mark.parametrize("path", [p for p in PATHS if p.startswith("transforms.")])
def test_names_of_transforms_are_their_packages(path):
    module = importlib.import_module(f"popxl_addons.{path}")
    for name in set(PATHS[path].split()) - {"repeat_graph"}:
        assert getattr(addons.transforms, name) is getattr(module, name)


def test_repeat_graph_is_a_module_of_the_transforms():
    assert isinstance(addons.transforms.repeat_graph, ModuleType)
    assert addons.GIT_COMMIT is None or isinstance(addons.GIT_COMMIT, str)
    assert addons.OrderedDict is addons.utils.OrderedDict
