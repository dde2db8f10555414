"""Writes docs/shared-memory.md from a run's findings: `python tests/survey/memory_page.py FILE`."""

import collections
import json
import pathlib
import re
import sys

from refused_page import reason

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "shared-memory.md"
HEAD = """# Operators that share memory

In eager torch, the results of some calls share memory with their operands: a write of one changes
the other. This page lists the entries of PyTorch's tables OpInfo and ModuleInfo that have such
calls. A wrapped model shares the same memory, in both directions, and has the same gradients after
a write.

`make test-ops` finds this out. It writes every operand and every result of each call in turn, in
eager torch and in a wrapped model, and compares all tensors before and after each write. It also
compares the gradients of training steps with one such write. This page shows {shown}
of each entry.

*calls* counts the calls that share memory, of those tried. *steps* counts the compared training
steps. All tried calls of the operators in the list after the table return new memory.

| entry | shares memory with | calls | steps | refused |
|---|---|---|---|---|
"""
TAIL = """
## Operators that return new memory

"""


def pairs_text(pairs) -> str:
    """Returns the pairs of an outcome as the text of a finding."""
    return " ".join(sorted(f"{written}-{seen}" for written, seen in pairs))


class Row:
    """The outcomes of the calls of an entry."""

    def __init__(self) -> None:
        self.calls = self.sharing = self.steps = 0
        self.operands: set[int] = set()
        self.among_results = False
        self.reasons: collections.Counter = collections.Counter()

    def add(self, step: str, kind: str, text: str) -> None:
        if kind == "refused":
            self.reasons[reason(text)] += 1
        if step != "memory":
            self.steps += kind == "same"
        elif kind == "same":
            self.calls += 1
            self.sharing += bool(text)
            for pair in text.split():
                self._add_pair(*pair.split("-"))

    def _add_pair(self, written: str, seen: str) -> None:
        operands = [name for name in (written, seen) if not name.startswith("r")]
        self.among_results |= not operands
        if len(operands) == 1:
            self.operands.add(int(operands[0]))

    def partners(self) -> str:
        numbers = ", ".join(str(number) for number in sorted(self.operands))
        operands = [f"operand{'s' * (len(self.operands) > 1)} {numbers}"] if self.operands else []
        return ", ".join(operands + ["other results"] * self.among_results)

    def text(self, entry: str) -> str:
        told = [f"{count}: {why.split('. ')[0]}" for why, count in self.reasons.most_common()]
        steps = str(self.steps or "")
        return (
            f"| `{entry}` | {self.partners()} | {self.sharing} of {self.calls} | {steps} "
            f"| {'; '.join(told).removesuffix('.')} |\n"
        )


def write(findings, most: int = 0) -> None:
    """`findings`: rows (entry, step, key, kind, text); `most`: samples per entry and dtype."""
    rows: dict[str, Row] = collections.defaultdict(Row)
    for entry, step, _, kind, text in findings:
        if step.startswith("memory"):
            rows[entry].add(step, kind, text)
    names = sorted((name for name, row in rows.items() if row.calls), key=str.lower)
    lines = [rows[name].text(name) for name in names if rows[name].sharing]
    others = ", ".join(f"`{name}`" for name in names if not rows[name].sharing)
    head = HEAD.format(shown="a sample of the calls" if most else "all calls")
    PAGE.write_text(head + "".join(lines) + TAIL + others + ".\n")


def listed() -> dict[str, str]:
    """Returns the page's entries with what they share memory with; "" for nothing."""
    table, _, others = PAGE.read_text().partition(TAIL)
    rows = dict(re.findall(r"^\| `([^`]+)` \| ([^|]*) \|", table, re.MULTILINE))
    return rows | dict.fromkeys(re.findall(r"`([^`]+)`", others), "")


if __name__ == "__main__":
    with open(sys.argv[1]) as found:
        write(map(json.loads, found), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
