"""The tutorials' programs print what the tutorials print, and learn to read digits.

`expected/` holds the output printed in the tutorials; blank lines do not count.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/python/popxl"
EXPECTED = Path(__file__).parent / "expected"


def output_of(name, *arguments):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines_of(text):
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_adam_prints_its_schedules_and_state():
    expected = (EXPECTED / "adam.txt").read_text()
    assert lines_of(output_of("adam.py")) == lines_of(expected)


def test_modules_print_schedules_and_collections():
    printed = lines_of(output_of("modules.py"))
    expected = lines_of((EXPECTED / "modules.txt").read_text())
    assert [line for line in printed if line in expected] == expected
    difference = next(line for line in printed if "from NumPy" in line)
    assert float(difference.split()[-1]) < 1e-6
    assert "different variables: True" in printed


@pytest.mark.parametrize("seed", [42, 1, 2, 3, 4])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_digits_are_read_after_four_epochs(optimiser, seed):
    arguments = ["--optimiser", optimiser, "--seed", str(seed)]
    last = output_of("train_digits.py", *arguments).splitlines()[-1]
    assert float(re.fullmatch(r"Accuracy on test set: ([\d.]+)%", last)[1]) >= 95.0
