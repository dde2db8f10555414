"""Modules with state, named collections, and transforms on top of popxl."""

from popxl_addons import layers, ops, transforms
from popxl_addons.dot_tree import DotTree
from popxl_addons.graph import BoundGraph, GraphWithNamedArgs
from popxl_addons.graph_cache import GraphCache, function
from popxl_addons.missing import refuse
from popxl_addons.module import Module
from popxl_addons.named_tensors import (
    NamedRemoteBuffers,
    NamedTensorData,
    NamedTensors,
    print_named_tensors,
)
from popxl_addons.remote import (
    create_remote_buffer,
    load_remote,
    load_remote_graph,
    named_buffers,
    named_variable_buffers,
    store_remote,
    store_remote_graph,
)
from popxl_addons.streams import InputStreams, OutputStreams
from popxl_addons.transforms import (
    autodiff,
    autodiff_with_accumulation,
    recompute_graph,
    remap_grad_info,
)
from popxl_addons.variable_factory import NamedVariableFactories, VariableFactory

__getattr__ = refuse("popxl_addons")
