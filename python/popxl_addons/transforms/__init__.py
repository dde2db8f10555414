"""Graphs made from graphs."""

from popxl_addons.transforms.accumulation import autodiff_with_accumulation
from popxl_addons.transforms.autodiff import autodiff, remap_grad_info
from popxl_addons.transforms.recomputation import recompute_graph
