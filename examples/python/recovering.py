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
        self.first = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2))
        self.second = nn.Linear(32, 4)

    def forward(self, x, labels):
        with poptorch.Block("first", ipu_id=0):
            x = self.first(x)
        with poptorch.Block("second", ipu_id=1):
            return nn.functional.cross_entropy(self.second(x), labels)


class Training:
    """Trains, saves checkpoints, and attaches to the device again after a failure."""

    def __init__(self, weights, file):
        self.model, self.file = Network(), file
        self.model.load_state_dict(weights)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        options = poptorch.Options().randomSeed(42)
        options.Training.gradientAccumulation(4)
        self.wrapped = poptorch.trainingModel(self.model, options, self.optimizer)
        self.step = 0

    def run(self, batches):
        """Runs all steps, and returns the number of device failures."""
        failures = 0
        self.wrapped.compile(*batches[0])
        self._save(0)
        while self.step < len(batches):
            try:
                self._train(batches)
            except poptorch.RecoverableError as error:
                print(f"in step {self.step}: {error.message}")
                print(f"recovery action: {error.recovery_action}")
                failures += 1
                self._recover()
        return failures

    def _train(self, batches):
        while self.step < len(batches):
            self.wrapped(*batches[self.step])
            if (self.step + 1) % SAVE_STEPS == 0:
                self._save(self.step + 1)
            self.step += 1

    def _save(self, step):
        saved = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "random": self.wrapped.rng_state,
            "step": step,
        }
        torch.save(saved, self.file)

    def _recover(self):
        self.wrapped.detachFromDevice()
        saved = torch.load(self.file)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.wrapped.attachToDevice()
        self.wrapped.rng_state = saved["random"]
        self.step = saved["step"]
        print(f"continues from step {self.step}")


def main():
    torch.manual_seed(0)
    batches = [(torch.randn(32, 16), torch.randint(4, (32,))) for _ in range(STEPS)]
    weights = Network().state_dict()
    with tempfile.TemporaryDirectory() as folder:
        undisturbed = Training(weights, Path(folder, "undisturbed.pt"))
        undisturbed.run(batches)
        disturbed = Training(weights, Path(folder, "disturbed.pt"))
        # The eighth run from now on fails when IPU 1 has completed two of its micro-batches.
        poptorch.testing.inject_fault("run", "LINK_RESET", nth=8, micro_batch=2, ipu=1)
        failures = disturbed.run(batches)
    pairs = zip(
        undisturbed.model.state_dict().values(),
        disturbed.model.state_dict().values(),
        strict=True,
    )
    same = all(torch.equal(a, b) for a, b in pairs)
    print(f"failures: {failures}; bit-identical: {same}")


if __name__ == "__main__":
    main()
