"""Modules with state, named collections, and transforms on top of popxl."""

from popxl_addons import (
    array_munging as array_munging,
    layers as layers,
    named_replica_grouping as named_replica_grouping,
    ops as ops,
    patterns as patterns,
    rts as rts,
    testing_utils as testing_utils,
    transforms as transforms,
    utils as utils,
)
from popxl_addons.dot_tree import DotTree as DotTree
from popxl_addons.flops import (
    evaluate_FLOPs as evaluate_FLOPs,
    print_FLOPs as print_FLOPs,
    total_FLOPs as total_FLOPs,
)
from popxl_addons.graph import BoundGraph as BoundGraph, GraphWithNamedArgs as GraphWithNamedArgs
from popxl_addons.graph_cache import GraphCache as GraphCache, function as function
from popxl_addons.hardware import (
    disable_fc_pass as disable_fc_pass,
    enable_fc_pass as enable_fc_pass,
    set_available_memory_proportion_by_ipu as set_available_memory_proportion_by_ipu,
)
from popxl_addons.module import Module as Module
from popxl_addons.named_tensors import (
    NamedRemoteBuffers as NamedRemoteBuffers,
    NamedReplicaGrouping as NamedReplicaGrouping,
    NamedTensorData as NamedTensorData,
    NamedTensors as NamedTensors,
    print_named_tensors as print_named_tensors,
)
from popxl_addons.optimiser import AdamOptimizerStep as AdamOptimizerStep
from popxl_addons.remote import (
    create_remote_buffer as create_remote_buffer,
    load_remote as load_remote,
    load_remote_graph as load_remote_graph,
    named_buffers as named_buffers,
    named_variable_buffers as named_variable_buffers,
    store_remote as store_remote,
    store_remote_graph as store_remote_graph,
)
from popxl_addons.remote_handle import (
    RemoteHandle as RemoteHandle,
    batch_serial_buffer as batch_serial_buffer,
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
from popxl_addons.streams import InputStreams as InputStreams, OutputStreams as OutputStreams
from popxl_addons.task_session import TaskSession as TaskSession
from popxl_addons.transforms import (
    BatchSerialResult as BatchSerialResult,
    autodiff as autodiff,
    autodiff_with_accumulation as autodiff_with_accumulation,
    batch_serialise as batch_serialise,
    batch_serialise_fwd_and_grad as batch_serialise_fwd_and_grad,
    pipelined_execution as pipelined_execution,
    recompute_graph as recompute_graph,
    remap_grad_info as remap_grad_info,
    repeat_graph as repeat_graph,
)
from popxl_addons.utils import (
    OrderedDict as OrderedDict,
    WeightsDict as WeightsDict,
    print_tensor as print_tensor,
    print_text as print_text,
    seed_variable as seed_variable,
    timer as timer,
    write_variables_pb as write_variables_pb,
)
from popxl_addons.variable_factory import (
    NamedVariableFactories as NamedVariableFactories,
    VariableFactory as VariableFactory,
)
