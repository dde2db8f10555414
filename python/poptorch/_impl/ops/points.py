"""poptorch.fps and poptorch.nearest: farthest point sampling and nearest neighbours."""

from collections.abc import Sequence

import torch
from poptorch import _native
from poptorch_core import Error


def fps(
    src: torch.Tensor, ptr: Sequence[int], ratio: float = 0.5, random_start: bool = False
) -> torch.Tensor:
    """Chooses points that are far apart, by farthest point sampling in each group.

    After the first point of a group, the next one is always the point farthest from those chosen,
    and the first one among equals.

    Args:
        src: The points [points, dimensions].
        ptr: The index at which each group begins, and the end of the last, such as [0, 5, 9].
        ratio: The share of each group to choose, above 0 and at most 1; the count is rounded up.
        random_start: Begins each group with a random point instead of its first one.

    Returns:
        Indices of points, int32, without gradient.

    Raises:
        poptorch.Error: An argument has a wrong type or value.
    """
    if not isinstance(src, torch.Tensor) or src.dim() != 2:
        raise Error("`src` must be a torch.tensor of rank 2, [points, dimensions].")
    whole = isinstance(ptr, (list, tuple)) and all(type(border) is int for border in ptr)
    if not whole or len(ptr) < 2:
        raise Error("`ptr` must be a list of integers, at least two.")
    if not isinstance(ratio, float):
        raise Error("`ratio` must be of float type.")
    if not 0 < ratio <= 1:
        raise Error(f"`ratio` must be above 0 and at most 1 but is {ratio}.")
    if not isinstance(random_start, bool):
        raise Error("`random_start` must be of bool type.")
    borders = list(ptr)
    if borders[0] != 0 or borders[-1] != len(src) or borders != sorted(borders):
        raise Error(f"`ptr` must ascend from 0 to the number of points, {len(src)}, but is {ptr}.")
    return _native.call_own("farthest_points", src, borders, ratio, random_start)


Batch = Sequence[int] | torch.Tensor | None


def nearest(
    x: torch.Tensor, y: torch.Tensor, batch_x: Batch = None, batch_y: Batch = None
) -> torch.Tensor:
    """Finds the nearest point of `y` for each point of `x`, the first one among equals.

    Args:
        x: The points [n, dimensions], or numbers [n].
        y: The points [m, dimensions], or numbers [m].
        batch_x: The batch of each point of `x`, ascending, as a list or tensor of integers. Only
            points of the same batch are compared. None: all points are in batch 0.
        batch_y: The batch of each point of `y`, in the same form. Each batch of `x` must occur.

    Returns:
        Indices of points of `y`, int32 [n], without gradient.

    Raises:
        poptorch.Error: An argument has a wrong type or value.
    """
    for name, points in (("x", x), ("y", y)):
        if not isinstance(points, torch.Tensor) or points.dim() not in (1, 2):
            raise Error(f"`{name}` must be a torch.tensor of rank 2, [points, dimensions].")
    rows_x, rows_y = (t.reshape(-1, 1) if t.dim() == 1 else t for t in (x, y))
    if rows_x.shape[1] != rows_y.shape[1]:
        raise Error(
            "`x` and `y` must have the same number of dimensions a point, but are "
            f"{list(x.shape)} and {list(y.shape)}."
        )
    if batch_x is None and batch_y is None:
        return _native.call_own("nearest_points", rows_x, rows_y, None, None)
    batches = [_batch("batch_x", batch_x, x), _batch("batch_y", batch_y, y)]
    return _native.call_own("nearest_points", rows_x, rows_y, *batches)


def _batch(name: str, batch: Batch, points: torch.Tensor) -> torch.Tensor:
    if batch is None:
        batch = [0] * len(points)
    if isinstance(batch, torch.Tensor):
        is_whole = not (batch.is_floating_point() or batch.is_complex())
    else:
        is_whole = isinstance(batch, (list, tuple)) and all(type(each) is int for each in batch)
        if is_whole and list(batch) != sorted(batch):
            raise Error(f"`{name}` must ascend, but is {list(batch)}.")
    if not is_whole:
        raise Error(f"`{name}` must be a list or a tensor of integers.")
    if len(batch) != len(points):
        raise Error(f"`{name}` has {len(batch)} numbers for {len(points)} points.")
    if isinstance(batch, torch.Tensor):
        return batch
    return torch.tensor(batch, dtype=torch.int32, device=points.device)
