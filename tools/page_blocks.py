"""Runs the Python blocks of pages and compares what they print with the blocks after them.

A block of `python` may be followed by a block of `text`: its output. `...` in it stands for any
text. Blocks of a page share their names. `python tools/page_blocks.py PAGE ...` writes outputs that
are missing or differ into pages; --check only lists them.
"""

import contextlib
import io
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n?```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def pages():
    """Returns the paths of README and of all pages."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def words_of(text):
    """Returns the number of words of a page outside of its blocks of code."""
    return len(FENCED.sub("", text).split())


def fits(shown, printed):
    """Returns whether a page shows what a block printed."""
    pattern = ".*".join(re.escape(part) for part in shown.split("..."))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def outputs(text, page):
    """Yields (match of a block, what it prints) for the blocks of a page, which it runs."""
    names = {"__name__": str(page)}
    for block in BLOCK.finditer(text):
        printed = io.StringIO()
        line = text.count("\n", 0, block.start("code"))
        source = "\n" * line + block["code"]
        with contextlib.redirect_stdout(printed):
            exec(compile(source, str(page), "exec"), names)
        lines = [line.rstrip() for line in printed.getvalue().splitlines()]
        yield block, "".join(line + "\n" for line in lines)


def faults(text, page):
    """Yields (line, block, output) of blocks whose output the page does not show."""
    for block, printed in outputs(text, page):
        if not fits(block["output"] or "", printed):
            yield text.count("\n", 0, block.start()) + 1, block, printed


def with_outputs(text, page):
    """Returns a page with the outputs of its blocks."""
    for _, block, printed in reversed(list(faults(text, page))):
        shown = f"\n```text\n{printed}```\n" if printed else ""
        text = f"{text[: block.start()]}```python\n{block['code']}```\n{shown}{text[block.end() :]}"
    return text


def main(arguments):
    checks = "--check" in arguments
    chosen = [Path(name).resolve() for name in arguments if not name.startswith("--")]
    for page in chosen or pages():
        text = page.read_text()
        name = page.relative_to(ROOT)
        if checks:
            for line, _, printed in faults(text, name):
                print(f"{name}:{line} prints:\n{printed}")
        elif (new := with_outputs(text, name)) != text:
            page.write_text(new)


if __name__ == "__main__":
    main(sys.argv[1:])
