"""Writes the tables of examples: python tools/write_examples_page.py [--check].

It runs each example of the gallery once, and notes its CPU time and the last line that it prints. A
second page lists all other programs of examples/. --check compares the programs and their
descriptions with the pages, and runs nothing.
"""

import ast
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "docs/howto/examples.md"
OTHERS = ROOT / "docs/howto/other-programs.md"
BEGIN, END = "<!-- examples: begin -->\n", "<!-- examples: end -->\n"
# The gallery, in the order of the page.
EXAMPLES = """
mnist pipelined_transformer phased many_processes half_precision save_and_resume server hugging_face
lightning_digits graph_network knowledge_graph diffusion custom_op popxl/transformer_layer
""".split()


def description(path):
    """Returns the first sentence about a program: of its docstring or of its first comment."""
    text = path.read_text()
    if path.suffix == ".py":
        return ast.get_docstring(ast.parse(text)).splitlines()[0]
    comment = re.match(r"(?:// .*\n)+", text)[0].replace("// ", "").replace("\n", " ")
    return re.match(r".*?\.(?= )", comment)[0]


def path_of(name):
    """Returns the file of an example of the gallery."""
    return ROOT / f"examples/python/{name}.py"


def others():
    """Returns the programs of examples/ that the gallery does not have."""
    files = {file for kind in ("py", "cpp", "hpp") for file in ROOT.glob(f"examples/**/*.{kind}")}
    return sorted(files - {path_of(name) for name in EXAMPLES})


def ran(name):
    """Runs an example; returns its CPU time in seconds and the last line that it prints."""
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, path_of(name)], cwd=ROOT, env={**os.environ, "POPTORCH_LOG_LEVEL": "OFF"},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
    )  # fmt: skip
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime
    return seconds, done.stdout.rstrip().splitlines()[-1]


def rows_of_gallery(measured):
    """Returns the gallery's table. measured: (seconds, last line) by name."""
    lines = ["| Command | Shows | CPU seconds | Ends with |", "|---|---|---|---|"]
    for name in EXAMPLES:
        seconds, last = measured(name)
        shown = f"`python examples/python/{name}.py` | {description(path_of(name))}"
        lines.append(f"| {shown} | {seconds} | {last} |")
    return "\n".join(lines) + "\n"


def rows_of_others():
    """Returns the table of the other programs."""
    lines = ["| Program | Shows |", "|---|---|"]
    for path in others():
        lines.append(f"| `{path.relative_to(ROOT)}` | {description(path)} |")
    return "\n".join(lines) + "\n"


def with_table(page, table):
    """Returns the text of a page with another table between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}"


def measured(name):
    """Returns the duration and the last line that a run of an example gives."""
    seconds, last = ran(name)
    return (f"{seconds:.0f}" if seconds >= 1 else "< 1"), last


def on_page(page):
    """Returns a function with the duration and the last line that the page has of an example."""
    found = re.findall(
        r"^\| `python examples/python/(\S+)\.py` \|.*\| (.*?) \| (.*?) \|$", page, re.MULTILINE
    )
    figures = {name: rest for name, *rest in found}
    return lambda name: figures.get(name, ("", ""))


def main(arguments):
    gallery, rest = GALLERY.read_text(), OTHERS.read_text()
    only_check = arguments == ["--check"]
    figures = on_page(gallery) if only_check else measured
    written = with_table(gallery, rows_of_gallery(figures)), with_table(rest, rows_of_others())
    if only_check:
        return 0 if written == (gallery, rest) else 1
    GALLERY.write_text(written[0])
    OTHERS.write_text(written[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
