"""torch's profilers show runs, copies and modules as regions, on the threads that do the work."""

import contextlib
import json

import poptorch
import pytest
import torch
from torch.profiler import profile, schedule


class Network(torch.nn.Module):
    """Modules by path: stem, layer1.0.conv, layer1.1.conv, head (on the last of `ipus`)."""

    def __init__(self, ipus=1):
        super().__init__()
        self.ipus = ipus
        self.stem = torch.nn.Linear(16, 32)
        self.layer1 = torch.nn.Sequential(Part(), Part())
        self.head = torch.nn.Linear(32, 4)

    def forward(self, x, target=None):
        poptorch.Block.start(ipu_id=0)
        x = self.layer1(self.stem(x))
        poptorch.Block.start(ipu_id=self.ipus - 1)
        x = self.head(x)
        return x if target is None else torch.nn.functional.mse_loss(x, target)


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 1, 3, padding=1)

    def forward(self, x):
        return torch.relu(self.conv(x.unsqueeze(1))).squeeze(1)


MODULES = {"stem", "layer1", "layer1.0", "layer1.0.conv", "layer1.1.conv", "head"}
BACKWARD = {"layer1.0.conv (backward)", "head (backward)"}
PIPELINED = poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)
CASES = {
    "training": (True, 1, poptorch.ShardedExecution()),
    "inference": (False, 1, poptorch.ShardedExecution()),
    "pipelined training": (True, 2, PIPELINED),
    "pipelined inference": (False, 2, PIPELINED),
}


def wrapped(training, ipus, strategy):
    """Returns a model, and arguments of a step, of four micro-batches if there are several IPUs."""
    options = poptorch.Options().showCompilationProgressBar(False).setExecutionStrategy(strategy)
    options.modelName("small")
    micro_batches = 4 if ipus > 1 else 1
    x, target = torch.randn(8 * micro_batches, 16), torch.randn(8 * micro_batches, 4)
    network = Network(ipus)
    if not training:
        return poptorch.inferenceModel(network, options.deviceIterations(micro_batches)), (x,)
    options.Training.gradientAccumulation(micro_batches)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    return poptorch.trainingModel(network, options, optimizer), (x, target)


def traced(recorded, folder):
    """Returns the complete events of the exported Chrome trace."""
    path = folder / "trace.json"
    recorded.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    return [event for event in events if event.get("ph") == "X" and "tid" in event]


def lies_in(inner, outer):
    """Compares both ends; the file has thousandths of a microsecond."""
    begin, end = inner["ts"], inner["ts"] + inner["dur"]
    return outer["ts"] - 0.01 <= begin and end <= outer["ts"] + outer["dur"] + 0.01


@pytest.mark.parametrize("case", CASES)
def test_regions(case, tmp_path):
    training, ipus, strategy = CASES[case]
    model, arguments = wrapped(training, ipus, strategy)
    model.compile(*arguments)
    with profile() as recorded:
        for _ in range(3):
            model(*arguments)
    kind = "training" if training else "inference"
    run = f"poptorch::run small for {kind}"
    counts = {event.key: event.count for event in recorded.key_averages()}
    wanted = {run, "poptorch::copy_to_device", "poptorch::execute", "poptorch::copy_to_host"}
    wanted |= MODULES | {f"IPU {i}" for i in range(ipus)} | (BACKWARD if training else set())
    assert wanted <= counts.keys()
    assert counts[run] == counts["poptorch::execute"] == 3
    # Every micro-batch of a pipeline passes each of its modules.
    assert counts["head"] >= 3 * (4 if ipus > 1 else 1)
    if not training:
        assert not any("backward" in name for name in counts)

    events = traced(recorded, tmp_path)
    by_name = {}
    for event in events:
        by_name.setdefault(event["name"], []).append(event)
    for name, outer in [
        ("poptorch::execute", run),
        ("poptorch::copy_to_device", run),
        ("layer1.0.conv", "poptorch::execute"),
    ]:
        assert all(any(lies_in(e, o) for o in by_name[outer]) for e in by_name[name]), (name, outer)
    # On a thread, a module lies within the module around it, unless the thread only helped with a
    # kernel.
    for inner, outer in [("layer1.0.conv", "layer1.0"), ("layer1.0", "layer1")]:
        held = [
            any(lies_in(e, o) and e["tid"] == o["tid"] for o in by_name[outer])
            for e in by_name[inner]
        ]
        assert sum(held) >= 3


def test_compiling_and_copies_are_regions():
    model, arguments = wrapped(*CASES["training"])
    with profile() as recorded:
        model(*arguments)
        model.copyWeightsToHost()
    seen = {event.key for event in recorded.key_averages()}
    assert {"poptorch::compile", "poptorch::trace", "poptorch::bind"} <= seen
    assert {"poptorch::pass differentiate", "poptorch::pass lower"} <= seen
    assert {"poptorch::copyWeightsToDevice", "poptorch::copyWeightsToHost"} <= seen


def test_a_schedule_records_its_steps_alone():
    model, arguments = wrapped(*CASES["training"])
    model.compile(*arguments)
    found = []

    def take(recorded):
        found.append({event.key: event.count for event in recorded.key_averages()})

    asked = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=asked, on_trace_ready=take, acc_events=True) as recorded:
        for _ in range(8):
            model(*arguments)
            recorded.step()
    assert [counts["poptorch::run small for training"] for counts in found] == [2, 4]


def test_the_older_profiler_and_one_within_another():
    model, arguments = wrapped(*CASES["pipelined training"])
    model.compile(*arguments)
    with torch.autograd.profiler.profile() as recorded:
        model(*arguments)
    assert "layer1.0.conv" in {event.key for event in recorded.key_averages()}
    with profile() as recorded, torch.profiler.record_function("mine"):
        model(*arguments)
    assert {"mine", "layer1.0.conv"} <= {event.key for event in recorded.key_averages()}


def test_results_do_not_depend_on_it():
    results = []
    for profiled in (False, True):
        torch.manual_seed(1)
        model, arguments = wrapped(*CASES["pipelined training"])
        with profile() if profiled else contextlib.nullcontext():
            results.append([model(*arguments) for _ in range(4)])
        model.destroy()
    torch.testing.assert_close(*results, rtol=0, atol=0)


def test_a_run_that_fails_leaves_its_regions():
    def picky(x):
        if x.sum() > 0:
            raise LookupError("no such thing")
        return x

    cpu = poptorch.CPU(picky, "picky")
    model = poptorch.inferenceModel(lambda x: cpu(x * 2), poptorch.Options().modelName("picky"))
    x = -torch.ones(2, 3)
    model.compile(x)
    with profile() as recorded:
        with pytest.raises(poptorch.Error):
            model(-x)
        model(x)
    counts = {event.key: event.count for event in recorded.key_averages()}
    assert counts["poptorch::run picky for inference"] == counts["IPU 0"] == 2
