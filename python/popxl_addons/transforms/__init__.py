"""Transforms of graphs."""

from popxl_addons.transforms import repeat_graph as repeat_graph
from popxl_addons.transforms.autodiff import (
    autodiff as autodiff,
    autodiff_with_accumulation as autodiff_with_accumulation,
    remap_grad_info as remap_grad_info,
)
from popxl_addons.transforms.available_memory_proportion import (
    set_available_memory_proportion_by_ipu as set_available_memory_proportion_by_ipu,
    set_graph_available_memory_proportion_by_ipu as set_graph_available_memory_proportion_by_ipu,
)
from popxl_addons.transforms.batch_serialisation import (
    BatchSerialResult as BatchSerialResult,
    RemoteHandle as RemoteHandle,
    batch_serial_buffer as batch_serial_buffer,
    batch_serialise as batch_serialise,
    batch_serialise_fwd_and_grad as batch_serialise_fwd_and_grad,
    batch_serialise_non_overlapped as batch_serialise_non_overlapped,
    batch_serialise_overlapped as batch_serialise_overlapped,
)
from popxl_addons.transforms.pipelining import (
    Pipelining as Pipelining,
    pipelined_execution as pipelined_execution,
)
from popxl_addons.transforms.recomputation import recompute_graph as recompute_graph
from popxl_addons.transforms.use_fc_pass import (
    disable_fc_pass as disable_fc_pass,
    enable_fc_pass as enable_fc_pass,
)
