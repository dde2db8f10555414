"""poptorch.estimate equals the report of a compiled model, and allocates nothing."""

import json
import subprocess
import sys

import poptorch
import pytest
import torch
import zygote
from torch.nn import functional as F


class Network(torch.nn.Module):
    """Returns its loss in training; `cut` divides it over two IPUs."""

    def __init__(self, width=16, cut=False):
        super().__init__()
        self.first = torch.nn.Linear(8, width)
        self.last = torch.nn.Linear(width, 8)
        if cut:
            poptorch.BeginBlock(self.last, "back", ipu_id=1)

    def forward(self, x, target=None):
        y = self.last(F.dropout(torch.relu(self.first(x)), 0.1, self.training))
        return y if target is None else (y, F.mse_loss(y, target))


def training_options():
    options = poptorch.Options().showCompilationProgressBar(False).replicationFactor(2)
    options.Training.gradientAccumulation(4)
    return options


def compiled(model, options, *inputs, optimizer=None):
    training = optimizer is not None
    wrapped = (
        poptorch.trainingModel(model, options, optimizer)
        if training
        else poptorch.inferenceModel(model.eval(), options)
    )
    wrapped.compile(*inputs)
    report = wrapped.report()
    wrapped.destroy()
    return report


FIGURES = ("ipus", "cycles_per_run", "seconds_per_run", "stages", "ops", "streaming_bytes")


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_training_has_the_figures_of_the_compiled_model(device):
    model = Network(cut=True)
    batch = 5 * 4 * 2
    inputs = torch.randn(batch, 8), torch.randn(batch, 8)
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    expected = compiled(model, training_options(), *inputs, optimizer=optimizer)
    with torch.device(device):
        model = Network(cut=True)
        row = torch.zeros(5, 8)
        made = poptorch.estimate(
            model,
            (row, row),
            training_options(),
            optimizer=poptorch.optim.Adam(model.parameters(), lr=0.1),
        )
    assert all(made.report[name] == expected[name] for name in FIGURES)
    assert made.samples_per_run == batch
    assert made.samples_per_second == batch / expected["seconds_per_run"]
    assert [ipu.stages for ipu in made.ipus] == [(0, 2), (1,)]
    assert [ipu.needed_bytes for ipu in made.ipus] == [
        ipu["needed_bytes"] for ipu in expected["ipus"]
    ]
    assert made.fits and made.replicas == 2
    assert sum(made.shares.values()) == pytest.approx(1)


def test_inference_has_the_figures_of_the_compiled_model():
    options = poptorch.Options().deviceIterations(3)
    expected = compiled(Network(), options.clone(), torch.randn(15, 8))
    made = poptorch.estimate(Network().eval(), torch.zeros(5, 8), options)
    assert all(made.report[name] == expected[name] for name in FIGURES)
    assert made.samples_per_run == 15


def test_a_wrapper_gives_its_options_and_optimiser_and_keeps_working():
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    wrapped = poptorch.trainingModel(model, training_options(), optimizer)
    before = poptorch.estimate(wrapped, (torch.zeros(5, 8), torch.zeros(5, 8)))
    inputs = torch.randn(40, 8), torch.randn(40, 8)
    wrapped(*inputs)
    after = poptorch.estimate(wrapped, (torch.zeros(5, 8), torch.zeros(5, 8)))
    for made in (before, after):
        assert all(made.report[name] == wrapped.report()[name] for name in FIGURES)
    wrapped(*inputs)
    assert wrapped.options.connection_type != poptorch.ConnectionType.Never


def test_a_model_that_does_not_fit_is_limited_by_memory(caplog):
    with torch.device("meta"):
        made = poptorch.estimate(Network(100_000_000).eval(), torch.zeros(1, 8))
    assert not made.fits and made.limiting_factor == "memory"
    assert "Limited by memory: IPU 0 needs" in str(made)
    assert not caplog.records  # no warning of a lack of memory
    # float32 weights of 100,000,000 rows of 8, twice, and the larger bias
    assert made.ipus[0].state_bytes >= 4 * 17 * 100_000_000


def test_the_version_of_the_ipu_is_that_of_the_options():
    inputs = torch.zeros(5, 8)
    by_version = {
        version: poptorch.estimate(
            Network().eval(), inputs, poptorch.Options().useOfflineIpuTarget(version)
        )
        for version in (1, 2, 21)
    }
    assert by_version[1].ipus[0].capacity_bytes < by_version[2].ipus[0].capacity_bytes
    assert by_version[21].samples_per_second > by_version[2].samples_per_second


def test_functions_and_nested_arguments_are_estimated():
    made = poptorch.estimate(
        lambda pair, scale: pair[0] @ pair[1] * scale,
        ((torch.zeros(4, 8, device="meta"), torch.zeros(8, 8, device="meta")), 2.0),
    )
    assert made.samples_per_run == 4 and made.fits


class ReadsValues(Network):
    def forward(self, x):
        return super().forward(x) if x.sum().item() > 0 else x


class ReadsBuffer(Network):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        return super().forward(x) * float(self.scale)


@pytest.mark.parametrize("kind", [ReadsValues, ReadsBuffer])
def test_a_read_of_values_is_refused_with_its_line(kind):
    with torch.device("meta"):
        model, inputs = kind().eval(), torch.zeros(2, 8)
    with pytest.raises(poptorch.Error, match=r"needed on the host \(.*test_estimate.py:\d+\)"):
        poptorch.estimate(model, inputs)


def test_constants_on_device_meta_are_refused_with_the_line():
    model = Network().eval()
    model.scale = torch.ones(8, device="meta")
    with pytest.raises(poptorch.Error, match=r"test_estimate.py:\d+.*meta tensor"):
        poptorch.estimate(lambda x: model(x) * model.scale, torch.zeros(2, 8))


def test_wrong_arguments_are_refused():
    with pytest.raises(AssertionError, match="Too many arguments"):
        poptorch.estimate(Network(), (torch.zeros(2, 8),) * 3)
    with pytest.raises(poptorch.Error, match=r"input 0 has shape \[0, 8\]"):
        poptorch.estimate(Network().eval(), torch.zeros(0, 8))


def test_a_large_model_takes_no_memory_for_weights():
    program = """
import resource, poptorch, torch
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4096, 4096) for _ in range(64))
    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return poptorch.identity_loss(x, "mean")
def measure(layers):
    with torch.device("meta"):
        model = Layers()
        del model.layers[layers:]
        made = poptorch.estimate(model, torch.zeros(8, 4096))
    return made.ipus[0].state_bytes
measure(1)
before = peak()
assert measure(64) > 4e9
assert peak() - before < 100, (before, peak())  # MiB
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


SCRIPT = """
import sys
import poptorch, torch
print("begins", sys.argv[1:])
model = torch.nn.Linear(8, 8).eval()
wrapped = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(3))
other = poptorch.inferenceModel(model)
other.compile(torch.zeros(4, 8))
wrapped(torch.zeros(15, 8))
print("never printed")
"""


@pytest.mark.parametrize("meta", [False, True])
def test_the_command_estimates_a_script(tmp_path, meta):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "poptorch", "estimate", *["--meta"] * meta]
    text = zygote.run(
        [*command, script, "--epochs", "3"], capture_output=True, text=True, check=True
    )
    assert text.stdout.count("samples/s") == 2
    assert "begins ['--epochs', '3']" in text.stderr and "never printed" not in text.stderr
    done = zygote.run(
        [*command[:4], "--json", *command[4:], script], capture_output=True, text=True, check=True
    )
    first, second = json.loads(done.stdout)
    assert list(first)[-2:] == ["ipus", "report"]  # the figures of the whole come first
    assert (first["samples_per_run"], second["samples_per_run"]) == (4, 15)
    assert second["fits"] and second["report"]["cycles_per_run"] == second["cycles_per_run"]


def test_the_command_names_a_script_without_a_model(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print('nothing')")
    command = [sys.executable, "-m", "poptorch", "estimate", script]
    done = zygote.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "ended without a model" in done.stderr
