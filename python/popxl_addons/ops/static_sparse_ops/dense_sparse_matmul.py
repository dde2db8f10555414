"""Products of tensors with constant sparse matrices."""

from typing import Any

import numpy as np
import popxl
from popxl import ops


def dense_const_sparse_matmul(lhs: popxl.Tensor, rhs: Any, output_cols: int) -> popxl.Tensor:
    """Returns lhs @ rhs, of shape [..., output_cols], for a SciPy sparse matrix.

    The matrix becomes a dense constant: the emulated IPU does not have sparse ones.

    Args:
        lhs: [..., m, k].
        rhs: [k, output_cols], e.g. a csr_matrix.
        output_cols: The columns of rhs.

    Raises:
        RuntimeError: lhs is neither float16 nor float32.
        ValueError: The sizes do not fit.
    """
    if lhs.dtype not in (popxl.float16, popxl.float32):
        raise RuntimeError(f"dense_const_sparse_matmul takes float16 or float32 but got {lhs!r}.")
    if lhs.rank < 2 or tuple(rhs.shape) != (lhs.shape[-1], output_cols):
        raise ValueError(
            f"{lhs!r} of at least two dimensions needs a matrix of shape "
            f"{(lhs.shape[-1:] + (output_cols,))} but got {tuple(rhs.shape)}."
        )
    return ops.matmul(lhs, popxl.constant(rhs.toarray(), lhs.dtype))


def random_sparse(dense: np.ndarray, density: float = 0.5) -> np.ndarray:
    """Keeps each element of `dense` with probability `density`; the others become 0.

    At least one is kept. Works in place, and returns the array.
    """
    kept = np.random.random_sample(dense.shape) < density
    if dense.size and not kept.any():
        kept.flat[np.random.randint(dense.size)] = True
    dense[~kept] = 0
    return dense
