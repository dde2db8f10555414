"""Ctrl-C while a worker starts, loads or ends: nobody but the program itself says anything.

At more moments: POPTORCH_KILL_POINTS (of each kind).
"""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time

import poptorch
import pytest

POINTS = int(os.environ.get("POPTORCH_KILL_POINTS", "0"))
# Python's own fork server hears interrupts while it begins: where more moments are asked for.
STRATEGIES = [
    name for name in poptorch.SharingStrategy.__members__ if POINTS or name != "ForkServer"
]

PROGRAM = """
import os, signal, sys, threading
from multiprocessing import util

try:
    import poptorch, torch

    def interrupted_spawn(*arguments, spawn=util.spawnv_passfds):
        child = spawn(*arguments)
        if sys.argv[3:] and "spawn_main" in str(arguments):
            os.kill(0, signal.SIGINT)  # the group, as a terminal does
            threading.Event().wait(0.2)
        return child

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 100

        def __getitem__(self, index):
            return torch.ones(10)

    if __name__ == "__main__":
        util.spawnv_passfds = interrupted_spawn
        # Of the threads that numerical libraries have: it hears what the main one has blocked.
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        print("ready", flush=True)
        loader = poptorch.DataLoader(
            poptorch.Options(),
            Rows(),
            num_workers=int(sys.argv[2]),
            mode=poptorch.DataLoaderMode.Async,
            async_options={"sharing_strategy": poptorch.SharingStrategy[sys.argv[1]]},
        )
        print("started", flush=True)
        while True:
            list(loader)
except KeyboardInterrupt:
    if __name__ != "__main__":
        raise
"""


# What Python's tracker of resources says when it frees what an interrupted start left, and what its
# import system says of an interrupt in a callback of its own.
OF_PYTHON = re.compile(
    r".*resource_tracker.*leaked.*\n(  warnings\.warn\(.*\n)?"
    r"|Exception ignored in: <function _get_module_lock.*\n(.*\n){2,3}?KeyboardInterrupt: \n"
)


@pytest.mark.parametrize("point", range(max(POINTS, 1)))
@pytest.mark.parametrize("moment", ["ready", "started"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_interrupts_print_nothing(tmp_path, strategy, workers, moment, point):
    with started(tmp_path, strategy, str(workers)) as running:
        while running.stdout.readline() != f"{moment}\n":
            assert running.poll() is None
        # A fork server, which is Python's own, hears interrupts until it has begun.
        first = 0.5 if strategy == "ForkServer" and moment == "ready" else 0.0
        time.sleep(first + random.Random(f"{strategy} {workers} {point}").uniform(0, 1.5))
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        assert not OF_PYTHON.sub("", running.communicate(timeout=60)[1])
    assert running.returncode == 0


def test_an_interrupt_before_a_worker_has_what_it_is_given(tmp_path):
    with started(tmp_path, "SharedMemory", "0", "itself") as running:
        output, error = running.communicate(timeout=60)
    assert (output, OF_PYTHON.sub("", error), running.returncode) == ("ready\n", "", 0)


@contextlib.contextmanager
def started(folder, *arguments):
    program = folder / "program.py"
    program.write_text(PROGRAM)
    running = subprocess.Popen(
        [sys.executable, program, *arguments],
        env={**os.environ, "PYTHONPATH": ":".join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # What runs in the background may be born without interrupts; what a terminal runs is not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield running
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
