"""Tests the cost model: the figures of report() follow from the model and from the program."""

import json

import poptorch
import pytest
import torch

WIDTH, BATCH, ACCUMULATION = 32, 4, 8


class Network(torch.nn.Module):
    """Three linear layers on a given number of IPUs, and a loss."""

    def __init__(self, ipus, width=WIDTH):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(3))
        self.ipus = ipus
        for i in range(1, ipus):
            poptorch.BeginBlock(self.layers[i], str(i), ipu_id=i)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return poptorch.identity_loss(x.square(), reduction="mean")


def trained(ipus, strategy=poptorch.PipelinedExecution, optimizer=None, **changes):
    model = Network(ipus, **changes)
    options = poptorch.Options().setExecutionStrategy(strategy()).autoRoundNumIPUs(True)
    options.Training.gradientAccumulation(ACCUMULATION)
    make = optimizer or (lambda parameters: torch.optim.Adam(parameters, lr=0.01))
    wrapped = poptorch.trainingModel(model, options, make(model.parameters()))
    wrapped.compile(torch.randn(BATCH * ACCUMULATION, model.layers[0].in_features))
    return wrapped


def bytes_of(model):
    return sum(p.numel() * p.element_size() for p in model.parameters())


@pytest.mark.parametrize("ipus", [1, 2, 3])
def test_state_is_counted_exactly(ipus):
    wrapped = trained(ipus)
    report = wrapped.report()
    weights = bytes_of(wrapped.model)
    moments = 2 * weights
    assert sum(ipu["weight_bytes"] for ipu in report["ipus"]) == weights
    assert sum(ipu["accumulator_bytes"] for ipu in report["ipus"]) == weights
    optimiser = sum(ipu["optimiser_bytes"] for ipu in report["ipus"])
    assert moments <= optimiser <= moments + 64  # and a step counter
    for ipu in report["ipus"]:
        parts = ("weight_bytes", "accumulator_bytes", "optimiser_bytes", "constant_bytes")
        assert ipu["state_bytes"] >= sum(ipu[part] for part in parts)
        need = ("state_bytes", "arena_bytes", "stash_bytes", "code_bytes")
        assert ipu["needed_bytes"] == sum(ipu[part] for part in need)


def test_links_carry_activations_forward_and_gradients_back():
    report = trained(2).report()
    crossing = BATCH * WIDTH * 4 * ACCUMULATION
    first, second = (ipu["link_bytes"] for ipu in report["ipus"])
    assert second == crossing
    layer = (WIDTH + 1) * WIDTH * 4
    assert crossing <= first <= crossing + layer + 8  # the update shares the zeros and the step
    assert report["ipus"][0]["host_bytes"] == crossing  # the inputs
    assert trained(1).report()["ipus"][0]["link_bytes"] == 0


@pytest.mark.parametrize("strategy", [poptorch.PipelinedExecution, poptorch.ShardedExecution])
def test_cycles_add_up_and_the_bubbles_follow(strategy):
    report = trained(3, strategy).report()
    kinds = ("compute", "link", "host", "streaming", "idle")
    for ipu in report["ipus"]:
        assert sum(ipu[f"{kind}_cycles"] for kind in kinds) == report["cycles_per_run"]
    idle = sum(ipu["idle_cycles"] for ipu in report["ipus"])
    assert report["bubbles"] == pytest.approx(idle / (3 * report["cycles_per_run"]))
    by_op = sum(op["cycles"] for op in report["ops"])
    assert 0 < by_op <= sum(ipu["compute_cycles"] for ipu in report["ipus"])
    cycles = {stage["stage"]: stage["cycles"] for stage in report["stages"]}
    assert cycles[report["bottleneck_stage"]] == max(cycles.values())
    assert report["idle_ipus"] == 1
    json.dumps(report)


def test_a_pipeline_waits_less_than_shards():
    pipelined = trained(3, poptorch.PipelinedExecution).report()
    sharded = trained(3, poptorch.ShardedExecution).report()
    assert pipelined["bubbles"] < sharded["bubbles"]
    assert pipelined["cycles_per_run"] < sharded["cycles_per_run"]


class Skipping(torch.nn.Module):
    """The first result is used by the first and by the last of four IPUs."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        for i in range(1, 4):
            poptorch.BeginBlock(self.layers[i], str(i), ipu_id=i)

    def forward(self, x):
        first = x = torch.tanh(self.layers[0](x))
        for layer in self.layers[1:3]:
            x = torch.tanh(layer(x))
        return poptorch.identity_loss(self.layers[3](x * first).square(), reduction="mean")


@pytest.mark.parametrize("training", [False, True])
def test_an_ipu_that_stashes_an_arrival_does_not_run_its_stage(training):
    options = poptorch.Options().useOfflineIpuTarget(2)
    if training:
        options.Training.gradientAccumulation(ACCUMULATION)
    else:
        options.deviceIterations(ACCUMULATION)
    estimate = poptorch.estimate(Skipping(), torch.randn(BATCH, WIDTH), options, training=training)
    stages = estimate.report["stages"]
    ipus = [0, 1, 2, 3, 2, 1, 0] if training else [0, 1, 2, 3]
    assert [(stage["stage"], stage["ipu"]) for stage in stages] == list(enumerate(ipus))
    assert [ipu.stages for ipu in estimate.ipus][3] == (3,)


def test_ops_are_counted_by_module():
    report = trained(1).report()
    rows = {(row["module"], row["op"]): row for row in report["ops"]}
    for layer in range(3):
        assert rows[f"layers.{layer}", "linear"]["count"] == ACCUMULATION


def over(limit, monkeypatch, width=8192):
    """Compiles a model that an Mk1 IPU cannot hold."""
    monkeypatch.delenv("POPTORCH_MEMORY_LIMIT", raising=False)
    options = poptorch.Options().useOfflineIpuTarget(1)
    if limit:
        options.Emulator.memoryLimit(limit)
    options.Training.gradientAccumulation(ACCUMULATION)
    model = Network(2, width)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    wrapped = poptorch.trainingModel(model, options, adam)
    wrapped.compile(torch.randn(ACCUMULATION, width))


def test_too_little_memory_is_an_error_where_asked(monkeypatch):
    with pytest.raises(poptorch.Error) as error:
        over("error", monkeypatch, 4096)
    text = error.value.message
    for part in (
        "[memory] IPU 0 (stages 0, 2) needs ",
        "but has 308805632",
        "'layers.0.weight'",
        "optimiser state 134.",
        "setOptimizerLocation",
        "(saves 134.",
    ):
        assert part in text, f"{part} is not in: {text}"


def test_streaming_memory_has_a_limit_too():
    """An Mk1 IPU has no streaming memory: 64·64 weights and 64 biases, with Adam's two moments, do
    not fit."""
    off_chip = poptorch.TensorLocationSettings().useOnChipStorage(False)
    options = poptorch.Options().useOfflineIpuTarget(1)
    options.Emulator.memoryLimit("error")
    options.TensorLocations.setWeightLocation(off_chip)
    options.TensorLocations.setOptimizerLocation(off_chip)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), Square())
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    with pytest.raises(poptorch.Error) as error:
        poptorch.trainingModel(model, options, adam).compile(torch.randn(2, 64))
    weights = 4 * (64 * 64 + 64)
    text = error.value.message
    for part in (
        f"the 1 IPUs of a replica need {3 * weights} bytes of Streaming Memory but have 0",
        "'optimiser.exp_avg.0.weight' 0.0 MB",
        "on the chip: options.TensorLocations.setOptimizerLocation(poptorch.TensorLocationSettings"
        "().useOnChipStorage(True)) (saves 0.0 MB)",
    ):
        assert part in text, f"{part} is not in: {text}"


class Square(torch.nn.Module):
    """Returns the mean square as the loss."""

    def forward(self, x):
        return poptorch.identity_loss(x.square(), reduction="mean")


def test_the_memory_limit_has_three_values():
    for bad in ("never", None, True):
        with pytest.raises(ValueError, match="'warn', 'error' or 'off' but got"):
            poptorch.Options().Emulator.memoryLimit(bad)
