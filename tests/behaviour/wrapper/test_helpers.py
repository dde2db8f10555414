"""Tests the helpers beside the wrappers: poptorch.testing, profiling, _utils, logs and their
options.
"""

import json
import os
import subprocess
import sys

import poptorch
import poptorch.testing
import pytest
import torch

X = torch.randn(4, 3)


@pytest.mark.parametrize(
    "other, close",
    [
        ((X, {"a": X.long(), "b": [X]}), True),
        ((X, {"a": X.int(), "b": [X.double()]}), True),  # as the device has them
        ((X + 1e-7, {"a": X.long(), "b": [X]}), True),
        ((X + 1, {"a": X.long(), "b": [X]}), False),
        ((X[:2], {"a": X.long(), "b": [X]}), False),
        ((X.half(), {"a": X.long(), "b": [X]}), False),
    ],
)
def test_allclose(other, close):
    reference = (X, {"a": X.long(), "b": [X]})
    assert poptorch.testing.allclose(reference, other, atol=1e-5) is close


def test_allclose_of_other_values():
    allclose = poptorch.testing.allclose
    nan = torch.tensor([float("nan")])
    assert not allclose(nan, nan) and allclose(nan, nan, equal_nan=True)
    assert allclose((X, None, 3), (X, None, 3)) and not allclose((X, 3), (X, 4))
    model = torch.nn.Linear(3, 2).eval()
    assert allclose(model(X), poptorch.inferenceModel(model)(X), rtol=1e-4, atol=1e-6)
    for other in ([X, X], (X,), {"a": X}, X):
        with pytest.raises(poptorch.Error, match=r"\[testing\] structures differ: ref"):
            allclose({"b": X}, other)


def test_structures_come_apart_and_together():
    structure = {"a": (X, 3), "b": [X + 1, None]}
    tensors = poptorch._utils.flattenTensorStructure(structure)
    assert [t is X for t in tensors] == [True, False]
    made = poptorch._utils.reconstructTensorStructure(structure, [t * 2 for t in tensors])
    assert torch.equal(made["a"][0], X * 2) and made["a"][1] == 3 and made["b"][1] is None


def test_tensors_of_the_traced_model_are_on_the_ipu():
    seen = []

    def model(x):
        seen.append(poptorch._utils.isOnIpu(x))
        return x + 1

    poptorch.inferenceModel(model)(X)
    assert seen == [True] and not poptorch._utils.isOnIpu(X) and not poptorch._utils.isOnIpu(3)


PROFILED = """
import poptorch, torch
channel = poptorch.profiling.Channel("mine")
class Loader:
    def load(self, n):
        return torch.ones(n)
loader = channel.instrument(Loader(), "load")
model = poptorch.inferenceModel(torch.nn.Linear(3, 2))
with channel.tracepoint("epoch"):
    for _ in range(3):
        model(loader.load(3))
"""


def run_profiled(tmp_path, **variables):
    env = {k: v for k, v in os.environ.items() if k != "PVTI_OPTIONS"} | variables
    return subprocess.run(
        [sys.executable, "-c", PROFILED],
        cwd=tmp_path,
        env={**env, "PYTHONPATH": ":".join(os.path.abspath(p) for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.shared
def test_a_trace_is_written_when_asked_for(tmp_path):
    asked = json.dumps({"enable": "true", "directory": str(tmp_path / "traces")})
    done = run_profiled(tmp_path, PVTI_OPTIONS=asked)
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "traces").iterdir()
    events = json.loads(file.read_text())["traceEvents"]
    names = [(e["cat"], e["name"]) for e in events]
    assert names.count(("mine", "load")) == 3 and names.count(("mine", "epoch")) == 1
    assert names.count(("poptorch", "__call__")) == 3
    epoch = next(e for e in events if e["name"] == "epoch")
    inner = [e for e in events if e["name"] == "load"]
    assert all(epoch["ts"] <= e["ts"] <= epoch["ts"] + epoch["dur"] for e in inner)


@pytest.mark.shared
@pytest.mark.parametrize("variables", [{}, {"PVTI_OPTIONS": '{"enable":"false"}'}])
def test_no_trace_is_written_otherwise(tmp_path, variables):
    assert run_profiled(tmp_path, **variables).returncode == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.shared
def test_bad_trace_options(tmp_path):
    done = run_profiled(tmp_path, PVTI_OPTIONS="enable")
    assert "PVTI_OPTIONS=enable is not understood" in done.stderr
    done = run_profiled(tmp_path, PVTI_OPTIONS='{"wibble": 1}')
    assert "Ignoring unknown PVTI_OPTIONS: ['wibble']" in done.stderr


def test_only_methods_can_be_instrumented():
    channel = poptorch.profiling.Channel("mine")
    assert channel.instrument(loader := [], "append") is loader
    with pytest.raises(poptorch.Error, match="list has no method 'wibble'"):
        channel.instrument([], "wibble")


def test_a_message_repeats_as_often_as_allowed(capsys):
    for limit, expected in ((None, 9), (1, 1), (4, 4)):
        poptorch.inferenceModel(torch.relu, poptorch.Options().maxRepeatLogs(limit))
        for _ in range(9):
            poptorch._logging.logger.warning("The same again")
        assert capsys.readouterr().err.count("The same again") == expected
    with pytest.raises(poptorch.Error, match="positive integer"):
        poptorch.Options().maxRepeatLogs(0)


def test_the_last_repetition_says_so(capsys):
    poptorch.inferenceModel(torch.relu)
    for _ in range(9):
        poptorch._logging.logger.warning("Once more")
    written = capsys.readouterr().err
    assert written.count("Once more") == 4 and written.count("not repeated any more") == 1


def test_lines_of_the_log_look_as_documented(capsys):
    poptorch.inferenceModel(torch.relu, poptorch.Options().modelName("wibble"))(X)
    (line,) = [text for text in capsys.readouterr().err.splitlines() if "Compiled" in text]
    assert line.startswith("[") and line[13:].startswith("] [poptorch::python] [info] Compiled wi")
    assert line[3] == line[6] == ":" and line[9] == "."


def test_log_dir_and_model_name(tmp_path):
    options = poptorch.Options().logDir(str(tmp_path / "logs"))
    poptorch.inferenceModel(torch.nn.Linear(3, 2), options)(X)
    poptorch.inferenceModel(torch.relu, options.clone().modelName("mine"))(X)
    assert sorted(p.name for p in (tmp_path / "logs").iterdir()) == ["inference.log", "mine.log"]
    text = (tmp_path / "logs" / "inference.log").read_text()
    for said in ("options: Options(", "log_dir=", "linear(", "compiled in: "):
        assert said in text


def test_the_repr_shows_blocks():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 2))
    poptorch.BeginBlock(model[1], user_id="head", ipu_id=0)
    wrapped = poptorch.inferenceModel(model)
    assert "BeginBlock(user_id=head, ipu_id=0) Linear(" in repr(wrapped)
    assert "BeginBlock" not in repr(model)


def test_the_repr_says_how_the_model_is_executed():
    options = poptorch.Options().replicationFactor(2)
    options.setExecutionStrategy(poptorch.ShardedExecution())
    wrapped = poptorch.inferenceModel(torch.nn.Linear(3, 2), options)
    tree = "\nLinear(in_features=3, out_features=2, bias=True)"
    assert repr(wrapped) == f"Linear for inference: ShardedExecution, not compiled{tree}"
    wrapped(torch.zeros(2, 3))
    assert repr(wrapped) == f"Linear for inference: ShardedExecution, compiled for 2 IPUs{tree}"


@pytest.mark.parametrize("marks", [False, True])
def test_popart_ir_has_what_pipelines_stash_and_what_is_a_checkpoint(marks):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(3, 3)
            self.second = poptorch.BeginBlock(torch.nn.Linear(3, 3), "second", ipu_id=1)

        def forward(self, x):
            y = torch.tanh(self.first(x))
            if marks:
                y = poptorch.recomputationCheckpoint(y)
            return poptorch.identity_loss(self.second(torch.sigmoid(y)), reduction="mean")

    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    wrapped = poptorch.trainingModel(Model(), options)
    wrapped(torch.randn(4, 3))
    ops = json.loads(wrapped._debugGetPopartIR())["maingraph"]
    assert sum("Stash" in op["type"] for op in ops) == 1 + marks
    assert any("Checkpoint" in op["name"] for op in ops) == marks
    single = poptorch.trainingModel(
        torch.nn.Sequential(Model()),
        poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution()),
    )
    single(torch.randn(4, 3))
    assert "Stash" not in single._debugGetPopartIR()


class Skipping(torch.nn.Module):
    """Four layers on four IPUs; `skips` says which values go past layers.

    forward: labels wait on their IPU for the loss. backward: a mask is used in every layer.
    """

    def __init__(self, skips):
        super().__init__()
        self.skips = skips
        layers = [torch.nn.Linear(3, 3) for _ in range(4)]
        self.layers = torch.nn.ModuleList(
            poptorch.BeginBlock(layer, f"s{k}") for k, layer in enumerate(layers)
        )

    def forward(self, x, mask):
        for k, layer in enumerate(self.layers):
            x = poptorch.recomputationCheckpoint(layer(x))
            if self.skips == "mask" or (self.skips == "label" and k == 3):
                x = x + mask if self.skips == "label" else x * mask
        return poptorch.identity_loss(x.square(), "mean")


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("skips, extra", [("none", 0), ("label", 0), ("mask", 3)])
def test_popart_ir_lists_what_crosses_from_forward_to_backward(skips, extra, train):
    stages = [poptorch.Stage(f"s{k}").ipu(ipu) for k, ipu in enumerate([0, 1, 2, 3])]
    options = poptorch.Options().setExecutionStrategy(poptorch.PipelinedExecution(*stages))
    if train:
        options.Training.gradientAccumulation(8)
    else:
        options.deviceIterations(8)
    wrap = poptorch.trainingModel if train else poptorch.inferenceModel
    wrapped = wrap(Skipping(skips), options)
    wrapped(torch.randn(8, 3), torch.ones(8, 3))
    ops = json.loads(wrapped._debugGetPopartIR())["maingraph"]
    stashes = [op["inputs"][0] for op in ops if op["type"] == "Stash"]
    assert len(stashes) == (3 + extra if train else 0)


def test_popart_ir_is_json_of_ops():
    wrapped = poptorch.inferenceModel(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()))
    wrapped(X)
    ops = json.loads(wrapped._debugGetPopartIR())["maingraph"]
    relu = next(op for op in ops if op["type"] == "Relu")
    assert relu["name"] == "1/Relu" and len(relu["inputs"]) == 1 and relu["attributes"] == {}
    assert {"type", "name", "inputs", "outputs", "attributes"} <= set(ops[0])
