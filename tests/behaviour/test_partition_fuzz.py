"""Random models, cut at random: on one IPU and on many, phased or not, they give the same bits.

CI runs 500 seeds, others a few, or as many as POPTORCH_FUZZ_SEEDS says.
"""

import copy
import os
import random

import poptorch
import pytest
import torch
from torch.nn import functional as F

SEEDS = int(os.environ.get("POPTORCH_FUZZ_SEEDS", "500" if os.environ.get("CI") else "24"))
WIDTH = 6
MICRO_BATCH = 4


class Layer(torch.nn.Module):
    """One step of a random model: `kind` on the values at `operands`."""

    KINDS = ("linear", "tanh", "add", "mul", "norm", "batch", "dropout", "softmax", "matmul", "cat")
    MODULES = {
        "linear": lambda: torch.nn.Linear(WIDTH, WIDTH),
        "norm": lambda: torch.nn.LayerNorm(WIDTH),
        "batch": lambda: torch.nn.BatchNorm1d(WIDTH),
        "dropout": lambda: torch.nn.Dropout(0.4),
        "cat": lambda: torch.nn.Linear(2 * WIDTH, WIDTH),
    }

    def __init__(self, kind, operands):
        super().__init__()
        self.kind = kind
        self.operands = operands
        if kind in self.MODULES:
            self.inner = self.MODULES[kind]()

    def forward(self, values):
        a, b = (values[i] for i in self.operands)
        if self.kind == "cat":
            return self.inner(torch.cat([a, b], 1))
        if self.kind in self.MODULES:
            return self.inner(a)
        return {
            "tanh": lambda: torch.tanh(a) * 0.9,
            "add": lambda: a + b,
            "mul": lambda: a * torch.sigmoid(b),
            "softmax": lambda: torch.softmax(a, 1) - b.mean(),
            "matmul": lambda: a @ (b.T @ b) * 0.1,
        }[self.kind]()


class Model(torch.nn.Module):
    """`stages[i]` is that of layer i; None: not divided. `scoped`: blocks are scopes."""

    def __init__(self, layers, again, stages=None, ipus=None, scoped=False):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)
        self.again = again  # (a layer with weights, the layer before which it runs once more)
        self.stages, self.ipus, self.scoped = stages, ipus, scoped

    def block(self, number):
        return {"user_id": f"b{self.stages[number]}", "ipu_id": self.ipus[self.stages[number]]}

    def step(self, number, values):
        layer = self.layers[number]
        if self.again is not None and self.again[1] == number:
            values[-1] = values[-1] + self.layers[self.again[0]](values)
        values.append(layer(values))

    def loss(self, values, target):
        loss = F.mse_loss(values[-1], target)
        loss = loss + 0.1 * values[len(values) // 2].square().mean()
        # No layer is dead: blocks of dead layers are refused.
        return values[-1], loss + 1e-3 * sum(value.mean() for value in values[2:])

    def forward(self, x, target):
        values = [x, torch.cos(x) if self.stages is None or not self.scoped else x]
        last = len(self.layers) - 1
        for number in range(len(self.layers)):
            if self.stages is None:
                self.step(number, values)
            elif self.scoped:
                with poptorch.Block(**self.block(number)):
                    self.step(number, values)
                    if number == last:
                        return self.loss(values, target)
            else:
                poptorch.Block.start(**self.block(number))
                self.step(number, values)
        return self.loss(values, target)


def random_models(seed):
    """(one IPU, many IPUs, strategy, number of stages)."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    count = rng.randint(3, 9)
    layers = [
        Layer(
            rng.choice(Layer.KINDS) if i else "linear",
            [rng.randint(max(0, i - 4), i + 1) for _ in range(2)],
        )
        for i in range(count)
    ]
    stages = [0]
    for _ in range(count - 1):
        stages.append(stages[-1] + (rng.random() < 0.4))
    ipus = [rng.randint(0, 3) for _ in range(stages[-1] + 1)]
    draw = rng.random()
    phases = None
    if draw < 0.5:  # a stage goes on with the phase before it, or begins the next
        phases = [0]
        for _ in ipus[1:]:
            phases.append(phases[-1] + (rng.random() < 0.7))
        if draw < 0.25:  # in parallel
            ipus = [ipu // 2 * 2 + phase % 2 for ipu, phase in zip(ipus, phases, strict=True)]
    weighty = [i for i, layer in enumerate(layers) if layer.kind in ("linear", "norm")]
    again = None
    if weighty:
        first = rng.choice(weighty)
        later = [i for i in range(first + 1, count) if ipus[stages[i]] == ipus[stages[first]]]
        if later:
            again = (first, rng.choice(later))
    scoped = rng.random() < 0.5
    split = Model(layers, again, stages, ipus, scoped)
    whole = copy.deepcopy(split)
    if scoped:  # the same arithmetic, on one IPU
        whole.ipus = [0] * len(ipus)
    else:
        whole.stages = None
    return whole, split, random_strategy(rng, draw, phases), len(ipus) + 1


def random_strategy(rng, draw, phases):
    if phases is None:
        kind = poptorch.ShardedExecution if draw < 0.65 else poptorch.PipelinedExecution
        return kind(poptorch.AutoStage.AutoIncrement)
    blocks = [
        [poptorch.Stage(f"b{stage}") for stage, of in enumerate(phases) if of == phase]
        for phase in range(phases[-1] + 1)
    ]
    if draw < 0.25:
        strategy = poptorch.ParallelPhasedExecution(*blocks)
        strategy.sendTensorsOffChipAfterFwd(rng.random() < 0.5)
    else:
        strategy = poptorch.SerialPhasedExecution(*blocks)
        strategy.setTensorsLiveness(rng.choice(list(poptorch.Liveness)))
    return strategy.useSeparateBackwardPhase(rng.random() < 0.5)


def train(model, strategy, stages, seed):
    options = poptorch.Options().showCompilationProgressBar(False).autoRoundNumIPUs(True)
    options.deviceIterations(1 + seed % 2).setExecutionStrategy(strategy).randomSeed(seed)
    options.outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(2 * stages - 1 + seed % 3)
    optimiser = [
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.5),
        lambda p: torch.optim.AdamW(p, lr=0.01),
    ][seed % 2]
    wrapped = poptorch.trainingModel(model, options, optimiser(model.parameters()))
    batch = MICRO_BATCH * options.device_iterations * options.Training.gradient_accumulation
    generator = torch.Generator().manual_seed(seed)
    results = []
    for _ in range(2):
        results += wrapped(*torch.randn(2, batch, WIDTH, generator=generator))
    wrapped.copyWeightsToHostIfNeeded()
    results += [tensor.clone() for tensor in model.state_dict().values()]
    wrapped.destroy()
    return results


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_placements(seed):
    whole, split, strategy, stages = random_models(seed)
    expected = train(
        whole, poptorch.ShardedExecution(poptorch.AutoStage.AutoIncrement), stages, seed
    )
    results = train(split, strategy, stages, seed)
    for one, other in zip(results, expected, strict=True):
        assert torch.equal(one, other)
