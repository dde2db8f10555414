"""Compiles a model on four IPUs with plain options, and prints how running it is refused.

`python offline_program.py FOLDER` writes the model's report below the folder, and prints the number
of IPUs as well.
"""

import json
import re
import sys

import poptorch
import torch


class Layers(torch.nn.Module):
    """One layer per IPU."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))
        for ipu in range(1, 4):
            poptorch.BeginBlock(self.layers[ipu], ipu_id=ipu)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return poptorch.identity_loss(x, reduction="mean")


options = poptorch.Options().replicationFactor(16).enableProfiling(sys.argv[1]).modelName("paper")
options.Training.gradientAccumulation(8)
model = poptorch.trainingModel(Layers(), options)
data = torch.zeros(8 * 16, 8)
model.compile(data)
report = model.report()
said = {"ipus": report["replicas"] * len(report["ipus"])}
try:
    model(data)
except AssertionError as error:
    said["refused"] = re.search(r"\((.*?)\)", str(error))[1]
print(json.dumps(said))
