"""Graphs made from graphs."""

from popxl_addons.transforms.accumulation import (
    autodiff_with_accumulation as autodiff_with_accumulation,
)
from popxl_addons.transforms.autodiff import (
    autodiff as autodiff,
    remap_grad_info as remap_grad_info,
)
from popxl_addons.transforms.batch_serialisation import (
    BatchSerialResult as BatchSerialResult,
    batch_serialise as batch_serialise,
    batch_serialise_fwd_and_grad as batch_serialise_fwd_and_grad,
)
from popxl_addons.transforms.pipelining import (
    Pipelining as Pipelining,
    pipelined_execution as pipelined_execution,
)
from popxl_addons.transforms.recomputation import recompute_graph as recompute_graph
from popxl_addons.transforms.repeat import repeat_graph as repeat_graph
