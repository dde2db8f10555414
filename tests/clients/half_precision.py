"""Mixed precision: float16 except for norms and the loss, which is scaled."""

import poptorch
import torch
from torch import nn


class Float32(nn.Module):
    """A float32 layer among float16 layers."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x.float()).half()


class Network(nn.Module):
    """Returns scores and loss of points [n, 8]; `scale` makes losses, and so gradients, small."""

    def __init__(self, classes=4, scale=1.0):
        super().__init__()
        self.first = nn.Linear(8, 32)
        self.norm = nn.LayerNorm(32)
        self.second = nn.Linear(32, classes)
        self.scale = scale

    def forward(self, x, labels):
        scores = self.second(torch.relu(self.norm(self.first(x))))
        loss = nn.functional.cross_entropy(scores.float(), labels)
        return scores, poptorch.identity_loss(loss * self.scale, reduction="none")


def halved(model):
    """Converts the model to float16 except for its norms."""
    model = model.half()
    model.norm = Float32(model.norm.float())
    return model


def training_options(accumulated=1, automatic=False):
    options = poptorch.Options()
    options.Precision.setPartialsType(torch.float)
    options.Precision.enableFloatingPointExceptions(False)
    options.Training.gradientAccumulation(accumulated)
    options.Training.setAutomaticLossScaling(automatic)
    options.outputMode(poptorch.OutputMode.All)
    return options


def adam(model, loss_scaling=1.0):
    return poptorch.optim.AdamW(
        model.parameters(),
        lr=1e-2,
        weight_decay=0.01,
        loss_scaling=loss_scaling,
        accum_type=torch.float16,
        first_order_momentum_accum_type=torch.float16,
        second_order_momentum_accum_type=torch.float32,
    )


def sgd(model, loss_scaling=1.0, lr=0.05):
    return poptorch.optim.SGD(
        model.parameters(),
        lr=lr,
        momentum=0.5,
        loss_scaling=loss_scaling,
        use_combined_accum=False,
        accum_type=torch.float32,
        velocity_accum_type=torch.float32,
    )
