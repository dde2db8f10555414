"""A program's text and the values of its state, as two files, run in another process without model
and torch.
"""

import subprocess
import sys
import textwrap

import numpy as np
import poptorch
import pytest
import torch
from poptorch._impl.wrapper.state import wrapper_state
from poptorch_core import _core
from torch import nn

STEPS = 3

ALONE = """
    import sys
    import numpy as np
    from poptorch_core import _core

    folder = sys.argv[1]
    model = _core.load(open(f"{folder}/program.txt").read(), {"threads": 1})
    files = np.load(f"{folder}/state.npz")
    for name in files:
        if name in model.states:
            model.write_state(name, files[name])
    for step in range(3):
        for number, result in enumerate(model.run([files[f"input {step}"]])):
            np.save(f"{folder}/{step}.{number}.npy", result)
    assert "torch" not in sys.modules
    np.savez(f"{folder}/after.npz", **{name: model.read_state(name) for name in model.states})
"""


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.25))
        self.back = nn.Linear(8, 4)

    def forward(self, x):
        with poptorch.Block("front", ipu_id=0):
            h = self.front(x).relu()
        with poptorch.Block("back", ipu_id=1):
            y = self.back(h)
            return y, poptorch.identity_loss(y.square().mean(), "none")


def pipelined(options):
    stages = poptorch.Stage("front"), poptorch.Stage("back")
    options.setExecutionStrategy(poptorch.PipelinedExecution(*stages))
    options.Training.gradientAccumulation(4)
    options.replicationFactor(2).broadcastBuffers(False)
    options.anchorTensor("grad", "Gradient___back.weight")


def phased(options):
    strategy = poptorch.SerialPhasedExecution(poptorch.Phase("front"), poptorch.Phase("back"))
    strategy.phase(0).ipus(0)
    strategy.phase(1).ipus(1)
    options.setExecutionStrategy(strategy)
    options.deviceIterations(2).outputMode(poptorch.OutputMode.Sum)


@pytest.mark.parametrize("configure", [pipelined, phased])
def test_a_program_and_its_state_are_enough(configure, tmp_path):
    torch.manual_seed(3)
    options = poptorch.Options().randomSeed(7)
    configure(options)
    model = Model()
    adam = poptorch.optim.AdamW(model.parameters(), lr=0.01)
    wrapped = poptorch.trainingModel(model, options, adam)
    inputs = [torch.randn(16, 6) for _ in range(STEPS)]
    wrapped.compile(inputs[0])
    executable = wrapper_state(wrapped).compiled.executable
    (tmp_path / "program.txt").write_text(executable.text("program"))
    states = {name: executable.read_state(name).numpy() for name, *_ in executable.states()}
    given = {f"input {step}": tensor.numpy() for step, tensor in enumerate(inputs)}
    np.savez(tmp_path / "state.npz", **states, **given)

    code = textwrap.dedent(ALONE)
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True)
    for step, tensor in enumerate(inputs):
        for number, result in enumerate(wrapped(tensor)):
            alone = np.load(tmp_path / f"{step}.{number}.npy")
            np.testing.assert_array_equal(alone, result.detach().numpy())
    after = np.load(tmp_path / "after.npz")
    for name in states:
        np.testing.assert_array_equal(after[name], executable.read_state(name).numpy())


def test_a_loaded_program_says_what_it_has_not():
    executable = _core.compile(_core.parse("graph @main(%x: f32[2]) -> (f32[2]) {\n  return %x\n}"))
    loaded = _core.load(executable.text("program"))
    assert loaded.text("program") == executable.text("program")
    x = np.array([1.0, 2.0], np.float32)
    np.testing.assert_array_equal(loaded.run([x])[0], x)
    with pytest.raises(_core.Error, match="was loaded from its program"):
        loaded.text("placed")
    with pytest.raises(_core.Error, match=r"\[parse\] program:1:1"):
        _core.load("no program")
