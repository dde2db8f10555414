"""Separates the layers of a model, so that errors of one layer are not amplified by others.

Each layer gets its input in eager torch and random gradients of its output.
"""

import copy
import dataclasses

import beside_eager
import poptorch
import torch
from torch import nn

KINDS = (nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d, nn.AdaptiveAvgPool2d, nn.Linear)


@dataclasses.dataclass
class Layer:
    module: nn.Module
    x: torch.Tensor
    dy: torch.Tensor

    def __str__(self):
        return f"{self.module} of {tuple(self.x.shape)}"


def layers_of(model, batch):
    """Returns one layer for each geometry in a training step of the batch."""
    layers = {}

    def after(alone):
        def hook(_, inputs, y):
            layer = Layer(alone, inputs[0].clone(), torch.randn_like(y))
            layers.setdefault(str(layer), layer)

        return hook

    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, KINDS):
            module.register_forward_hook(after(copy.deepcopy(module)))
    with torch.no_grad():
        beside_eager.call(model, batch)
    return list(layers.values())


class Layers(nn.Module):
    """All layers in parallel: returns their values, and a loss that gives these their gradients."""

    def __init__(self, layers):
        super().__init__()
        self.inputs = nn.ParameterList([layer.x.clone() for layer in layers])
        self.layers = nn.ModuleList([copy.deepcopy(layer.module) for layer in layers])

    def forward(self, *gradients):
        values = [layer(x) for layer, x in zip(self.layers, self.inputs, strict=True)]
        terms = [(y * dy).sum() for y, dy in zip(values, gradients, strict=True)]
        return values, poptorch.identity_loss(torch.stack(terms).sum(), reduction="none")
