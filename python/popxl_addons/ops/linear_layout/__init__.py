"""A tensor laid out on the tiles in order."""

from popxl_addons.ops.linear_layout.linear_layout import (
    linear_layout as linear_layout,
)
