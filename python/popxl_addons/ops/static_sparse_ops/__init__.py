"""Products with constant sparse matrices."""

from popxl_addons.ops.static_sparse_ops.dense_sparse_matmul import (
    dense_const_sparse_matmul as dense_const_sparse_matmul,
    random_sparse as random_sparse,
)
