"""The cross entropy of scores."""

import popxl
from popxl import ops


def cross_entropy(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    ignore_index: "int | None" = None,
    reduction: str = "mean",
) -> popxl.Tensor:
    """-log softmax(x) at each label.

    x: [..., classes], scores. labels: [...], ints. reduction: "mean", "sum" or "none".
    """
    return ops.nll_loss(ops.softmax(x, -1), labels, ignore_index, reduction)


def cross_entropy_with_grad(
    x: popxl.Tensor,
    labels: popxl.Tensor,
    loss_scaling: float = 1,
    ignore_index: "int | None" = None,
    reduction: str = "mean",
) -> "tuple[popxl.Tensor, popxl.Tensor]":
    """The loss of `cross_entropy`, and its gradient at x, scaled by loss_scaling."""
    probabilities = ops.softmax(x, -1)
    return ops.nll_loss_with_softmax_grad(
        probabilities, labels, loss_scaling, ignore_index, reduction
    )
