"""Listing 4.5: implicit and explicit copies of weights."""

import tempfile
from pathlib import Path

import poptorch
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x, target=None):
        y = self.fc(x)
        if self.training:
            return y, torch.nn.functional.mse_loss(y, target)
        return y


x, target = torch.randn(8, 4), torch.randn(8, 4)


def validate(validated):
    """Returns the loss of a model, on the IPU or on the CPU."""
    return torch.nn.functional.mse_loss(validated(x), target).item()


model = Model()
model.eval()
poptorch_inf = poptorch.inferenceModel(model)

# Switch for "poptorch.trainingModel": poptorch_inf will remain in "eval" mode
model.train()
poptorch_train = poptorch.trainingModel(model)

# train on IPU
before = validate(poptorch_inf)
for _ in range(10):
    poptorch_train(x, target)
with tempfile.TemporaryDirectory() as folder:
    torch.save(model.state_dict(), Path(folder) / "model.save")  # OK

# Already in "eval" mode
after_ipu = validate(poptorch_inf)  # OK

# switch to "eval" mode for CPU
model.eval()
assert abs(validate(model) - after_ipu) < 1e-5  # OK

# train on CPU
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    model(x, target)[1].backward()
    optimizer.step()
model.eval()

# Explicit copy needed
poptorch_inf.copyWeightsToDevice()
after_cpu = validate(poptorch_inf)
assert abs(validate(model) - after_cpu) < 1e-5
assert after_cpu < after_ipu < before
print(f"loss: {before:.4f}, trained on IPU {after_ipu:.4f}, then on CPU {after_cpu:.4f}")
