"""Stochastic rounding to float16 is unbiased, reproducible, and off by default."""

import copy
import os
import subprocess
import sys

import poptorch
import pytest
import torch
import zygote

N = 40000


def options(on=True, seed=7, replicas=1):
    made = poptorch.Options().randomSeed(seed).replicationFactor(replicas)
    made.Precision.enableStochasticRounding(on)
    return made


def neighbours(value):
    """Returns the float16 numbers around a float32 value, and its position between them from 0 to
    1."""
    nearest = torch.tensor(value).half()
    toward = float("inf") if nearest.item() < value else -float("inf")
    other = torch.nextafter(nearest, torch.tensor(toward).half())
    low, high = sorted((nearest.item(), other.item()))
    return low, high, (value - low) / (high - low)


@pytest.mark.parametrize("value", [1.0003, -1.0003, 3e-6, -2.2e-7, 1000.2, 60007.0])
def test_a_cast_is_unbiased(value):
    low, high, share = neighbours(value)
    drawn = poptorch.inferenceModel(lambda x: x.half(), options())(torch.full((N,), value))
    assert set(drawn.float().tolist()) == {low, high}
    up = (drawn == high).double().mean().item()
    assert abs(up - share) < 5 * (share * (1 - share) / N) ** 0.5


@pytest.mark.parametrize("value", [0.0, 1.5, -(2.0**-24), float("inf"), 1e6])
def test_what_float16_has_stays(value):
    x = torch.full((100,), value)
    assert torch.equal(poptorch.inferenceModel(lambda x: x.half(), options())(x), x.half())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x,
        lambda x: x @ x.t(),
        lambda x: torch.softmax(x, 1),
        lambda x: torch.nn.functional.layer_norm(x, (32,)),
        lambda x: x.sum(0),
    ],
    ids=["mul", "matmul", "softmax", "layer_norm", "sum"],
)
def test_every_op_rounds_at_random_to_a_neighbour(function):
    torch.manual_seed(0)
    x = (torch.randn(32, 32) * 0.5).half()
    exact = function(x.double())
    model = poptorch.inferenceModel(function, options().deviceIterations(1))
    draws = torch.stack([model(x).double() for _ in range(60)])
    spacing = torch.nextafter(exact.half(), torch.tensor(float("inf")).half()).double()
    spacing = (spacing - exact.half().double()).abs()
    # Each draw is one of the two neighbours; float32 arithmetic adds a little.
    assert ((draws - exact).abs() <= spacing * 1.05 + 1e-6).all()
    assert (draws.std(0) > 0).float().mean() > 0.5
    nearest = (exact.half().double() - exact).abs().mean()
    assert (draws.mean(0) - exact).abs().mean() < 0.6 * nearest


@pytest.mark.parametrize(
    "function",
    [
        torch.neg,
        torch.abs,
        torch.relu,
        torch.floor,
        torch.sign,
        lambda x: torch.maximum(x, x.t()),
        lambda x: torch.where(x > 0, x, -x),
        lambda x: (x > 0).to(x.dtype),
        lambda x: x.amax(1),
        lambda x: x.sort(1).values,
        lambda x: x.topk(3, 1).values,
        lambda x: torch.nn.functional.max_pool2d(x[None, None], 2),
    ],
    ids="neg abs relu floor sign maximum where bools amax sort topk max_pool".split(),
)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_exact_ops_draw_nothing(function, dtype):
    torch.manual_seed(2)
    x = torch.randn(32, 32).to(dtype)
    model = poptorch.inferenceModel(function, options())
    assert torch.equal(model(x), function(x))
    assert "stochastic_cast" not in model.graph("differentiated")


def test_off_is_to_the_nearest_even():
    torch.manual_seed(1)
    x = torch.randn(64, 64)
    ties = 1 + torch.arange(8) * 2.0**-11
    for given in (x, ties):
        assert torch.equal(poptorch.inferenceModel(lambda x: x.half())(given), given.half())
    half = x.half()
    assert torch.equal(poptorch.inferenceModel(lambda x: x * x)(half), half * half)


OPTIMISERS = {
    "SGD": {"lr": 2.0**-14},
    "SGD momentum": {"lr": 2.0**-15, "momentum": 0.5},
    "Adam": {"lr": 2.0**-14},
    "AdamW": {"lr": 2.0**-14, "weight_decay": 0.0},
    "RMSprop": {"lr": 2.0**-18},
    "LAMB": {"lr": 2.0**-14, "weight_decay": 0.0},
}


class Weights(torch.nn.Module):
    """float16 weights of one, whose gradients are one."""

    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(N, dtype=torch.half))

    def forward(self, x):
        return poptorch.identity_loss((self.w * x).sum(), reduction="none")


def trained(kind, on, replicas=1, accumulation=1, steps=4):
    model = Weights()
    made = options(on, replicas=replicas)
    made.Training.gradientAccumulation(accumulation)
    optimiser = getattr(poptorch.optim, kind.split()[0])(model.parameters(), **OPTIMISERS[kind])
    wrapped = poptorch.trainingModel(model, made, optimiser)
    for _ in range(steps):
        wrapped(torch.ones(replicas * accumulation, dtype=torch.half))
    return model.w.detach().float()


@pytest.mark.shared
@pytest.mark.parametrize("kind", OPTIMISERS)
def test_updates_too_small_for_float16_are_not_lost(kind):
    assert torch.equal(trained(kind, False), torch.ones(N))  # below half the spacing at 1
    model = Weights().float()
    optimiser = getattr(poptorch.optim, kind.split()[0])(model.parameters(), **OPTIMISERS[kind])
    for _ in range(4):
        model.w.grad = torch.ones(N)
        optimiser.step()
    moved = (1 - model.w.detach()).mean().item()
    ours = (1 - trained(kind, True)).mean().item()
    assert moved > 0 and abs(ours - moved) < 5 * (moved * 2.0**-11 / N) ** 0.5 + 1e-3 * moved


@pytest.mark.parametrize("kind", ["SGD momentum", "Adam", "LAMB"])
def test_replicas_keep_the_same_weights(kind):
    one, two = trained(kind, True, replicas=2), trained(kind, True, replicas=2)
    assert torch.equal(one, two)
    assert trained(kind, True, accumulation=2).ne(1).any()


def test_random_state_repeats_the_numbers():
    model = poptorch.inferenceModel(lambda x: x.half(), options())
    x = torch.randn(100)
    first = model(x)
    state = model.rng_state
    second, third = model(x), model(x)
    assert not torch.equal(second, third) or not torch.equal(first, second)
    model.rng_state = state
    assert torch.equal(model(x), second) and torch.equal(model(x), third)


def test_replicas_round_their_own_inputs_by_their_own_numbers():
    model = poptorch.inferenceModel(lambda x: x.half(), options(replicas=2))
    both = model(torch.full((2000,), 1.0003))
    assert not torch.equal(both[:1000], both[1000:])


PROGRAM = """
import poptorch, torch
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).half()
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = model
    def forward(self, x, t):
        return torch.nn.functional.mse_loss(self.layers(x).float(), t)
options = poptorch.Options().randomSeed(5)
options.Precision.enableStochasticRounding(True)
whole = Model()
run = poptorch.trainingModel(whole, options, poptorch.optim.Adam(whole.parameters(), lr=1e-3))
for _ in range(4):
    loss = run(torch.randn(32, 64).half(), torch.randn(32, 8))
bits = [p.detach().view(torch.int16).long().sum().item() for p in whole.parameters()]
print(loss.item().hex(), bits)
"""


@pytest.mark.shared
def test_the_same_bits_on_any_number_of_threads():
    def output(threads):
        env = {**os.environ, "POPTORCH_NUM_THREADS": threads, "POPTORCH_LOG_LEVEL": "ERR"}
        command = [sys.executable, "-c", PROGRAM]
        return zygote.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout

    assert output("1") == output("2") != b""


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)

    def forward(self, x, target):
        with poptorch.Block("0", ipu_id=0):
            x = torch.relu(self.a(x))
        with poptorch.Block("1", ipu_id=1):
            return torch.nn.functional.mse_loss(self.b(x), target)


def test_schedules_draw_the_same_numbers():
    torch.manual_seed(0)
    start = Two().half()
    data = [(torch.randn(16, 8).half(), torch.randn(16, 4).half()) for _ in range(3)]
    found = []
    for strategy in (poptorch.PipelinedExecution(), poptorch.ShardedExecution()):
        for iterations in (1, 2):
            made = options().setExecutionStrategy(strategy).deviceIterations(iterations)
            made.Training.gradientAccumulation(4 if iterations == 2 else 8)
            model = copy.deepcopy(start)
            optimiser = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            wrapped = poptorch.trainingModel(model, made, optimiser)
            for x, target in data:
                wrapped(x, target)
            found.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert torch.equal(found[0], found[2]) and torch.equal(found[1], found[3])
