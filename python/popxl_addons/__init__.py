"""Modules with state, named collections, and transforms on top of popxl."""

from poptorch_core import versions as _versions
from popxl_addons import (
    array_munging as array_munging,
    debugging as debugging,
    layers as layers,
    named_replica_grouping as named_replica_grouping,
    ops as ops,
    optimizers as optimizers,
    patterns as patterns,
    performance_utils as performance_utils,
    rts as rts,
    testing_utils as testing_utils,
    transforms as transforms,
    utils as utils,
)
from popxl_addons.array_munging import (
    handle_negative_axis as handle_negative_axis,
    pad_axis as pad_axis,
    repeat as repeat,
    repeat_axis as repeat_axis,
    repeat_shard as repeat_shard,
    shard as shard,
    shard2D as shard2D,
    split2D as split2D,
    squeeze_safe as squeeze_safe,
    tensor_parallel_input as tensor_parallel_input,
    tensor_parallel_output as tensor_parallel_output,
    unshard as unshard,
    unshard2D as unshard2D,
    unshard_arrays as unshard_arrays,
)
from popxl_addons.debugging import print_tensor as print_tensor, print_text as print_text
from popxl_addons.dot_tree import (
    DotTree as DotTree,
    sanitise as sanitise,
    to_mapping as to_mapping,
)
from popxl_addons.graph import BoundGraph as BoundGraph, GraphWithNamedArgs as GraphWithNamedArgs
from popxl_addons.graph_cache import GraphCache as GraphCache, function as function
from popxl_addons.module import Module as Module
from popxl_addons.named_replica_grouping import NamedReplicaGrouping as NamedReplicaGrouping
from popxl_addons.named_tensors import (
    NamedRemoteBuffers as NamedRemoteBuffers,
    NamedTensorData as NamedTensorData,
    NamedTensors as NamedTensors,
    TensorMap as TensorMap,
    print_named_tensors as print_named_tensors,
)
from popxl_addons.ops import (
    cross_entropy as cross_entropy,
    cross_entropy_with_grad as cross_entropy_with_grad,
    fp8_amax_scale as fp8_amax_scale,
    host_load as host_load,
    host_store as host_store,
)
from popxl_addons.optimizers import AdamOptimizerStep as AdamOptimizerStep
from popxl_addons.performance_utils import (
    evaluate_FLOPs as evaluate_FLOPs,
    evaluate_ir_FLOPs as evaluate_ir_FLOPs,
    format_flops_scientific as format_flops_scientific,
    print_FLOPs as print_FLOPs,
    total_FLOPs as total_FLOPs,
)
from popxl_addons.remote import (
    create_remote_buffer as create_remote_buffer,
    load_remote as load_remote,
    load_remote_graph as load_remote_graph,
    named_buffers as named_buffers,
    named_variable_buffers as named_variable_buffers,
    store_remote as store_remote,
    store_remote_graph as store_remote_graph,
)
from popxl_addons.route_tensor import (
    is_subgraph as is_subgraph,
    route_tensor_into_graph as route_tensor_into_graph,
)
from popxl_addons.rts import (
    all_gather_replica_sharded_graph as all_gather_replica_sharded_graph,
    gather_replica_sharded_tensor as gather_replica_sharded_tensor,
    reduce_replica_sharded_graph as reduce_replica_sharded_graph,
    reduce_replica_sharded_tensor as reduce_replica_sharded_tensor,
    replica_sharded_spec as replica_sharded_spec,
)
from popxl_addons.seed_variable import seed_variable as seed_variable
from popxl_addons.streams import InputStreams as InputStreams, OutputStreams as OutputStreams
from popxl_addons.task_session import TaskSession as TaskSession
from popxl_addons.transforms import (
    BatchSerialResult as BatchSerialResult,
    RemoteHandle as RemoteHandle,
    autodiff as autodiff,
    autodiff_with_accumulation as autodiff_with_accumulation,
    batch_serial_buffer as batch_serial_buffer,
    batch_serialise as batch_serialise,
    batch_serialise_fwd_and_grad as batch_serialise_fwd_and_grad,
    batch_serialise_non_overlapped as batch_serialise_non_overlapped,
    batch_serialise_overlapped as batch_serialise_overlapped,
    disable_fc_pass as disable_fc_pass,
    enable_fc_pass as enable_fc_pass,
    pipelined_execution as pipelined_execution,
    recompute_graph as recompute_graph,
    remap_grad_info as remap_grad_info,
    set_available_memory_proportion_by_ipu as set_available_memory_proportion_by_ipu,
    set_graph_available_memory_proportion_by_ipu as set_graph_available_memory_proportion_by_ipu,
)
from popxl_addons.utils import (
    OrderedDict as OrderedDict,
    WeightsDict as WeightsDict,
    duplicate_items as duplicate_items,
    null_context as null_context,
    overrides as overrides,
    suffix_graph_name as suffix_graph_name,
    timer as timer,
    write_variables_pb as write_variables_pb,
)
from popxl_addons.variable_factory import (
    NamedVariableFactories as NamedVariableFactories,
    VariableFactory as VariableFactory,
    add_replica_sharded_variable_input as add_replica_sharded_variable_input,
    add_variable_input as add_variable_input,
)

GIT_COMMIT: str | None = None  # the source commit, which is not recorded

__version__ = _versions.VERSION
