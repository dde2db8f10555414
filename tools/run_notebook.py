"""Runs a Jupyter notebook's code cells in this process, one after the other, in the notebook's
folder.

    run_notebook.py NOTEBOOK [--write]

Prints the output of the cells; --write stores it in the notebook instead. Only text on stdout is
kept: cells print what they want to show.
"""

import argparse
import contextlib
import io
import json
import os
import sys
from pathlib import Path


def output_of(source, name, names):
    """Returns the output of the code."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        exec(compile(source, name, "exec"), names)
    return text.getvalue()


def run(notebook, name="notebook"):
    """Gives each code cell its number and its output; an exception ends it."""
    names = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        text = output_of("".join(cell["source"]), f"{name}, cell {number}", names)
        lines = text.splitlines(keepends=True)
        cell["execution_count"] = number
        cell["outputs"] = (
            [{"name": "stdout", "output_type": "stream", "text": lines}] if text else []
        )


def printed(notebook):
    """Returns the text of all outputs, cell by cell."""
    return [
        "".join("".join(output["text"]) for output in cell["outputs"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--write", action="store_true", help="store the outputs in the notebook")
    args = parser.parse_args()
    path = args.notebook.resolve()
    notebook = json.loads(path.read_text())
    os.chdir(path.parent)
    sys.path.insert(0, "")
    run(notebook, path.name)
    if args.write:
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    else:
        print("\n".join(printed(notebook)))


if __name__ == "__main__":
    main()
