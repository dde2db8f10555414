"""Graphs made from graphs."""

from popxl_addons.transforms.autodiff import autodiff, remap_grad_info
