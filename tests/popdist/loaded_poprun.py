"""poprun whose instances are forks of a process that has torch loaded: ten of them start in the
time of one.

Python's end is played: threads are waited for, exit functions and C++ destructors run.
"""

import atexit
import contextlib
import ctypes
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import popdist.launcher.main
import popdist.launcher.running
import popdist.poptorch
import poptorch  # noqa: F401 loaded for the instances


def poprun(words: Sequence[str], environment: dict[str, str], folder: Path, errors: Path):
    """poprun, running in a folder. Its program is a Python file."""
    assert len(os.listdir("/proc/self/task")) == 1, "threads do not survive a fork"
    process = multiprocessing.get_context("fork").Process(
        target=_launch, args=(words, environment, folder, errors)
    )
    process.start()
    return process


def _launch(words: Sequence[str], environment: dict[str, str], folder: Path, errors: Path) -> None:
    with open(os.devnull, "r+b") as null, errors.open("wb") as said:
        for standard, file in enumerate((null, null, said)):
            os.dup2(file.fileno(), standard)
    _become(environment)
    os.chdir(folder)
    popdist.launcher.running.subprocess = SimpleNamespace(
        Popen=Fork, PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL
    )
    os._exit(popdist.launcher.main.main(words))


def _become(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # to be looked for anew


class Fork:
    """What the launcher asks of subprocess.Popen."""

    stdin = None

    def __init__(self, words: Sequence[str], env: dict[str, str], **_) -> None:
        outs = [os.pipe() for _ in range(2)]
        self.pid = os.fork()
        if self.pid == 0:
            for standard, (_, writes) in enumerate(outs, start=1):
                os.dup2(writes, standard)
            _be_instance(words[1:], env)
        for _, writes in outs:
            os.close(writes)
        self.stdout, self.stderr = (os.fdopen(reads, "rb", buffering=0) for reads, _ in outs)
        self.returncode: int | None = None

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def _be_instance(words: Sequence[str], environment: dict[str, str]) -> None:
    """Never returns."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    os.closerange(3, 1024)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _become(environment)
    sys.argv = list(map(str, words))
    status = 1
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    threading._shutdown()
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            file.flush()
    ctypes.CDLL(None).exit(status)
