"""Ctrl-C ends a program while it compiles and while it trains, and leaves nothing."""

import contextlib
import os
import re
import signal
from pathlib import Path

import pytest
from launching import (
    MARK,
    PYTHON,
    is_running,
    left_in_shared_memory,
    marked,
    started,
    until,
)

PROGRAM = """
import os
import popdist.poptorch, poptorch, torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)
    def forward(self, x):
        return poptorch.identity_loss(self.layer(x).mean(), reduction="none")
index = popdist.getInstanceIndex()
os.environ["POPTORCH_FAULT"] = f"{point}:SIGSTOP"  # before the first point there is
popdist.init()
model, options = Model(), popdist.poptorch.Options().deviceIterations(20)
training = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), 0.1))
x = torch.randn(20, 64)
print("process", os.getpid(), flush=True)
while True:
    training(x)
"""
COMPILING, TRAINING = "compile:1:differentiate:1", "run:2:3:{index}"


def is_stopped(pid):
    """Returns whether a process is stopped by a signal."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def has_pending(pid, number):
    """Returns whether a stopped process has a pending signal, or has ended."""
    try:
        found = re.findall(
            r"^(?:Sig|Shd)Pnd:\s(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M
        )
    except FileNotFoundError:
        return True
    return any(int(mask, 16) >> (number - 1) & 1 for mask in found) or not is_running(pid)


@pytest.mark.nightly
@pytest.mark.signals
@pytest.mark.parametrize("point, whom", [(COMPILING, "poprun alone"), (TRAINING, "the group")])
def test_ctrl_c(point, whom, tmp_path):
    """All instances stop at the point, and get the signal when they continue."""
    shared = set(os.listdir("/dev/shm"))
    runtime, temporary = tmp_path / "runtime", tmp_path / "tmp"
    runtime.mkdir(mode=0o700)
    temporary.mkdir()
    env = {MARK: str(tmp_path), "TMPDIR": str(temporary), "XDG_RUNTIME_DIR": str(runtime),
           "TORCHINDUCTOR_CACHE_DIR": str(runtime)}  # fmt: skip
    program = PROGRAM.replace("{point}", point)
    process = started("--num-instances=2", PYTHON, "-c", program, env=env, process_group=0)
    try:
        pids = []
        while len(pids) < 2:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            pids += map(int, re.findall(r"process (\d+)", line))
        until(lambda: all(map(is_stopped, pids)))
        (os.killpg if whom == "the group" else os.kill)(process.pid, signal.SIGINT)
        for pid in pids:
            until(lambda pid=pid: has_pending(pid, signal.SIGINT))
            with contextlib.suppress(ProcessLookupError):  # poprun has killed it
                os.kill(pid, signal.SIGCONT)
        process.communicate()
    finally:
        process.kill()
    assert process.returncode == 130
    until(lambda: not marked(tmp_path))
    assert os.listdir(temporary) == [] and not left_in_shared_memory(shared)
