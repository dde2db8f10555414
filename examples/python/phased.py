"""Trains a model in phases, so that one IPU has to hold only a part of it at a time."""

import poptorch
import torch
from torch import nn


class Network(nn.Module):
    """Three blocks, each of which runs in a separate phase."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            poptorch.BeginBlock(nn.Sequential(nn.Linear(64, 64), nn.Tanh()), f"part{part}")
            for part in range(3)
        )
        self.loss = nn.MSELoss()

    def forward(self, x, targets):
        for block in self.blocks:
            x = block(x)
        return x, self.loss(x, targets)


def train(strategy):
    torch.manual_seed(0)
    network = Network()
    options = poptorch.Options().showCompilationProgressBar(False)
    if strategy is not None:
        options.setExecutionStrategy(strategy)
        off_chip = poptorch.TensorLocationSettings().useOnChipStorage(False)
        options.TensorLocations.setWeightLocation(off_chip)
        options.TensorLocations.setOptimizerLocation(off_chip)
    else:
        poptorch.removeBlocks(network)
    optimizer = poptorch.optim.Adam(network.parameters(), lr=0.01)
    training = poptorch.trainingModel(network, options, optimizer)
    x = torch.randn(8, 64)
    for _ in range(20):
        _, loss = training(x, 0.5 * x.flip(1).tanh())
    return training.report(), loss.item()


def main():
    whole, loss = train(None)
    phases = poptorch.SerialPhasedExecution("part0", "part1", "part2")
    phases.setTensorsLiveness(poptorch.Liveness.OffChipAfterEachPhase)
    phased, same = train(phases)
    for name, report in (("one phase", whole), ("three phases", phased)):
        ipu = report["ipus"][0]
        print(
            f"{name}: {(ipu['state_bytes'] + ipu['arena_bytes']) / 1024:.0f} KiB on the IPU, "
            f"{report['streaming_bytes'] / 1024:.0f} KiB in Streaming Memory"
        )
    print(f"last loss {loss:.5f}, the same in phases: {loss == same}")


if __name__ == "__main__":
    main()
