"""Graphs made from graphs."""

from popxl_addons.transforms.accumulation import autodiff_with_accumulation
from popxl_addons.transforms.autodiff import autodiff, remap_grad_info
from popxl_addons.transforms.batch_serialisation import (
    BatchSerialResult,
    batch_serialise,
    batch_serialise_fwd_and_grad,
)
from popxl_addons.transforms.pipelining import Pipelining, pipelined_execution
from popxl_addons.transforms.recomputation import recompute_graph
from popxl_addons.transforms.repeat import repeat_graph
