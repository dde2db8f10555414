"""Ops of a line or two."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import popxl
from popxl import ops


def linear_layout(t: popxl.Tensor) -> popxl.Tensor:
    """`t`, laid out on the tiles in order: on the emulator, `t` itself."""
    return ops.identity(t, t.name)


def grad_reduce_square_add(
    ts: Iterable[popxl.Tensor], loss_scaling: "popxl.Tensor | float" = 1.0
) -> popxl.Tensor:
    """The sum of the squares of all elements of gradients that were scaled: a float32 scalar.

    loss_scaling: what the gradients are divided by first. ValueError without gradients.
    """
    total = None
    for t in ts:
        wide = t if t.dtype is popxl.float32 else ops.cast(t, popxl.float32)
        square = ops.sumsquare(wide)
        total = square if total is None else total + square
    if total is None:
        raise ValueError("grad_reduce_square_add takes at least one tensor.")
    if isinstance(loss_scaling, popxl.Tensor) or loss_scaling != 1.0:
        return total / loss_scaling / loss_scaling
    return total


def dense_const_sparse_matmul(t: popxl.Tensor, sparse: Any) -> popxl.Tensor:
    """t @ sparse, for a sparse matrix that never changes.

    sparse: a SciPy sparse matrix, or (rows, columns, values, shape). It becomes a dense constant:
    the emulated IPU keeps no sparse ones. ValueError when the sizes do not fit.
    """
    if hasattr(sparse, "toarray"):
        dense = sparse.toarray()
    else:
        rows, columns, values, shape = sparse
        dense = np.zeros(shape, t.dtype.as_numpy())
        np.add.at(dense, (np.asarray(rows), np.asarray(columns)), values)
    return ops.matmul(t, popxl.constant(dense, t.dtype))
