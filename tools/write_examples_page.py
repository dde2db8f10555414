"""Writes the table of examples: python tools/write_examples_page.py [--check].

It runs each example once, and notes its CPU time and the last line that it prints. --check compares
the examples and their descriptions with the page, and runs nothing.
"""

import ast
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/howto/examples.md"
BEGIN, END = "<!-- examples: begin -->\n", "<!-- examples: end -->\n"
# The gallery, in the order of the page.
EXAMPLES = """
mnist pipelined_transformer phased many_processes half_precision save_and_resume server hugging_face
lightning_digits graph_network knowledge_graph diffusion custom_op popxl/transformer_layer
""".split()


def description(name):
    """Returns the first line of an example's docstring."""
    source = (ROOT / f"examples/python/{name}.py").read_text()
    return ast.get_docstring(ast.parse(source)).splitlines()[0]


def ran(name):
    """Runs an example; returns its CPU time in seconds and the last line that it prints."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    file = f"examples/python/{name}.py"
    done = subprocess.run(
        [sys.executable, file], cwd=ROOT, env={**os.environ, "POPTORCH_LOG_LEVEL": "OFF"},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
    )  # fmt: skip
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    return seconds, done.stdout.rstrip().splitlines()[-1]


def rows_on(page):
    """Returns (name, description) of the rows on the page."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    return re.findall(r"^\| `python examples/python/(\S+)\.py` \| (.*?) \|", table, re.MULTILINE)


def table():
    """Returns the table, from a run of each example."""
    lines = ["| Command | Shows | CPU seconds | Ends with |", "|---|---|---|---|"]
    for name in EXAMPLES:
        seconds, last = ran(name)
        command = f"`python examples/python/{name}.py`"
        duration = f"{seconds:.0f}" if seconds >= 1 else "< 1"
        lines.append(f"| {command} | {description(name)} | {duration} | {last} |")
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
