"""Listings 4.21 and 4.22: a tensor attribute is refused, a registered buffer persists."""

import poptorch
import torch


class AttributeCounterModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.i = torch.tensor([0.0], dtype=torch.float)

    def forward(self):
        self.i += 1
        return self.i


class CounterModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("i", torch.tensor([0.0], dtype=torch.float))

    def forward(self):
        self.i += 1
        return self.i


# The device would return tensor([1.]) at every call.
poptorch_model = poptorch.inferenceModel(AttributeCounterModel())
try:
    poptorch_model()
except poptorch.Error as error:
    print(error)

model = CounterModel()
poptorch_model = poptorch.inferenceModel(model)
print(poptorch_model())  # tensor([1.])
print(poptorch_model())  # tensor([2.])

# Buffers that inference modifies are copied to the host only on request.
assert model.i == 0
poptorch_model.copyWeightsToHost()
assert model.i == 2
