"""The networks of examples/cpp in Python, by program: same weights, options and steps."""

import poptorch
import torch
from torch import nn


class Pipelined(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = nn.Linear(6, 16), nn.LayerNorm(16)
        self.middle, self.head = nn.Linear(16, 16), nn.Linear(16, 3)

    def forward(self, x, labels):
        with poptorch.Block("embed"):
            x = torch.nn.functional.gelu(self.embed(x))
        with poptorch.Block("norm"):
            x = poptorch.recomputationCheckpoint(self.norm(x))
        with poptorch.Block("middle"):
            x = x + torch.tanh(self.middle(x))
        with poptorch.Block("head"):
            x = self.head(x)
            loss = nn.functional.cross_entropy(x, labels)
            return x, poptorch.identity_loss(loss, "none")


def pipelined():
    network = Pipelined()
    options = poptorch.Options().showCompilationProgressBar(False).deviceIterations(2)
    options.setExecutionStrategy(
        poptorch.PipelinedExecution(
            "embed", poptorch.Stage("norm").ipu(1), "middle", poptorch.Stage("head").ipu(3)
        )
    )
    options.Training.gradientAccumulation(8)
    optimizer = poptorch.optim.SGD(
        network.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, loss_scaling=16.0
    )
    inputs = {"x": torch.randn(48, 6), "labels": torch.randint(0, 3, (48,))}
    return network, poptorch.trainingModel(network, options, optimizer), inputs


class Phased(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 32), nn.Linear(32, 32)
        self.last = nn.Linear(32, 2)

    def forward(self, x, target):
        x = self.last(torch.sigmoid(self.second(torch.relu(self.first(x)))))
        return x, nn.functional.mse_loss(x, target)


def phased():
    network = Phased()
    for layer, block in (("first", "front"), ("second", "middle"), ("last", "back")):
        poptorch.BeginBlock(getattr(network, layer), block)
    strategy = poptorch.SerialPhasedExecution(*map(poptorch.Phase, ("front", "middle", "back")))
    strategy.setTensorsLiveness(poptorch.Liveness.OffChipAfterFwd).useSeparateBackwardPhase()
    options = poptorch.Options().showCompilationProgressBar(False).setExecutionStrategy(strategy)
    options.outputMode(poptorch.OutputMode.All).Training.gradientAccumulation(2)
    off_chip = poptorch.TensorLocationSettings().useOnChipStorage(False)
    options.TensorLocations.setOptimizerLocation(off_chip)
    optimizer = poptorch.optim.Adam(
        network.parameters(), lr=0.01, betas=(0.8, 0.99), max_grad_norm=1.0
    )
    inputs = {"x": torch.randn(16, 8), "target": torch.randn(16, 2)}
    return network, poptorch.trainingModel(network, options, optimizer), inputs


class Replicated(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.head = nn.Linear(16, 3)
        self.scale = nn.Parameter(torch.randn(2, 3))

    def forward(self, x, labels):
        x = torch.relu(self.norm(self.convolution(x)))
        x = self.head(x.flatten(1)) * self.scale
        return x, nn.functional.cross_entropy(x, labels)


def replicated():
    network = Replicated()
    options = (
        poptorch.Options()
        .showCompilationProgressBar(False)
        .replicationFactor(4)
        .broadcastBuffers(False)
    )
    options.outputMode(poptorch.OutputMode.All).Training.gradientAccumulation(2)
    options.TensorLocations.setOptimizerLocation(
        poptorch.TensorLocationSettings()
        .useReplicatedTensorSharding()
        .minElementsForReplicatedTensorSharding(4)
    )
    options.anchorTensor("gradient", "Gradient___head.bias")
    optimizer = poptorch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=0.05)
    model = poptorch.trainingModel(network, options, optimizer)
    model.scale.replicaGrouping(
        poptorch.CommGroupType.Consecutive, 2, poptorch.VariableRetrievalMode.OnePerGroup
    )
    inputs = {"x": torch.randn(32, 1, 4, 4), "labels": torch.randint(0, 3, (32,))}
    return network, model, inputs


PROGRAMS = {"pipelined": pipelined, "phased": phased, "replicated": replicated}


def tensors(network):
    """Returns parameters and buffers, by path."""
    return {name: value.detach().clone() for name, value in network.state_dict().items()}


def trained(model, network, inputs, steps=4):
    """Returns the results that the C++ programs write, and the traced form."""
    end = {}
    for step in range(steps):
        end[f"loss{step}"] = model(*inputs.values())[1]
    if model.options.anchored_tensors:
        end["Gradient___head.bias"] = model.getAnchoredTensor("gradient")
    model.copyWeightsToHost()
    return {**end, **tensors(network)}, model.graph("traced")
