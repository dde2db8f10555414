"""Kills a training program in the middle, and resumes it from its checkpoint.

It ends with the weights of an undisturbed run, although worker processes augment the data.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import poptorch
import torch
from torch import nn

EPOCHS = 6


class Waves(torch.utils.data.Dataset):
    """Sines of points. The points change randomly in each epoch: this is the augmentation."""

    def __len__(self):
        return 512

    def __getitem__(self, index):
        x = (torch.tensor([index / 256 - 1]) + 0.01 * torch.randn(1)) * 3
        return x, torch.sin(x)


class Curve(nn.Sequential):
    """A small network with dropout, and its loss."""

    def __init__(self):
        super().__init__(nn.Linear(1, 32), nn.Tanh(), nn.Dropout(0.05), nn.Linear(32, 1))

    def forward(self, x, target):
        return nn.functional.mse_loss(super().forward(x), target)


def train(file):
    """Trains from the checkpoint, if there is one, and writes a checkpoint every eight steps."""
    torch.manual_seed(0)
    model = Curve()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    options = poptorch.Options()
    loader = poptorch.DataLoader(options, Waves(), batch_size=16, shuffle=True, num_workers=2)
    training_model = poptorch.trainingModel(model, options, optimizer)
    step = 0
    if file.exists():
        step = poptorch.load_checkpoint(file, training_model, optimizer, loader=loader).step
    while step < EPOCHS * len(loader):
        for batch in loader:  # a resumed run gets the rest of the epoch
            training_model(*batch)
            step += 1
            if step % 8 == 0:
                poptorch.save_checkpoint(file, training_model, optimizer, step=step, loader=loader)


def main():
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, "killed.pt"), Path(folder, "peaceful.pt")]
        starts = [[sys.executable, __file__, str(file)] for file in files]
        with subprocess.Popen(starts[0]) as first:
            while not files[0].exists():
                time.sleep(0.001)
            first.kill()
        step = poptorch.load_checkpoint(files[0], Curve()).step
        print(f"killed; the checkpoint is of step {step} of {EPOCHS * 32}")
        runs = [subprocess.Popen(start) for start in starts]
        assert [run.wait() for run in runs] == [0, 0]
        models = [Curve(), Curve()]
        for model, file in zip(models, files, strict=True):
            poptorch.load_checkpoint(file, model)
    weights = [model.state_dict().values() for model in models]
    print(f"the weights of both runs are bit-identical: {all(map(torch.equal, *weights))}")


if __name__ == "__main__":
    train(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
