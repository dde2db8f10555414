"""Reports are where programs look for them, after compilation and again at the program's end."""

import json
import logging
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import poptorch
import popxl
import pytest
import torch
import zygote
from popxl.errors import popart_exception
from report_files import data_in, profiled

NAMES = {"report.html", "report.json", "report.schema.json", "trace.json", "profile.pop",
         "debug.cbor", "archive.a"}  # fmt: skip


def test_a_report_by_option(tmp_path):
    model = poptorch.inferenceModel(torch.nn.Linear(4, 2), profiled(tmp_path))
    model(torch.zeros(3, 4))
    folder = tmp_path / "inference"
    assert {file.name for file in folder.iterdir()} == NAMES
    assert (folder / "profile.pop").read_bytes() == (folder / "report.json").read_bytes()
    data = data_in(folder)
    assert data["model"]["kind"] == "inference" and data["model"]["class"] == "Linear"
    assert data["model"]["samples_per_run"] == 3
    assert data["options"]["profile_dir"] == repr(str(tmp_path))
    assert data["measured"]["runs"] == 0


def test_the_name_of_the_model_is_that_of_the_folder(tmp_path):
    options = profiled(tmp_path).modelName("mine")
    poptorch.inferenceModel(torch.nn.ReLU(), options).compile(torch.zeros(3))
    assert data_in(tmp_path / "mine")["model"]["name"] == "mine"


def test_what_was_measured_comes_with_the_end(tmp_path):
    model = poptorch.inferenceModel(torch.nn.ReLU(), profiled(tmp_path))
    for _ in range(5):
        model(torch.zeros(3))
    model.destroy()
    measured = data_in(tmp_path / "inference")["measured"]
    assert measured["runs"] == 5 and 0 < measured["run_seconds"]
    assert model.isCompiled() is False


@pytest.mark.shared
def test_two_models_of_one_name_have_two_reports(tmp_path):
    first = poptorch.inferenceModel(torch.nn.Linear(4, 2), profiled(tmp_path))
    second = poptorch.inferenceModel(torch.nn.ReLU(), profiled(tmp_path))
    first.compile(torch.zeros(3, 4)), second.compile(torch.zeros(3, 4))
    assert data_in(tmp_path / "inference")["model"]["class"] == "Linear"
    assert data_in(tmp_path / "inference/2")["model"]["class"] == "ReLU"


PROGRAM = """
import poptorch, torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def forward(self, x):
        return poptorch.identity_loss(self.layer(x), reduction="mean")
model = poptorch.trainingModel(Model())
for _ in range(3):
    model(torch.ones(2, 4))
"""


def run(program, folder, **variables):
    return zygote.run(
        [sys.executable, "-c", program], cwd=folder, env={**os.environ, **variables},
        capture_output=True, text=True, check=True,
    )  # fmt: skip


@pytest.mark.shared
def test_the_variable_of_the_guide(tmp_path):
    run(PROGRAM, tmp_path, POPLAR_ENGINE_OPTIONS='{"autoReport.all":"true"}')
    assert data_in(tmp_path / "training")["measured"]["runs"] == 3
    said = {"autoReport.all": "true", "autoReport.directory": "./flowers"}
    run(PROGRAM, tmp_path, POPLAR_ENGINE_OPTIONS=json.dumps(said))
    assert (tmp_path / "flowers/training/profile.pop").exists()


@pytest.mark.shared
def test_the_trace_has_what_the_host_did(tmp_path):
    program = PROGRAM + "with poptorch.profiling.Channel('mine').tracepoint('epoch'): pass\n"
    asked = json.dumps({"autoReport.all": "true"})
    run(program, tmp_path, POPLAR_ENGINE_OPTIONS=asked, PVTI_OPTIONS='{"enable":"true"}')
    events = json.loads((tmp_path / "training/trace.json").read_text())["traceEvents"]
    assert {"mine", "compute"} <= {event.get("cat") for event in events}


def test_without_a_wish_nothing_is_written_or_even_imported(tmp_path):
    check = "import sys; assert not {n for n in sys.modules if n.endswith('reports.recording')}"
    run(PROGRAM + check, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def plain_and_profiled(tmp_path):
    """Returns two compiled models, the second one with profiling, and their input."""
    x, models = torch.randn(64, 256), []
    for setup in (poptorch.Options(), profiled(tmp_path)):
        layers = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
        models.append(poptorch.inferenceModel(layers, setup))
        models[-1](x)
    return models, x


def test_a_step_with_profiling_makes_the_same_calls(plain_and_profiled):
    models, x = plain_and_profiled
    plain, profiled = (calls_in(model, x) for model in models)
    assert plain and plain == profiled


def calls_in(model, x):
    """Returns the functions that a step calls, in order."""
    found = []

    def count(frame, event, argument):
        if event == "call":
            found.append(str(frame.f_code))
        elif event == "c_call":
            found.append(argument.__qualname__)

    sys.setprofile(count)
    model(x)
    sys.setprofile(None)
    return found


@pytest.mark.skipif("POPTORCH_MEASURE" not in os.environ, reason="`make nightly` measures it")
def test_a_step_with_profiling_costs_no_more(plain_and_profiled):
    """Profiling costs less than 3 %.

    Compares medians of process time over alternating turns, so that other work affects both.
    """
    models, x = plain_and_profiled

    def shares():
        times = ([], [])
        for turn in range(300):
            for number in (0, 1) if turn % 2 else (1, 0):
                began = time.process_time()
                models[number](x)
                times[number].append(time.process_time() - began)
        return statistics.median(times[1]) / statistics.median(times[0])

    shares()  # the first runs fill caches that later ones use
    assert min(shares() for _ in range(3)) < 1.03


@pytest.mark.shared
def test_reports_of_instances(tmp_path):
    program = """
import popdist.poptorch, poptorch, torch
options = popdist.poptorch.Options().deviceIterations(3)
poptorch.inferenceModel(torch.nn.ReLU(), options)(torch.zeros(6, 4))
"""
    (tmp_path / "program.py").write_text(program)
    launch = ["-m", "popdist", "--num-instances", "2", "--num-replicas", "2"]
    subprocess.run(
        [sys.executable, *launch, sys.executable, "program.py"], cwd=tmp_path, check=True,
        env={**os.environ, "POPLAR_ENGINE_OPTIONS": '{"autoReport.all":"true"}'},
        capture_output=True,
    )  # fmt: skip
    for folder in (tmp_path / "inference", tmp_path / "instance_1" / "inference"):
        data = data_in(folder)
        assert data["target"]["replicas"] == data["target"]["instances"] == 2
        assert data["model"]["samples_per_run"] == 12  # of both


def test_the_variable_overrides_the_option_with_a_warning(tmp_path, monkeypatch, caplog):
    said = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "e")}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(said))
    model = poptorch.inferenceModel(torch.nn.ReLU(), profiled(tmp_path / "d"))
    with caplog.at_level(logging.WARNING):
        model.compile(torch.zeros(3))
    assert (tmp_path / "e/inference/report.html").exists() and not (tmp_path / "d").exists()
    assert "overrides the program's engine options" in caplog.text


def test_a_bad_variable_is_told_before_the_compilation(monkeypatch):
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", "{")
    model = poptorch.inferenceModel(torch.nn.ReLU())
    with pytest.raises(poptorch.Error, match="POPLAR_ENGINE_OPTIONS={ is not understood"):
        model.compile(torch.zeros(3))
    assert not model.isCompiled()


def test_a_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    model = poptorch.inferenceModel(torch.nn.ReLU())
    model.compile(torch.zeros(3))
    with pytest.raises(poptorch.Error, match=r"\[profiling\] .*file/d' cannot be created"):
        model.write_report(tmp_path / "file/d")


def test_a_folder_that_cannot_be_is_told_before_the_compilation(tmp_path):
    (tmp_path / "file").write_text("")
    model = poptorch.inferenceModel(torch.nn.ReLU(), profiled(tmp_path / "file"))
    with pytest.raises(poptorch.Error, match=r"\[profiling\] '.*file/inference' cannot be written"):
        model.compile(torch.zeros(3))
    assert not model.isCompiled()


def test_the_last_report_is_of_this_model_whoever_wrote_in_between(tmp_path):
    model = poptorch.inferenceModel(torch.nn.Linear(4, 2), profiled(tmp_path))
    model(torch.zeros(3, 4))
    other = poptorch.inferenceModel(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()))
    other.compile(torch.zeros(3))
    other.write_report(tmp_path / "inference")  # as another process would
    model.destroy()
    data = data_in(tmp_path / "inference")
    assert data["model"]["class"] == "Linear" and data["measured"]["runs"] == 1
    assert {"linear"} <= {data["strings"][op] for op in data["instructions"]["op"]}


INTERRUPTED = """
import os, signal, poptorch, torch
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in jobs of the background
model = poptorch.inferenceModel(torch.nn.ReLU())
for _ in range(2):
    model(torch.ones(2, 4))
os.kill(os.getpid(), signal.{signal})
model(torch.ones(2, 4))
"""


@pytest.mark.shared
@pytest.mark.signals
@pytest.mark.parametrize(("signal", "runs"), [("SIGINT", 2), ("SIGKILL", 0)])
def test_a_program_that_is_cut_short_leaves_a_report(tmp_path, signal, runs):
    asked = {"POPLAR_ENGINE_OPTIONS": '{"autoReport.all":"true"}'}
    with pytest.raises(subprocess.CalledProcessError):
        run(INTERRUPTED.format(signal=signal), tmp_path, **asked)
    assert {file.name for file in (tmp_path / "inference").iterdir()} == NAMES
    assert data_in(tmp_path / "inference")["measured"]["runs"] == runs


def test_a_report_of_what_is_not_compiled():
    with pytest.raises(poptorch.Error, match="has not been compiled"):
        poptorch.inferenceModel(torch.nn.ReLU()).write_report(".")


def test_a_loaded_executable_has_a_report(tmp_path):
    model = poptorch.inferenceModel(torch.nn.ReLU(), profiled(tmp_path / "made"))
    model.compileAndExport(tmp_path / "model.poptorch", torch.zeros(3))
    loaded = poptorch.load(tmp_path / "model.poptorch", edit_opts_fn=lambda o: o.enableProfiling(
        str(tmp_path / "loaded")))  # fmt: skip
    loaded(torch.zeros(3))
    made, read = (data_in(tmp_path / name / "inference") for name in ("made", "loaded"))
    assert read["summary"]["cycles_per_run"] == made["summary"]["cycles_per_run"]
    assert read["graph"]["forms"].keys() < made["graph"]["forms"].keys()


def session(engine_options=None):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        popxl.ops.relu(popxl.variable(np.ones((4, 4), np.float32), name="w"))
    if engine_options:
        ir._pb_ir.getSessionOptions().engineOptions = engine_options
    return popxl.Session(ir, "ipu_model")


def test_popxl_sessions(tmp_path):
    engine = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    with session(engine) as running:
        running.run()
    assert {file.name for file in tmp_path.iterdir()} == NAMES
    assert data_in(tmp_path)["model"]["kind"] == "popxl"
    running.write_report(tmp_path / "again")
    assert data_in(tmp_path / "again")["measured"]["runs"] == 1


def test_what_does_not_fit_is_refused_with_a_report(tmp_path):
    options = profiled(tmp_path).useOfflineIpuTarget(1)
    options.Emulator.memoryLimit("error")
    layer = torch.nn.Linear(10240, 10240, device="meta").to_empty(device="cpu")
    model = poptorch.inferenceModel(layer, options)
    with pytest.raises(poptorch.Error, match="needs .* but has") as refused:
        model.compile(torch.zeros(1, 10240))
    assert not model.isCompiled()
    data = data_in(tmp_path / "inference")
    assert data["advice"][0]["kind"] == "does_not_fit", data["advice"]
    assert str(data["memory"]["ipus"][0]["needed"]) in str(refused.value)


def test_a_session_that_does_not_fit_has_a_report(tmp_path, monkeypatch):
    asked = {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(asked))
    monkeypatch.setenv("POPTORCH_MEMORY_LIMIT", "error")
    with pytest.raises(popart_exception, match="needs .* but has"):
        popxl.Session(large(), "ipu_hw")
    assert data_in(tmp_path)["advice"][0]["kind"] == "does_not_fit"


def test_a_session_is_told_of_its_folder_before_it_compiles(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    asked = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "file")}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(asked))
    monkeypatch.setattr("poptorch_core._core.compile", lambda *_: pytest.fail("compiled"))
    with pytest.raises(poptorch.Error, match="cannot be written"):
        popxl.Session(large(), "ipu_hw")


def large():
    """Returns a program whose input is larger than an IPU's memory."""
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.ops.host_load(popxl.h2d_stream((300_000_000,), popxl.float32))
        popxl.ops.host_store(popxl.d2h_stream((), popxl.float32), popxl.ops.sum(x))
    return ir
