"""Layers as modules."""

from popxl_addons.layers.linear import Linear
from popxl_addons.layers.norm import GroupNorm, LayerNorm
from popxl_addons.missing import refuse

__getattr__ = refuse("popxl_addons.layers")
