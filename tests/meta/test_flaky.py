"""tests/flaky.py finds and reports a test that fails sometimes."""

import json
import subprocess
import sys
from pathlib import Path

import flaky
import pytest

TESTS = Path(__file__).resolve().parents[1]
SOUND = """
@pytest.mark.signals
def test_sound():
    pass
"""
PROGRAM = f"""
import os, pytest{SOUND}
@pytest.mark.signals
@pytest.mark.parametrize("word", ["a", "b"])
def test_third_run_fails(word, tmp_path_factory):
    count = tmp_path_factory.getbasetemp() / word
    count.write_text(count.read_text() + "x" if count.exists() else "x")
    print("run", count.read_text())
    assert word == "a" or len(count.read_text()) != 3
@pytest.mark.signals
def test_ends_the_worker(request):
    if "@1" in request.node.name:
        os._exit(3)
def test_without_the_marker():
    assert False
"""


def run(folder, *words):
    (folder / "test_program.py").write_text(PROGRAM)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  signals: see pyproject.toml\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "repeated", "--repeat=4", "-m", "signals", "-n1",
         "--repeat-results", folder, *words, folder / "test_program.py"],
        cwd=TESTS, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.shared
def test_repeated_tests_have_a_row_and_failures_a_file(tmp_path):
    done = run(tmp_path, "--dist=worksteal")
    assert done.returncode == 1, done.stdout + done.stderr
    table = json.loads((tmp_path / "table.json").read_text())
    rows = {name.partition("::")[2]: row[:2] for name, row in table.items()}
    assert rows == {
        "test_sound": [4, 0],
        "test_third_run_fails[a]": [4, 0],
        "test_third_run_fails[b]": [4, 1],
        "test_ends_the_worker": [4, 1],
    }
    failure, crash = sorted(tmp_path.glob("*.txt"), key=lambda file: "ends_the" in file.name)
    assert "run xxx" in failure.read_text() and "crashed" in crash.read_text()


RESULTS = {"name": "Waits", "result": "COMPLETED", "time": "0.5s"}
UNIT_TESTS = """#!{python}
import sys
open(sys.argv[3].partition("json:")[2], "w").write({results!r})
sys.exit({failures})
"""


@pytest.mark.shared
@pytest.mark.parametrize("failures, status", [(0, 0), (1, 1)])
def test_a_failure_of_the_core_is_in_the_table(failures, status, tmp_path, monkeypatch, capsys):
    """Runs with a program that plays the unit tests."""
    tests = [RESULTS | ({"failures": []} if failures else {})]
    results = json.dumps({"testsuites": [{"name": "Remote", "testsuite": tests}]})
    program = tmp_path / "unit_tests"
    program.write_text(UNIT_TESTS.format(python=sys.executable, results=results, failures=failures))
    program.chmod(0o700)
    (tmp_path / "test_marked.py").write_text("import pytest" + SOUND)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  signals: see pyproject.toml\n")
    words = ["--runs=2", "--jobs=1", "--unit-tests", program, tmp_path / "test_marked.py"]
    monkeypatch.setattr(sys, "argv", ["flaky.py", *map(str, words)])
    monkeypatch.setattr(flaky, "CONDITIONS", [flaky.Condition("niced", busy=1, niceness=1)])
    assert flaky.main() == status
    shown = capsys.readouterr().out
    assert f"| Remote.Waits | 2 | {2 * failures} | 0.50 |" in shown
    assert "test_marked.py::test_sound | 2 | 0 |" in shown
    assert f"| 2 tests | 4 | {2 * failures} | |" in shown
