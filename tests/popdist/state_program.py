"""Reads state of models in two instances, and prints values and warnings as JSON."""

import json
import sys

import popdist
import popdist.poptorch
import poptorch
import torch

PER_GROUP = poptorch.VariableRetrievalMode.OnePerGroup
popdist.init()
index = popdist.getInstanceIndex()
found = {}


class Network(torch.nn.Module):
    """Has a weight, perhaps one per group of replicas, and a buffer per replica."""

    def __init__(self, groups=0):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(1))
        self.scale = torch.nn.Parameter(torch.ones(groups, 2) if groups else torch.ones(2))

    def forward(self, x):
        self.seen += x.sum()
        y = self.layer(x) * self.scale
        return y, poptorch.identity_loss(y.square(), reduction="sum")


def trained(seed=7, groups=0):
    """Returns a wrapped model after one step, and its optimiser."""
    options = popdist.poptorch.Options().randomSeed(seed).broadcastBuffers(False)
    torch.manual_seed(seed)
    model = Network(groups)
    optimiser = poptorch.optim.Adam(model.parameters(), lr=0.1)
    wrapped = poptorch.trainingModel(model, options, optimizer=optimiser)
    if groups:
        kinds = poptorch.CommGroupType
        wrapped.scale.replicaGrouping(kinds.Consecutive, 4 // groups, PER_GROUP)
    wrapped(rows())
    return model, wrapped, optimiser


def rows():
    """Returns this instance's rows: its replicas are 2 · index and the next."""
    return torch.tensor([[1.0 + 2 * index, 0.0], [2.0 + 2 * index, 0.0]])


def refusal(call):
    try:
        call()
    except poptorch.Error as error:
        return str(error)
    return "none"


# One instance alone reads weights, optimiser state and its own first replica's buffers.
model, wrapped, optimiser = trained()
found["shared"] = {}
if index == 0:
    found["shared"] = {name: value.tolist() for name, value in model.state_dict().items()}
    found["moments"] = len(optimiser.state_dict()["ipu_state"])
popdist.synchronize()
found["seen"] = model.seen.tolist()

# All together read divided state; buffers are then the first replica's.
model, wrapped, optimiser = trained(groups=2)
found["scales"] = model.scale.tolist()
found["seen together"] = model.seen.tolist()
moments = optimiser.state_dict()["ipu_state"]
found["moments of scale"] = moments["Accl1___scale"].tolist()
saved = {name: value.clone() for name, value in model.state_dict().items()}
model.load_state_dict({**saved, "scale": saved["scale"] * 2})
wrapped.copyWeightsToDevice()
wrapped.copyWeightsToHost()
found["doubled"] = torch.equal(model.scale, saved["scale"] * 2)

# Instances that begin differently are warned; different programs are refused, also in inference.
sys.stderr.write("differing\n")
trained(seed=index)
options = popdist.poptorch.Options()
inferring = poptorch.inferenceModel(torch.nn.Linear(2, 2), options)
found["shapes"] = refusal(lambda: inferring(torch.ones(2 * (index + 1), 2)))


class Shifted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.full((2,), float(index)))

    def forward(self, x):
        return x + self.shift


sys.stderr.write("differing buffers\n")
poptorch.inferenceModel(Shifted(), options)(torch.ones(2, 2))

# Learning rates change equally, and then differently.
sys.stderr.write("differing rates\n")
_, changing, changed = trained()
for rate in (0.2, 0.3, 0.4 + 0.25 * index):
    changed.param_groups[0]["lr"] = rate
    changing.setOptimizer(changed)
    changing(rows())
popdist.synchronize()  # the messages between instances have arrived
changing(rows())
sys.stderr.write("one changes\n")
_, changing, changed = trained()
if index == 1:
    changed.param_groups[0]["lr"] = 0.125
    changing.setOptimizer(changed)
for _ in range(2):
    changing(rows())
    popdist.synchronize()
# All write equal weights; then one writes alone, or all write different weights.
for name, last in (("written alone", index), ("written apart", 2 + index)):
    sys.stderr.write(f"{name}\n")
    weights, written, _ = trained()
    for factor in (2, 2, last):
        if factor != 0:
            weights.load_state_dict({key: x * factor for key, x in weights.state_dict().items()})
            weights.layer.bias.data.add_(1.0)
            written.copyWeightsToDevice()
        written(rows())
        popdist.synchronize()
    written(rows())
sys.stderr.write("alone\n")

# One instance alone reads divided state; the other has ended.
wrapped(rows())
if index == 0:
    found["alone"] = [
        refusal(read)
        for read in (
            model.state_dict,
            optimiser.state_dict,
            wrapped.copyWeightsToHost,
            lambda: poptorch.save_checkpoint("never.pt", wrapped, optimiser),
        )
    ]
sys.stdout.write(json.dumps(found) + "\n")
