"""Trains a small network with the custom ops of this folder, on one IPU and in a pipeline."""

import argparse
import ctypes
import pathlib

import poptorch
import torch

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", type=pathlib.Path, help="the folder of the built libraries")
folder = parser.parse_args().folder
for name in ("cube", "leaky_relu"):
    ctypes.cdll.LoadLibrary(str(folder / f"libcustom_{name}_op.so"))


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = poptorch.BeginBlock(torch.nn.Linear(4, 16), "first", ipu_id=0)
        self.last = poptorch.BeginBlock(torch.nn.Linear(16, 1), "last", ipu_id=1)

    def forward(self, x, target):
        x = self.first(x)
        (x,) = poptorch.custom_op(
            [x], "LeakyRelu", "com.acme", 1, example_outputs=[x], attributes={"alpha": 0.1}
        )
        x = self.last(x)
        cubes, _ = poptorch.custom_op(
            [x, torch.zeros_like(x)], "Cube", "com.acme", 1, example_outputs=[x, x]
        )
        return cubes, poptorch.identity_loss((cubes - target) ** 2, "mean")


def train(strategy):
    torch.manual_seed(0)
    network = Network()
    options = poptorch.Options().setExecutionStrategy(strategy)
    options.showCompilationProgressBar(False).Training.gradientAccumulation(8)
    optimizer = poptorch.optim.Adam(network.parameters(), lr=0.01)
    model = poptorch.trainingModel(network, options, optimizer)
    x = torch.randn(64, 4)
    target = (x.sum(1, keepdim=True) / 4) ** 3
    return [float(model(x, target)[1].mean()) for _ in range(100)]


sharded = train(poptorch.ShardedExecution())
pipelined = train(poptorch.PipelinedExecution())
print(f"loss: {sharded[0]:.4f} at first, {sharded[-1]:.4f} at last")
print("the pipeline gives the same:", sharded == pipelined)
