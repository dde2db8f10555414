"""Runs models that differ between two instances.

FOLDER/<instance> gets each instance's errors, as JSON.
"""

import json
import sys
from pathlib import Path

import popdist
import popdist.poptorch
import poptorch
import torch

folder, version = Path(sys.argv[1]), sys.argv[2:]
i = popdist.getInstanceIndex()
if version and i == 1:
    import popdist.group

    popdist.group.VERSION = version[0]


class Network(torch.nn.Module):
    def __init__(self, slope=1.0):
        super().__init__()
        self.layer, self.slope = torch.nn.Linear(4, 4), slope

    def forward(self, x):
        return poptorch.identity_loss(self.layer(x).mul(self.slope).mean(), reduction="none")


def told(rows=4, slope=1.0, accumulation=1, optimiser=poptorch.optim.SGD):
    """Returns the error of a model with these arguments, or "trained"."""
    network, options = Network(slope), popdist.poptorch.Options()
    options.Training.gradientAccumulation(accumulation)
    optimizer = optimiser(network.parameters(), lr=0.1)
    training = poptorch.trainingModel(network, options, optimizer)
    try:
        training(torch.ones(rows * accumulation, 4))
    except poptorch.Error as error:
        return error.message
    return "trained"


try:
    popdist.init()
except poptorch.Error as error:
    found = {"version": error.message}
else:
    found = {
        "shapes": told(rows=4 + i),
        "options": told(accumulation=1 + i),
        "optimiser": told(optimiser=(poptorch.optim.SGD, poptorch.optim.Adam)[i]),
        "program": told(slope=1.0 + i),
        "equal": told(),
    }
(folder / str(i)).write_text(json.dumps(found))
