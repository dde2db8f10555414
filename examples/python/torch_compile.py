"""Trains a model without annotations by torch.compile(backend="poptorch"), beside eager torch."""

import copy

import poptorch
import torch
from digits import DIGITS, load
from torch import nn


def main():
    torch.manual_seed(0)
    images, labels = load(DIGITS, "train")
    eager = nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 5, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    model = copy.deepcopy(eager)
    compiled = torch.compile(model, backend="poptorch")
    losses = {}
    for name, network, call in (("eager", eager, eager), ("device", model, compiled)):
        optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
        for epoch in range(2):
            order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
            for part in order[:1408].split(64):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(call(images[part]), labels[part])
                loss.backward()
                optimizer.step()
        losses[name] = loss.item()
        print(f"{name}: last loss {loss.item():.4f}")
    print(f"poptorch {poptorch.__version__}: difference {losses['eager'] - losses['device']:.0e}")


if __name__ == "__main__":
    main()
