"""Replacements for torch's layers and initialisations that read values, which a trace lacks."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F
from torch.nn.modules import adaptive, batchnorm

AdaptiveSoftmax = torch.nn.AdaptiveLogSoftmaxWithLoss
BatchNorm = batchnorm._BatchNorm


def replacements() -> Iterator[tuple[Any, str, Callable]]:
    """Yields (holder, name, replacement)."""
    yield BatchNorm, "forward", _averaging(BatchNorm.forward)
    yield AdaptiveSoftmax, "forward", _of_all_clusters(AdaptiveSoftmax.forward)
    yield torch.nn.init, "_no_grad_trunc_normal_", _truncated_normal


def _truncated_normal(
    tensor: torch.Tensor, mean: float, std: float, a: float, b: float, generator: Any = None
) -> torch.Tensor:
    """Uses the inverse of the distribution, while torch rejects and redraws values outside."""
    low, high = (math.erf((edge - mean) / (std * math.sqrt(2))) for edge in (a, b))
    with torch.no_grad():
        tensor.uniform_(low, high, generator=generator).erfinv_()
        return tensor.mul_(std * math.sqrt(2)).add_(mean).clamp_(a, b)


def _averaging(plain: Callable) -> Callable:
    """Returns forward of batch norms without momentum: batch n has the share 1/n in statistics."""

    def forward(norm: BatchNorm, input: torch.Tensor) -> torch.Tensor:
        tracked = norm.num_batches_tracked
        if not norm.training or norm.momentum is not None or tracked is None:
            return plain(norm, input)
        norm._check_input_dim(input)
        y = F.batch_norm(input, None, None, norm.weight, norm.bias, True, 0.0, norm.eps)
        axes = [axis for axis in range(input.dim()) if axis != 1]
        with torch.no_grad():
            tracked.add_(1)
            x, share = input.float(), 1 / tracked.float()
            for running, of_batch in (
                (norm.running_mean, x.mean(axes)),
                (norm.running_var, x.var(axes)),
            ):
                assert running is not None  # because statistics are tracked
                running.copy_(torch.lerp(running.float(), of_batch, share))
        return y

    return forward


def _of_all_clusters(plain: Callable) -> Callable:
    """Computes the adaptive softmax's loss from all classes: a row's cluster is unknown."""

    def forward(softmax: AdaptiveSoftmax, input: torch.Tensor, target: torch.Tensor) -> Any:
        if input.device.type != "ipu":
            return plain(softmax, input, target)
        scores = softmax.log_prob(input if target.dim() else input.unsqueeze(0))
        output = scores.gather(1, target.reshape(-1, 1)).reshape(target.shape)
        loss = torch.ops.poptorch.identity_loss(-output.mean(), "none")
        return adaptive._ASMoutput(output, loss)

    return forward
