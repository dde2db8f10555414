"""A tensor laid out on the tiles in order."""

import popxl
from popxl import ops


def linear_layout(t: popxl.Tensor, bs: int = 1) -> popxl.Tensor:
    """Lays `t` out in blocks of `bs` elements on the tiles in order; the emulator copies `t`."""
    return ops.identity(t, t.name)
