"""A model whose inputs are the gradients of its weights, to compare optimisers alone."""

import poptorch
import torch

TOLERANCE = 1e-6
SHAPES = ((7, 5), (5,), ())


class Weight(torch.nn.Module):
    """A weight whose gradient is the input."""

    def __init__(self, shape):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(shape))

    def forward(self, gradient):
        return (self.weight * gradient).sum()


class Fed(torch.nn.Module):
    """A model whose inputs are the gradients of its parameters. Each parameter is in a layer, so
    that placement configurations can place it."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(Weight(shape) for shape in SHAPES)

    @property
    def weights(self):
        return [layer.weight for layer in self.layers]

    def forward(self, *gradients):
        products = [layer(g) for layer, g in zip(self.layers, gradients, strict=True)]
        return poptorch.identity_loss(sum(products), reduction="none")


def gradients():
    # Some steps are small and some are large; entries differ in size.
    size = 10.0 ** torch.randint(-3, 2, ()).item()
    return [torch.randn(shape) * size for shape in SHAPES]


def relative(ours, theirs, start=None):
    scale = theirs.abs().max().clamp(min=1e-30)
    if start is not None:  # a weight may end near zero
        scale = torch.maximum(scale, start.abs().max())
    return ((ours - theirs).abs().max() / scale).item()
