"""Trains four data-parallel replicas, in one process or in several, with equal losses.

python many_processes.py
poprun --num-instances 2 --num-replicas 4 python many_processes.py
torchrun --nproc-per-node 2 -m popdist --replicas-per-instance 2 many_processes.py
"""

import popdist
import popdist.poptorch
import poptorch
import torch
from popdist import collectives

REPLICAS, EPOCHS = 4, 3


class Waves(torch.utils.data.Dataset):
    """Points of a sine curve."""

    def __len__(self):
        return 256

    def __getitem__(self, index):
        x = torch.tensor([index / 128 - 1]) * 3
        return x, torch.sin(x)


class Curve(torch.nn.Module):
    """A small network with dropout, and its loss."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(1, 32), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1)
        )

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(self.layers(x), target)


def options_of_this_process():
    """Returns options with this process's replicas: those from the launcher, or all of them."""
    if popdist.isPopdistEnvSet():
        return popdist.poptorch.Options()
    return poptorch.Options().replicationFactor(REPLICAS)


def main():
    popdist.init()
    first = popdist.getInstanceIndex() == 0
    options = options_of_this_process().randomSeed(42).showCompilationProgressBar(first)
    model = Curve()  # equal in all processes, because randomSeed has seeded torch
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.01)
    loader = poptorch.DataLoader(
        options, Waves(), batch_size=8, shuffle=True, auto_distributed_partitioning="by_replica"
    )
    training_model = poptorch.trainingModel(model, options, optimizer)
    for epoch in range(EPOCHS):
        for batch in loader:
            losses = training_model(*batch)  # losses of this process's replicas
        losses = collectives.all_gather(losses)
        if first:
            print(f"epoch {epoch}: loss {losses.mean().item():.9g}")


if __name__ == "__main__":
    main()
