"""Instance 0 alone validates with a separate model between steps of a model of all instances."""

import popdist
import popdist.poptorch
import poptorch
import torch


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return poptorch.identity_loss((self.layer(x) ** 2).mean(), reduction="none")


class Validated(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network.layer(x)


popdist.init()
torch.manual_seed(0)
network, x = Network(), torch.randn(6, 4)
options = popdist.poptorch.Options()
training = poptorch.trainingModel(network, options, poptorch.optim.SGD(network.parameters(), 0.1))


def validate():
    alone = poptorch.Options()
    alone.Distributed.disable()
    alone.replicationFactor(2)
    inference = poptorch.inferenceModel(Validated(network), alone)
    found = inference(x)
    popdist.synchronize()  # of this set
    expected = torch.nn.functional.linear(x, network.layer.weight, network.layer.bias)
    torch.testing.assert_close(found, expected.detach())
    own = Network()
    other = poptorch.trainingModel(own, alone, poptorch.optim.SGD(own.parameters(), 0.1))
    other(x)
    for wrapped in (inference, other):
        wrapped.destroy()
    return float(found.abs().sum())


for _ in range(2):
    training(x)
    print(popdist.execute_on_instances({0}, validate), flush=True)
    popdist.synchronize()
print("trained", network.layer.weight.sum().item())
