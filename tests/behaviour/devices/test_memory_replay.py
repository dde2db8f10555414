"""The memory in the report is what executing the program's allocations needs, to the byte."""

import memory_replay
import poptorch
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.nn import functional as F

WIDTH = 12


class Layer(torch.nn.Module):
    """One of several kinds of work, whose values live for different times."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.norm = torch.nn.BatchNorm1d(WIDTH) if kind == "norm" else torch.nn.LayerNorm(WIDTH)

    def forward(self, x):
        y = self.linear(x)
        if self.kind == "dropout":
            return F.dropout(F.gelu(y), 0.2, self.training)
        if self.kind == "attention":
            return torch.softmax(y @ x.T, -1) @ x
        if self.kind == "loop":
            return poptorch.for_loop(3, lambda z: [torch.tanh(z + x)], [y])[0]
        if self.kind == "choice":
            return poptorch.cond(
                y.sum() > 0, lambda z: [torch.relu(z) * 2], [y], lambda z: [z - x.sum()], [y]
            )[0]
        if self.kind == "views":
            return torch.cat([y.T.reshape(-1, 4)[::2], y.reshape(-1, 4)[1::2]]).reshape(x.shape)
        return self.norm(y) + x


KINDS = ("dropout", "attention", "views", "norm", "layer_norm")


class Model(torch.nn.Module):
    def __init__(self, kinds, cuts, checkpoints):
        super().__init__()
        self.layers = torch.nn.ModuleList(map(Layer, kinds))
        self.cuts, self.checkpoints = cuts, checkpoints
        for number, (layer, ipu) in enumerate(zip(self.layers, cuts, strict=True)):
            poptorch.BeginBlock(layer, f"layer {number}", ipu_id=ipu)

    def forward(self, x, mask):
        for layer in self.layers:
            x = layer(x) * mask[:, None].to(x.dtype)
            if self.checkpoints:
                x = poptorch.recomputationCheckpoint(x)
        return poptorch.identity_loss(x, "mean") if self.training else x


@st.composite
def cases(draw):
    training = draw(st.booleans())
    known = KINDS if training else (*KINDS, "loop", "choice")
    kinds = draw(st.lists(st.sampled_from(known), min_size=1, max_size=5))
    stages = draw(st.integers(1, min(3, len(kinds))))
    return {
        "kinds": kinds,
        "cuts": [at * stages // len(kinds) for at in range(len(kinds))],
        "checkpoints": draw(st.booleans()),
        "training": training,
        "strategy": draw(st.sampled_from(["pipelined", "sharded"])),
        "accumulation": draw(st.integers(5, 7)),
        "iterations": draw(st.integers(3, 4)),
        "replicas": draw(st.sampled_from([1, 2])),
        "recompute": draw(st.booleans()),
        "optimiser": draw(st.sampled_from(["SGD", "Adam", "LAMB"])),
        "off_chip": draw(st.booleans()),
        "shards": draw(st.booleans()),
        "half": draw(st.booleans()),
    }


def options_of(case):
    options = poptorch.Options().useOfflineIpuTarget(2).showCompilationProgressBar(False)
    options.replicationFactor(case["replicas"]).deviceIterations(case["iterations"])
    options.broadcastBuffers(False)
    strategies = {"pipelined": poptorch.PipelinedExecution, "sharded": poptorch.ShardedExecution}
    options.setExecutionStrategy(strategies[case["strategy"]]())
    if case["training"]:
        options.Training.gradientAccumulation(case["accumulation"])
    if not case["recompute"]:
        options._Popart.set("autoRecomputation", 0)
    place = poptorch.TensorLocationSettings().useOnChipStorage(not case["off_chip"])
    place.minElementsForReplicatedTensorSharding(1).minElementsForOffChip(1)
    options.TensorLocations.setOptimizerLocation(
        place.useReplicatedTensorSharding(case["shards"] and case["replicas"] > 1)
    )
    return options


def compiled(case):
    model = Model(case["kinds"], case["cuts"], case["checkpoints"])
    model = (model.half() if case["half"] else model).train(case["training"])
    rows = 8 * case["iterations"] * case["replicas"]
    if case["training"]:
        rows *= case["accumulation"]
    inputs = torch.zeros(rows, WIDTH), torch.zeros(rows)
    if case["half"]:
        inputs = inputs[0].half(), inputs[1]
    if not case["training"]:
        wrapped = poptorch.inferenceModel(model, options_of(case))
    else:
        kind = getattr(poptorch.optim, case["optimiser"])
        optimiser = kind(model.parameters(), lr=0.1)
        wrapped = poptorch.trainingModel(model, options_of(case), optimiser)
    wrapped.compile(*inputs)
    return wrapped


def check(wrapped):
    """Compares every figure of memory that is exact with the replay."""
    program, replays = memory_replay.replayed(wrapped.graph("program"))
    report = wrapped.report()
    assert any(kind == "use" for replay in replays for kind, _ in replay.events)
    for ipu, (replay, figures) in enumerate(zip(replays, report["ipus"], strict=True)):
        assert replay.arena_peak() == figures["arena_bytes"]
        assert replay.stash_peak() == figures["stash_bytes"]
        states, constants = memory_replay.permanent(program, ipu)
        assert constants == figures["constant_bytes"]
        padding = figures["state_bytes"] - states - constants
        assert 0 <= padding < 16 * (len(program.states) + 1)
        parts = ("state_bytes", "arena_bytes", "stash_bytes", "code_bytes")
        assert figures["needed_bytes"] == sum(figures[part] for part in parts)
        kinds = ("weight_bytes", "optimiser_bytes", "accumulator_bytes", "constant_bytes")
        assert sum(figures[kind] for kind in kinds) <= figures["state_bytes"]
    assert memory_replay.streaming(program) == report["streaming_bytes"]


@pytest.mark.timeout(300)
@settings(max_examples=60, deadline=None)
@given(cases())
def test_random_programs_need_what_a_replay_finds(case):
    check(compiled(case))


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_phased_programs_need_what_a_replay_finds(parallel, training):
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)))
    for phase, layer in enumerate(model):
        poptorch.BeginBlock(layer, f"phase {phase}")
    strategy = (
        poptorch.ParallelPhasedExecution([f"phase {phase}" for phase in range(4)])
        if parallel
        else poptorch.SerialPhasedExecution([f"phase {phase}" for phase in range(4)])
    )
    options = poptorch.Options().useOfflineIpuTarget(2).showCompilationProgressBar(False)
    options.setExecutionStrategy(strategy)
    if training:
        whole = torch.nn.Sequential(model, Loss())
        options.Training.gradientAccumulation(3)
        optimiser = poptorch.optim.Adam(model.parameters(), lr=0.1)
        wrapped = poptorch.trainingModel(whole, options, optimiser)
    else:
        wrapped = poptorch.inferenceModel(model.eval(), options)
    wrapped.compile(torch.zeros(24, WIDTH))
    check(wrapped)


class Loss(torch.nn.Module):
    def forward(self, x):
        return poptorch.identity_loss(x, "mean")
