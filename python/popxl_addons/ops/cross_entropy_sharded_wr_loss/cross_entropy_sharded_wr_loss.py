"""The cross entropy of scores whose classes are spread over the IPUs of one replica."""

from collections.abc import Sequence
from itertools import accumulate

import popxl
from popxl import ops
from popxl._impl.records import of
from popxl_addons.ops.cross_entropy_sharded_loss.cross_entropy_sharded_loss import (
    check_scores,
    row_max,
    sums,
)


def cross_entropy_sharded_wr_loss(
    logits: Sequence[popxl.Tensor],
    indices: Sequence[popxl.Tensor],
    ipus: "Sequence[int] | None" = None,
) -> popxl.Tensor:
    """Returns the loss [n] of each row, on the first of the IPUs, in logits' dtype.

    It is differentiable.

    Args:
        logits: The shards [n, classes of the IPU], one for each IPU, of any sizes.
        indices: The labels [n], equal on each IPU, counted from the first shard's first class.
        ipus: The IPUs of the tensors, if the tensors do not define them.

    Raises:
        ValueError: Lengths, IPUs or shapes do not fit.
    """
    where = [t.ipu for t in logits] if ipus is None else list(ipus)
    if not logits or not len(logits) == len(indices) == len(where):
        raise ValueError(
            f"{len(logits)} shards need as many tensors of labels and IPUs but got "
            f"{len(indices)} and {len(where)}."
        )
    for x, y, ipu in zip(logits, indices, where, strict=True):
        check_scores(x, y)
        if x.shape[0] != logits[0].shape[0]:
            raise ValueError(f"The shards {logits[0]!r} and {x!r} have different rows.")
        if {of(x).ipu, of(y).ipu} - {ipu, None}:
            raise ValueError(f"{x!r} and its labels {y!r} must be on IPU {ipu}.")
    first = where[0]

    def moved(t: popxl.Tensor, source: int, to: int) -> popxl.Tensor:
        return t if source == to else ops.ipu_copy(t, to, source)

    tops = []
    for x, ipu in zip(logits, where, strict=True):
        with popxl.ipu(ipu):
            tops.append(row_max(x))
    with popxl.ipu(first):
        top = moved(tops[0], first, first)
        for t, ipu in zip(tops[1:], where[1:], strict=True):
            top = ops.maximum(top, moved(t, ipu, first))
        top = ops.detach(top)
    starts = [0, *accumulate(x.shape[1] for x in logits)]
    parts = []
    for x, y, ipu, start in zip(logits, indices, where, starts, strict=False):
        here = moved(top, first, ipu)
        with popxl.ipu(ipu):
            label = y if y.dtype is popxl.int32 else ops.cast(y, popxl.int32)
            part = sums(x, label - popxl.constant(start, popxl.int32), here)
        parts.append([moved(t, ipu, first) for t in part])
    with popxl.ipu(first):
        total, chosen = parts[0]
        for more, found in parts[1:]:
            total, chosen = total + more, chosen + found
        loss = ops.log(total) - chosen
        return loss if loss.dtype is logits[0].dtype else ops.cast(loss, logits[0].dtype)
