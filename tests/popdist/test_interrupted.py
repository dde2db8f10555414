"""Ctrl-C ends a program, while it compiles and while it trains, and leaves nothing."""

import os
import signal
import time

import pytest
from launching import MARK, PYTHON, marked, started, until

PROGRAM = """
import popdist.poptorch, poptorch, torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)
    def forward(self, x):
        print("compiles", flush=True)
        x = self.layer(x)
        for _ in range({operations}):
            x = torch.sin(x)
        return poptorch.identity_loss(x.mean(), reduction="none")
popdist.init()
model, options = Model(), popdist.poptorch.Options().deviceIterations(20000)
training = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), 0.1))
x = torch.randn(20000, 64)
training.compile(x)
print("trains", flush=True)
while True:
    training(x)
"""


@pytest.mark.parametrize("when, whom", [("compiles", "poprun alone"), ("trains", "the group")])
def test_ctrl_c(when, whom, tmp_path):
    shared = set(os.listdir("/dev/shm"))
    runtime, temporary = tmp_path / "runtime", tmp_path / "tmp"
    runtime.mkdir(mode=0o700)
    temporary.mkdir()
    env = {MARK: str(tmp_path), "TMPDIR": str(temporary), "XDG_RUNTIME_DIR": str(runtime),
           "TORCHINDUCTOR_CACHE_DIR": str(runtime)}  # fmt: skip
    program = PROGRAM.format(operations=100_000 if when == "compiles" else 1)
    process = started("--num-instances=2", PYTHON, "-c", program, env=env, process_group=0)
    told = 0
    while told < 2:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        told += line.strip().endswith(when)
    time.sleep(0.3)
    begin = time.monotonic()
    (os.killpg if whom == "the group" else os.kill)(process.pid, signal.SIGINT)
    process.communicate(timeout=30)
    assert time.monotonic() - begin < 5  # a second, on a machine of its own
    assert process.returncode == 130
    until(lambda: not marked(tmp_path))
    assert os.listdir(temporary) == [] and set(os.listdir("/dev/shm")) <= shared
