"""Writes docs/refused-ops.md from a run's findings: `python tests/survey/refused_page.py FILE`."""

import collections
import json
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "refused-ops.md"
HEAD = """# Refused operators

What of PyTorch's own tables, OpInfo and ModuleInfo, a wrapped model refuses, and the words of the
refusal, which names the user's line as well. Everything else of these tables comes out as in eager
torch; `make test-ops` tries all samples and writes this page.

| refusal | of | samples |
|---|---|---|
"""


def reason(text: str) -> str:
    """A refusal without what differs from sample to sample."""
    text = re.sub(r"^'\w+': ", "", text)
    text = re.sub(r" \([^ ()]*:\d+\)", "", text)
    text = re.sub(r"\[[\d, ]*\]", "[…]", text)
    text = re.sub(r"aten::[\w.]+", "…", text)
    return re.sub(r"\b\d+\b", "N", text).replace("\n", " ").replace("|", "\\|")


def refused(findings) -> dict[str, dict[str, int]]:
    """Reason → entry → samples, of rows (entry, step, key, kind, text)."""
    table: dict[str, dict[str, int]] = collections.defaultdict(lambda: collections.defaultdict(int))
    for entry, _, _, kind, text in findings:
        if kind == "refused":
            table[reason(text)][entry] += 1
    return table


def page(findings) -> str:
    rows = []
    for text, entries in sorted(refused(findings).items()):
        names = ", ".join(f"`{name}`" for name in sorted(entries))
        rows.append(f"| {text} | {names} | {sum(entries.values())} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    with open(sys.argv[1]) as lines:
        PAGE.write_text(page(map(json.loads, lines)))
