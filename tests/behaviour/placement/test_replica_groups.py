"""replicaGrouping gives each group of replicas a separate weight, and trains as the undivided
problem does.
"""

import copy

import poptorch
import pytest
import torch
from poptorch import CommGroupType, VariableRetrievalMode

ONE, EACH = VariableRetrievalMode.OnePerGroup, VariableRetrievalMode.AllReplicas
REPLICAS = 4


class Product(torch.nn.Module):
    """x · w, and a bias that all replicas share."""

    def __init__(self, weight):
        super().__init__()
        self.weight = torch.nn.Parameter(weight)
        self.bias = torch.nn.Parameter(torch.zeros(3))

    def forward(self, x):
        y = x @ self.weight + self.bias
        return y, poptorch.identity_loss(y.square(), reduction="sum")


# Grouping → the group of each replica.
GROUPINGS = {
    (CommGroupType.Consecutive, 2): [0, 0, 1, 1],
    (CommGroupType.Orthogonal, 2): [0, 1, 0, 1],
    (CommGroupType.NoGrouping, 1): [0, 1, 2, 3],
    (CommGroupType.All, 0): [0, 0, 0, 0],
    (CommGroupType.Consecutive, 4): [0, 0, 0, 0],
    (CommGroupType.Orthogonal, 1): [0, 1, 2, 3],
}


def weight_of(groups, retrieval):
    torch.manual_seed(3)
    values = torch.randn(max(groups) + 1, 5, 3)
    if retrieval == EACH:
        return values[groups]
    return values if len(values) > 1 else values[0]


def by_replica(weight, groups, retrieval):
    """The weight that each replica sees."""
    if retrieval == EACH:
        return list(weight)
    return [weight if weight.dim() == 2 else weight[group] for group in groups]


def options_of(accumulation=1):
    options = poptorch.Options().replicationFactor(REPLICAS).showCompilationProgressBar(False)
    options.outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    return options


@pytest.mark.parametrize("retrieval", [ONE, EACH])
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_each_replica_computes_with_its_groups_value(grouping, retrieval):
    groups = GROUPINGS[grouping]
    weight = weight_of(groups, retrieval)
    model = Product(weight.clone())
    made = poptorch.inferenceModel(model, options_of())
    made.weight.replicaGrouping(*grouping, retrieval)
    x = torch.randn(REPLICAS, 2, 5)
    y, _ = made(x.reshape(-1, 5))
    for own, part, mine in zip(
        y.reshape(REPLICAS, 2, 3), x, by_replica(weight, groups, retrieval), strict=True
    ):
        assert torch.allclose(own, part @ mine, atol=1e-6)


@pytest.mark.shared
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("retrieval", [ONE, EACH])
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_gradients_are_those_of_the_group(grouping, retrieval, kind, accumulation):
    groups = GROUPINGS[grouping]
    weight = weight_of(groups, retrieval)
    model = Product(weight.clone())
    numbers = {"lr": 0.01, "momentum": 0.5} if kind == "SGD" else {"lr": 0.01}
    optimiser = getattr(poptorch.optim, kind)(model.parameters(), **numbers)
    made = poptorch.trainingModel(model, options_of(accumulation), optimiser)
    made.weight.replicaGrouping(*grouping, retrieval)
    # The undivided problem: one value per group; the mean is over all replicas.
    values = torch.nn.Parameter(torch.stack(by_replica(weight, groups, retrieval)))
    bias = torch.nn.Parameter(torch.zeros(3))
    plain = getattr(torch.optim, kind)([values, bias], **numbers)
    for _ in range(3):
        x = torch.randn(accumulation, REPLICAS, 2, 5)
        made(x.reshape(-1, 5))
        plain.zero_grad()
        y = x @ values + bias
        (y.square().sum() / (accumulation * REPLICAS)).backward()
        shared = torch.zeros_like(values)
        for replica, group in enumerate(groups):
            members = [other for other in range(REPLICAS) if groups[other] == group]
            shared[replica] = values.grad[members].sum(0)
        values.grad = shared
        plain.step()
    found = by_replica(model.weight.detach(), groups, retrieval)
    assert torch.allclose(torch.stack(found), values, rtol=1e-5, atol=1e-6)
    assert torch.allclose(model.bias, bias, rtol=1e-5, atol=1e-6)


def test_a_grouped_weight_is_saved_and_loaded():
    weight = weight_of([0, 0, 1, 1], ONE)
    model = Product(weight.clone())
    made = poptorch.trainingModel(model, options_of(), torch.optim.SGD(model.parameters(), lr=0.1))
    made.weight.replicaGrouping(CommGroupType.Consecutive, 2, ONE)
    made(torch.randn(4, 5))
    state = copy.deepcopy(model.state_dict())
    assert state["weight"].shape == (2, 5, 3) and not torch.equal(state["weight"], weight)
    made.load_state_dict({**state, "weight": weight})
    made.copyWeightsToHost()
    assert torch.equal(model.weight, weight)


def test_the_model_keeps_its_own_parameter():
    model = Product(weight_of([0, 0, 1, 1], ONE))
    kept = model.weight
    made = poptorch.inferenceModel(model, options_of())
    made.weight.replicaGrouping(CommGroupType.Consecutive, 2, ONE)
    made(torch.randn(4, 5))
    assert model.weight is kept and kept.shape == (2, 5, 3)


@pytest.mark.parametrize(
    "grouping, shape, text",
    [
        ((CommGroupType.Consecutive, 3, ONE), (2, 5, 3), "groups of 3 replicas do not divide"),
        ((CommGroupType.Consecutive, 2, ONE), (4, 5, 3), "first dimension must be 2: a value for"),
        ((CommGroupType.Consecutive, 2, EACH), (2, 5, 3), "must be 4: a value for each replica"),
        ((CommGroupType.Consecutive, 2.5, ONE), (2, 5, 3), "whole number of replicas, not 2.5"),
        ((1, 2, ONE), (2, 5, 3), "expected a poptorch.CommGroupType, not 1"),
        ((CommGroupType.All, 1, 0), (5, 3), "expected a poptorch.VariableRetrievalMode, not 0"),
    ],
)
def test_groupings_that_do_not_fit_are_refused(grouping, shape, text):
    made = poptorch.inferenceModel(Product(torch.randn(shape)), options_of())
    with pytest.raises(ValueError, match=text):
        made.weight.replicaGrouping(*grouping)
        made(torch.randn(4, 5))


def test_a_grouping_after_compilation_is_refused():
    made = poptorch.inferenceModel(Product(torch.randn(5, 3)), options_of())
    made(torch.randn(4, 5))
    with pytest.raises(poptorch.Error, match="replicaGrouping was called after the model was comp"):
        made.weight.replicaGrouping(CommGroupType.Consecutive, 2, ONE)


# Two groups of two, as in the undivided problem.
DIVIDED = {
    (CommGroupType.Consecutive, 2): [0, 0, 1, 1],
    (CommGroupType.Orthogonal, 2): [0, 1, 0, 1],
}


def undivided_step(values, bias, optimiser, x, groups, norm=None):
    """Steps torch's optimiser on the values of all groups, clipped if there is a norm."""
    optimiser.zero_grad()
    y = x @ values[groups].unsqueeze(0) + bias
    (y.square().sum() / (x.shape[0] * REPLICAS)).backward()
    if norm is not None:
        torch.nn.utils.clip_grad_norm_([values, bias], norm)
    optimiser.step()


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("norm", [0.1, 1e4])
@pytest.mark.parametrize("grouping", DIVIDED)
def test_max_grad_norm_sees_the_gradients_of_all_groups(grouping, norm, accumulation):
    groups = DIVIDED[grouping]
    weight = weight_of(groups, ONE)
    model = Product(weight.clone())
    optimiser = poptorch.optim.SGD(model.parameters(), lr=0.05, max_grad_norm=norm)
    made = poptorch.trainingModel(model, options_of(accumulation), optimiser)
    made.weight.replicaGrouping(*grouping, ONE)
    values = torch.nn.Parameter(weight.clone())
    bias = torch.nn.Parameter(torch.zeros(3))
    plain = torch.optim.SGD([values, bias], lr=0.05)
    for _ in range(3):
        x = torch.randn(accumulation, REPLICAS, 2, 5)
        made(x.reshape(-1, 5))
        undivided_step(values, bias, plain, x, groups, norm)
    torch.testing.assert_close(model.weight.detach(), values.detach())
    torch.testing.assert_close(model.bias.detach(), bias.detach())


class ProductWithHalf(Product):
    """Has a weight whose gradient loss scaling follows."""

    def __init__(self, weight):
        super().__init__(weight)
        self.half_weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float16))

    def forward(self, x):
        y = x @ self.weight + self.bias
        loss = y.square().sum() + self.half_weight.sum().float()
        return y, poptorch.identity_loss(loss, reduction="none")


@pytest.mark.parametrize("grouping", DIVIDED)
def test_automatic_loss_scaling_follows_the_gradients_of_all_groups(grouping):
    groups = DIVIDED[grouping]
    weight = weight_of(groups, ONE)
    model = ProductWithHalf(weight.clone())
    options = options_of()
    options.Training.setAutomaticLossScaling(True)
    options.anchorTensor("scale", "finalLossScale")
    optimiser = poptorch.optim.SGD(model.parameters(), lr=0.01, loss_scaling=2.0)
    made = poptorch.trainingModel(model, options, optimiser)
    made.weight.replicaGrouping(*grouping, ONE)
    values = torch.nn.Parameter(weight.clone())
    bias = torch.nn.Parameter(torch.zeros(3))
    plain = torch.optim.SGD([values, bias], lr=0.01)
    scales = []
    for _ in range(3):
        x = torch.randn(1, REPLICAS, 2, 5)
        made(x.reshape(-1, 5))
        scales.append(made.getAnchoredTensor("scale").item())
        undivided_step(values, bias, plain, x, groups)
    assert scales == [2.0, 4.0, 8.0]
    torch.testing.assert_close(model.weight.detach(), values.detach())
    torch.testing.assert_close(model.bias.detach(), bias.detach())
    # Only the last replica's gradient is too large: no replica updates.
    before = copy.deepcopy(model.state_dict())
    bad = torch.zeros(REPLICAS * 2, 5)
    bad[-1, 0] = 1e30
    made(bad)
    assert made.getAnchoredTensor("scale").item() == 16.0
    assert optimiser.state_dict()["ipu_state"]["lossScaleUpdateFactor"] == 4.0  # times 2
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize("grouping", DIVIDED)
def test_counts_of_updates_have_the_groups_too(grouping):
    groups = 2
    model = Product(weight_of(DIVIDED[grouping], ONE))
    optimiser = poptorch.optim.Adam(model.parameters(), lr=0.01)
    made = poptorch.trainingModel(model, options_of(), optimiser)
    made.weight.replicaGrouping(*grouping, ONE)
    x = torch.randn(REPLICAS, 2, 5).reshape(-1, 5)
    made(x)
    state = optimiser.state_dict()
    for name in ("Step___weight", "Accl1___weight", "Accl2___weight"):
        assert state["ipu_state"][name].shape[0] == groups, name
    assert state["ipu_state"]["Step___weight"].tolist() == [1] * groups
    assert state["ipu_state"]["Step___bias"].tolist() == 1
    made(x)
    optimiser.load_state_dict(state)
    made(x)
    assert optimiser.state_dict()["ipu_state"]["Step___weight"].tolist() == [2] * groups
