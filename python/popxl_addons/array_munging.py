"""NumPy helpers that cut arrays for replicas and put them together again.

Where an axis is cut into n parts, its size must be a multiple of n: ValueError otherwise.
"""

from collections.abc import Callable, Sequence

import numpy as np


def handle_negative_axis(x: np.ndarray, axis: int) -> int:
    """The axis counted from 0. IndexError: out of range; a scalar has none."""
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"Axis {axis} is out of range for {x.ndim} dimensions.")
    return axis % x.ndim


def _check(x: np.ndarray, n: int, axis: int) -> None:
    if x.shape[axis] % n:
        raise ValueError(f"Axis {axis} of shape {x.shape} cannot be cut into {n} equal parts.")


def shard(x: np.ndarray, n: int, axis: int) -> np.ndarray:
    """[n, ...]: the parts of `x` along `axis`."""
    _check(x, n, axis)
    return np.stack(np.split(x, n, axis))


def unshard_arrays(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Parts, each with a leading dimension of 1, one behind the other along `axis` without it.

    ValueError: a part has no such dimension, or they differ in rank.
    """
    if len({x.ndim for x in arrays}) != 1 or any(x.shape[:1] != (1,) for x in arrays):
        shapes = [x.shape for x in arrays]
        raise ValueError(f"Parts of one rank with 1 in front are needed but got {shapes}.")
    return np.concatenate([x[0] for x in arrays], axis)


def unshard(x: np.ndarray, axis: int) -> np.ndarray:
    """The whole of parts [n, ...], one behind the other along `axis`: undoes `shard`."""
    return np.concatenate(list(x), axis)


def repeat(x: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
    """`n` copies of `x` along a new axis."""
    return np.repeat(np.expand_dims(x, axis), n, axis)


def repeat_axis(x: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
    """`n` copies of `x`, one behind the other along an axis."""
    return np.concatenate([x] * n, axis)


def split2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> list[list[np.ndarray]]:
    """n_1 rows of n_2 parts of `x`: cut along axis_1, and each part along axis_2."""
    _check(x, n_1, axis_1)
    _check(x, n_2, axis_2)
    return [np.split(part, n_2, axis_2) for part in np.split(x, n_1, axis_1)]


def shard2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> np.ndarray:
    """[n_1 · n_2, ...]: the parts of `split2D`, row by row."""
    return np.stack([part for row in split2D(x, n_1, n_2, axis_1, axis_2) for part in row])


def unshard2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> np.ndarray:
    """The whole of parts [n_1 · n_2, ...]: undoes `shard2D`."""
    rows = [np.concatenate(list(x[i * n_2 : (i + 1) * n_2]), axis_2) for i in range(n_1)]
    return np.concatenate(rows, axis_1)


def repeat_shard(
    x: np.ndarray,
    n_repeats: int,
    n_shards: int,
    shard_axis: int,
    sharded_tensor: str = "contiguous",
) -> np.ndarray:
    """[n_shards · n_repeats, ...]: the parts of `x` along shard_axis, several times.

    sharded_tensor: "contiguous": all parts, then all of them again; "strided": each part
    n_repeats times in a row. ValueError: another word.
    """
    parts = shard(x, n_shards, shard_axis)
    if sharded_tensor == "contiguous":
        return repeat_axis(parts, n_repeats)
    if sharded_tensor == "strided":
        return np.repeat(parts, n_repeats, 0)
    raise ValueError(f"sharded_tensor must be 'contiguous' or 'strided' but is {sharded_tensor!r}.")


def _check_groups(tp: int, rf: int) -> None:
    if tp < 1 or tp > rf or rf % tp:
        raise ValueError(f"{rf} replicas are no groups of {tp}.")


def tensor_parallel_input(
    input_data: np.ndarray,
    tp: int,
    rf: int,
    repeat_fn: "Callable[[np.ndarray, int], np.ndarray] | None" = None,
) -> np.ndarray:
    """Samples for `rf` replicas of which `tp` neighbours share one: [transfers, rf, ...].

    Each sample is there tp times; of the first two axes those of size 1 are dropped.
    input_data: [samples, ...]. repeat_fn: gets the samples [samples, 1, ...] and i, and gives the
    i-th copy of them. ValueError: tp does not divide rf, or rf / tp the samples.
    """
    _check_groups(tp, rf)
    data = np.expand_dims(input_data, 1)
    copies = [repeat_fn(data.copy(), i) if repeat_fn else data for i in range(tp)]
    data = np.concatenate(copies, 1)
    data = data.reshape(-1, rf, *data.shape[2:])
    return squeeze_safe(data, (0, 1))


def tensor_parallel_output(
    output_data: np.ndarray,
    num_host_transfers: int,
    tp: int,
    rf: int,
    data_shape: Sequence[int],
    tp_identical: bool = True,
    true_num_host_transfers: "int | None" = None,
) -> np.ndarray:
    """What replicas gave, sample by sample: undoes `tensor_parallel_input`.

    output_data: [num_host_transfers, rf, *data_shape], where axes of size 1 may be missing.
    tp_identical: whether the replicas that share a sample gave the same, of which one is kept:
        [samples, *data_shape]; else [samples, tp, *data_shape].
    true_num_host_transfers: how many samples to keep, where the last ones only filled up.
    ValueError: tp does not divide rf, or the sizes do not fit.
    """
    _check_groups(tp, rf)
    data = np.reshape(output_data, (num_host_transfers * rf // tp, tp, *data_shape))
    data = data[:true_num_host_transfers]
    return data[:, 0] if tp_identical else data


def pad_axis(x: np.ndarray, n: int, axis: int, value: float = 0) -> np.ndarray:
    """`x` with `axis` filled up to size n by `value`. ValueError when it is larger already."""
    if x.shape[axis] > n:
        raise ValueError(f"Axis {axis} of shape {x.shape} is larger than {n}.")
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, n - x.shape[axis])
    return np.pad(x, widths, constant_values=value)


def squeeze_safe(x: np.ndarray, axis: "int | Sequence[int] | None" = None) -> np.ndarray:
    """`x` without those of the axes, by default all, that have size 1."""
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return np.squeeze(x, tuple(a for a in axes if x.shape[a] == 1))
