"""Batches on which one training step does not hang on rounding.

Where a value lies within rounding of a kink (zero at a ReLU, two maxima of a pool), the gradient
jumps, and the order of a sum decides to which side: torch's own kernels part there, by some
hundredths of an update, and training enlarges the difference without bound. Such a batch tells
nothing about right or wrong. So a batch counts when torch's own update stays as it is while every
value near a kink is taken to be on the other side. Our side has no say in the choice.
"""

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from benchmarks.workloads import make


class Relu(torch.autograd.Function):
    """F.relu whose gradient takes inputs within `margin` of zero to be on the other side."""

    @staticmethod
    def forward(ctx, x, margin):
        ctx.save_for_backward((x > 0) ^ (x.abs() < margin))
        return x.relu()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


def max_pool2d(x, margin, kernel_size, stride=None, padding=0, **_defaults):
    """F.max_pool2d that gives the second of two maxima that are less than `margin` apart."""
    shape = F.max_pool2d(x, kernel_size, stride, padding).shape
    padded = F.pad(x, [padding] * 4, value=-torch.finfo(x.dtype).max)
    windows = F.unfold(padded, kernel_size, stride=stride or kernel_size)
    best = windows.unflatten(1, (x.shape[1], -1)).topk(2, dim=2).values
    first, second = (values.reshape(shape) for values in best.unbind(2))
    return torch.where(first - second < margin, second, first)


class Kinks(TorchFunctionMode):
    """Runs a model's kinks on the other side, or (without margins) notes what goes into them."""

    def __init__(self, margins=None):
        super().__init__()
        self.margins = margins
        self.inputs = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func not in (F.relu, F.max_pool2d):
            return func(*args, **(kwargs or {}))
        x = args[0]
        self.inputs.append(x.detach())
        if self.margins is None:
            return func(*args, **(kwargs or {}))
        margin = self.margins[len(self.inputs) - 1]
        if func is F.relu:
            return Relu.apply(x, margin)
        return max_pool2d(x, margin, *args[1:], **(kwargs or {}))


class SteadyBatches:
    """Draws batches of a workload that are steady for `model`, eager torch's, as it stands.

    A value is near a kink within `units` root mean squares of what float32 is off from float64 in
    its channel on the first batch.
    """

    MOVED = 1e-4  # of an update's largest element, that it may move

    def __init__(self, name, model, optimiser, units):
        self.name, self.instance = name, make(name)
        self.model, self.optimiser = model, optimiser
        self.drawn = 0
        rounded, exact = self.kink_inputs(torch.float32), self.kink_inputs(torch.float64)
        self.margins = [
            units * (a - b).square().mean([0, *range(2, a.dim())], keepdim=True).sqrt().float()
            for a, b in zip(rounded, exact, strict=True)
        ]

    def next(self):
        while True:
            (batch,) = self.instance.batches(1, seed=self.drawn)
            self.drawn += 1
            if self.steady(batch):
                return batch

    def steady(self, batch):
        base, other = self.gradients(batch), self.gradients(batch, Kinks(self.margins))
        return all(
            (a - b).abs().max() <= self.MOVED * self.direction(parameter, a).abs().max()
            for parameter, a, b in zip(self.model.parameters(), base, other, strict=True)
        )

    def kink_inputs(self, dtype):
        model = make(self.name).model
        (batch,) = self.instance.batches(1, seed=0)
        with Kinks() as kinks, torch.no_grad():
            model.to(dtype)(batch[0].to(dtype), batch[1])
        return kinks.inputs

    def gradients(self, batch, mode=None):
        """Of the loss at the weights of `model`."""
        model = self.instance.model
        model.load_state_dict(self.model.state_dict())
        model.zero_grad()
        with mode or Kinks():
            loss = model(*batch)
        loss.backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    def direction(self, parameter, gradient):
        """What SGD multiplies by the learning rate."""
        buffer = self.optimiser.state[parameter].get("momentum_buffer")
        if buffer is None:
            return gradient
        return self.optimiser.param_groups[0]["momentum"] * buffer + gradient
