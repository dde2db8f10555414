"""examples/cpp/serve runs an exported network in a program without torch and Python."""

import re
import subprocess
import sys

import pytest
from cpp_projects import build_against_installed_package, run
from load_tool import ROOT

EXAMPLE = ROOT / "examples/cpp/serve"
SCANS = ROOT / "examples/data/digits/t10k-images-idx3-ubyte"


@pytest.mark.shared
def test_a_program_without_torch_and_python_serves_an_exported_network(tmp_path):
    build_against_installed_package(EXAMPLE, tmp_path / "build")
    program = tmp_path / "build/serve"
    told = run("ldd", program)
    linked = [line.split()[0] for line in told.splitlines()]
    assert "libpoptorch_core.so" in linked and "not found" not in told
    assert not [name for name in linked if re.search("torch(?!_core)|c10|python", name)]
    executable, answers = tmp_path / "digits.poptorch", tmp_path / "answers"
    told = run(sys.executable, EXAMPLE / "export_digits.py", executable, answers)
    assert float(told.split()[-1]) >= 0.95
    assert run(program, executable, SCANS) == answers.read_text()
    executable.write_bytes(executable.read_bytes()[:-1])
    refused = subprocess.run([program, executable, SCANS], capture_output=True, text=True)
    assert refused.returncode == 1 and "is damaged" in refused.stderr
