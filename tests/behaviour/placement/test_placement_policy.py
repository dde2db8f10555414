"""Tests the interface between wrappers and the policy that places their models."""

import copy

import poptorch
import pytest
import torch
from poptorch._impl.placement import policy
from poptorch._impl.placement.policy import BlockStart, Placement

X = torch.randn(4, 6)


def mlp():
    torch.manual_seed(3)
    return torch.nn.Sequential(*(torch.nn.Linear(6, 6) for _ in range(4)))


class Always(policy.PlacementPolicy):
    """One placement for every model."""

    def __init__(self, placement):
        self.placement = placement

    def place(self, model, options, training):
        return self.placement


def pipelined(*begins, **keywords):
    return Placement(poptorch.PipelinedExecution(), begins=begins, **keywords)


def wrapped_by(placement, model, options=None):
    with policy.using(Always(placement)):
        return poptorch.inferenceModel(model, options)


def blocks_of(wrapped):
    return [stage["blocks"] for stage in wrapped.report()["stages"]]


def options(iterations=2):
    return poptorch.Options().deviceIterations(iterations)


def test_a_policy_begins_the_blocks_that_a_plan_writes():
    model, rest = mlp(), torch.zeros(2, 6)
    plan = poptorch.plan(model, (rest,), 2, training=False)
    by_policy = wrapped_by(plan.placement, copy.deepcopy(model), options())
    by_lines = poptorch.inferenceModel(plan.apply(copy.deepcopy(model)), options())
    alone = poptorch.inferenceModel(model, options())
    assert torch.equal(by_policy(X), alone(X))
    by_lines(X)
    assert by_policy.graph("program") == by_lines.graph("program") != alone.graph("program")
    assert len(by_policy.report()["ipus"]) == 2


def test_a_block_begins_at_the_first_of_its_modules_and_never_again():
    class BackAndForth(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c, self.d = (torch.nn.Linear(6, 6) for _ in range(4))

        def forward(self, x):
            return self.d(self.b(self.a(self.c(x))))

    begins = [BlockStart(*row) for row in (("a", "one", 0), ("b", "two", 1), ("c", "two", 1))]
    wrapped = wrapped_by(pipelined(*begins), BackAndForth(), options())
    wrapped(X)
    assert blocks_of(wrapped)[-1] == ["two"]
    assert "one" not in str(blocks_of(wrapped))  # c came first


def test_a_policy_repeats_micro_batches_behind_the_callers_back():
    seen = []

    class Twice:
        def __init__(self, executable):
            self._executable = executable

        def __getattr__(self, name):
            return getattr(self._executable, name)

        def run(self, inputs):
            seen.append(len(inputs[0]))
            (result,) = self._executable.run([inputs[0].repeat_interleave(2, 0)])
            return [result[::2]]

    model = mlp()
    wrapped = wrapped_by(pipelined(repeats=2, adapted=Twice), model, options(4))
    torch.testing.assert_close(wrapped(X), model(X).detach())
    assert seen == [4]
    assert wrapped.options.device_iterations == 8
    with pytest.raises(AssertionError, match=r"Options.deviceIterations\(4\)"):
        wrapped_by(pipelined(repeats=2, adapted=Twice), model, options(4))(X[:3])


def test_a_policy_is_in_use_for_a_while():
    placement = pipelined(BlockStart("2", "second", 1))
    with pytest.raises(KeyError), policy.using(Always(placement)):
        held = poptorch.inferenceModel(mlp(), options())
        raise KeyError
    held(X)
    assert len(held.report()["ipus"]) == 2
    other = poptorch.inferenceModel(mlp(), options())
    other(X)
    assert len(other.report()["ipus"]) == 1
