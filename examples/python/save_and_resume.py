"""Saves a checkpoint in the middle of training, and resumes to the same weights, bit by bit."""

import tempfile
from pathlib import Path

import poptorch
import torch
from torch import nn


class Network(nn.Module):
    """A network with dropout, whose random numbers a checkpoint has to include."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))

    def forward(self, x, labels):
        scores = self.layers(x)
        return scores, nn.functional.cross_entropy(scores, labels)


def batch(step):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(16, 8, generator=generator)
    return x, x[:, :4].argmax(1)


def wrapped():
    torch.manual_seed(0)
    network = Network()
    optimizer = poptorch.optim.Adam(network.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20, gamma=0.5)
    options = poptorch.Options().showCompilationProgressBar(False)
    return poptorch.trainingModel(network, options, optimizer), optimizer, scheduler


def train(training, optimizer, scheduler, steps):
    for step in steps:
        _, loss = training(*batch(step))
        scheduler.step()
        training.setOptimizer(optimizer)
    return loss.item()


def main():
    path = Path(tempfile.mkdtemp()) / "checkpoint"
    first, optimizer, scheduler = wrapped()
    train(first, optimizer, scheduler, range(40))
    poptorch.save_checkpoint(path, first, optimizer, step=40, scheduler=scheduler)
    loss = train(first, optimizer, scheduler, range(40, 80))

    second, optimizer, scheduler = wrapped()
    second.compile(*batch(0))
    checkpoint = poptorch.load_checkpoint(path, second, optimizer, scheduler=scheduler)
    train(second, optimizer, scheduler, range(checkpoint.step, 80))
    print(f"last loss: {loss:.4f}")
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    print("bit-identical:", all(torch.equal(one, other) for one, other in pairs))


if __name__ == "__main__":
    main()
