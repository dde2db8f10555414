"""Tests the commands of `python -m poptorch` that print text or, with --json, data."""

import json
import os
import subprocess
import sys

import poptorch
import pytest
import torch
import zygote
from poptorch.__main__ import main

SCRIPT = """
import poptorch, sys, torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
    def forward(self, x, scale=1.0, *, shift=None):
        return self.second(torch.relu(self.first(x))) * scale
model = Model().eval()
wrapped = poptorch.inferenceModel(model, poptorch.Options().deviceIterations(3))
print("begins", sys.argv[1:])
"""


@pytest.fixture
def run(tmp_path, capsys):
    """Runs a command, with a script where {script} is named; returns status and output."""

    def run(*arguments, ends="wrapped(torch.zeros(12, 8), scale=2.0)"):
        script = tmp_path / "script.py"
        script.write_text(SCRIPT + ends)
        status = main([str(script) if a == "{script}" else str(a) for a in arguments])
        return status, capsys.readouterr()

    return run


def test_env_prints_what_a_report_of_a_bug_needs(run, monkeypatch):
    monkeypatch.setenv("POPTORCH_NUM_THREADS", "3")
    status, printed = run("env", "--json")
    found = json.loads(printed.out)
    assert status == 0
    assert found["versions"]["torch"] == torch.__version__
    assert found["versions"]["poptorch"] == poptorch.__version__
    assert found["host"]["threads"] == 3
    assert found["variables"]["POPTORCH_NUM_THREADS"] == "3"
    assert found["pool"]["IPUs"] == 64 and found["pool"]["IPUs in use"] == 0
    text = run("env")[1].out
    assert f"torch: {torch.__version__}" in text and "POPTORCH_NUM_THREADS: 3" in text


def test_env_names_the_processes_that_hold_ipus(run):
    wrapped = poptorch.inferenceModel(torch.nn.Linear(2, 2))
    wrapped(torch.ones(1, 2))
    pool = json.loads(run("env", "--json")[1].out)["pool"]
    assert pool["IPUs in use"] == 1 and pool["processes"] == [os.getpid()]


def test_explain_lists_the_ops_of_a_micro_batch(run):
    status, printed = run("explain", "{script}", "--epochs", "3")
    assert status == 0
    assert "linear" in printed.out and "script.py:8" in printed.out
    assert "begins ['--epochs', '3']" in printed.err
    (found,) = json.loads(run("explain", "--json", "{script}")[1].out)
    assert found["is_supported"]
    first = next(module for module in found["modules"] if module["path"] == "first")
    assert first["activation_bytes"] == 4 * 16 * 4  # four of the twelve rows


def test_explain_reports_refusals_by_its_status(run):
    ends = "poptorch.inferenceModel(lambda x: x[x > 0])(torch.ones(3))"
    status, printed = run("explain", "{script}", ends=ends)
    assert status == 1 and "Refused" in printed.out


def test_plan_divides_the_model(run):
    status, printed = run("plan", "--ipus", 2, "{script}")
    assert status == 0 and 'poptorch.BeginBlock(model.second, "1", ipu_id=1)' in printed.out
    assert "BeginBlock" not in printed.err
    (found,) = json.loads(run("plan", "--json", "{script}")[1].out)
    assert found["cuts"] == ["second"] and len(found["stages"]) == 2


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ("", "ended without a model"),
        ("poptorch.inferenceModel(torch.sin)(torch.ones(2))", "wraps a function"),
        ("wrapped(torch.ones(12, 8), shift=torch.ones(12, 4))", "takes shift by keyword only"),
    ],
)
def test_scripts_that_cannot_be_planned(run, ends, message):
    status, printed = run("plan", "{script}", ends=ends)
    assert status == 2 and message in printed.err


def test_plans_count_ipus_from_one(run):
    status, printed = run("plan", "--ipus", 0, "{script}")
    assert status == 2 and "[plan] num_ipus is 0. Pass a whole number" in printed.err


@pytest.mark.parametrize("command", ["explain", "plan", "estimate"])
def test_folders_are_no_scripts(run, tmp_path, command):
    status, printed = run(command, tmp_path)
    assert status == 2 and f"{str(tmp_path)!r} is not a file" in printed.err


@pytest.mark.parametrize("amount", ["-1", "nan", "much"])
@pytest.mark.parametrize("option", ["--to-mib", "--unused-days"])
def test_prune_keeps_everything_if_an_amount_is_wrong(run, tmp_path, option, amount, capsys):
    options = poptorch.Options().enableExecutableCaching(str(tmp_path / "cache"))
    poptorch.inferenceModel(torch.nn.Linear(2, 2), options).compile(torch.ones(1, 2))
    with pytest.raises(SystemExit):
        run("cache", "prune", f"{option}={amount}", tmp_path / "cache")
    assert f"{amount!r} is not a number of 0 or more" in capsys.readouterr().err
    assert len([*(tmp_path / "cache").iterdir()]) == 1


def test_cache_commands_print_data(run, tmp_path):
    options = poptorch.Options().enableExecutableCaching(str(tmp_path / "cache"))
    poptorch.inferenceModel(torch.nn.Linear(2, 2), options).compile(torch.ones(1, 2))
    folder = tmp_path / "cache"
    (entry,) = json.loads(run("cache", "list", "--json", folder)[1].out)
    assert entry["bytes"] > 0
    verified = json.loads(run("cache", "verify", "--json", folder)[1].out)
    assert verified == {"entries": 1, "damaged": []}
    pruned = json.loads(run("cache", "prune", "--json", folder)[1].out)
    assert pruned == {"entries": 1, "removed": [entry["key"]]}


def test_report_prints_data(run, tmp_path):
    wrapped = poptorch.inferenceModel(torch.nn.Linear(4, 2))
    wrapped.compile(torch.zeros(3, 4))
    wrapped.write_report(tmp_path / "made")
    status, printed = run("report", "--json", tmp_path / "made", "--to", tmp_path / "page")
    (found,) = json.loads(printed.out)
    assert status == 0
    assert found["page"] == str(tmp_path / "page" / "report.html")
    assert found["summary"]["cycles_per_run"] > 0


def test_file_shows_data(run, tmp_path):
    file = tmp_path / "net.poptorch"
    poptorch.inferenceModel(torch.nn.Linear(2, 3)).compileAndExport(str(file), torch.ones(1, 2))
    status, printed = run("file", "show", "--json", file)
    found = json.loads(printed.out)
    assert status == 0 and found["version"] == poptorch.__version__
    assert found["section_bytes"]["program"] > 0
    assert {"dtype": "float32", "shape": [3, 2]} in found["state"].values()
    assert "float32[3, 2]" in run("file", "show", file)[1].out


@pytest.mark.parametrize("command", [["env"], ["env", "--json"]])
def test_a_reader_may_end_before_the_output(command):
    """Pipes such as `python -m poptorch env | head -1` are ended without a message."""
    ours, theirs = os.pipe()
    os.close(ours)
    words = [sys.executable, "-c", f"from poptorch.__main__ import main; exit(main({command}))"]
    with os.fdopen(theirs) as file:
        done = zygote.run(words, stdout=file, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (141, "")
