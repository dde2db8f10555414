"""Tests the writers of figures, and the pytest plugin that runs tests in several placements."""

import subprocess
import sys
from pathlib import Path

import poptorch
import pytest
import torch
import torch.distributed._functional_collectives  # pytester forgets modules of its tests
from poptorch.integrations import loggers

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def model():
    made = poptorch.inferenceModel(torch.nn.Linear(4, 2))
    made(torch.ones(3, 4))
    return made


class Writer:
    """Records what a SummaryWriter, a run or an artifact gets."""

    def __init__(self):
        self.scalars, self.texts, self.logged, self.files = {}, {}, [], []

    def add_scalar(self, name, value, step):
        self.scalars[name, step] = value

    def add_text(self, name, text, step):
        self.texts[name, step] = text

    def log(self, values, step=None):
        self.logged.append((values, step))

    def add_dir(self, folder):
        self.files += sorted(path.name for path in Path(folder).iterdir())

    def log_artifact(self, artifact):
        self.logged.append(artifact)


def test_figures_go_to_tensorboard(model):
    writer = Writer()
    loggers.log_to_tensorboard(writer, model, 7, prefix="net")
    assert writer.scalars["net/cycles_per_run", 7] == model.report()["cycles_per_run"]
    assert writer.scalars["net/ipus/0/needed_bytes", 7] > 0
    assert not any("/ops/" in name for name, _ in writer.scalars)
    assert "compiled for 1 IPU" in writer.texts["net/model", 7]


def test_figures_and_the_report_go_to_wandb(model):
    run, artifact = Writer(), Writer()
    loggers.log_to_wandb(run, model, 3, artifact=artifact)
    (values, step), logged = run.logged
    assert step == 3 and values["ipu/runs"] == 1 and logged is artifact
    assert {"report.html", "report.json"} <= set(artifact.files)
    loggers.log_to_wandb(run, model)
    assert len(run.logged) == 3


def test_figures_need_a_compiled_model():
    with pytest.raises(poptorch.Error, match="not been compiled"):
        loggers.scalars(poptorch.inferenceModel(torch.nn.Linear(4, 2)))


def test_other_libraries_are_not_imported():
    code = """
import sys, poptorch.integrations.loggers, poptorch.integrations.transformers
others = {"wandb", "tensorboard", "transformers", "lightning", "pytorch_lightning"}
assert not others & {*sys.modules}
"""
    subprocess.run([sys.executable, "-c", code], check=True)


WITHOUT = """
import sys
for name in ("lightning", "pytorch_lightning", "matplotlib", "wandb"):
    sys.modules[name] = None
import poptorch, popxl_addons.wandb_tools, torch

def drawn():
    model = poptorch.inferenceModel(torch.nn.Linear(2, 2))
    model.compile(torch.randn(1, 2))
    model.plot_memory()

def lightning():
    import poptorch.integrations.lightning

for use in (drawn, lightning, lambda: popxl_addons.wandb_tools.log_histograms({}, 0)):
    try:
        use()
    except ImportError as error:
        print(error.message)
"""


def test_a_missing_package_is_named_with_the_command_that_installs_it():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "[package] a figure needs matplotlib, which is not installed. Run: pip install matplotlib",
        "[package] poptorch.integrations.lightning needs pytorch_lightning, which is not "
        "installed. Run: pip install pytorch-lightning",
        "[package] an artifact or a histogram needs wandb, which is not installed. "
        "Run: pip install wandb",
    ]


TESTS = """
import poptorch, pytest, torch

def run():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    wrapped = poptorch.inferenceModel(model)
    x = torch.ones(3, 4)
    torch.testing.assert_close(wrapped(x), model(x))
    return wrapped.report()

def test_results():
    run()

@pytest.mark.one_placement("it counts IPUs")
def test_ipus(ipu_pool):
    assert len(run()["ipus"]) == 1

def test_placement(poptorch_placement):
    ipus, replicas = {None: (1, 1), "pipelined": (2, 1), "replicated": (1, 2)}[poptorch_placement]
    report = run()
    assert (len(report["ipus"]), report["replicas"]) == (ipus, replicas)
"""
PLUGIN = ("-p", "poptorch.integrations.pytest_plugin", "-p", "no:xdist", "-p", "no:cacheprovider")


def test_the_plugin_runs_tests_in_placements(pytester):
    pytester.makepyfile(TESTS)
    pytester.runpytest_inprocess(*PLUGIN).assert_outcomes(passed=3)
    asked = ("--poptorch-placement", "pipelined,replicated")
    result = pytester.runpytest_inprocess(*PLUGIN, *asked, "-v")
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["*::test_results[[]pipelined[]] PASSED*"])


def test_the_plugin_shows_the_placement_of_a_failure(pytester):
    pytester.makepyfile(TESTS + "\ndef test_fails():\n    run()\n    assert False")
    result = pytester.runpytest_inprocess(*PLUGIN, "--poptorch-placement", "sharded", "-k", "fails")
    result.stdout.fnmatch_lines(["*poptorch placement: sharded*", "*ShardedExecution with part0*"])


def test_the_plugin_names_unknown_placements(pytester):
    result = pytester.runpytest_inprocess(*PLUGIN, "--poptorch-placement", "wibble")
    result.stderr.fnmatch_lines(["*has wibble. Choose some of all, pipelined, *"])
