"""Runs poprun as its users do."""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PYTHON = sys.executable
POPRUN = [PYTHON, "-m", "popdist.launcher.main"]
PATIENT = [PYTHON, str(Path(__file__).with_name("patient_poprun.py"))]
NIGHT = "POPTORCH_MOST_INSTANCES" in os.environ  # also runs cases that repeat a mechanism
MARK = "TEST_LAUNCH"  # a variable by which `marked` finds a test's processes
_OURS = ("POPDIST_", "OMPI_", "SLURM_", "PMI_", "TORCHELASTIC_", "IPUOF_")
_TORCHS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def clean_environment(**more):
    """Returns the environment of a process which no launcher has started."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_OURS) and k not in _TORCHS}
    return {**kept, **more}


@pytest.fixture
def hears_hangups():
    """Undoes nohup, under which the tests may run: programs inherit it."""
    former = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, former)


def started(*words, env=None, launcher=POPRUN, **more):
    """Starts poprun with these arguments. more: arguments of Popen."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(
        [*launcher, *map(str, words)], text=True, env=clean_environment(**(env or {})),
        **{**pipes, **more},
    )  # fmt: skip


def ended(process, status=0):
    """Returns stdout and stderr of a process, which must end with the status."""
    try:
        out, err = process.communicate()
    except BaseException:
        process.kill()
        raise
    assert process.returncode == status, f"{process.returncode}\n{out}\n{err}"
    return out, err


def poprun(*words, status=0, **more):
    """Returns stdout and stderr of poprun with these arguments, which must end with the status."""
    return ended(started(*words, **more), status)


def lines(text, instance):
    """Returns the output of an instance, without tags."""
    tags = (f"[1,{instance}]<stdout>:", f"[1,{instance}]<stderr>:")
    return [line[len(tags[0]) :] for line in text.splitlines() if line.startswith(tags)]


def is_running(pid):
    """Returns whether a process is running."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def marked(value):
    """Returns processes whose MARK has the value: all that the marked process has started."""
    wanted, found = f"{MARK}={value}\0".encode(), []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and wanted in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def until(condition):
    """Waits until a condition is true, and returns its value."""
    while not (found := condition()):
        time.sleep(0.005)
    return found


def left_in_shared_memory(before):
    """Returns the files in /dev/shm that are not in `before` and stay there. Tests that run at the
    same time have files there too, which disappear while this looks again, at most 600 times."""
    found = set(os.listdir("/dev/shm")) - before
    for _ in range(600):
        if not found:
            break
        time.sleep(0.05)
        found &= set(os.listdir("/dev/shm"))
    return found


def is_full(file):
    """Returns whether a pipe is full."""
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return not poll.poll(0)


def fill(file):
    """Fills a pipe."""
    os.set_blocking(file, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(file, bytes(fcntl.fcntl(file, fcntl.F_GETPIPE_SZ)))
    os.set_blocking(file, True)
    assert is_full(file)
