"""On one IPU, and in the last stage of a pipeline, the backward pass computes values again from
checkpoints, if it is asked to."""

import poptorch
import pytest
import torch
from torch.nn import functional as F

STANDARD, PIPELINE = 1, 3  # of PopART's RecomputationType
CHANNELS, BLOCKS = 8, 9


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.norm, self.dropout = torch.nn.BatchNorm2d(CHANNELS), torch.nn.Dropout(0.2)

    def forward(self, x):
        return self.dropout(torch.relu(self.norm(self.conv(x)))) + x


class Network(torch.nn.Module):
    def __init__(self, checkpoints):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(BLOCKS))
        self.head, self.checkpoints = torch.nn.Linear(CHANNELS, 4), checkpoints

    def forward(self, x, labels):
        for index, block in enumerate(self.blocks):
            if index in self.checkpoints:
                x = poptorch.recomputationCheckpoint(x)
            x = block(x)
        loss = F.cross_entropy(self.head(x.mean((2, 3))), labels)
        return poptorch.identity_loss(loss, reduction="mean")


def train(kind, checkpoints=(3, 6), strategy=poptorch.PipelinedExecution):
    """Returns losses, parameters and buffers after three steps, and the figures of the IPU."""
    torch.manual_seed(0)
    model = Network(checkpoints)
    options = poptorch.Options().randomSeed(3).showCompilationProgressBar(False)
    options.Training.gradientAccumulation(2)
    options.setExecutionStrategy(strategy())
    if kind is not None:
        options._Popart.set("autoRecomputation", kind)
    optimiser = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    wrapped = poptorch.trainingModel(model, options, optimiser)
    images, labels = torch.randn(8, CHANNELS, 12, 12), torch.randint(0, 4, (8,))
    losses = [wrapped(images, labels) for _ in range(3)]
    wrapped.copyWeightsToHost()
    values = [*model.parameters(), *model.buffers()]
    return losses + [value.detach().clone() for value in values], wrapped.report()["ipus"][0]


@pytest.mark.parametrize("strategy", [poptorch.PipelinedExecution, poptorch.ShardedExecution])
def test_recomputation_takes_less_memory_and_more_cycles_for_the_same_bits(strategy):
    kept, memory = train(None, strategy=strategy)
    again, less = train(STANDARD, strategy=strategy)
    assert all(torch.equal(a, b) for a, b in zip(kept, again, strict=True))
    assert less["arena_bytes"] < memory["arena_bytes"]
    assert less["compute_cycles"] > memory["compute_cycles"]


def test_recomputation_of_pipelines_changes_nothing_on_one_ipu():
    _, memory = train(None)
    _, same = train(PIPELINE)
    assert same == memory


def test_without_checkpoints_nothing_is_computed_again():
    _, memory = train(None, checkpoints=())
    _, same = train(STANDARD, checkpoints=())
    assert same == memory


class Stages(Network):
    """The same network, of which the second IPU has all blocks but the first."""

    def __init__(self, checkpoints):
        super().__init__(checkpoints)
        poptorch.BeginBlock(self.blocks[0], "first", ipu_id=0)
        poptorch.BeginBlock(self.blocks[1], "last", ipu_id=1)


def train_stages(kind):
    """Returns losses, parameters and buffers after two steps, and the figures of both IPUs."""
    torch.manual_seed(0)
    model = Stages((3, 6))
    options = poptorch.Options().randomSeed(3)
    options.Training.gradientAccumulation(4)
    options._Popart.set("autoRecomputation", kind)
    optimiser = poptorch.optim.SGD(model.parameters(), lr=0.1)
    wrapped = poptorch.trainingModel(model, options, optimiser)
    images, labels = torch.randn(16, CHANNELS, 12, 12), torch.randint(0, 4, (16,))
    losses = [wrapped(images, labels) for _ in range(2)]
    wrapped.copyWeightsToHost()
    values = [*model.parameters(), *model.buffers()]
    return losses + [value.detach().clone() for value in values], wrapped.report()["ipus"]


def test_the_last_stage_of_a_pipeline_takes_less_memory_and_more_cycles_for_the_same_bits():
    kept, memory = train_stages(PIPELINE)
    again, less = train_stages(STANDARD)
    assert all(torch.equal(a, b) for a, b in zip(kept, again, strict=True))
    assert less[1]["arena_bytes"] < memory[1]["arena_bytes"]
    assert less[1]["compute_cycles"] > memory[1]["compute_cycles"]
    assert less[0]["compute_cycles"] == memory[0]["compute_cycles"]
