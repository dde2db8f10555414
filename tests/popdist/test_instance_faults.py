"""Something happens to an instance of a program that compiles, trains and saves: the others say so,
and all of it ends."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launching import PYTHON, started

PROGRAM = Path(__file__).with_name("faulty_program.py")
RANDOM = Path(__file__).with_name("random_faults.py")
WHOLE = "POPTORCH_INSTANCE_FAULTS" in os.environ  # the night's
POINTS = ("before init", "wrapping", "compile", "upload", "step", "amid a step", "fetch", "save",
          "collective", "exit")  # fmt: skip
FEW = (
    (2, "kill", "before init", 30),
    (2, "raise", "compile", 30),
    (3, "kill", "amid a step", 30),
    (2, "stop", "step", 8),
)
MANY = [
    (count, fault, point, 10 if fault == "stop" else 60)
    for count in (2, 4)
    for fault in ("kill", "stop", "exit", "raise")
    for point in POINTS
    if point != "amid a step" or fault in ("kill", "stop")
    if (fault, point) != ("stop", "exit")  # it may be continued: nobody waits but poprun
]
WAITED = {
    "before init": "to call popdist.init()",
    "wrapping": "for all others for a model",
    "compile": "the first run of a program",
    "upload": "the first run of a program",
    "step": "all_reduce",
    "amid a step": "all_reduce",
    "fetch": "all_reduce",
    "save": "for barrier",
    "collective": "for all_reduce sum 'metric'",
}


@pytest.mark.parametrize("count, fault, point, wait", MANY if WHOLE else FEW)
def test_the_others_name_who_is_missing(tmp_path, count, fault, point, wait):
    env = {"POPLAR_ENGINE_OPTIONS": f'{{"target.hostSyncTimeout": "{wait}"}}'}
    words = (PYTHON, PROGRAM, tmp_path, fault, point)
    process = started(f"--num-instances={count}", *words, env=env)
    _, err = process.communicate(timeout=120)
    seconds = time.time() - (tmp_path / "fault").stat().st_mtime
    last = err.splitlines()[-1]
    if point == "exit":
        assert process.returncode == {"kill": 137, "exit": 0, "raise": 1}[fault], err
        return
    assert process.returncode == (137 if fault == "kill" else 1), err
    assert ("ended by signal 9" in last) if fault == "kill" else ("with status 1" in last)
    assert seconds < 15 + (wait if fault == "stop" else 0)  # 2 + 5, on a machine of its own
    victim, host = f"instance {count - 1}", socket.gethostname()
    for other in range(count - 1):
        told = tmp_path / str(other)
        if not told.exists():  # it was ended before it waited
            assert fault in ("kill", "raise")
            continue
        delay, _, text = told.read_text().partition(" ")
        assert victim in text and (point == "before init" or host in text), text
        assert WAITED[point] in text, text
        if fault == "stop":
            assert wait - 0.5 < float(delay), text
            assert ("is stopped" in text) or "has failed" in text or "closed" in text, text
        else:
            assert float(delay) < 5  # 2, on a machine of its own


def test_faults_at_random_times():
    """`make nightly` has 500 of them."""
    words = [sys.executable, RANDOM, "--points=2", "--instances=2", "--sync-seconds=8",
             f"--seed={os.getpid()}"]  # fmt: skip
    found = subprocess.run(words, capture_output=True, text=True, timeout=500)
    assert found.returncode == 0, found.stdout + found.stderr
    assert re.search("instance faults: 2 points, 0 wrong", found.stdout)
