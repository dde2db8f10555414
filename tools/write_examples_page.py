"""Writes the table of examples: python tools/write_examples_page.py [--check].

It runs each example once, and notes its duration and the last line that it prints. --check compares
the examples and their descriptions with the page, and runs nothing.
"""

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/howto/examples.md"
BEGIN, END = "<!-- examples: begin -->\n", "<!-- examples: end -->\n"
# The gallery, in the order of the page.
EXAMPLES = """
mnist pipelined_transformer phased many_processes half_precision save_and_resume server hugging_face
lightning_digits torch_compile graph_network diffusion python_ops popxl/instances
""".split()


def description(name):
    """Returns the first line of an example's docstring."""
    source = (ROOT / f"examples/python/{name}.py").read_text()
    return ast.get_docstring(ast.parse(source)).splitlines()[0]


def ran(name):
    """Runs an example; returns the duration and the last line that it prints."""
    began = time.monotonic()
    file = f"examples/python/{name}.py"
    done = subprocess.run(
        [sys.executable, file], cwd=ROOT, env={**os.environ, "POPTORCH_LOG_LEVEL": "OFF"},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
    )  # fmt: skip
    return time.monotonic() - began, done.stdout.rstrip().splitlines()[-1]


def rows_on(page):
    """Returns (name, description) of the rows on the page."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    return re.findall(r"^\| `python examples/python/(\S+)\.py` \| (.*?) \|", table, re.MULTILINE)


def table():
    """Returns the table, from a run of each example."""
    lines = ["| Command | Shows | Seconds | Ends with |", "|---|---|---|---|"]
    for name in EXAMPLES:
        seconds, last = ran(name)
        command = f"`python examples/python/{name}.py`"
        lines.append(f"| {command} | {description(name)} | {seconds:.0f} | {last} |")
    return "\n".join(lines) + "\n"


def main(arguments):
    page = PAGE.read_text()
    if arguments == ["--check"]:
        wanted = [(name, description(name)) for name in EXAMPLES]
        return 0 if rows_on(page) == wanted else 1
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
