"""A test that exceeds its limit ends with its processes; its stack is printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CONFTEST = """
import sys
sys.path.insert(0, {folder!r})
import time_limits
pytest_timeout_set_timer = time_limits.set_timer
pytest_configure = time_limits.configure
time_limits.SECONDS_FOR_THE_LOCK = 1
"""
ENDLESS = """
import ctypes, subprocess
def test_before():
    pass
def test_waits():
    print("of the test", flush=True)
    {wait}
def test_after():
    pass
"""
WAITS = {
    "for a process": """subprocess.run(["sh", "-c", "exec 9>held; sleep 1000 & wait"])""",
    "with the lock": "ctypes.PyDLL(None).sleep(1000)",
}


@pytest.mark.shared
@pytest.mark.parametrize("workers", [[], ["-n1"]])
@pytest.mark.parametrize("wait", WAITS)
def test_a_test_without_end_is_ended(workers, wait, tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST.format(folder=str(TESTS)))
    (tmp_path / "test_endless.py").write_text(ENDLESS.format(wait=WAITS[wait]))
    os.mkfifo(tmp_path / "held")
    held = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
    words = ["--timeout=2", "--timeout-method=thread", "-p", "no:cacheprovider", *workers]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "test_endless.py"], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 1
    assert "in test_waits" in done.stdout, done.stdout
    if workers:
        assert "1 failed, 2 passed" in done.stdout
        assert "crashed while running 'test_endless.py::test_waits'" in done.stdout
    if wait == "for a process":
        assert "test_endless.py::test_waits exceeds its limit of 2 s" in done.stdout
        assert "of the test" in done.stdout and "sleep 1000" in done.stdout
        os.set_blocking(held, True)
        assert os.read(held, 1) == b""  # the last process that had it open has ended
    os.close(held)
