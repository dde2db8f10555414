"""Ops and layers of popxl_addons refuse wrong arguments with a message that says why."""

import numpy as np
import popxl
import popxl_addons as addons
import pytest
from popxl_addons.ops.cross_entropy_sharded_loss import cross_entropy_sharded_loss
from popxl_addons.ops.cross_entropy_sharded_wr_loss import cross_entropy_sharded_wr_loss
from popxl_addons.ops.fp8_mse_scale import fp8_mse_scale
from popxl_addons.ops.group_quantize_decompress import group_quantize_decompress
from popxl_addons.ops.layer_norm_distributed import layer_norm_distributed
from popxl_addons.ops.rotary_pos_embed import rotary_pos_embed, trig_table_constants
from popxl_addons.ops.static_sparse_ops import dense_const_sparse_matmul
from program import ids, t

CASES = {
    "reduction of shards": (
        ValueError,
        "reduction",
        lambda: cross_entropy_sharded_loss(t(2, 3), ids(2), reduction="max"),
    ),
    "labels of shards": (
        ValueError,
        "labels",
        lambda: cross_entropy_sharded_loss(t(2, 3), ids(3)),
    ),
    "packed weights": (
        TypeError,
        "uint16",
        lambda: group_quantize_decompress(t(1, 1, 1), t(1, 1, 1), t(1, 1, 1)),
    ),
    "scales of packed weights": (
        ValueError,
        "scales",
        lambda: group_quantize_decompress(t(1, 2, 1, dtype=popxl.uint16), t(1, 1, 1), t(1, 1, 1)),
    ),
    "rank of packed weights": (
        NotImplementedError,
        "three dimensions",
        lambda: group_quantize_decompress(t(2, 1, dtype=popxl.uint16), t(1, 1), t(1, 1)),
    ),
    "axis of packed weights": (
        ValueError,
        "out of range",
        lambda: group_quantize_decompress(
            t(1, 2, 1, dtype=popxl.uint16), t(1, 2), t(1, 2, 1), dim=2
        ),
    ),
    "rank of a distributed norm": (
        AssertionError,
        "a matrix",
        lambda: layer_norm_distributed(t(2, 2, 3), t(3), t(3)),
    ),
    "scales of ints": (RuntimeError, "float16 or float32", lambda: fp8_mse_scale(ids(2))),
    "largest of ints": (
        RuntimeError,
        "float16 or float32",
        lambda: addons.ops.fp8_amax_scale(ids(2)),
    ),
    "scales for another format": (
        TypeError,
        "float8_143 or",
        lambda: fp8_mse_scale(t(2), popxl.float16),
    ),
    "sparse product of ints": (
        RuntimeError,
        "float16 or float32",
        lambda: dense_const_sparse_matmul(ids(2, 2), np.ones((2, 3)), 3),
    ),
    "size of a sparse product": (
        ValueError,
        "needs a matrix",
        lambda: dense_const_sparse_matmul(t(2, 2), np.ones((2, 3)), 4),
    ),
    "shards without labels": (
        ValueError,
        "as many tensors of labels",
        lambda: cross_entropy_sharded_wr_loss([t(2, 3), t(2, 3)], [ids(2)], [0, 1]),
    ),
    "labels on another IPU": (
        ValueError,
        "must be on IPU 1",
        lambda: cross_entropy_sharded_wr_loss([t(2, 3) + 0.0], [ids(2) + 0], [1]),
    ),
    "distributed scale": (
        ValueError,
        "must have shape",
        lambda: layer_norm_distributed(t(2, 3), t(2), t(3)),
    ),
    "odd angles": (
        ValueError,
        "even",
        lambda: trig_table_constants(2, 3),
    ),
    "angles": (
        ValueError,
        "do not fit",
        lambda: rotary_pos_embed(t(2, 4), t(3, 2), t(3, 2)),
    ),
    "rank of a group norm": (
        ValueError,
        "2 to 4 dimensions",
        lambda: addons.layers.GroupNorm(1).create_graph(t(4)),
    ),
}


@pytest.mark.parametrize("error, text, write", CASES.values(), ids=CASES)
def test_what_is_refused_says_why(error, text, write):
    with popxl.Ir().main_graph, pytest.raises(error, match=text):
        write()
