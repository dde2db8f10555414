"""Tests replicas of one IPU each: data parallelism, groups of inputs, buffers that differ between
replicas.
"""

import copy

import poptorch
import pytest
import torch
from poptorch import CommGroupType


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        self.second = torch.nn.Linear(8, 3)

    def forward(self, x, target):
        y = self.second(torch.tanh(self.first(x)))
        return torch.nn.functional.mse_loss(y, target)


OPTIMISERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {"lr": 0.01},
    "AdamW": {"lr": 0.01},
    "RMSprop": {"lr": 0.001},
}


@pytest.mark.shared
@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.parametrize("reduction", [poptorch.ReductionType.Mean, poptorch.ReductionType.Sum])
def test_accumulation_and_replicas_equal_one_large_batch(kind, reduction):
    torch.manual_seed(2)
    start = Model()
    data = [(torch.randn(32, 6), torch.randn(32, 3)) for _ in range(4)]

    eager = copy.deepcopy(start)
    results = {}
    for accumulation in (1, 2, 8):
        for replicas in (1, 2, 4):
            parts = accumulation * replicas
            eager = copy.deepcopy(start)
            reference = getattr(torch.optim, kind)(eager.parameters(), **OPTIMISERS[kind])
            for x, target in data:
                reference.zero_grad()
                whole = eager(x, target)
                # The mean of the parts' means is the mean of the whole; their sum is `parts` times
                # that.
                (whole if reduction == poptorch.ReductionType.Mean else whole * parts).backward()
                reference.step()

            model = copy.deepcopy(start)
            options = poptorch.Options().replicationFactor(replicas)
            options.Training.gradientAccumulation(accumulation)
            options.Training.accumulationAndReplicationReductionType(reduction)
            optimiser = getattr(poptorch.optim, kind)(model.parameters(), **OPTIMISERS[kind])
            wrapped = poptorch.trainingModel(model, options, optimiser)
            for x, target in data:
                loss = wrapped(x, target)
                assert loss.shape == (() if replicas == 1 else (replicas,))
            results[parts] = model.state_dict()
            for name, expected in eager.state_dict().items():
                ours = results[parts][name]
                error = (ours - expected).abs().max() / expected.abs().max()
                assert error < 1e-5, (accumulation, replicas, name)


ROWS = torch.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize(
    "size, kind, slices",
    [
        (1, CommGroupType.Consecutive, [0, 1, 2, 3]),
        (2, CommGroupType.Consecutive, [0, 0, 1, 1]),
        (4, CommGroupType.Consecutive, [0, 0, 0, 0]),
        (2, CommGroupType.Orthogonal, [0, 1, 0, 1]),
        (4, CommGroupType.NoGrouping, [0, 1, 2, 3]),
    ],
)
def test_replicas_of_a_group_read_the_same_slice(size, kind, slices):
    options = poptorch.Options().replicationFactor(4).inputReplicaGrouping(size, kind)
    given = ROWS[: len(set(slices))]
    out = poptorch.inferenceModel(lambda x: x * 2, options)(given)
    assert torch.equal(out, given[slices] * 2)


class Counting(torch.nn.Module):
    """Counts its inputs in a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))

    def forward(self, x):
        self.seen += x.sum(0)
        return self.seen.reshape(1, 2) + 0 * x


def test_buffers_with_replicas_are_refused_unless_they_may_differ():
    options = poptorch.Options().replicationFactor(2)
    x = torch.tensor([[1.0, 2.0], [10.0, 20.0]])
    writing = Counting(), torch.nn.BatchNorm1d(2)
    for model, name in zip(writing, ("seen", "running_mean"), strict=True):
        wrapped = poptorch.inferenceModel(model, options.clone().deviceIterations(2))
        with pytest.raises(poptorch.Error, match=f"support broadcasting buffers.* writes {name}"):
            wrapped.compile(torch.cat([x, x, x, x]))
    reading = torch.nn.BatchNorm1d(2).eval()
    assert torch.allclose(poptorch.inferenceModel(reading, options)(x), reading(x))

    model = Counting()
    wrapped = poptorch.inferenceModel(model, options.clone().broadcastBuffers(False))
    assert torch.equal(wrapped(x), x)
    assert torch.equal(wrapped(x), x * 2)  # each replica continues with its own
    wrapped.copyWeightsToHost()
    assert torch.equal(model.seen, torch.tensor([2.0, 4.0]))  # the first replica's


def test_the_number_of_ipus_is_a_power_of_two_or_rounded():
    options = poptorch.Options().replicationFactor(3)
    with pytest.raises(
        poptorch.Error,
        match="The model specifies the use of 3 IPUs, however PopTorch must reserve a minimum of 4",
    ):
        poptorch.inferenceModel(torch.relu, options)(torch.ones(3))
    wrapped = poptorch.inferenceModel(torch.relu, options.clone().autoRoundNumIPUs())
    assert wrapped(torch.ones(3)).shape == (3,)


def test_replicas_draw_different_random_numbers():
    options = poptorch.Options().replicationFactor(2).randomSeed(1)
    out = poptorch.inferenceModel(lambda x: x + torch.rand(1), options)(torch.zeros(2))
    assert out[0] != out[1]
