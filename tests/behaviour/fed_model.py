"""A model that is fed the gradients of its weights, so that optimisers can be compared alone."""

import poptorch
import torch

STEPS = 200
TOLERANCE = 1e-6
SHAPES = ((7, 5), (5,), ())


class Fed(torch.nn.Module):
    """Its inputs are the gradients of its parameters."""

    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES
        )

    def forward(self, *gradients):
        products = [(w * g).sum() for w, g in zip(self.weights, gradients, strict=True)]
        return poptorch.identity_loss(sum(products), reduction="none")


def gradients():
    # Some steps are calm and some are not; entries differ in size.
    size = 10.0 ** torch.randint(-3, 2, ()).item()
    return [torch.randn(shape) * size for shape in SHAPES]


def relative(ours, theirs, start=None):
    scale = theirs.abs().max().clamp(min=1e-30)
    if start is not None:  # a weight may end near zero
        scale = torch.maximum(scale, start.abs().max())
    return ((ours - theirs).abs().max() / scale).item()
