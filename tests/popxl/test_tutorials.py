"""The tutorials' programs print what the tutorials show, and learn to read digits.

`expected/` holds the output printed in the tutorials; blank lines are ignored.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import zygote

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "tutorials"
NOTEBOOKS = ROOT / "examples/notebooks"
EXPECTED = Path(__file__).parent / "expected"


def output_of(name, *arguments):
    return run(PROGRAMS / name, *arguments)


def run(*command):
    done = zygote.run([sys.executable, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines_of(text):
    return [line.rstrip() for line in text.splitlines() if line.strip()]


@pytest.mark.shared
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


@pytest.mark.shared
@pytest.mark.parametrize("seed", [42, 1, 2, 3, 4])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_digits_are_read_after_four_epochs(optimiser, seed):
    arguments = ["--optimiser", optimiser, "--seed", str(seed)]
    last = output_of("train_digits.py", *arguments).splitlines()[-1]
    assert float(re.fullmatch(r"Accuracy on test set: ([\d.]+)%", last)[1]) >= 95.0


# Output that depends on the machine and the time, or on the last bit of a sum.
VARIES = re.compile(r"0x[0-9a-f]+|\s*[\d.]+ it/s|[\d.]+%|(?<=Loss:)[\d.]+|(?<=last loss).*")


def outputs(notebook):
    """Returns the printed output of the code cells of the file."""
    cells = json.loads(notebook.read_text())["cells"]
    stored = [output["text"] for cell in cells for output in cell.get("outputs", [])]
    return "".join(line for text in stored for line in text)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "expected", "figures"),
    [
        ("popxl_and_addons", "modules", ["306.92 it/s", "0.0270", "95.71 it/s", "96.16%"]),
        ("popxl_custom_optimiser", "adam", ["284.61 it/s", "0.0191", "95.30 it/s", "95.21%"]),
    ],
)
def test_notebooks_print_what_they_hold_and_what_the_tutorials_print(name, expected, figures):
    notebook = NOTEBOOKS / f"{name}.ipynb"
    printed = lines_of(run(ROOT / "tools/run_notebook.py", notebook))
    held = lines_of(outputs(notebook))
    assert [VARIES.sub("#", line) for line in printed] == [VARIES.sub("#", line) for line in held]
    expected = lines_of((EXPECTED / f"{expected}.txt").read_text())
    assert [line for line in printed if line in expected] == expected
    for lines in (printed, held):
        table = lines[-4:]
        assert [
            figure for line, figure in zip(table, figures, strict=True) if figure in line
        ] == figures
        assert float(re.search(r"([\d.]+)%$", table[-1])[1]) >= 95.0


def test_a_cell_that_fails_ends_the_notebook_with_its_number(tmp_path):
    cells = [{"cell_type": "markdown", "source": ["# text"]}]
    cells += [
        {"cell_type": "code", "source": [line]} for line in ("x = 3", "print(x)", "y", "z = 1")
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    command = [sys.executable, str(ROOT / "tools/run_notebook.py"), str(tmp_path / "a.ipynb")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "a.ipynb, cell 3" in done.stderr and "NameError" in done.stderr
    del cells[3:]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    subprocess.run([*command, "--write"], check=True)
    assert outputs(tmp_path / "a.ipynb") == "3\n"
