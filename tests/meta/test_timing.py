"""Tests that use signals, kills or several processes have the marker `signals`; no test sleeps or
asserts a duration.

`make flaky` repeats the tests with that marker. timing_reasons.txt lists exceptions with their
reasons. tests/nightly measures times.
"""

import ast

import pytest
import timing


def test_exceptions_are_listed_and_needed():
    lacks, excess = timing.compared()
    assert not lacks, "mark the tests, wait for an event, or give a reason in timing_reasons.txt"
    assert not excess, "python tests/meta/timing.py --prune"


@pytest.mark.parametrize(
    "text",
    [
        "os.kill(pid, 9)",
        "process.send_signal(signal.SIGINT)",
        "self.process.terminate()",
        "run('import os; os.kill(os.getpid(), 15)')",
        "poprun('--num-instances=2', 'true')",
        "environment = {'POPTORCH_FAULT': 'run:1:SIGKILL'}",
        "signal.setitimer(signal.ITIMER_REAL, 1)",
    ],
)
def test_signals_are_found(text):
    assert timing.uses_signals(ast.parse(text))


@pytest.mark.parametrize(
    "text", ["loader.terminate()", "signal.signal(1, signal.SIG_DFL)", "'to kill'", "fault(run)"]
)
def test_what_sends_no_signal_is_not_found(text):
    assert not timing.uses_signals(ast.parse(text))


@pytest.mark.parametrize(
    "body, expected",
    [
        ("time.sleep(1)", True),
        ("start = time.monotonic()\nwork()\nassert time.monotonic() - start < 2", True),
        ("a = time.perf_counter()\nb = 1 - a\nassert b > 3", True),
        ("run('import time; time.sleep(3)')", True),
        ("start = time.monotonic()\nprint(time.monotonic() - start)\nassert x < 2", False),
        ("event.wait()\nassert clock() == 1", False),
    ],
)
def test_sleeps_and_bounds_are_found(body, expected):
    assert timing.has_time(ast.parse(body)) is expected


HELPERS = """
import os
PROGRAM = "import signal; signal.raise_signal(signal.SIGTERM)"
def kills(pid):
    os.kill(pid, 9)
"""
TESTS = """
import pytest, helping
from helping import kills as ends
@pytest.fixture
def victim():
    helping.kills(3)
def test_by_fixture(victim): ...
def test_by_import(): ends(1)
def test_by_text(): run(helping.PROGRAM)
def test_by_program(): run("started.py")
def test_by_file(): run(helping.__file__)
@pytest.mark.signals
def test_marked(): ends(1)
CASES = [1, pytest.param(2, marks=pytest.mark.signals)]
@pytest.mark.parametrize("case", CASES)
def test_marked_case(case): ends(case)
def test_sound(): run("none.py")
"""


def test_helpers_fixtures_and_programs_are_followed(tmp_path, monkeypatch):
    (tmp_path / "helping.py").write_text(HELPERS)
    (tmp_path / "started.py").write_text("import helping\nhelping.kills(1)\n")
    (tmp_path / "test_a.py").write_text(TESTS)
    monkeypatch.setattr(timing, "TESTS", tmp_path)
    found = [place.removeprefix("test_a.py::test_by_") for place in timing.without_marker()]
    assert found == ["fixture", "import", "text", "program", "file"]
