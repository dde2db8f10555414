"""Losses of class probabilities."""

from typing import Any

from popxl import dtypes
from popxl._impl.records import of
from popxl.dtypes import core_name
from popxl.ops.build import OpBuild, composed
from popxl.tensor import Tensor

_REDUCTIONS = ("mean", "sum", "none")


def _check(probs: Tensor, labels: Tensor, reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be one of {_REDUCTIONS} but is {reduction!r}.")
    if labels.shape != probs.shape[:-1]:
        raise ValueError(f"Labels of shape {labels.shape} do not fit scores of {probs.shape}.")


def _flat(op: OpBuild, probs: Any, labels: Tensor, classes: int) -> tuple[Any, Any]:
    rows = labels.nelms
    flat = op("reshape", probs, shape=[rows, classes])
    return flat, op("reshape", op.cast(labels, dtypes.int32), shape=[rows])


def _loss(
    op: OpBuild, logs: Any, target: Any, labels: Tensor, ignore: "int | None", reduction: str
) -> Any:
    attrs = {} if ignore is None else {"ignore_index": ignore}
    value = op("nll_loss", logs, target, reduction=reduction, **attrs)
    return op("reshape", value, shape=list(labels.shape)) if reduction == "none" else value


def nll_loss(
    probs: Tensor,
    labels: Tensor,
    ignore_index: "int | None" = None,
    reduction: str = "mean",
    log_prob: bool = False,
) -> Tensor:
    """Returns -log of the probability of each label.

    Args:
        probs: [..., classes], probabilities or, with log_prob, their logarithms.
        labels: [...], ints, or floats with whole values.
        ignore_index: Labels with this value are ignored, also in the mean.
        reduction: "mean", "sum" or "none".
        log_prob: Whether probs are logarithms.

    Raises:
        ValueError: The reduction is another one; shapes do not fit.
    """
    _check(probs, labels, reduction)

    def body(op: OpBuild) -> Any:
        logs = of(probs).read() if log_prob else op("log", probs)
        flat, target = _flat(op, logs, labels, probs.shape[-1])
        return _loss(op, flat, target, labels, ignore_index, reduction)

    return composed("Nll", [probs, labels], "loss", body)


def nll_loss_with_softmax_grad(
    probs: Tensor,
    labels: Tensor,
    loss_grad: "float | Tensor" = 1,
    ignore_index: "int | None" = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """Returns the loss of `nll_loss`, and its gradient at the input of the softmax.

    Args:
        probs: [..., classes], the output of a softmax.
        labels: As in `nll_loss`; so are ignore_index and reduction.
        loss_grad: The gradient of the loss, a number or a scalar tensor.
        ignore_index: The label whose elements do not count.
        reduction: How the elements' losses are combined: "mean", "sum" or "none".

    Returns:
        The loss, and (probs - one-hot labels) · loss_grad in the shape and dtype of probs. For the
        mean it is divided by the number of labels that are not ignored.
    """
    _check(probs, labels, reduction)
    given = [loss_grad] if isinstance(loss_grad, Tensor) else []
    op = OpBuild("NlllWithSoftmaxGradDirect", probs, labels, *given)
    dtype, classes = probs.dtype, probs.shape[-1]
    flat, target = _flat(op, probs, labels, classes)
    loss = _loss(op, op("log", flat), target, labels, ignore_index, reduction)

    safe, mask, count = target, None, None
    if ignore_index is not None:
        ignored = op.scalar(dtypes.int32, ignore_index)
        valid = op("ne", target, ignored)
        safe = op("select", valid, target, op.scalar(dtypes.int32, 0))
        mask = op.cast(valid, dtype)
        count = op("sum", op.cast(valid, dtypes.float32), axes=[0])
    dx = op("sub", flat, op("one_hot", safe, classes=classes, dtype=core_name(dtype)))
    if mask is not None:
        dx = op("mul", dx, op("reshape", mask, shape=[labels.nelms, 1]))
    rows = labels.nelms if reduction == "mean" and count is None else 1
    if isinstance(loss_grad, Tensor):
        dx = op("mul", dx, op.cast(loss_grad, dtype))
        if rows > 1:
            dx = op("mul", dx, op.scalar(dtype, 1.0 / rows))
    elif loss_grad != 1 or rows > 1:
        dx = op("mul", dx, op.scalar(dtype, loss_grad / rows))
    if count is not None and reduction == "mean":
        dx = op("div", dx, op.cast(count, dtype))
    dx = op("reshape", dx, shape=list(probs.shape))
    outs = op.output(loss, "loss"), op.output(dx, "dx")
    op.done()
    return outs
