"""Writes docs/refused-ops.md from a run's findings: `python tests/survey/refused_page.py FILE`."""

import collections
import json
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "refused-ops.md"
HEAD = """# Refused operators

This page lists what a wrapped model refuses of PyTorch's tables OpInfo and ModuleInfo, with the
text of the error, which also names your line. Everything else in these tables equals eager torch.
`make test-ops` tries all samples and writes this page.

| refusal | of | samples |
|---|---|---|
"""


def reason(text: str) -> str:
    """Returns a refusal without the parts that differ from sample to sample."""
    text = re.sub(r"^(In \S+:\d+: )?'\w+': ", "", text.split("\nError raised in:\n")[0])
    text = text.split(" The trace ended there")[0]
    text = re.sub(r" \([^ ()]*:\d+\)", "", text)
    text = re.sub(r"\[[\d, ]*\]", "[…]", text)
    text = re.sub(r"aten::[\w.]+", "…", text)
    return re.sub(r"\b\d+\b", "N", text).replace("\n", " ").replace("|", "\\|")


def refused(findings) -> dict[str, dict[str, int]]:
    """Returns reason → entry → samples, of rows (entry, step, key, kind, text)."""
    table: dict[str, dict[str, int]] = collections.defaultdict(lambda: collections.defaultdict(int))
    for entry, _, _, kind, text in findings:
        if kind == "refused":
            table[reason(text)][entry] += 1
    return table


class Page:
    """Returns the table: reason → entries, and how many samples."""

    def __init__(self, rows: dict[str, tuple[set[str], int]]) -> None:
        self._rows = rows

    @classmethod
    def of(cls, findings) -> "Page":
        table = refused(findings)
        return cls({text: (set(names), sum(names.values())) for text, names in table.items()})

    @classmethod
    def read(cls) -> "Page":
        rows = {}
        for line in PAGE.read_text().splitlines() if PAGE.exists() else ():
            cells = re.split(r"(?<!\\) \| ", line.strip("| "))
            if len(cells) == 3 and cells[2].isdigit():
                rows[cells[0]] = set(re.findall("`([^`]*)`", cells[1])), int(cells[2])
        return cls(rows)

    def has(self, entry: str, text: str) -> bool:
        return entry in self._rows.get(reason(text), ((), 0))[0]

    def write(self) -> None:
        lines = [HEAD]
        for text, (entries, count) in sorted(self._rows.items()):
            names = ", ".join(f"`{name}`" for name in sorted(entries))
            lines.append(f"| {text} | {names} | {count} |\n")
        PAGE.write_text("".join(lines))


if __name__ == "__main__":
    with open(sys.argv[1]) as lines:
        Page.of(map(json.loads, lines)).write()
