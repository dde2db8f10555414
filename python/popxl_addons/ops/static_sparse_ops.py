"""Products with sparse matrices that never change."""

from popxl_addons.ops.small import dense_const_sparse_matmul

__all__ = ["dense_const_sparse_matmul"]
