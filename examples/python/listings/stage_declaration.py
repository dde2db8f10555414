"""Listing 4.10: blocks as stages, stages as phases."""

import poptorch
import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        with poptorch.Block("A"):
            c = x + x
        with poptorch.Block("B"):
            d = y + y
        with poptorch.Block("C"):
            e = x * 3

        return c, d, e


first = poptorch.Phase(poptorch.Stage("A").ipu(0))
# Regrouped in a single stage
second = poptorch.Phase(poptorch.Stage("B", "C").ipu(1))
# 2 separate stages
second = poptorch.Phase(poptorch.Stage("B").ipu(1), poptorch.Stage("C").ipu(3))

opts = poptorch.Options()
opts.setExecutionStrategy(poptorch.ParallelPhasedExecution(first, second))
model = poptorch.inferenceModel(Model(), opts)
c, d, e = model(torch.tensor([1.0]), torch.tensor([2.0]))
print(c, d, e)
