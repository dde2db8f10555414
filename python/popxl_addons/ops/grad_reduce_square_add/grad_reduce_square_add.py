"""The sum of the squares of a scaled gradient."""

import popxl
from popxl import ops


def grad_reduce_square_add(
    t: popxl.Tensor, loss_scaling: "popxl.Tensor | float" = 1.0
) -> popxl.Tensor:
    """Returns the sum of (t / loss_scaling)², a float32 scalar."""
    wide = t if t.dtype is popxl.float32 else ops.cast(t, popxl.float32)
    if isinstance(loss_scaling, popxl.Tensor) and loss_scaling.dtype is not popxl.float32:
        loss_scaling = ops.cast(loss_scaling, popxl.float32)
    if isinstance(loss_scaling, popxl.Tensor) or loss_scaling != 1.0:
        wide = wide / loss_scaling
    return ops.identity(ops.sumsquare(wide), "grad_reduced")
