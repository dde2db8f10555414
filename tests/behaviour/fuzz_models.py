"""Makes random models for test_partition_fuzz.py: layers of many kinds, cut into blocks at random.

A model is a list of values: two are computed from its inputs, then each layer adds one.
"""

import copy

import poptorch
import torch
from torch.nn import functional as F

WIDTH = 6
WORDS = 9


class Counter(torch.nn.Module):
    """Adds the sum of its inputs so far, a buffer that each call writes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(WIDTH))

    def forward(self, x):
        self.seen += 0.1 * x.detach().mean(0)
        return x + self.seen


class Half(torch.nn.Module):
    """A linear layer of half precision."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(WIDTH, WIDTH).half()

    def forward(self, x):
        return self.inner(x.half()).float()


class Loop(torch.nn.Module):
    """Three rounds of a layer, counted in a buffer: unrolled for training, otherwise one loop."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(WIDTH, WIDTH)
        self.register_buffer("rounds", torch.zeros(1))

    def forward(self, a, b):
        def body(x):
            self.rounds += 1
            return [torch.tanh(self.inner(x)) + 0.1 * b * torch.cos(self.rounds)]

        if not self.training:
            return poptorch.for_loop(3, body, [a])[0]
        for _ in range(3):
            (a,) = body(a)
        return a


class Branch(torch.nn.Module):
    """One of two layers: both run in training, otherwise a branch."""

    def __init__(self):
        super().__init__()
        self.one, self.other = torch.nn.Linear(WIDTH, WIDTH), torch.nn.LayerNorm(WIDTH)

    def forward(self, a, b):
        condition = a.mean() > b[0, 0]
        if self.training:
            return torch.where(condition, self.one(a), self.other(b))
        return poptorch.cond(
            condition, lambda x: [self.one(x)], [a], lambda x: [self.other(x)], [b]
        )[0]


class Layer(torch.nn.Module):
    """One step of a random model: `kind` on the values at `operands`."""

    MODULES = {
        "linear": lambda: torch.nn.Linear(WIDTH, WIDTH),
        "norm": lambda: torch.nn.LayerNorm(WIDTH),
        "batch": lambda: torch.nn.BatchNorm1d(WIDTH),
        "dropout": lambda: torch.nn.Dropout(0.4),
        "cat": lambda: torch.nn.Linear(2 * WIDTH, WIDTH),
        "words": lambda: torch.nn.Embedding(WORDS, WIDTH),
        "counter": Counter,
        "half": Half,
        "loop": Loop,
        "branch": Branch,
    }
    FUNCTIONS = {
        "tanh": lambda a, b: torch.tanh(a) * 0.9,
        "add": lambda a, b: a + b,
        "mul": lambda a, b: a * torch.sigmoid(b),
        "softmax": lambda a, b: torch.softmax(a, 1) - b.mean(),
        "matmul": lambda a, b: a @ (b.T @ b) * 0.1,
        "constant": lambda a, b: a * torch.linspace(0.5, 1.0, WIDTH) + b * torch.arange(WIDTH) / 9,
        "views": lambda a, b: torch.cat([b[:, 3:], a[:, :3].flip(1)], 1),
    }
    KINDS = (*MODULES, *FUNCTIONS, "in_place")

    def __init__(self, kind, operands, keeps):
        super().__init__()
        self.kind, self.operands, self.keeps = kind, operands, keeps
        if kind in self.MODULES:
            self.inner = self.MODULES[kind]()

    def forward(self, values, words):
        y = self.result(*(values[i] for i in self.operands), words)
        return poptorch.recomputationCheckpoint(y) if self.keeps else y

    def result(self, a, b, words):
        if self.kind == "cat":
            return self.inner(torch.cat([a, b], 1))
        if self.kind in ("loop", "branch"):
            return self.inner(a, b)
        if self.kind == "words":
            return a + self.inner(words)
        if self.kind == "in_place":
            y = a.clone()
            y[:, 1:3] += b[:, :2]
            y[0].mul_(0.5)
            return y
        if self.kind in self.MODULES:
            return self.inner(a)
        return self.FUNCTIONS[self.kind](a, b)


class Model(torch.nn.Module):
    """`stages[i]` is the stage of layer i; None: not divided. `scoped`: blocks are scopes."""

    def __init__(self, layers, again, shown, stages=None, ipus=None, scoped=False):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)
        self.again = again  # (a layer with weights, the layer before which it runs again)
        self.shown = shown  # the values that are results beside the last one
        self.stages, self.ipus, self.scoped = stages, ipus, scoped

    def block(self, number):
        return {"user_id": f"b{self.stages[number]}", "ipu_id": self.ipus[self.stages[number]]}

    def step(self, number, values, words):
        layer = self.layers[number]
        if self.again is not None and self.again[1] == number:
            values[-1] = values[-1] + self.layers[self.again[0]](values, words)
        values.append(layer(values, words))

    def results(self, values, target):
        loss = F.mse_loss(values[-1], target)
        loss = loss + 0.1 * values[len(values) // 2].square().mean()
        # Every layer contributes to the loss: blocks of dead layers are refused.
        loss = loss + 1e-3 * sum(value.mean() for value in values[2:])
        loss = poptorch.identity_loss(loss, reduction="none")
        return values[-1], loss, *(values[i] * 1 for i in self.shown)

    def forward(self, x, words, target):
        values = [x, torch.cos(x) if self.stages is None or not self.scoped else x]
        last = len(self.layers) - 1
        for number in range(len(self.layers)):
            if self.stages is None:
                self.step(number, values, words)
            elif self.scoped:
                with poptorch.Block(**self.block(number)):
                    self.step(number, values, words)
                    if number == last:
                        return self.results(values, target)
            else:
                poptorch.Block.start(**self.block(number))
                self.step(number, values, words)
        return self.results(values, target)


def inputs(count, generator):
    """Returns inputs of a model with `count` rows."""
    x, target = torch.randn(2, count, WIDTH, generator=generator)
    return x, torch.randint(WORDS, (count,), generator=generator), target


def random_layers(rng, count):
    def operand(i):  # one of the last values, or of the inputs
        return rng.randint(0, 1) if rng.random() < 0.15 else rng.randint(max(0, i - 4), i + 1)

    return [
        Layer(
            rng.choice(Layer.KINDS) if i else "linear",
            [operand(i), operand(i)],
            keeps=rng.random() < 0.15,
        )
        for i in range(count)
    ]


def random_models(rng):
    """Returns a model on one IPU, an equal one on several IPUs, and its phases or None."""
    count = rng.randint(3, 9)
    layers = random_layers(rng, count)
    stages = [0]
    for _ in range(count - 1):
        stages.append(stages[-1] + (rng.random() < 0.4))
    ipus = [rng.randint(0, 3) for _ in range(stages[-1] + 1)]
    if rng.random() < 0.2:  # for AutoStage.SameAsIpu
        ipus.sort()
    phases = None
    if rng.random() < 0.5:  # a stage continues the phase before it, or begins the next
        phases = [0]
        for _ in ipus[1:]:
            phases.append(phases[-1] + (rng.random() < 0.7))
        if rng.random() < 0.5:  # in parallel
            ipus = [ipu // 2 * 2 + phase % 2 for ipu, phase in zip(ipus, phases, strict=True)]
    weighty = [i for i, layer in enumerate(layers) if layer.kind in ("linear", "norm", "counter")]
    again = None
    if weighty:
        first = rng.choice(weighty)
        # A counting layer must stay in one stage: stages of a pipeline count different
        # micro-batches.
        of = stages if layers[first].kind == "counter" else [ipus[stage] for stage in stages]
        later = [i for i in range(first + 1, count) if of[i] == of[first]]
        if later:
            again = (first, rng.choice(later))
    scoped = rng.random() < 0.5
    shown = sorted(rng.sample(range(count + 1), rng.randint(0, 2)))
    split = Model(layers, again, shown, stages, ipus, scoped)
    whole = copy.deepcopy(split)
    if scoped:  # the same arithmetic, on one IPU
        whole.ipus = [0] * len(ipus)
    else:
        whole.stages = None
    return whole, split, phases


def random_strategy(rng, ipus, phases):
    """Returns a legal strategy for a model with stages on `ipus`."""
    if phases is None:
        kind = rng.choice([poptorch.ShardedExecution, poptorch.PipelinedExecution])
        ascending = ipus == sorted(ipus) and rng.random() < 0.7
        return kind(poptorch.AutoStage[("SameAsIpu" if ascending else "AutoIncrement")])
    blocks = [
        [poptorch.Stage(f"b{stage}") for stage, of in enumerate(phases) if of == phase]
        for phase in range(phases[-1] + 1)
    ]
    alternate = all(ipu % 2 == phase % 2 for ipu, phase in zip(ipus, phases, strict=True))
    if alternate:
        strategy = poptorch.ParallelPhasedExecution(*blocks)
        strategy.sendTensorsOffChipAfterFwd(rng.random() < 0.5)
    else:
        strategy = poptorch.SerialPhasedExecution(*blocks)
        strategy.setTensorsLiveness(rng.choice(list(poptorch.Liveness)))
    return strategy.useSeparateBackwardPhase(rng.random() < 0.5)
