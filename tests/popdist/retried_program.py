"""Trains models whose first call is interrupted in instance 1, after which all instances call
again.

There is a model for each point of the first call. The other instances are notified of the
interrupt. Prints the points at which each instance failed exactly once, and whether all instances
have the same weights afterwards.
"""

import contextlib
import copy

import popdist
import popdist.poptorch
import poptorch
import torch
from popdist import collectives
from poptorch import testing

POINTS = [
    {"point": "join", "nth": 1, "place": "program"},  # before it sends its handshake
    {"point": "join", "nth": 2, "place": "program"},  # before it receives the other's
    {"point": "collective", "nth": 1, "place": "exchange"},  # before states are compared
    {"point": "run", "micro_batch": 0, "ipu": 1},
    {"point": "run", "micro_batch": 30, "ipu": 1},
]


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return poptorch.identity_loss(self.layer(x) ** 2, "mean")


def fails(call):
    """Returns whether it is interrupted, or notified of another instance's interrupt."""
    try:
        call()
    except KeyboardInterrupt:
        return popdist.getInstanceIndex() == 1
    except poptorch.Error as error:
        return "has failed. Its error: interrupted" in error.message
    return False


popdist.init()
index = popdist.getInstanceIndex()
for point in POINTS:
    torch.manual_seed(0)
    network, options = Network(), popdist.poptorch.Options().deviceIterations(64)
    optimizer = poptorch.optim.SGD(network.parameters(), lr=0.1)
    training = poptorch.trainingModel(network, options, optimizer)
    rows = torch.ones(64 * popdist.getNumLocalReplicas(), 4)
    training.compile(rows)
    fault = testing.inject_fault(kind="SIGINT", **point) if index == 1 else contextlib.nullcontext()
    initial = copy.deepcopy(network.state_dict())
    with fault:
        found = [fails(lambda: training(rows))]  # noqa: B023
    network.load_state_dict(initial)  # interrupted runs may have changed it
    training.copyWeightsToDevice()
    found += [fails(lambda: training(rows))]  # noqa: B023
    weight = network.layer.weight.detach().clone()
    same = torch.equal(weight, collectives.broadcast(weight, 0))
    print(point["point"], point.get("nth", 1), found, same, flush=True)
    training.destroy()
