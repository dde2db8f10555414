"""Collectives of poptorch.distributed between replicas agree with the same computed by NumPy."""

import random

import numpy as np
import poptorch
import pytest
import torch
from collective_cases import CASES, GROUPS, PLACES, by_group, infer, options_of
from poptorch import CommGroupType, distributed
from poptorch.distributed import ReplicaGroup

ROWS = 8
TOLERANCE = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-6},
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
}


def values(replicas, dtype=torch.float32, seed=0):
    """[replicas, ROWS, ROWS], with a zero, a pair of zeros and ties."""
    made = torch.rand(replicas, ROWS, ROWS, generator=torch.Generator().manual_seed(seed))
    made = (made * 16).round() / 8 - 1
    made[0, 0, 0] = 0
    made[:2, 1, 1] = 0
    made[:, 2, 2] = 0.5
    return made.to(dtype)


class Weighted(torch.nn.Module):
    """Returns a collective of a weight; the loss is the sum of its result times an input."""

    def __init__(self, weight, case, group):
        super().__init__()
        self.weight = torch.nn.Parameter(weight)
        self.case, self.group = case, group

    def forward(self, factor):
        y = self.case.run(self.weight, self.group)
        return y, poptorch.identity_loss((y * factor.reshape(y.shape)).sum(), "none")


def trained(case, x, factor, group=None):
    """Returns the results of `case` for each replica's x, and gradients of the sum of losses."""
    replicas = len(x)
    model = Weighted(x.clone(), case, group)
    sums = poptorch.ReductionType.Sum
    options = options_of(replicas, accumulationAndReplicationReductionType=sums)
    made = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=1.0))
    made.weight.replicaGrouping(
        CommGroupType.NoGrouping, 1, poptorch.VariableRetrievalMode.OnePerGroup
    )
    y, _ = made(factor.flatten(0, 1))
    dx = x.float() - model.weight.detach().float()
    return y.numpy().reshape(factor.shape), dx.numpy()


@pytest.mark.shared
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("replicas, group", PLACES)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_of_training(name, replicas, group, dtype):
    case, x = CASES[name], values(replicas, dtype)
    expected = by_group(replicas, group, [x.numpy()], case.forward)
    factor = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    dx = by_group(replicas, group, [x.float().numpy(), factor.float().numpy()], case.backward)

    found, dx_found = trained(case, x, factor, ReplicaGroup(*group))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(dx_found, dx, **TOLERANCE[dtype])


@pytest.mark.parametrize("reduction", ["Sum", "Mean"])
@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_a_shared_weight_is_reduced_over_replicas_afterwards(name, reduction):
    replicas, group, accumulation = 4, (2, 2), 2
    case, x = CASES[name], values(1)[0]
    stacked = np.stack([x.numpy()] * replicas)
    shape = by_group(replicas, group, [stacked], case.forward).shape
    factors = torch.randn(accumulation, *shape)
    total = sum(
        by_group(replicas, group, [stacked, factor.numpy()], case.backward).sum(0)
        for factor in factors
    )
    if reduction == "Mean":
        total = total / (accumulation * replicas)
    model = Weighted(x.clone(), case, ReplicaGroup(*group))
    options = options_of(
        replicas,
        gradientAccumulation=accumulation,
        accumulationAndReplicationReductionType=poptorch.ReductionType[reduction],
    )
    made = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=1.0))
    made(factors.flatten(0, 2))
    np.testing.assert_allclose((x - model.weight.detach()).numpy(), total, rtol=1e-4, atol=1e-5)


class Chain:
    """Runs random collectives in sequence, each with a separate random group."""

    def __init__(self, seed):
        chance = random.Random(seed)
        self.replicas = chance.choice(list(GROUPS))
        self.steps, self.values = [], [values(self.replicas, seed=seed).numpy()]
        while len(self.steps) < 5:
            case, group = CASES[chance.choice(list(CASES))], chance.choice(GROUPS[self.replicas])
            try:
                y = by_group(self.replicas, group, [self.values[-1]], case.forward)
            except ValueError:  # the group does not divide the size of the last result
                continue
            if y[0].size <= 1024:
                self.steps.append((case, group, y))
                self.values.append(np.sin(y))

    def run(self, x, _):
        for case, group, _ in self.steps:
            x = torch.sin(case.run(x, ReplicaGroup(*group)))
        return x

    def backward(self, dy):
        for (case, group, y), x in zip(self.steps[::-1], self.values[-2::-1], strict=True):
            dy = by_group(self.replicas, group, [x, dy * np.cos(y)], case.backward)
        return dy


@pytest.mark.parametrize("seed", range(16))
def test_chains_have_the_gradient_of_the_sum_of_all_losses(seed):
    chain = Chain(seed)
    x, y = chain.values[0], chain.values[-1]
    factor = torch.randn(y.shape, generator=torch.Generator().manual_seed(seed))
    found, dx = trained(chain, torch.from_numpy(x), factor)
    np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx, chain.backward(factor.numpy()), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.int64])
@pytest.mark.parametrize("name", CASES)
def test_values_of_inference(name, dtype):
    if not dtype.is_floating_point and "mean" in name:
        return  # refused below
    x = (values(4) * 8).to(dtype)
    found = infer(lambda x: CASES[name].run(x, ReplicaGroup(2, 2)), x.flatten(0, 1))
    expected = by_group(4, (2, 2), [x.numpy()], CASES[name].forward)
    np.testing.assert_array_equal(found.numpy().reshape(expected.shape), expected)
    assert found.dtype == (torch.int32 if dtype is torch.int64 else dtype)  # as for any output


def test_truth_values_are_moved():
    x = torch.tensor([[True, False], [False, False]])
    assert torch.equal(infer(distributed.all_gather, x, replicas=2), x.repeat(2, 1))
    flat = x.flatten()
    assert torch.equal(
        infer(distributed.all_to_all, flat, replicas=2), torch.tensor([True, False, False, False])
    )


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("place", range(4))
def test_what_is_no_number_is_the_least_and_the_largest(op, place):
    x = torch.arange(4.0)
    x[place] = float("nan")
    assert torch.isnan(infer(lambda x: distributed.all_reduce(x, op), x)).all()


@pytest.mark.parametrize("name", CASES)
def test_one_replica_has_what_it_gives(name):
    x = values(1)[0]
    assert torch.equal(infer(lambda x: CASES[name].run(x, None), x, replicas=1), x)


@pytest.mark.parametrize("name", CASES)
def test_on_the_host_tensors_stay(name):
    group = ReplicaGroup(4, 2)  # they are not in this process
    x = values(1)[0]
    leaf = x.clone().requires_grad_()
    y = CASES[name].run(leaf, group)
    assert torch.equal(y, x) and y is not leaf
    (y * x).sum().backward()
    assert torch.equal(leaf.grad, x)
    assert distributed.group_size(group) == 1 and distributed.group_rank(group) == 0


def test_numbers_are_gathered_to_a_vector():
    found = infer(lambda x: distributed.all_gather(x.sum()), torch.arange(8.0))
    assert found.tolist() == [1, 5, 9, 13] * 4
    assert distributed.all_gather(torch.tensor(3.0)).tolist() == [3]


def test_tensors_without_elements():
    def forward(x):
        empty = x.new_zeros(4, 0)
        shapes = (
            distributed.all_reduce(empty).shape,
            distributed.all_gather(empty).shape,
            distributed.reduce_scatter(empty).shape,
            distributed.all_to_all(empty, 0, 1).shape,
        )
        return x + torch.tensor([list(shape) for shape in shapes]).sum(0)[0]

    assert infer(forward, torch.zeros(4)).tolist() == [4 + 16 + 1 + 1] * 4


class Staged(torch.nn.Module):
    """Two stages, each with a collective in the middle."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first, self.last = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x, target):
        with poptorch.Block("a", ipu_id=0):
            h = torch.tanh(self.first(x))
            h = h - distributed.all_reduce(h.mean(0), "mean")
        with poptorch.Block("b", ipu_id=1):
            y = distributed.all_to_all(self.last(h))
            return y, torch.nn.functional.mse_loss(y, target)


@pytest.mark.parametrize(
    "strategy", [poptorch.PipelinedExecution, poptorch.ShardedExecution], ids=lambda s: s.__name__
)
def test_stages_of_replicas_meet(strategy):
    replicas, accumulation, rows = 2, 4, 4
    x, target = torch.randn(2, accumulation, replicas, rows, 4)
    model, plain = Staged(), Staged()
    options = options_of(replicas, gradientAccumulation=accumulation)
    options.setExecutionStrategy(strategy())
    made = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(2):
        made(x.flatten(0, 2), target.flatten(0, 2))
        loss = 0
        for part, wanted in zip(x, target, strict=True):
            h = torch.tanh(plain.first(part))
            y = plain.last(h - h.mean((0, 1)))
            y = y.reshape(replicas, replicas, -1, 4).transpose(0, 1).reshape(y.shape)
            loss = loss + torch.nn.functional.mse_loss(y, wanted) / accumulation
        plain.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in plain.parameters():
                parameter -= 0.1 * parameter.grad
    torch.testing.assert_close(model.state_dict(), plain.state_dict(), rtol=1e-4, atol=1e-5)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return distributed.all_reduce(x)

    @staticmethod
    def backward(ctx, dy):
        return distributed.all_reduce(dy, "max") * 10


def test_a_function_with_its_own_backward_may_use_them():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return poptorch.identity_loss((Doubled.apply(self.weight) * x).sum(), "none")

    model = Model()
    made = poptorch.trainingModel(model, options_of(4), torch.optim.SGD(model.parameters(), lr=1.0))
    made(torch.arange(4.0))
    assert model.weight.item() == -30


def test_in_loops_and_in_branches_that_all_replicas_take():
    def looped(x):
        return poptorch.for_loop(3, lambda x: distributed.all_reduce(x), [x])[0]

    assert infer(looped, torch.ones(4)).tolist() == [64] * 4

    def chosen(x):
        total = distributed.all_reduce(x)
        add, keep = (lambda x: distributed.all_reduce(x)), (lambda x: x + 0)
        return poptorch.cond(total.sum() > 0, add, [x], keep, [x])[0]

    assert infer(chosen, torch.ones(4)).tolist() == [4] * 4
    assert infer(chosen, -torch.ones(4)).tolist() == [-1] * 4


def test_a_replica_that_waits_for_ever_is_an_error():
    def chosen(x):
        add, keep = (lambda x: distributed.all_reduce(x)), (lambda x: x + 0)
        return poptorch.cond(x.sum() > 0, add, [x], keep, [x])[0]

    made = poptorch.inferenceModel(chosen, options_of(4))
    text = r"replica 1 waits at all_reduce \(\S*test_distributed.py:\d+\) for replicas of its group"
    with pytest.raises(poptorch.Error, match=text):
        made(torch.tensor([-1.0, 1, 0, -1]))
    assert made(torch.ones(4)).tolist() == [4] * 4
