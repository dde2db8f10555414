"""The fork server of asynchronous loaders is a fork of the program, with a new `__main__`."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import multiprocessing, os, signal, sys, threading
from multiprocessing import forkserver, util

had_torch = "torch" in sys.modules  # in a child: when it imports this file
changed = False
opened = open(__file__)


def state(number):
    blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    own_spawn = util.spawnv_passfds.__module__ == util.__name__
    forkserver.ensure_running()  # its lock is free
    same_file = os.path.samestat(os.fstat(number), os.stat(__file__))
    handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return had_torch, changed, __name__, same_file, blocked, handled, own_spawn


def interrupted_fork(fork=os.fork):
    os.fork = fork  # only the server is interrupted
    child = fork()
    if child:
        os.kill(child, signal.SIGINT)
    return child


if __name__ == "__main__":
    from poptorch._impl.data import forked_server, spawn

    changed = True
    print("once", end="", flush=False)
    os.fork = interrupted_fork
    if "large" in sys.argv:
        forked_server.LARGEST_RESIDENT = 1
    hold = threading.Event()
    if "threads" in sys.argv:
        threading.Thread(target=hold.wait, daemon=True).start()
    context = multiprocessing.get_context("forkserver")
    with spawn.held(context):
        pass
    process = forkserver._forkserver._forkserver_pid
    line = open(f"/proc/{process}/cmdline").read()
    print("", "fork" if line == open("/proc/self/cmdline").read() else "new", flush=True)
    hold.set()
    with context.Pool(1) as pool:
        print(pool.apply(state, [opened.fileno()]), flush=True)
"""
OF_MAIN = "(True, False, '__mp_main__', False, False, True, True)\n"


@pytest.mark.signals
@pytest.mark.parametrize(
    ("arguments", "kind"), [([], "fork"), (["threads"], "new"), (["large"], "new")]
)
def test_a_fork_server_is_a_fork_of_a_small_program_without_threads(tmp_path, arguments, kind):
    """Its children have a new `__main__` and none of the program's files, receive Ctrl-C, and start
    processes as others do."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = ":".join(folder for folder in sys.path if folder)
    ran = subprocess.run(
        [sys.executable, program, *arguments], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.stderr == ""
    assert (ran.stdout, ran.returncode) == (f"once {kind}\n{OF_MAIN}", 0)
