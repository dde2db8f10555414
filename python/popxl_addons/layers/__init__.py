"""Layers as modules."""

from popxl_addons.layers.conv import Conv2D
from popxl_addons.layers.embedding import Embedding
from popxl_addons.layers.linear import Linear
from popxl_addons.layers.norm import GroupNorm, LayerNorm, LayerNormDistributed
from popxl_addons.layers.quantised import LinearFP8, LinearGQ
