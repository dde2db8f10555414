"""Writes docs/torch-ops.md from a run's findings: `python tests/survey/table_page.py FILE`."""

import collections
import json
import pathlib
import sys

from refused_page import reason

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "torch-ops.md"
HEAD = """# Torch's operators

The entries of PyTorch's own tables, OpInfo and ModuleInfo, as they run in a wrapped model: the
dtypes in which samples come out as in eager torch (in brackets: some do, others are refused),
whether their gradients do, and whose kernel runs. *device*: one of the device's own; otherwise the
operators of torch that stand in for one on the host, whose cycles are a rule of thumb. What is
refused, in how many samples and why, has what to do instead on [a page of its own](refused-ops.md).
`make test-ops` writes this page, from all samples unless told otherwise; here: {most} an entry and
dtype.

| entry | dtypes | gradient | kernel | refused |
|---|---|---|---|---|
"""
SHORT = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "bool": "bool"}


class Row:
    """What the samples of an entry gave."""

    def __init__(self) -> None:
        self.forward: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        self.training: collections.Counter = collections.Counter()
        self.foreign: set[str] = set()
        self.on_device = False
        self.reasons: collections.Counter = collections.Counter()

    def add(self, step: str, key: str, kind: str, text: str) -> None:
        """A sample's outcome. Its key names the dtype behind the entry."""
        dtype = next((short for long, short in SHORT.items() if f" {long}" in key), "")
        if kind == "refused":
            self.reasons[reason(text)] += 1
        if step == "training":
            self.training[kind] += 1
        elif dtype and kind in ("same", "refused", "wrong"):  # a wrong one that is left is meant
            self.forward[dtype]["refused" if kind == "refused" else "same"] += 1
            self.foreign |= set(text.split()) if kind == "same" else set()
            self.on_device |= kind == "same" and not text

    def text(self, entry: str) -> str:
        """Of the table."""
        dtypes = [
            dtype if not counts["refused"] else f"({dtype})"
            for dtype, counts in self.forward.items()
            if counts["same"]
        ]
        gradient = "yes" if self.training["same"] else ""
        kernels = ["device"] if self.on_device else []
        kernels += [f"`{name.removeprefix('aten::')}`" for name in sorted(self.foreign)]
        told = [f"{count}: {why.split('. ')[0]}" for why, count in self.reasons.most_common()]
        refused = "; ".join(told).removesuffix(".")
        return (
            f"| `{entry}` | {' '.join(dtypes)} | {gradient} | {', '.join(kernels)} | {refused} |\n"
        )


def write(findings, most: int = 0) -> None:
    """`findings`: rows (entry, step, key, kind, text); `most`: samples an entry and dtype had."""
    rows: dict[str, Row] = collections.defaultdict(Row)
    for entry, step, key, kind, text in findings:
        rows[entry].add(step, key, kind, text)
    lines = [rows[entry].text(entry) for entry in sorted(rows, key=str.lower)]
    PAGE.write_text(HEAD.format(most=f"at most {most}" if most else "all") + "".join(lines))


if __name__ == "__main__":
    with open(sys.argv[1]) as found:
        write(map(json.loads, found), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
