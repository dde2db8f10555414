"""Modules with state, named collections, and transforms on top of popxl."""

from popxl_addons import (
    array_munging,
    layers,
    named_replica_grouping,
    ops,
    patterns,
    rts,
    testing_utils,
    transforms,
    utils,
)
from popxl_addons.dot_tree import DotTree
from popxl_addons.flops import evaluate_FLOPs, print_FLOPs, total_FLOPs
from popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from popxl_addons.graph_cache import GraphCache, function
from popxl_addons.hardware import (
    disable_fc_pass,
    enable_fc_pass,
    set_available_memory_proportion_by_ipu,
)
from popxl_addons.module import Module
from popxl_addons.named_tensors import (
    NamedRemoteBuffers,
    NamedReplicaGrouping,
    NamedTensorData,
    NamedTensors,
    print_named_tensors,
)
from popxl_addons.optimiser import AdamOptimizerStep
from popxl_addons.remote import (
    create_remote_buffer,
    load_remote,
    load_remote_graph,
    named_buffers,
    named_variable_buffers,
    store_remote,
    store_remote_graph,
)
from popxl_addons.remote_handle import RemoteHandle, batch_serial_buffer
from popxl_addons.route_tensor import is_subgraph, route_tensor_into_graph
from popxl_addons.rts import (
    all_gather_replica_sharded_graph,
    gather_replica_sharded_tensor,
    reduce_replica_sharded_graph,
    reduce_replica_sharded_tensor,
    replica_sharded_spec,
)
from popxl_addons.streams import InputStreams, OutputStreams
from popxl_addons.task_session import TaskSession
from popxl_addons.transforms import (
    BatchSerialResult,
    autodiff,
    autodiff_with_accumulation,
    batch_serialise,
    batch_serialise_fwd_and_grad,
    pipelined_execution,
    recompute_graph,
    remap_grad_info,
    repeat_graph,
)
from popxl_addons.utils import (
    OrderedDict,
    WeightsDict,
    print_tensor,
    print_text,
    seed_variable,
    timer,
    write_variables_pb,
)
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory
