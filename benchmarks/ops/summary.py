"""Turns measurements into ratios, and ratios into the figures that the requirement names."""

from __future__ import annotations

import statistics
from collections import defaultdict

KEY = ("case", "size", "threads", "gradients")
LEAST, LEAST_SHARE = 1.0, 0.85  # of 95 % of the measurements: ratio, or share of the roofline
SLOWEST = 0.7


def add_ratios(lines: list[dict]) -> None:
    """Adds `ratio`: the faster of eager's float32 and eager's own dtype, over ours; and `share`."""
    eager = {
        (*(line[k] for k in KEY), line["dtype"]): line["eager"]
        for line in lines
        if line.get("eager")
    }
    for line in lines:
        if "ours" not in line:
            continue
        key = tuple(line[k] for k in KEY)
        known = [eager[(*key, d)] for d in (line["dtype"], "float32") if (*key, d) in eager]
        if line["dtype"] == "int32":
            known = known[:1]
        line["share"] = line["bound"] / line["ours"]
        if known:
            line["ratio"] = min(known) / line["ours"]


def is_met(line: dict) -> bool:
    return line["ratio"] >= LEAST or line["share"] >= LEAST_SHARE


def is_slow(line: dict) -> bool:
    """Below the ratio that no measurement may fall below."""
    return "ratio" in line and line["ratio"] < SLOWEST and not is_met(line)


def name_of(line: dict) -> str:
    what = f"{line['case']} {line['size']} {line['dtype']} {line['threads']}t"
    return what + " gradients" * line["gradients"] + " stochastic" * line["stochastic"]


def text_of(line: dict) -> str:
    """One measurement as it arrives."""
    what = name_of(line)
    if "error" in line:
        return f"{what}: {line['error']}"
    eager = f", eager {line['eager'] * 1e6:.2f} us" if line["eager"] else ""
    kernels = f", reference kernels {line['reference_kernels']}" * bool(line["reference_kernels"])
    return f"{what}: {line['ours'] * 1e6:.2f} us{eager}{kernels}"


def groups(lines: list[dict]) -> dict[tuple, list[dict]]:
    """The measurements that have a ratio, by threads, dtype and rounding."""
    made: dict[tuple, list[dict]] = defaultdict(list)
    for line in lines:
        if "ratio" in line:
            made[(line["threads"], line["dtype"], line["stochastic"])].append(line)
    return made


def overview(lines: list[dict]) -> str:
    """A markdown table: one row for each number of threads, dtype and rounding."""
    rows = [
        "| threads | dtype | rounding | measurements | geometric mean | at least 1.0, or 0.85 of "
        "the roofline | below 0.7 |\n|---|---|---|---|---|---|---|"
    ]
    for (threads, dtype, stochastic), group in sorted(groups(lines).items()):
        mean = statistics.geometric_mean(line["ratio"] for line in group)
        met = sum(map(is_met, group)) / len(group)
        slow = sum(map(is_slow, group))
        rounding = "stochastic" if stochastic else "nearest"
        rows.append(
            f"| {threads} | {dtype} | {rounding} | {len(group)} | {mean:.2f} | {met:.0%} | {slow} |"
        )
    return "\n".join(rows)
