"""Progress bars of long transfers and files appear on a terminal, each on a separate line."""

import os
import pty
import re
import sys
import termios
import textwrap

import pytest
import zygote

PROGRAM = """
import sys, time
import poptorch, torch
from poptorch_core import progress
progress.DELAY_SECONDS = {delay}
options = poptorch.Options().showCompilationProgressBar({shown})
network = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 512))
class Loss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.network = network
    def forward(self, x):
        return poptorch.identity_loss(self.network(x).square(), "mean")
loss = Loss()
optimizer = poptorch.optim.AdamW(loss.parameters(), lr=0.01)
model = poptorch.trainingModel(loss, options, optimizer)
x = torch.randn(4, 512)
model(x)
print("READY", file=sys.stderr, flush=True)
"""
WORK = """
model.copyWeightsToHost()
model.copyWeightsToDevice()
optimizer.state_dict()
poptorch.save_checkpoint("made.pt", model, optimizer)
poptorch.load_checkpoint("made.pt", model, optimizer)
model.save("made.poptorch")
model.destroy()
poptorch.load("made.poptorch", trust=True)
"""
TITLES = (
    "Weights to the host",
    "Weights to the device",
    "Optimiser state to the host",
    "Optimiser state to the device",
    "Saving made.pt",
    "Checking made.pt",
    "Saving made.poptorch",
    "Loading made.poptorch",
)


def run(work, folder, *, delay=0.0, shown=True, terminal=True):
    """Returns the stderr of a program after its first step."""
    program = folder / "program.py"
    program.write_text(PROGRAM.format(delay=delay, shown=shown) + textwrap.dedent(work))
    environment = {**os.environ, "POPTORCH_LOG_LEVEL": "INFO"}
    command = [sys.executable, str(program)]
    if not terminal:
        made = zygote.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
        assert made.returncode == 0, made.stderr
        return made.stderr.split("READY")[1]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 120))
    with zygote.Popen(command, cwd=folder, env=environment, stderr=theirs) as process:
        os.close(theirs)
        written = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # Linux reports so that the other end is closed
                break
            if not part:
                break
            written += part
    os.close(ours)
    text = written.decode()
    assert process.returncode == 0, text
    return text.split("READY")[1]


@pytest.mark.shared
def test_a_terminal_shows_each_to_its_end(tmp_path):
    shown = run(WORK, tmp_path)
    ended = re.findall(r"([\w. ]+): 100%\|[^\r\n]*B/s\]\r?\n", shown)
    assert set(ended) == set(TITLES)


@pytest.mark.shared
@pytest.mark.parametrize("settings", [{"terminal": False}, {"delay": 1e9}, {"shown": False}])
def test_nothing_is_shown_elsewhere_or_soon_or_where_it_is_off(settings, tmp_path):
    shown = run(WORK, tmp_path, **settings)
    assert "|" not in shown and "%" not in shown, (settings, shown)


@pytest.mark.shared
def test_popxl_shows_its_transfers(tmp_path):
    work = """
    import numpy as np
    import popxl
    from popxl import ops
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        variable = popxl.variable(np.zeros((64, 64), np.float32), name="w")
        ops.scaled_add_(variable, popxl.constant(np.ones((64, 64), np.float32)))
    with popxl.Session(ir, "ipu_model") as session:
        session.run()
    assert (session.get_tensor_data(variable) == 1).all()
    """
    for terminal in (True, False):
        ended = re.findall(r"Variables to the (\w+): 100%", run(work, tmp_path, terminal=terminal))
        assert sorted(set(ended)) == (["device", "host"] if terminal else [])


def test_a_log_line_begins_a_line(tmp_path):
    work = """
    from poptorch_core.progress import of_bytes
    from poptorch._logging import logger
    with of_bytes("Work", lambda: 100) as told:
        for _ in range(4):
            told(25)
            logger.warning("meanwhile")
        with of_bytes("Inner", lambda: 100) as inner:
            inner(100)
    """
    shown = run(work, tmp_path)
    lines = [line for line in re.split(r"[\r\n]+", shown) if line.strip()]
    assert sum("meanwhile" in line for line in lines) == 4
    assert all(line.startswith(("[", "\x1b")) for line in lines if "meanwhile" in line)
    assert not any("Work" in line and "meanwhile" in line for line in lines)
    assert "Inner" not in shown and "Work: 100%" in lines[-1]


def test_an_error_ends_the_line_before_100(tmp_path):
    work = """
    from poptorch_core.progress import of_bytes
    try:
        with of_bytes("Work", lambda: 100) as told:
            told(50)
            raise LookupError
    except LookupError:
        print("caught", file=sys.stderr)
    with of_bytes("Next", lambda: 100) as told:
        told(1)
    """
    lines = re.split(r"[\r\n]+", run(work, tmp_path))
    assert "caught" in lines and not any("Work: 100%" in line for line in lines)
    assert any("Next: 100%" in line for line in lines)


def test_ctrl_c_waits_for_a_copy_and_ends_the_bar(tmp_path):
    work = """
    import signal
    from poptorch_core import progress
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    progress.Bar.move_to = lambda self, done: signal.raise_signal(signal.SIGINT)
    try:
        model.copyWeightsToHost()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    model(x)
    """
    assert "stopped" in run(work, tmp_path)
