"""Returns the reference of `python -m poptorch`, made from its parsers of arguments."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# Command line

`python -m poptorch` works on models, files and the cache of executables. [poprun](poprun.md) starts
programs of several processes.
"""
# Runs the command with a parser that returns its texts of help instead of reading arguments.
PROGRAM = """
import argparse
from poptorch.__main__ import main

def texts(parser):
    yield parser.prog, parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from texts(inner)

def show(self, arguments=None, namespace=None):
    for name, text in texts(self):
        print(f"## {name}\\n\\n```text\\n{text}```\\n")
    raise SystemExit(0)

argparse.ArgumentParser.parse_args = show
main([])
"""


def page():
    """Returns the page as Markdown."""
    environment = {**os.environ, "COLUMNS": "90", "POPTORCH_LOG_LEVEL": "OFF"}
    paths = [str(ROOT / "build/python"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True,
                          text=True, check=False)  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"python -m poptorch does not start: {done.stderr}")
    return f"{HEAD}\n{done.stdout}"
