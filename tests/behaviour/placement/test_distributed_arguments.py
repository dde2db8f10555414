"""Tests groups of replicas, and arguments that poptorch.distributed refuses."""

import functools

import poptorch
import pytest
import torch
from collective_cases import infer
from poptorch import CommGroupType, distributed
from poptorch.distributed import ReplicaGroup


@pytest.mark.parametrize(
    "kind, size, groups",
    [
        (CommGroupType.All, 0, [6, 6, 6, 6]),
        (CommGroupType.Consecutive, 2, [1, 1, 5, 5]),
        (CommGroupType.Orthogonal, 2, [2, 4, 2, 4]),
        (CommGroupType.NoGrouping, 0, [0, 1, 2, 3]),
    ],
)
def test_groups_by_enumeration(kind, size, groups):
    group = ReplicaGroup.of(kind, size)
    found = infer(lambda x: distributed.all_reduce(x, group=group), torch.arange(4.0))
    assert found.tolist() == groups


@pytest.mark.parametrize(
    "group, ranks", [((0, 1), [0, 1, 2, 3]), ((2, 1), [0, 1, 0, 1]), ((2, 2), [0, 0, 1, 1])]
)
def test_a_replica_knows_its_place_in_its_group(group, ranks):
    group, sizes = ReplicaGroup(*group), []

    def forward(x):
        sizes.append(distributed.group_size(group))
        return x + distributed.group_rank(group)

    assert infer(forward, torch.zeros(4)).tolist() == ranks
    assert sizes == [max(ranks) + 1]


X = torch.ones(8, 2)


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda x: distributed.all_reduce(x, "and"), "op is 'and'. Expected one of sum, mean, min"),
        (lambda x: distributed.all_reduce(x.int(), "mean"), "'mean' does not take .* dtype Int"),
        (lambda x: distributed.reduce_scatter(x > 0), "'sum' does not take .* dtype Bool"),
        (lambda x: distributed.all_gather(torch.complex(x, x)), "ComplexFloat is not taken"),
        (lambda x: distributed.all_gather(x, 2), "dim is 2, which a tensor of 2 dimensions does"),
        (lambda x: distributed.reduce_scatter(x.sum()), "dim is 0, which a tensor of 0 dimensions"),
        (lambda x: distributed.all_to_all(x, 0, -3), "concat_dim is -3, which a tensor of 2"),
        (lambda x: distributed.all_reduce(x, group=ReplicaGroup(-1)), "the size -1 and the stride"),
    ],
)
def test_refused_everywhere(function, text):
    with pytest.raises(poptorch.Error, match=text):
        function(X)
    with pytest.raises(poptorch.Error, match=text + r".*\(\S+test_distributed_arguments.py:\d+\)"):
        infer(function, torch.ones(32, 2))


@pytest.mark.parametrize("size, stride", [(3, 1), (8, 1), (2, 4), (4, 2), (2**62, 2), (1, 8)])
def test_groups_that_do_not_divide_the_replicas_are_refused(size, stride):
    group = ReplicaGroup(size, stride)
    text = f"groups of {size} replicas, {stride} apart, do not divide the 4 replicas"
    for function in (distributed.all_reduce, distributed.all_gather):
        with pytest.raises(poptorch.Error, match=text):
            infer(functools.partial(function, group=group), torch.ones(4))


@pytest.mark.parametrize(
    "function, text",
    [
        (distributed.reduce_scatter, "dimension 0 has 6 elements, which the 4 replicas of the gr"),
        (lambda x: distributed.all_to_all(x, -1), "dimension 1 has 2 elements, which the 4 repl"),
    ],
)
def test_dimensions_that_the_group_does_not_divide_are_refused(function, text):
    with pytest.raises(poptorch.Error, match=text):
        infer(function, torch.ones(24, 2))


def test_arguments_of_other_types_are_refused():
    for function in (
        distributed.all_reduce,
        distributed.all_gather,
        distributed.reduce_scatter,
        distributed.all_to_all,
    ):
        with pytest.raises(ValueError, match="expected a tensor but got list"):
            function([1.0])
        with pytest.raises(ValueError, match="must be a poptorch.distributed.ReplicaGroup or None"):
            function(X, group=2)
    with pytest.raises(ValueError, match=r"\[reduce_scatter\] op must be a string but is None"):
        distributed.reduce_scatter(X, None)
    with pytest.raises(ValueError, match="expected a poptorch.CommGroupType, not 1"):
        ReplicaGroup.of(1, 2)
    with pytest.raises(poptorch.Error, match="a group cannot have 0 replicas"):
        ReplicaGroup.of(CommGroupType.Orthogonal)
