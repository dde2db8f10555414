"""A training program that resumes from its checkpoint after it was killed.

`main` starts it once without interruption, and once with a SIGKILL in the middle. Both runs end
with bit-identical weights, although worker processes shuffle and augment the data.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import poptorch
import torch

EPOCHS = 6


class Waves(torch.utils.data.Dataset):
    """Sines of points. The points change randomly in each epoch: this is the augmentation."""

    def __len__(self):
        return 512

    def __getitem__(self, index):
        x = (torch.tensor([index / 256 - 1]) + 0.01 * torch.randn(1)) * 3
        return x, torch.sin(x)


class Curve(torch.nn.Module):
    """A small network with dropout."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(1, 32),
            torch.nn.Tanh(),
            torch.nn.Dropout(0.05),
            torch.nn.Linear(32, 1),
        )

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(self.layers(x), target)


def train(file):
    """Trains from the checkpoint, if there is one, and writes a checkpoint every eight steps."""
    torch.manual_seed(0)
    model = Curve()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    options = poptorch.Options().showCompilationProgressBar(False)
    loader = poptorch.DataLoader(options, Waves(), batch_size=16, shuffle=True, num_workers=2)
    training_model = poptorch.trainingModel(model, options, optimizer)
    step = 0
    if file.exists():
        step = poptorch.load_checkpoint(
            file, training_model, optimizer, scheduler=scheduler, loader=loader
        ).step
    while step < EPOCHS * len(loader):
        for batch in loader:  # a resumed run gets the rest of the epoch
            training_model(*batch)
            scheduler.step()
            training_model.setOptimizer(optimizer)
            step += 1
            if step % 8 == 0:
                poptorch.save_checkpoint(
                    file, training_model, optimizer, step=step, scheduler=scheduler, loader=loader
                )


def start(file):
    """Starts the program as a separate process."""
    return subprocess.Popen([sys.executable, __file__, file])


def main():
    """Kills one run in the middle, resumes it, and compares the weights."""
    with tempfile.TemporaryDirectory() as folder:
        peaceful, killed = Path(folder, "peaceful.pt"), Path(folder, "killed.pt")
        first = start(killed)
        while not killed.exists():
            time.sleep(0.001)
        first.kill()
        first.wait()
        reached = poptorch.load_checkpoint(killed, Curve()).step
        print(f"killed; the checkpoint is of step {reached} of {EPOCHS * 32}")
        runs = [start(killed), start(peaceful)]
        assert [run.wait() for run in runs] == [0, 0]
        weights = []
        for file in (killed, peaceful):
            model = Curve()
            poptorch.load_checkpoint(file, model)
            weights.append(model.state_dict().values())
    same = all(map(torch.equal, *weights))
    print(f"the weights of both runs are bit-identical: {same}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]))
    else:
        main()
