"""Layers as modules."""

from popxl_addons.layers.conv import Conv2D as Conv2D
from popxl_addons.layers.embedding import Embedding as Embedding
from popxl_addons.layers.linear import Linear as Linear
from popxl_addons.layers.norm import (
    GroupNorm as GroupNorm,
    LayerNorm as LayerNorm,
    LayerNormDistributed as LayerNormDistributed,
)
from popxl_addons.layers.quantised import LinearFP8 as LinearFP8, LinearGQ as LinearGQ
