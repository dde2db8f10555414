"""The cross entropy of scores whose classes are spread over replicas, or over IPUs.

Labels count from this shard's first class: those of other shards are negative or too large.
"""

from collections.abc import Sequence
from typing import Any

import popxl
from popxl import ops
from popxl.ops.collectives import all_reduce, all_reduce_identical_grad_inputs
from popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce,
    replicated_all_reduce_identical_grad_inputs,
)

_REDUCTIONS = ("mean", "sum", "none")


def _check(logits: popxl.Tensor, labels: popxl.Tensor, reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be one of {_REDUCTIONS} but is {reduction!r}.")
    if logits.rank != 2 or labels.shape != logits.shape[:1]:
        raise ValueError(f"Scores [n, classes] need labels [n]: {logits!r}, {labels!r}.")


def _row_max(logits: popxl.Tensor) -> popxl.Tensor:
    wide = logits if logits.dtype is popxl.float32 else ops.cast(logits, popxl.float32)
    return ops.detach(ops.max(wide, [-1], True))


def _sums(logits: popxl.Tensor, labels: popxl.Tensor, top: popxl.Tensor) -> "list[popxl.Tensor]":
    """Of each row: the sum of exp(score - top), and the label's score - top, or 0."""
    wide = logits if logits.dtype is popxl.float32 else ops.cast(logits, popxl.float32)
    shifted = wide - top
    classes = popxl.constant(list(range(logits.shape[1])), popxl.int32)
    column = ops.reshape(labels, (-1, 1))
    column = column if labels.dtype is popxl.int32 else ops.cast(column, popxl.int32)
    chosen = ops.where(ops.equal(classes, column), shifted, popxl.constant(0.0))
    return [ops.sum(ops.exp(shifted), [-1]), ops.sum(chosen, [-1])]


def _loss(total: popxl.Tensor, chosen: popxl.Tensor, reduction: str) -> popxl.Tensor:
    losses = ops.log(total) - chosen
    return losses if reduction == "none" else getattr(ops, reduction)(losses)


def cross_entropy_sharded_loss(
    logits: popxl.Tensor,
    labels: popxl.Tensor,
    reduction: str = "mean",
    replica_grouping: "popxl.ReplicaGrouping | None" = None,
) -> popxl.Tensor:
    """The loss of scores [n, classes of this replica], the same on all replicas of a group.

    labels: [n], see above. replica_grouping: replicas that share the classes, all by default.
    Differentiable. float32. ValueError: shapes, or another reduction than mean, sum and none.
    """
    _check(logits, labels, reduction)
    top = ops.detach(replicated_all_reduce(_row_max(logits), "max", replica_grouping))
    total, chosen = (
        replicated_all_reduce_identical_grad_inputs(t, "add", replica_grouping)
        for t in _sums(logits, labels, top)
    )
    return _loss(total, chosen, reduction)


def cross_entropy_sharded_wr_loss(
    logits: Sequence[popxl.Tensor],
    labels: Sequence[popxl.Tensor],
    reduction: str = "mean",
    ipus: "Sequence[int] | None" = None,
) -> list[popxl.Tensor]:
    """The loss of scores whose shards are on the IPUs of one replica: on each of them.

    logits, labels: one for each IPU, as for `cross_entropy_sharded_loss`. ipus: where they are, if
    they do not say.
    """
    for x, y in zip(logits, labels, strict=True):
        _check(x, y, reduction)
    where = list(ipus) if ipus is not None else [t.ipu for t in logits]

    def on_each(function: Any, *lists: Sequence[Any]) -> list[Any]:
        out = []
        for ipu, *args in zip(where, *lists, strict=True):
            with popxl.ipu(ipu):
                out.append(function(*args))
        return out

    tops = on_each(ops.detach, all_reduce(on_each(_row_max, logits), where, "max"))
    parts = on_each(_sums, logits, labels, tops)
    totals = all_reduce_identical_grad_inputs([p[0] for p in parts], where)
    chosen = all_reduce_identical_grad_inputs([p[1] for p in parts], where)
    return on_each(lambda a, b: _loss(a, b, reduction), totals, chosen)
