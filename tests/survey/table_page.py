"""Writes docs/torch-ops.md from a run's findings: `python tests/survey/table_page.py FILE`."""

import collections
import json
import pathlib
import sys

from refused_page import reason

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "torch-ops.md"
HEAD = """# Torch's operators

This page lists the entries of PyTorch's tables OpInfo and ModuleInfo as they run in a wrapped
model. The columns give the dtypes whose samples equal eager torch's (in brackets: some do, others
are refused), whether their gradients are equal, and which kernel runs. *device* is a kernel of the
device. Otherwise operators of torch replace it on the host, and the cycles are a rough estimate.
[Refused operators](refused-ops.md) lists refusals with the reason and what to do instead.
`make test-ops` writes this page, by default from all samples; here: {most} per entry and dtype.

| entry | dtypes | gradient | kernel | refused |
|---|---|---|---|---|
"""
SHORT = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "bool": "bool"}


class Row:
    """The results of the samples of an entry."""

    def __init__(self) -> None:
        self.forward: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        self.training: collections.Counter = collections.Counter()
        self.foreign: set[str] = set()
        self.on_device = False
        self.reasons: collections.Counter = collections.Counter()

    def add(self, step: str, key: str, kind: str, text: str) -> None:
        """Adds a sample's outcome. Its key has the dtype after the entry."""
        dtype = next((short for long, short in SHORT.items() if f" {long}" in key), "")
        if kind == "refused":
            self.reasons[reason(text)] += 1
        if step == "training":
            self.training[kind] += 1
        elif dtype and kind in ("same", "refused", "wrong"):  # a remaining wrong one is intended
            self.forward[dtype]["refused" if kind == "refused" else "same"] += 1
            self.foreign |= set(text.split()) if kind == "same" else set()
            self.on_device |= kind == "same" and not text

    def text(self, entry: str) -> str:
        """Returns the row's text in the table."""
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
    """`findings`: rows (entry, step, key, kind, text); `most`: samples per entry and dtype."""
    rows: dict[str, Row] = collections.defaultdict(Row)
    for entry, step, key, kind, text in findings:
        rows[entry].add(step, key, kind, text)
    lines = [rows[entry].text(entry) for entry in sorted(rows, key=str.lower)]
    PAGE.write_text(HEAD.format(most=f"at most {most}" if most else "all") + "".join(lines))


if __name__ == "__main__":
    with open(sys.argv[1]) as found:
        write(map(json.loads, found), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
