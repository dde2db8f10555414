"""NumPy helpers that cut arrays for replicas and put them together again.

Where an axis is cut into n parts, its size must be a multiple of n: ValueError otherwise.
"""

from collections.abc import Sequence

import numpy as np
import popxl


def _check(x: np.ndarray, n: int, axis: int) -> None:
    if x.shape[axis] % n:
        raise ValueError(f"Axis {axis} of shape {x.shape} cannot be cut into {n} equal parts.")


def shard(x: np.ndarray, n: int, axis: int) -> np.ndarray:
    """[n, ...]: the parts of `x` along `axis`."""
    _check(x, n, axis)
    return np.stack(np.split(x, n, axis))


def unshard(x: np.ndarray, axis: int) -> np.ndarray:
    """The whole of parts [n, ...], one behind the other along `axis`: undoes `shard`."""
    return np.concatenate(list(x), axis)


def repeat(x: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
    """`n` copies of `x` along a new axis."""
    return np.repeat(np.expand_dims(x, axis), n, axis)


def repeat_axis(x: np.ndarray, n: int, axis: int = 0) -> np.ndarray:
    """Each element of an axis n times, one behind the other."""
    return np.repeat(x, n, axis)


def split2D(x: np.ndarray, n1: int, n2: int, axis1: int, axis2: int) -> list[list[np.ndarray]]:
    """n1 rows of n2 parts of `x`: cut along axis1, and each part along axis2."""
    _check(x, n1, axis1)
    _check(x, n2, axis2)
    return [np.split(part, n2, axis2) for part in np.split(x, n1, axis1)]


def shard2D(x: np.ndarray, n1: int, n2: int, axis1: int, axis2: int) -> np.ndarray:
    """[n1 · n2, ...]: the parts of `split2D`, row by row."""
    return np.stack([part for row in split2D(x, n1, n2, axis1, axis2) for part in row])


def unshard2D(x: np.ndarray, n1: int, n2: int, axis1: int, axis2: int) -> np.ndarray:
    """The whole of parts [n1 · n2, ...]: undoes `shard2D`."""
    rows = [np.concatenate(list(x[i * n2 : (i + 1) * n2]), axis2) for i in range(n1)]
    return np.concatenate(rows, axis1)


def repeat_shard(x: np.ndarray, repeats: int, shards: int, axis: int) -> np.ndarray:
    """[shards · repeats, ...]: each part of `x` along `axis`, `repeats` times in a row."""
    return repeat_axis(shard(x, shards, axis), repeats, 0)


def tensor_parallel_input(
    x: np.ndarray, tensor_parallel: int, replicas: int, repeat_function: "object | None" = None
) -> np.ndarray:
    """[replicas, ...]: batches for data-parallel groups, the same on a group's replicas.

    x: [batches, ...], one for each of replicas / tensor_parallel groups in a row; a single one
    (1 group) may come without that axis. ValueError when the counts do not fit.
    """
    groups = replicas // tensor_parallel
    if groups * tensor_parallel != replicas:
        raise ValueError(f"{replicas} replicas are no groups of {tensor_parallel}.")
    if groups == 1:
        return repeat(x, tensor_parallel)
    if x.shape[0] != groups:
        raise ValueError(f"{groups} groups need as many batches but got shape {x.shape}.")
    return repeat_axis(x, tensor_parallel)


def pad_axis(x: np.ndarray, n: int, axis: int, value: float = 0) -> np.ndarray:
    """`x` with `axis` filled up to size n by `value`. ValueError when it is larger already."""
    if x.shape[axis] > n:
        raise ValueError(f"Axis {axis} of shape {x.shape} is larger than {n}.")
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, n - x.shape[axis])
    return np.pad(x, widths, constant_values=value)


def squeeze_safe(x: np.ndarray, axis: "int | Sequence[int]") -> np.ndarray:
    """`x` without those of the axes that have size 1."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    return np.squeeze(x, tuple(a for a in axes if x.shape[a] == 1))


def per_group(x: np.ndarray, rg: popxl.ReplicaGrouping, axis: int) -> np.ndarray:
    """`x` cut along `axis` into one part a group, as variables of that grouping take it."""
    return x if rg.num_groups == 1 else shard(x, rg.num_groups, axis)
