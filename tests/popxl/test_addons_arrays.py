"""Arrays are divided for replicas and joined again."""

import numpy as np
import pytest
from popxl_addons import array_munging as munging

X = np.arange(24.0).reshape(4, 6)
PAIRS = [X[:2], X[2:]]
SAME = [
    (lambda: munging.shard(X, 3, 1), np.split(X, 3, 1)),
    (lambda: munging.unshard(munging.shard(X, 3, 1), 1), X),
    (lambda: munging.unshard_arrays([x[None] for x in PAIRS], 0), X),
    (lambda: munging.unshard_arrays([X[None, :, :2], X[None, :, 2:]], -1), X),
    (lambda: munging.shard2D(X, n_1=2, n_2=3, axis_1=0, axis_2=1)[4], X[2:, 2:4]),
    (lambda: munging.split2D(X, 2, 3, 0, 1)[1][1], X[2:, 2:4]),
    (lambda: munging.unshard2D(munging.shard2D(X, 2, 3, 0, 1), 2, 3, 0, 1), X),
    (lambda: munging.repeat(X, 2), np.stack([X, X])),
    (lambda: munging.repeat(X, 2, 1), np.stack([X, X], 1)),
    (lambda: munging.repeat_axis(X, 3, 1), np.tile(X, (1, 3))),
    (lambda: munging.repeat_shard(X, 2, 2, 0), PAIRS * 2),
    (lambda: munging.repeat_shard(X, 2, 2, 0, "strided"), [PAIRS[0]] * 2 + [PAIRS[1]] * 2),
    (lambda: munging.pad_axis(X, 8, 1, 5)[:, 6:], np.full((4, 2), 5)),
    (lambda: munging.squeeze_safe(X[:, None], [0, 1]), X),
    (lambda: munging.squeeze_safe(X[None, :, None]), X),
    (lambda: munging.squeeze_safe(X[..., None], -1), X),
    (lambda: munging.handle_negative_axis(X, -1), 1),
    (lambda: munging.handle_negative_axis(X, 0), 0),
    # 4 samples for 2 transfers of 4 replicas in pairs; 1 transfer; 1 sample for all replicas.
    (lambda: munging.tensor_parallel_input(X, 2, 4), X[[0, 0, 1, 1, 2, 2, 3, 3]].reshape(2, 4, 6)),
    (lambda: munging.tensor_parallel_input(X, 2, 8), X[[0, 0, 1, 1, 2, 2, 3, 3]]),
    (lambda: munging.tensor_parallel_input(X, 1, 1), X),
    (
        lambda: munging.tensor_parallel_input(X, 2, 8, lambda x, i: x - 10 * i),
        np.stack([X, X - 10], 1).reshape(8, 6),
    ),
    (
        lambda: munging.tensor_parallel_output(
            munging.tensor_parallel_input(X, 2, 4), 2, 2, 4, (6,)
        ),
        X,
    ),
    (
        lambda: munging.tensor_parallel_output(
            np.stack([X, -X], 1).reshape(8, 6), 1, 2, 8, (6,), tp_identical=False
        ),
        np.stack([X, -X], 1),
    ),
    (
        lambda: munging.tensor_parallel_output(
            munging.tensor_parallel_input(X, 2, 4), 2, 2, 4, (6,), true_num_host_transfers=3
        ),
        X[:3],
    ),
]


@pytest.mark.parametrize("call, expected", SAME)
def test_arrays_are_cut_and_joined(call, expected):
    np.testing.assert_array_equal(call(), expected)


WRONG = [
    (ValueError, lambda: munging.shard(X, 4, 1)),
    (ValueError, lambda: munging.pad_axis(X, 3, 1)),
    (ValueError, lambda: munging.unshard_arrays([X[None], X], 0)),
    (ValueError, lambda: munging.unshard_arrays([X, X], 0)),
    (ValueError, lambda: munging.repeat_shard(X, 2, 2, 0, "other")),
    (ValueError, lambda: munging.tensor_parallel_input(X, 2, 7)),
    (ValueError, lambda: munging.tensor_parallel_input(X, 4, 2)),
    (ValueError, lambda: munging.tensor_parallel_input(X, 1, 3)),
    (ValueError, lambda: munging.tensor_parallel_output(X, 1, 3, 4, (6,))),
    (IndexError, lambda: munging.handle_negative_axis(X, 2)),
    (IndexError, lambda: munging.handle_negative_axis(X, -3)),
    (IndexError, lambda: munging.handle_negative_axis(np.float32(1), 0)),
]


@pytest.mark.parametrize("error, call", WRONG)
def test_what_does_not_fit_is_refused(error, call):
    with pytest.raises(error):
        call()
