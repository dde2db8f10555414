"""Writes the page of the measurements: docs/op-speed.md."""

from __future__ import annotations

from collections import defaultdict

from poptorch._impl.command_line import env_command

from benchmarks.ops import summary
from benchmarks.ops.case import SIZES
from benchmarks.ops.tables import SLOW, UNMEASURED

INTRODUCTION = """# Speed of the ops

Made by `python -m benchmarks.ops --threads {threads} --page docs/op-speed.md` on one host:
{processor}, with {sets}.

- A ratio is the time of eager torch (in float32 or in the same dtype, whichever is faster) divided
  by ours. A cell has the ratios of these sizes: {sizes}.
- A time is the slope between n and 2n repetitions in one call. Repetitions that are
  longer than 50 ms are timed as they are.
- The roofline is the larger of two times: the FLOPs of the products over the host's rate in
  float32, and the bytes of all ops over its bandwidth for a working set of this size.
"""
COLUMNS = {
    "float32": ("float32", False), "float16": ("float16", False), "bfloat16": ("bfloat16", False),
    "int32": ("int32", False), "float16, stochastic": ("float16", True),
    "bfloat16, stochastic": ("bfloat16", True),
}  # fmt: skip


def _cell(lines: list[dict]) -> str:
    by_size = {line["size"]: line for line in lines}
    cells = []
    for size in SIZES:
        line = by_size.get(size, {})
        if "error" in line:
            cells.append("error")
        elif "ratio" in line:
            cells.append(f"{line['ratio']:.2f}" + "*" * bool(line["reference_kernels"]))
    return " ".join(cells)


def _table(lines: list[dict]) -> list[str]:
    cells: dict[str, dict] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        cells[line["case"]][line["dtype"], line["stochastic"]].append(line)
    rows = ["| case | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for case, columns in cells.items():
        texts = (_cell(columns.get(key, [])) for key in COLUMNS.values())
        rows.append(f"| {case} | " + " | ".join(texts) + " |")
    return rows


def _slow(lines: list[dict]) -> list[str]:
    rows = [
        f"| {summary.name_of(line)} | {line['ratio']:.2f} | {SLOW.get(line['case'], 'not known')} |"
        for line in lines
        if summary.is_slow(line)
    ]
    head = ["## Below 0.7", "| measurement | ratio | why |", "|---|---|---|"]
    return [*head, *rows, ""] if rows else []


def text(lines: list[dict]) -> str:
    counts = sorted({line["threads"] for line in lines})
    host = env_command.describe()["host"]
    introduction = INTRODUCTION.format(
        threads=" ".join(map(str, counts)),
        sizes=", ".join(size for size in SIZES if any(line["size"] == size for line in lines)),
        processor=host["processor"],
        sets=", ".join(host["instruction sets"]),
    )
    parts = [introduction, summary.overview(lines), ""]
    for threads in counts:
        for gradients in (False, True):
            chosen = [
                line for line in lines
                if line["threads"] == threads and line["gradients"] == gradients
            ]  # fmt: skip
            if chosen:
                what = "Forward and gradients" if gradients else "Forward"
                parts += [f"## {what}, {threads} thread{'s' * (threads > 1)}", *_table(chosen), ""]
    parts += ["`*`: a reference kernel ran.", "", *_slow(lines)]
    parts += ["## Not measured", "| op | why |", "|---|---|"]
    parts += [f"| `{name}` | {why} |" for name, why in sorted(UNMEASURED.items())]
    return "\n".join(parts) + "\n"
