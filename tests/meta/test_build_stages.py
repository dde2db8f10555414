"""The build prints a line for each stage, and records which sources passed the sanitizers."""

import io
import sys

import pytest
from load_tool import load_tool


@pytest.fixture
def stage(monkeypatch, tmp_path):
    tool = load_tool("stage")
    monkeypatch.setattr(tool, "LOGS", tmp_path)
    return tool


def run(stage, program, show=False):
    """Returns the exit status and the output."""
    out = io.TextIOWrapper(io.BytesIO())
    status = stage.run("build", [sys.executable, "-c", program], show, out)
    out.seek(0)
    return status, out.read()


STEPS = "for i in range(1, 401): print(f'[{i}/400] Building CXX object {i}.o')"


def test_a_stage_is_one_line_with_its_progress(stage):
    status, printed = run(stage, STEPS)
    assert status == 0
    assert printed.startswith("[build] ... 10 % 20 % 30 % 40 % 50 % 60 % 70 % 80 % 90 % done, ")
    assert printed.count("\n") == 1
    assert len((stage.LOGS / "build.log").read_text().splitlines()) == 400


def test_a_stage_that_fails_shows_its_first_error_and_names_its_log(stage):
    failure = f"{STEPS}\nprint('FAILED: a.o'); print('a.cpp:1: error: no'); exit(3)"
    status, printed = run(stage, failure)
    assert status == 3
    lines = printed.splitlines()
    assert "FAILED" in lines[0]
    assert lines[1:3] == ["FAILED: a.o", "a.cpp:1: error: no"]
    assert lines[-1] == f"[build] The whole output is in {stage.LOGS / 'build.log'}."


def test_the_output_of_a_stage_can_be_shown(stage):
    _, printed = run(stage, "print('epoch 1')", show=True)
    assert printed.startswith("epoch 1\n[build] done, ")


def test_the_table_has_the_time_of_every_stage(stage):
    (stage.LOGS / "stages.tsv").write_text("lint\t90.0\t0\t40.0\nbuild\t30.0\t0\t100.0\n")
    rows = [line.split() for line in stage.table().splitlines()]
    assert rows == [["lint", "1.5", "min"], ["build", "0.5", "min"], ["all", "1.5", "min"]]


@pytest.fixture
def inputs(monkeypatch, tmp_path):
    """Returns the tool for a folder with one C++ file, which git knows."""
    tool = load_tool("cpp_inputs")
    (tmp_path / "poptorch_cpp").mkdir()
    (tmp_path / "poptorch_cpp/a.cpp").write_text("int a;")
    (tmp_path / "python").mkdir()
    (tmp_path / "python/a.py").write_text("a = 1")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    tool.output("git", "init", "--quiet")
    return tool


def test_sources_have_another_digest_when_one_changes(inputs):
    before = inputs.digest()
    (inputs.ROOT / "python/a.py").write_text("a = 2")
    assert inputs.digest() == before
    (inputs.ROOT / "poptorch_cpp/a.cpp").write_text("int b;")
    assert inputs.digest() != before


def test_sources_have_passed_once_that_is_noted(inputs, monkeypatch, tmp_path):
    monkeypatch.setattr(inputs, "note", lambda: tmp_path / "notes" / inputs.digest())
    monkeypatch.setattr(sys, "argv", ["cpp_inputs.py", "--passed"])
    assert inputs.main() == 1
    monkeypatch.setattr(sys, "argv", ["cpp_inputs.py", "--note-passed"])
    assert inputs.main() == 0
    monkeypatch.setattr(sys, "argv", ["cpp_inputs.py", "--passed"])
    assert inputs.main() == 0
