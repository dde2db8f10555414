"""Whole models on several IPUs give the bits of one IPU, and train as in eager torch."""

import copy

import beside_eager
import placed_models
import poptorch
import pytest
import torch
import whole_models


@pytest.mark.shared
@pytest.mark.parametrize("name", placed_models.BLOCKS)
def test_a_pipeline_of_four_ipus_trains_as_eager_torch(name):
    count = placed_models.micro_batches(name)
    model, batch = placed_models.made(name, count)
    options = beside_eager.options_of(count)
    options.setExecutionStrategy(placed_models.pipelined(name))
    model = placed_models.divided(model, name)
    if name in whole_models.ROUNDING_IS_AMPLIFIED:
        kinks = whole_models.ROUNDING_IS_AMPLIFIED[name]
        wrapped = beside_eager.assert_steps_are_eagers(model, batch, options, count, kinks)
    else:
        wrapped = beside_eager.assert_trains_as_eager(model, batch, options, count)
    assert len(wrapped.report()["ipus"]) == 4


def bits(model, batch, options):
    """Returns scores and losses of some steps, the weights after them, and the number of IPUs."""
    optimiser = poptorch.optim.AdamW(model.parameters(), lr=0.01, loss_scaling=8.0)
    wrapped = poptorch.trainingModel(model, options, optimiser)
    found = [tensor for _ in range(3) for tensor in beside_eager.call(wrapped, batch)]
    return [*found, *model.state_dict().values()], len(wrapped.report()["ipus"])


@pytest.mark.shared
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=["float32", "float16"])
@pytest.mark.parametrize("name", placed_models.BLOCKS)
def test_every_placement_has_the_bits_of_one_ipu(name, dtype):
    count = placed_models.micro_batches(name)
    model, batch = placed_models.made(name, count)
    model, batch = model.to(dtype), beside_eager.converted(batch, dtype)
    expected, ipus = bits(copy.deepcopy(model), batch, beside_eager.options_of(count))
    assert ipus == 1
    for strategy, ipus in placed_models.STRATEGIES.items():
        options = beside_eager.options_of(count).setExecutionStrategy(strategy(name))
        found = bits(placed_models.divided(copy.deepcopy(model), name), batch, options)
        assert found[1] == ipus
        for one, other in zip(found[0], expected, strict=True):
            assert torch.equal(one, other), strategy.__name__
