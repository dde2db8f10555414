"""Listing 4.19: a custom loss."""

import poptorch
import torch


def custom_loss(output, target):
    # Mean squared error with a scale
    loss = output - target
    loss = loss * loss * 5
    return poptorch.identity_loss(loss, reduction="mean")


class ExampleModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(10, 10)

    def forward(self, x):
        return self.fc(x)


class ExampleModelWithCustomLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = ExampleModel()

    def forward(self, input, target):
        out = self.model(input)
        return out, custom_loss(out, target)


poptorch_model = poptorch.trainingModel(ExampleModelWithCustomLoss())
input, target = torch.randn(4, 10), torch.randn(4, 10)
losses = [poptorch_model(input, target)[1].item() for _ in range(100)]
assert losses[-1] < losses[0]
print(f"loss: {losses[0]:.4f}, after 100 steps {losses[-1]:.4f}")
