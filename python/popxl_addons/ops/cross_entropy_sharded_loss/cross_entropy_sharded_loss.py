"""The cross entropy of scores whose classes are spread over replicas.

Labels are relative to this shard's first class: those of other shards are negative or too large.
"""

import popxl
from popxl import ops
from popxl_addons.ops.cross_entropy import check_reduction, reduced
from popxl_addons.ops.replicated_all_reduce_TP import (
    replicated_all_reduce,
    replicated_all_reduce_identical_grad_inputs,
)


def check_scores(logits: popxl.Tensor, indices: popxl.Tensor) -> None:
    """Raises ValueError unless the two are scores [n, classes] and labels [n]."""
    if logits.rank != 2 or indices.shape != logits.shape[:1]:
        raise ValueError(f"Scores [n, classes] need labels [n]: {logits!r}, {indices!r}.")


def row_max(logits: popxl.Tensor) -> popxl.Tensor:
    """Returns the largest score of each row as float32 [n, 1], without a gradient."""
    wide = logits if logits.dtype is popxl.float32 else ops.cast(logits, popxl.float32)
    return ops.detach(ops.max(wide, [-1], True))


def sums(
    logits: popxl.Tensor, indices: popxl.Tensor, top: popxl.Tensor
) -> tuple[popxl.Tensor, popxl.Tensor]:
    """Returns for each row the sum of exp(score - top), and the label's score - top, or 0."""
    wide = logits if logits.dtype is popxl.float32 else ops.cast(logits, popxl.float32)
    shifted = wide - top
    classes = popxl.constant(list(range(logits.shape[1])), popxl.int32)
    column = ops.reshape(indices, (-1, 1))
    column = column if indices.dtype is popxl.int32 else ops.cast(column, popxl.int32)
    chosen = ops.where(ops.equal(classes, column), shifted, popxl.constant(0.0))
    return ops.sum(ops.exp(shifted), [-1]), ops.sum(chosen, [-1])


def cross_entropy_sharded_loss(
    logits: popxl.Tensor,
    indices: popxl.Tensor,
    ignore_index: "popxl.Tensor | None" = None,
    replica_grouping: "popxl.ReplicaGrouping | None" = None,
    reduction: str = "mean",
    available_memory_proportion: "float | None" = 0.4,
) -> popxl.Tensor:
    """Returns the loss of scores that are spread over replicas, equal on all replicas of a group.

    It is differentiable. It is computed in float32 and returned in logits' dtype.

    Args:
        logits: Scores [n, classes of this replica].
        indices: Labels [n], relative to this replica's first class.
        ignore_index: A label, relative to this replica's first class, whose rows are ignored, also
            in the mean.
        replica_grouping: The replicas that share the classes; by default all.
        reduction: "mean", "sum" or "none".
        available_memory_proportion: A hint for hardware.

    Raises:
        ValueError: The shapes do not fit, or the reduction is another one.
    """
    check_reduction(reduction)
    check_scores(logits, indices)
    top = ops.detach(replicated_all_reduce(row_max(logits), "max", replica_grouping))
    total, chosen = (
        replicated_all_reduce_identical_grad_inputs(t, "add", replica_grouping)
        for t in sums(logits, indices, top)
    )
    losses = ops.log(total) - chosen
    loss = reduced(losses, reduction, _kept(indices, ignore_index))
    return loss if logits.dtype is loss.dtype else ops.cast(loss, logits.dtype)


def _kept(indices: popxl.Tensor, ignore_index: "popxl.Tensor | None") -> "popxl.Tensor | None":
    """Returns 1 for rows to include and 0 for others, as float32 [n]."""
    if ignore_index is None:
        return None
    if ignore_index.dtype is not indices.dtype:
        ignore_index = ops.cast(ignore_index, indices.dtype)
    ignored = ops.equal(indices, ignore_index)
    return ops.cast(ops.logical_not(ignored), popxl.float32)
