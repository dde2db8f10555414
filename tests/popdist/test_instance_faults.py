"""When an instance fails in a program that compiles, trains and saves, the others name it and all
end.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from fault_points import POINTS_BY_PART
from launching import PYTHON, lines, poprun, started

PROGRAM = Path(__file__).with_name("faulty_program.py")
RETRIED = Path(__file__).with_name("retried_program.py")
NAMED = Path(__file__).with_name("named_faults.py")
WHOLE = "POPTORCH_INSTANCE_FAULTS" in os.environ  # in the nightly
POINTS = ("before init", "wrapping", "compile", "upload", "step", "amid a step", "fetch", "save",
          "collective", "exit")  # fmt: skip
FEW = (
    (2, "kill", "before init", 300),
    (2, "raise", "compile", 300),
    (3, "kill", "amid a step", 300),
)
MANY = [
    (count, fault, point, 10 if fault == "stop" else 300)
    for count in (2, 4)
    for fault in ("kill", "stop", "exit", "raise")
    for point in POINTS
    if point != "amid a step" or fault in ("kill", "stop")
    if (fault, point) != ("stop", "exit")  # it may be continued: only poprun waits
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


@pytest.mark.nightly
@pytest.mark.signals
@pytest.mark.parametrize("count, fault, point, wait", MANY if WHOLE else FEW)
def test_the_others_name_who_is_missing(tmp_path, count, fault, point, wait):
    env = {"POPLAR_ENGINE_OPTIONS": f'{{"target.hostSyncTimeout": "{wait}"}}'}
    words = (PYTHON, PROGRAM, tmp_path, fault, point)
    process = started(f"--num-instances={count}", *words, env=env)
    _, err = process.communicate()
    last = err.splitlines()[-1]
    if point == "exit":
        assert process.returncode == {"kill": 137, "exit": 0, "raise": 1}[fault], err
        return
    assert process.returncode == (137 if fault == "kill" else 1), err
    assert ("ended by signal 9" in last) if fault == "kill" else ("with status 1" in last)
    victim, host = f"instance {count - 1}", socket.gethostname()
    for other in range(count - 1):
        told = tmp_path / str(other)
        if not told.exists():  # it was ended before it waited
            assert fault in ("kill", "raise")
            continue
        text = told.read_text()
        assert victim in text and (point == "before init" or host in text), text
        assert WAITED[point] in text, text
        if fault == "stop":
            assert ("is stopped" in text) or "has failed" in text or "closed" in text, text
        else:
            assert "has waited" not in text  # it learns of the end, before its time is over


# "running" failed in one of two runs beside a load of 20; the reason is not known yet.
PARTS = [part for part in POINTS_BY_PART if WHOLE or part != "running"]


@pytest.mark.nightly
@pytest.mark.signals
@pytest.mark.parametrize("part", PARTS)
def test_a_signal_at_each_named_point(part):
    """`make nightly` has more: other signals, and 500 at random times."""
    found = subprocess.run([sys.executable, NAMED, part], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.shared
@pytest.mark.signals
def test_instances_that_call_again_after_an_interrupt_meet_in_the_next_attempt():
    """Runs at each point of the first call."""
    out, err = poprun("--num-instances=2", PYTHON, RETRIED)
    assert "different models" not in err  # they have made the same writes before the same run
    for index in range(2):
        found = lines(out, index)
        assert len(found) == 5, out
        assert all(line.endswith("[True, False] True") for line in found), out
