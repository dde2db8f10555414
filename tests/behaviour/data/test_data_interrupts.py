"""Ctrl-C while a worker starts or loads prints nothing but the output of the program itself.

tests/nightly/loader_ends.py does the same at random moments.
"""

import os
import subprocess
import sys

import poptorch
import pytest
from interrupted_loading import OF_PYTHON, started


@pytest.mark.nightly
@pytest.mark.signals
@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize("strategy", poptorch.SharingStrategy.__members__)
def test_an_interrupt_of_the_loop_prints_nothing(tmp_path, strategy, workers):
    with started(tmp_path, strategy, workers, "batch") as running:
        output, error = running.communicate()
    assert (output, error, running.returncode) == ("ready\nstarted\n", "", 0)


@pytest.mark.nightly
@pytest.mark.signals
def test_an_interrupt_before_a_worker_has_what_it_is_given(tmp_path):
    with started(tmp_path, "SharedMemory", "0", "start") as running:
        output, error = running.communicate()
    assert (output, OF_PYTHON.sub("", error), running.returncode) == ("ready\n", "", 0)


FORK_SERVER = """
import multiprocessing, os, signal, sys
from multiprocessing import util

had_torch = "torch" in sys.modules  # in a child: when it imports this file


def state():
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    return had_torch, blocked, signal.getsignal(signal.SIGINT) is signal.default_int_handler


def interrupted_spawn(*arguments, spawn=util.spawnv_passfds):
    child = spawn(*arguments)
    if "forkserver" in str(arguments):
        os.kill(child, signal.SIGINT)
    return child


if __name__ == "__main__":
    from poptorch._impl.data.spawn import held

    util.spawnv_passfds = interrupted_spawn
    context = multiprocessing.get_context("forkserver")
    with held(context):
        pass
    with context.Pool(1) as pool:
        print(pool.apply(state), flush=True)
"""


@pytest.mark.signals
def test_an_interrupt_does_not_reach_the_imports_of_a_fork_server(tmp_path):
    """Its children find torch imported, and receive Ctrl-C."""
    program = tmp_path / "program.py"
    program.write_text(FORK_SERVER)
    path = ":".join(folder for folder in sys.path if folder)
    ran = subprocess.run(
        [sys.executable, program], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr, ran.returncode) == ("(True, False, True)\n", "", 0)
