"""Tests anchored tensors, times of transfers, synthetic data, and clipping over two IPUs."""

import copy
import time

import poptorch
import pytest
import torch

X, TARGET = torch.randn(8, 4), torch.randn(8, 3)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 5)
        self.second = torch.nn.Linear(5, 3)

    def forward(self, x, target=None):
        y = self.second(torch.tanh(self.first(x)))
        return y if target is None else torch.nn.functional.mse_loss(y, target)


def test_anchors_follow_their_own_output_mode():
    options = poptorch.Options().deviceIterations(4).outputMode(poptorch.OutputMode.Sum)
    assert options.anchorTensor("own", "first") is None
    options.anchorTensor("all", "first", poptorch.OutputMode.All)
    options.anchorTensor("last", "first", poptorch.OutputMode.Final)
    options.anchorTensor("input", "x", poptorch.OutputMode.EveryN, 2)
    options.anchorTensor("weights", "*.weight")
    model = Model()
    wrapped = poptorch.inferenceModel(model, options)
    result = wrapped(X)
    expected = model.first(X).detach()
    assert result.shape == (2, 3)
    torch.testing.assert_close(
        wrapped.getAnchoredTensor("own"), expected.reshape(4, 2, 5).sum(0), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(wrapped.getAnchoredTensor("all"), expected)
    torch.testing.assert_close(wrapped.getAnchoredTensor("last"), expected[-2:])
    assert torch.equal(wrapped.getAnchoredTensor("input"), X.reshape(4, 2, 4)[1::2].reshape(4, 4))
    weights = wrapped.getAnchoredTensor("weights")
    assert list(weights) == ["first.weight", "second.weight"]
    assert torch.equal(weights["second.weight"], model.second.weight)


def test_anchored_gradients_losses_and_updated_weights():
    options = poptorch.Options()
    options.anchorTensor("gradient", "Gradient___second.weight")
    options.anchorTensor("loss", "loss")
    options.anchorTensor("updated", "UpdatedVar___second.weight")
    model = Model()
    eager = copy.deepcopy(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    wrapped = poptorch.trainingModel(model, options, optimiser)
    loss = wrapped(X, TARGET)
    eager(X, TARGET).backward()
    torch.testing.assert_close(wrapped.getAnchoredTensor("gradient"), eager.second.weight.grad)
    assert torch.equal(wrapped.getAnchoredTensor("loss"), loss)
    assert torch.equal(wrapped.getAnchoredTensor("updated"), model.second.weight)
    names = wrapped.getTensorNames()
    assert {"first.bias", "first", "loss", "Gradient___first.bias", "finalLossScale"} <= set(names)


def sgd_factors(group, loss_scaling):
    """Returns PopART's factors for a parameter group of torch."""
    undamped = group["lr"] * (1 - group["dampening"])
    return undamped / loss_scaling, 1 - undamped * group["weight_decay"]


def test_anchored_factors_of_an_sgd():
    options = poptorch.Options()
    names = {
        "rate": "scaledLearningRate0___default___FLOAT",
        "short": "scaledLearningRate",
        "rate of bias": "scaledLearningRate0___specific___first.bias",
        "decay": "weightDecayScaleFactor0___default___FLOAT",
        "decay of bias": "weightDecayScaleFactor0___specific___first.bias",
        "combined": "scaledLearningRate1___default___FLOAT",
        "separate": "scaledLearningRate2___default___FLOAT",
    }
    for short, long in names.items():
        options.anchorTensor(short, long)
    model = Model()
    biases = [model.first.bias, model.second.bias]
    optimiser = poptorch.optim.SGD(
        [
            {"params": [model.first.weight, model.second.weight]},
            {"params": biases, "lr": 0.3, "weight_decay": 0.5},
        ],
        lr=0.1,
        momentum=0.9,
        dampening=0.25,
        weight_decay=0.125,
        loss_scaling=8.0,
        velocity_scaling=4.0,
        use_combined_accum=True,
    )
    wrapped = poptorch.trainingModel(model, options, optimiser)
    for rate, scaling in ((0.1, 8.0), (0.01, 2.0)):
        optimiser.param_groups[0]["lr"], optimiser.loss_scaling = rate, scaling
        if wrapped.isCompiled():
            wrapped.setOptimizer(optimiser)
        wrapped(X, TARGET)
        got = {short: wrapped.getAnchoredTensor(short) for short in names}
        first, second = (sgd_factors(group, scaling) for group in optimiser.param_groups)
        assert got["rate"] == got["short"] == torch.tensor(first[0])
        assert got["rate of bias"] == torch.tensor(second[0])
        assert got["decay"] == torch.tensor(first[1])
        assert got["decay of bias"] == torch.tensor(second[1])
        assert got["combined"] == torch.tensor(rate / 4) and got["separate"] == torch.tensor(rate)
        assert all(value.shape == () for value in got.values())
    assert {names["rate"], names["decay"]} <= set(wrapped.getTensorNames())


@pytest.mark.parametrize(
    "name",
    ["scaledLearningRate0___specific___third.bias", "weightDecayScaleFactor1", "scaledLearning"],
)
def test_factors_that_no_sgd_has(name):
    options = poptorch.Options()
    options.anchorTensor("factor", name)
    with pytest.raises(poptorch.Error, match=f"the model has no tensor {name}"):
        poptorch.trainingModel(Model(), options)(X, TARGET)


def test_only_an_sgd_has_factors():
    options = poptorch.Options()
    options.anchorTensor("factor", "scaledLearningRate0___default___FLOAT")
    model = Model()
    optimiser = torch.optim.Adam(model.parameters())
    with pytest.raises(poptorch.Error, match="the model has no tensor scaledLearningRate0"):
        poptorch.trainingModel(model, options, optimiser)(X, TARGET)


def test_times_of_transfers():
    options = poptorch.Options().deviceIterations(2).replicationFactor(2)
    wrapped = poptorch.inferenceModel(Model(), options)
    empty = {name: [[]] for name in ("input", "input_complete", "output", "output_complete")}
    assert wrapped.getPerfCounters() == empty
    wrapped.compile(X)
    assert wrapped.getPerfCounters() == empty and wrapped.getLatency() == (0.0, 0.0, 0.0)
    before = time.perf_counter()
    wrapped(X)
    after = time.perf_counter()
    counters = wrapped.getPerfCounters()
    assert list(counters) == list(empty)
    order = [counters[name][0] for name in empty]
    for steps in order:
        assert len(steps) == 4
    for times in zip(*order, strict=True):
        assert before <= times[0] <= times[1] <= times[2] <= times[3] <= after
    total = wrapped.getLatency()
    assert 0 < total[0] <= total[2] <= total[1] <= after - before
    for part in (wrapped.getHostIpuLatency, wrapped.getComputeLatency, wrapped.getIpuHostLatency):
        assert 0 <= part()[1] <= total[1]


def test_synthetic_data_replaces_the_inputs():
    wrapped = poptorch.inferenceModel(
        lambda x, i: (x * 1, i + 0), poptorch.Options().enableSyntheticData(True)
    )
    x, i = wrapped(torch.full((100,), 7.0), torch.full((2,), 7))
    assert abs(x.mean()) < 0.5 and 0.5 < x.std() < 1.5
    assert (i == 0).all()
    assert set(map(str, wrapped.getPerfCounters().values())) == {"[[], []]"}
    for latency in ("HostIpuLatency", "ComputeLatency", "IpuHostLatency", "Latency"):
        assert getattr(wrapped, f"get{latency}")() == (0.0, 0.0, 0.0)
    assert torch.equal(wrapped(torch.zeros(100), torch.zeros(2, dtype=torch.int64))[0], x)


@pytest.mark.parametrize("strategy", [poptorch.ShardedExecution, poptorch.PipelinedExecution])
def test_clipping_anchors_and_checks_over_two_ipus(strategy):
    torch.manual_seed(0)
    model = Model()
    eager = copy.deepcopy(model)
    poptorch.BeginBlock(model.second, ipu_id=1)
    options = poptorch.Options().setExecutionStrategy(strategy())
    options.Training.gradientAccumulation(4)
    options.Precision.enableFloatingPointExceptions(True)
    options.anchorTensor("gradient", "Gradient___second.weight", poptorch.OutputMode.All)
    optimiser = poptorch.optim.AdamW(model.parameters(), lr=0.01, max_grad_norm=0.1)
    wrapped = poptorch.trainingModel(model, options, optimiser)
    reference = torch.optim.AdamW(eager.parameters(), lr=0.01)
    for _ in range(4):
        reference.zero_grad()
        eager(X, TARGET).backward()
        gradient = eager.second.weight.grad.clone()
        assert torch.nn.utils.clip_grad_norm_(eager.parameters(), 0.1) > 0.1
        reference.step()
        wrapped(X, TARGET)
        of_parts = wrapped.getAnchoredTensor("gradient").reshape(4, 3, 5)
        torch.testing.assert_close(of_parts.mean(0), gradient, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(model.state_dict().values(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
