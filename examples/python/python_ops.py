"""Trains a network on a wave, with an op written in NumPy, in a pipeline of two IPUs.

The op has a gradient. It runs on the host for each micro-batch, on any stage of the pipeline. The
results are bit-identical to those of the model without a pipeline.
"""

import numpy as np
import poptorch
import torch


@poptorch.op(numpy=True)
def wave(x, frequency=1.0):
    return np.sin(np.float32(frequency) * x)


@wave.gradient
def wave_gradient(x, y, dy, frequency=1.0):
    return np.float32(frequency) * np.cos(np.float32(frequency) * x) * dy


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = poptorch.BeginBlock(torch.nn.Linear(1, 32), "first", ipu_id=0)
        self.last = poptorch.BeginBlock(torch.nn.Linear(32, 1), "last", ipu_id=1)

    def forward(self, x, target):
        y = self.last(wave(self.first(x), frequency=6.0))
        return poptorch.identity_loss((y - target) ** 2, "mean")


def train(strategy):
    torch.manual_seed(0)
    network = Network()
    options = poptorch.Options().setExecutionStrategy(strategy)
    options.showCompilationProgressBar(False).Training.gradientAccumulation(4)
    optimizer = poptorch.optim.Adam(network.parameters(), lr=0.02)
    model = poptorch.trainingModel(network, options, optimizer)
    x = torch.linspace(-1, 1, 64).reshape(64, 1)
    target = torch.sin(6 * x) * x
    return [float(model(x, target).mean()) for _ in range(200)]


if __name__ == "__main__":
    pipelined = train(poptorch.PipelinedExecution())
    print("the same on one IPU after another:", pipelined == train(poptorch.ShardedExecution()))
    print(f"loss: {pipelined[0]:.3f} at first, {pipelined[-1]:.5f} at last")
