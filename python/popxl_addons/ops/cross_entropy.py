"""The cross entropy of scores."""

import popxl
from popxl import ops

_REDUCTIONS = ("mean", "sum", "none")


def check_reduction(reduction: str) -> None:
    """Raises ValueError for an unknown reduction of losses."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be one of {_REDUCTIONS} but is {reduction!r}.")


def reduced(
    losses: popxl.Tensor, reduction: str, kept: "popxl.Tensor | None" = None
) -> popxl.Tensor:
    """Reduces losses [n]. kept: [n], 1 for losses to include, 0 for others; by default all."""
    if kept is not None:
        losses = losses * kept
    if reduction == "none":
        return losses
    total = ops.sum(losses)
    if reduction == "sum":
        return total
    return total / (float(losses.nelms) if kept is None else ops.sum(kept))


def cross_entropy(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    ignore_index: "int | None" = None,
    reduction: str = "mean",
) -> popxl.Tensor:
    """Returns -log softmax(x) at each label.

    Args:
        x: Scores [..., classes].
        labels: Ints [...].
        ignore_index: Labels with this value are ignored.
        reduction: "mean", "sum" or "none".
    """
    return ops.nll_loss(ops.softmax(x, -1), labels, ignore_index, reduction)


def cross_entropy_with_grad(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    loss_scaling: float = 1,
    ignore_index: "int | None" = None,
    reduction: str = "mean",
) -> "tuple[popxl.Tensor, popxl.Tensor]":
    """Returns the loss of `cross_entropy`, and its gradient at x, scaled by loss_scaling.

    Args:
        x: The logits.
        labels: The labels, a tensor of ints.
        loss_scaling: The factor of the loss.
        ignore_index: The label whose elements do not count.
        reduction: How the elements' losses are combined: "mean", "sum" or "none".
    """
    probabilities = ops.softmax(x, -1)
    return ops.nll_loss_with_softmax_grad(
        probabilities, labels, loss_scaling, ignore_index, reduction
    )
