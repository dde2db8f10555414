"""Random networks of images have eager torch's values, and the same bits on one IPU and on two.

Each runs in float32 and in a half type, rounded to nearest or at random. CI runs 60 seeds, other
runs a few, or as many as POPTORCH_FUZZ_SEEDS says.
"""

import copy
import os
import random

import poptorch
import pytest
import torch
from random_images import random_network

SEEDS = int(os.environ.get("POPTORCH_FUZZ_SEEDS", "60" if os.environ.get("CI") else "10"))
STEPS = 2
HALVES = [(dtype, at_random) for dtype in (torch.float16, torch.bfloat16) for at_random in (0, 1)]


def of_type(tensors, dtype):
    return tuple(t.to(dtype) if t.is_floating_point() else t for t in tensors)


def optimiser_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5)


def options_of(cut, at_random, seed):
    options = poptorch.Options().showCompilationProgressBar(False).randomSeed(seed)
    options.Precision.enableStochasticRounding(bool(at_random))
    return options if cut is None else options.setExecutionStrategy(poptorch.ShardedExecution())


def run(network, inputs, dtype=torch.float32, at_random=0, cut=None, seed=1):
    """Returns the results of each step of training, the state, and the results of inference."""
    model, inputs = copy.deepcopy(network).to(dtype), of_type(inputs, dtype)
    model.cut = cut
    options = options_of(cut, at_random, seed)
    training = poptorch.trainingModel(model, options, optimiser_of(model))
    results = [tensor for _ in range(STEPS) for tensor in training(*inputs)]
    training.destroy()
    results += [tensor.clone() for tensor in model.state_dict().values()]
    inference = poptorch.inferenceModel(model.eval(), options_of(cut, at_random, seed))
    return results + list(inference(*inputs))


def run_eager(network, inputs, dtype):
    """Returns the same computed by torch alone."""
    model, inputs = copy.deepcopy(network).to(dtype), of_type(inputs, dtype)
    optimiser, results = optimiser_of(model), []
    for _ in range(STEPS):
        optimiser.zero_grad()
        results += model(*inputs)
        results[-1].backward()
        optimiser.step()
    results += [tensor.clone() for tensor in model.state_dict().values()]
    with torch.no_grad():
        return [*(tensor.detach() for tensor in results), *model.eval()(*inputs)]


def first_results(network, inputs, dtype):
    """Returns eager float32's first results where weights and inputs have the values of `dtype`."""
    with torch.no_grad():
        model = copy.deepcopy(network).to(dtype).float()
        return model(*of_type(of_type(inputs, dtype), torch.float32))


def assert_near(results, expected, other, rtol):
    """Allows thirty times the error of `other`, which less exact arithmetic or inputs have."""
    for one, value, less_exact in zip(results, expected, other, strict=True):
        value = value.double()
        allowed = rtol * (1 + value.abs()) + 30 * (less_exact.double() - value).abs().max()
        error = (one.view_as(value).double() - value).abs()
        assert torch.all(error <= allowed), (error - allowed).max()


@pytest.mark.shared
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_images(seed):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    network, inputs = random_network(rng, torch.Generator().manual_seed(seed))
    cut = rng.randrange(1, len(network.layers))

    results = run(network, inputs)
    exact = run_eager(network, inputs, torch.float64)
    assert_near(results, exact, run_eager(network, inputs, torch.float32), 1e-3)

    dtype, at_random = rng.choice(HALVES)
    halves = run(network, inputs, dtype, at_random, seed=seed)
    rounded = first_results(network, inputs, dtype)
    assert_near(halves[:2], exact[:2], rounded, 25 * torch.finfo(dtype).eps)

    for one, other in (
        (results, run(network, inputs, cut=cut)),
        (halves, run(network, inputs, dtype, at_random, cut, seed)),
    ):
        for whole, split in zip(one, other, strict=True):
            torch.testing.assert_close(split, whole, rtol=0, atol=0, equal_nan=True)
