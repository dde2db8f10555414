"""A program of several instances, the last of which fails.

`faulty_program.py FOLDER FAULT POINT`. Each of the others writes its error to FOLDER/<instance>.
Without FAULT, the whole program runs, or TEST_FAULT has the last instance's POPTORCH_FAULT.
"""

import os
import signal
import sys
import time
from pathlib import Path

import popdist
import popdist.poptorch
import poptorch
import torch
from popdist import collectives
from poptorch import testing

folder, fault, point = Path(sys.argv[1]), *(sys.argv[2:] or ("", ""))
WIDTH = int(os.environ.get("TEST_WIDTH", "160"))
ITERATIONS = max(5_120_000 // WIDTH**2, 6)  # the larger the gradients, the fewer
index, count = popdist.getInstanceIndex(), popdist.getNumInstances()
if index == count - 1 and "TEST_FAULT" in os.environ:
    os.environ["POPTORCH_FAULT"] = os.environ["TEST_FAULT"]


def raises():
    raise ValueError("a fault of the program")


def survives():
    try:
        raises()
    except ValueError:
        time.sleep(60)


FAULTS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "exit": lambda: sys.exit(0),
    "raise": raises,
    "survive": survives,
}
SIGNALS = {"kill": "SIGKILL", "stop": "SIGSTOP"}


def at(name):
    """Strikes if the program's point of that name is the chosen one."""
    if name != point or index != count - 1:
        return
    if name == "amid a step":
        testing.inject_fault("run", SIGNALS[fault], micro_batch=ITERATIONS // 2, ipu=index)
    else:
        FAULTS[fault]()


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        # The gradients: some go in bulk transfers, others in messages.
        self.layer = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        at("compile")
        y = torch.relu(self.layer(x))
        return y, poptorch.identity_loss((y**2).mean(), reduction="none")


def main():
    at("before init")
    popdist.init()
    at("wrapping")
    model, options = Network(), popdist.poptorch.Options().deviceIterations(ITERATIONS)
    training = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), 0.01))
    x = torch.randn(ITERATIONS * 4 * popdist.getNumLocalReplicas(), WIDTH)
    training.compile(x)
    at("upload")
    training(x)
    for _ in range(3):
        at("step")
        at("amid a step")
        training(x)
    at("fetch")
    assert torch.isfinite(model.layer.weight).all()
    training(x)
    at("save")
    poptorch.save_checkpoint(folder / f"{index}.pt", training)
    popdist.synchronize()
    at("collective")
    collectives.all_reduce(torch.ones(1000), name="metric")
    at("exit")


try:
    main()
except poptorch.Error as error:
    (folder / str(index)).write_text(error.message)
    raise
