"""Trains on a pipeline of two IPUs. One IPU fails, and training resumes from the last checkpoint.

`main` trains twice: once undisturbed, and once with a fault in the middle of a run. Both end with
bit-identical weights.
"""

import tempfile
from pathlib import Path

import poptorch
import poptorch.testing
import torch
from torch import nn

STEPS, SAVE_STEPS = 20, 5


class Network(nn.Module):
    """A classifier in two blocks, with its loss."""

    def __init__(self):
        super().__init__()
        layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2))
        self.first = poptorch.BeginBlock(layers, "first", ipu_id=0)
        self.second = poptorch.BeginBlock(nn.Linear(32, 4), "second", ipu_id=1)

    def forward(self, x, labels):
        return nn.functional.cross_entropy(self.second(self.first(x)), labels)


def train(weights, batches, file):
    """Trains from these weights; returns the final ones and the number of device failures."""
    model = Network()
    model.load_state_dict(weights)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    options = poptorch.Options().randomSeed(42).showCompilationProgressBar(False)
    options.Training.gradientAccumulation(4)
    training_model = poptorch.trainingModel(model, options, optimizer)
    training_model.compile(*batches[0])
    poptorch.save_checkpoint(file, training_model, optimizer, step=0)
    step = failures = 0
    while step < len(batches):
        try:
            training_model(*batches[step])
            step += 1
            if step % SAVE_STEPS == 0:
                poptorch.save_checkpoint(file, training_model, optimizer, step=step)
        except poptorch.RecoverableError as error:
            failures += 1
            print(f"in step {step}: {error.message}")
            print(f"recovery action: {error.recovery_action}")
            training_model.detachFromDevice()
            training_model.attachToDevice()
            step = poptorch.load_checkpoint(file, training_model, optimizer).step
            print(f"continues from step {step}")
    return model.state_dict(), failures


def main():
    torch.manual_seed(0)
    batches = [(torch.randn(32, 16), torch.randint(4, (32,))) for _ in range(STEPS)]
    weights = Network().state_dict()
    with tempfile.TemporaryDirectory() as folder:
        undisturbed, _ = train(weights, batches, Path(folder, "undisturbed.pt"))
        # The eighth run from now on fails when IPU 1 has completed two of its micro-batches.
        poptorch.testing.inject_fault("run", "LINK_RESET", nth=8, micro_batch=2, ipu=1)
        disturbed, failures = train(weights, batches, Path(folder, "disturbed.pt"))
    same = all(map(torch.equal, undisturbed.values(), disturbed.values()))
    print(f"failures: {failures}; bit-identical: {same}")


if __name__ == "__main__":
    main()
