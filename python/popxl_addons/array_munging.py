"""NumPy helpers that split arrays for replicas and join them again.

Splitting an axis into n parts raises ValueError unless its size is a multiple of n.
"""

from collections.abc import Callable, Sequence

import numpy as np


def handle_negative_axis(x: np.ndarray, axis: int) -> int:
    """Returns the axis counted from 0. Raises IndexError if out of range, also for a scalar.

    Args:
        x: The array.
        axis: The axis; negative numbers count from the end.
    """
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"Axis {axis} is out of range for {x.ndim} dimensions.")
    return axis % x.ndim


def _check(x: np.ndarray, n: int, axis: int) -> None:
    if x.shape[axis] % n:
        raise ValueError(f"Axis {axis} of shape {x.shape} cannot be cut into {n} equal parts.")


def shard(x: np.ndarray, n: int, axis: int) -> np.ndarray:
    """Returns the n parts of `x` along `axis` as [n, ...].

    Args:
        x: The array.
        n: The number of parts.
        axis: The axis; negative numbers count from the end.
    """
    _check(x, n, axis)
    return np.stack(np.split(x, n, axis))


def unshard_arrays(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Concatenates parts [1, ...] along `axis`, without their leading dimension.

    Args:
        arrays: The parts.
        axis: The axis; negative numbers count from the end.

    Raises:
        ValueError: A part does not have such a dimension, or they differ in rank.
    """
    if len({x.ndim for x in arrays}) != 1 or any(x.shape[:1] != (1,) for x in arrays):
        shapes = [x.shape for x in arrays]
        raise ValueError(f"The parts must have equal ranks and a first size of 1: {shapes}.")
    return np.concatenate([x[0] for x in arrays], axis)


def unshard(x: np.ndarray, axis: int) -> np.ndarray:
    """Concatenates parts [n, ...] along `axis`: the inverse of `shard`.

    Args:
        x: The parts.
        axis: The axis; negative numbers count from the end.
    """
    return np.concatenate(list(x), axis)


def repeat(x: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
    """Returns `n` copies of `x` along a new axis.

    Args:
        x: The array.
        n: The number of copies.
        axis: The axis; negative numbers count from the end.
    """
    return np.repeat(np.expand_dims(x, axis), n, axis)


def repeat_axis(x: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
    """Returns `n` copies of `x`, concatenated along an axis.

    Args:
        x: The array.
        n: The number of copies.
        axis: The axis; negative numbers count from the end.
    """
    return np.concatenate([x] * n, axis)


def split2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> list[list[np.ndarray]]:
    """Splits `x` along axis_1 and each part along axis_2: n_1 rows of n_2 parts.

    Args:
        x: The array.
        n_1: The number of parts along `axis_1`.
        n_2: The number of parts along `axis_2`.
        axis_1: The first axis.
        axis_2: The second axis.
    """
    _check(x, n_1, axis_1)
    _check(x, n_2, axis_2)
    return [np.split(part, n_2, axis_2) for part in np.split(x, n_1, axis_1)]


def shard2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> np.ndarray:
    """Returns the parts of `split2D`, row by row, as [n_1 · n_2, ...].

    Args:
        x: The array.
        n_1: The number of parts along `axis_1`.
        n_2: The number of parts along `axis_2`.
        axis_1: The first axis.
        axis_2: The second axis.
    """
    return np.stack([part for row in split2D(x, n_1, n_2, axis_1, axis_2) for part in row])


def unshard2D(x: np.ndarray, n_1: int, n_2: int, axis_1: int, axis_2: int) -> np.ndarray:
    """Joins parts [n_1 · n_2, ...]: the inverse of `shard2D`.

    Args:
        x: The parts.
        n_1: The number of parts along `axis_1`.
        n_2: The number of parts along `axis_2`.
        axis_1: The first axis.
        axis_2: The second axis.
    """
    rows = [np.concatenate(list(x[i * n_2 : (i + 1) * n_2]), axis_2) for i in range(n_1)]
    return np.concatenate(rows, axis_1)


def repeat_shard(
    x: np.ndarray,
    n_repeats: int,
    n_shards: int,
    shard_axis: int,
    sharded_tensor: str = "contiguous",
) -> np.ndarray:
    """Returns the parts of `x` along shard_axis, repeated: [n_shards · n_repeats, ...].

    Args:
        x: The array.
        n_repeats: The number of repetitions.
        n_shards: The number of parts.
        shard_axis: The axis.
        sharded_tensor: "contiguous" repeats the sequence of parts, "strided" each part.

    Raises:
        ValueError: sharded_tensor is another one.
    """
    parts = shard(x, n_shards, shard_axis)
    if sharded_tensor == "contiguous":
        return repeat_axis(parts, n_repeats)
    if sharded_tensor == "strided":
        return np.repeat(parts, n_repeats, 0)
    raise ValueError(f"sharded_tensor must be 'contiguous' or 'strided' but is {sharded_tensor!r}.")


def _check_groups(tp: int, rf: int) -> None:
    if tp < 1 or tp > rf or rf % tp:
        raise ValueError(f"{rf} replicas cannot form groups of {tp}.")


def tensor_parallel_input(
    input_data: np.ndarray,
    tp: int,
    rf: int,
    repeat_fn: "Callable[[np.ndarray, int], np.ndarray] | None" = None,
) -> np.ndarray:
    """Returns samples for replicas as [transfers, rf, ...], without these axes if of size 1.

    Each sample is repeated for its tp replicas.

    Args:
        input_data: [samples, ...].
        tp: The number of neighbouring replicas that share a sample.
        rf: The number of replicas.
        repeat_fn: Maps the samples [samples, 1, ...] and i to their i-th copy.

    Raises:
        ValueError: tp does not divide rf, or rf / tp does not divide the samples.
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
    """Returns replicas' outputs by sample: the inverse of `tensor_parallel_input`.

    Args:
        output_data: [num_host_transfers, rf, *data_shape]; axes of size 1 may be missing.
        num_host_transfers: The number of transfers.
        tp: The number of neighbouring replicas that share a sample.
        rf: The number of replicas.
        data_shape: The shape of a sample's output.
        tp_identical: Whether the replicas that share a sample returned equal outputs.
        true_num_host_transfers: The number of samples to keep, if the last ones are padding.

    Returns:
        [samples, *data_shape] with tp_identical, else [samples, tp, *data_shape].

    Raises:
        ValueError: tp does not divide rf, or the sizes do not fit.
    """
    _check_groups(tp, rf)
    data = np.reshape(output_data, (num_host_transfers * rf // tp, tp, *data_shape))
    data = data[:true_num_host_transfers]
    return data[:, 0] if tp_identical else data


def pad_axis(x: np.ndarray, n: int, axis: int, value: float = 0) -> np.ndarray:
    """Pads `axis` of `x` to size n with `value`. Raises ValueError if the axis is larger.

    Args:
        x: The array.
        n: The size after padding.
        axis: The axis; negative numbers count from the end.
        value: The value of the new elements.
    """
    if x.shape[axis] > n:
        raise ValueError(f"Axis {axis} of shape {x.shape} is larger than {n}.")
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, n - x.shape[axis])
    return np.pad(x, widths, constant_values=value)


def squeeze_safe(x: np.ndarray, axis: "int | Sequence[int] | None" = None) -> np.ndarray:
    """Removes those of the axes, by default all, that have size 1.

    Args:
        x: The array.
        axis: The axis or axes; None selects all.
    """
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return np.squeeze(x, tuple(a for a in axes if x.shape[a] == 1))
