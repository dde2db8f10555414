"""The tutorials of the site print what their notebooks store, and are short."""

import json
import sys

import pytest
import zygote
from load_tool import ROOT, load_tool

NOTEBOOKS = sorted((ROOT / "docs/tutorials").glob("*.ipynb"))
# These start several processes several times.
LONG = ("07-several-processes", "08-pipelines-across-processes")
LIMIT = 900


def marked(path):
    marks = [pytest.mark.shared, pytest.mark.timeout(300)] if path.stem in LONG else []
    return pytest.param(path, marks=marks, id=path.stem)


@pytest.mark.parametrize("path", [marked(path) for path in NOTEBOOKS])
def test_a_tutorial_prints_what_it_stores(path):
    """`python tools/run_notebook.py NOTEBOOK --write` stores the outputs."""
    stored = load_tool("run_notebook").printed(json.loads(path.read_text()))
    command = [sys.executable, ROOT / "tools/run_notebook.py", path]
    done = zygote.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == "\n".join(stored).split()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_is_short(path):
    cells = json.loads(path.read_text())["cells"]
    prose = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    assert load_tool("page_blocks").words_of("\n".join(prose)) <= LIMIT


def test_there_are_eight_in_order():
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"{number:02}" for number in range(1, 9)]
