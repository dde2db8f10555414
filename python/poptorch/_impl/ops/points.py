"""poptorch.fps and poptorch.nearest: points that lie far apart, and points next to each other."""

from collections.abc import Sequence

import torch
from poptorch import _native
from poptorch_core import Error


def fps(
    src: torch.Tensor, ptr: Sequence[int], ratio: float = 0.5, random_start: bool = False
) -> torch.Tensor:
    """Indices of points of `src` that lie far apart: farthest point sampling, group by group.

    src: [points, dimensions]. ptr: where groups begin, and the end of the last, [0, 5, 9]. ratio:
    which part of each group is chosen, rounded up. A group's first point is chosen first, or one at
    random; next is always the point farthest from those chosen, the first of equals. The result is
    int32, without gradient. Raises poptorch.Error for other arguments.
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
    """For each point of `x` the index of the nearest point of `y`, the first of equals.

    x: [n, dimensions], y: [m, dimensions]; or numbers, [n] and [m]. batch_x, batch_y: of each point
    the number of its batch, ascending, as a list or a tensor: only points of one batch are
    compared, and each batch of x must occur in y. Without one, all are of batch 0. The result is
    int32 [n], without gradient. Raises poptorch.Error for other arguments.
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
