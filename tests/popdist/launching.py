"""Runs poprun as its users do."""

import os
import subprocess
import sys
import time
from pathlib import Path

PYTHON = sys.executable
POPRUN = [PYTHON, "-m", "popdist.launcher.main"]
NIGHT = "POPTORCH_MOST_INSTANCES" in os.environ  # with cases that repeat a mechanism
MARK = "TEST_LAUNCH"  # a variable by which `marked` finds a test's processes
_OURS = ("POPDIST_", "OMPI_", "SLURM_", "PMI_", "TORCHELASTIC_", "IPUOF_")
_TORCHS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def clean_environment(**more):
    """That of a process which no launcher has started."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_OURS) and k not in _TORCHS}
    return {**kept, **more}


def started(*words, env=None, **more):
    """poprun with these words, running."""
    return subprocess.Popen(
        [*POPRUN, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=clean_environment(**(env or {})), **more,
    )  # fmt: skip


def poprun(*words, env=None, status=0, seconds=60, **more):
    """stdout and stderr of poprun with these words, which ends with a status in that time."""
    process = started(*words, env=env, **more)
    try:
        out, err = process.communicate(timeout=seconds)
    except BaseException:
        process.kill()
        raise
    assert process.returncode == status, f"{process.returncode}\n{out}\n{err}"
    return out, err


def lines(text, instance):
    """What an instance wrote, without tags."""
    tags = (f"[1,{instance}]<stdout>:", f"[1,{instance}]<stderr>:")
    return [line[len(tags[0]) :] for line in text.splitlines() if line.startswith(tags)]


def is_running(pid):
    """Whether a process lives."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def marked(value):
    """Processes whose MARK has a value: all that a marked one has started."""
    wanted, found = f"{MARK}={value}\0".encode(), []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and wanted in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def until(condition, seconds=20.0):
    """Waits for something to come true, and gives it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)
    return found
