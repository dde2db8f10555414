"""Figures of matplotlib: the schedule of a pipeline, and the content of memory.

matplotlib is imported when a figure is made. Figures do not use the state of pyplot: save them, or
show them in a notebook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from poptorch_core import optional_packages

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours that people with colour blindness can distinguish (Okabe and Ito).
_PASSES = {"forward": "#56B4E9", "backward": "#E69F00"}
_TRANSFERS = {"in": "#009E73", "out": "#CC79A7", "load": "#009E73", "store": "#CC79A7"}
_TRANSFER_TEXTS = {"in": "from the host", "out": "to the host", "load": "from Streaming Memory",
                   "store": "to Streaming Memory"}  # fmt: skip
# The colours by kind of `memory.always` and `memory.allocations`, from the bottom to the top.
_ALWAYS = {"code": "#999999", "alignment": "#CCCCCC", "constant": "#B4D9F0", "weight": "#0072B2",
           "buffer": "#3B8FC4", "optimiser_state": "#5FA8D3", "accumulator": "#8CC3E6",
           "stash": "#7A6FAC"}  # fmt: skip
_ARENA = {"activation": "#009E73", "gradient": "#E69F00", "update": "#D55E00",
          "transfer": "#F0E442"}  # fmt: skip
_SEEN = 0.002  # share of an IPU's need below which a layer is invisible
_LABELLED_STEPS = 48  # with more steps, cells have no room for numbers
_MEBIBYTE = 2**20


def schedule(made: dict[str, Any]) -> Figure:
    """Draws the schedule of a run's first micro-batches.

    The rows are IPUs, the columns are steps, and the cells hold the numbers of micro-batches.
    Transfers are below an IPU's work.

    Args:
        made: The result of `schedule()` of a wrapped model.

    Returns:
        The figure.

    Raises:
        poptorch.DependencyError: matplotlib is not installed.
    """
    with_transfers = sorted({transfer["ipu"] for transfer in made["transfers"]})
    rows, height = {}, 0.0
    for ipu in range(made["ipus"]):
        rows[ipu] = height
        height += 1.5 if ipu in with_transfers else 1.0
    steps = max(made["steps"], 1)
    figure = _figure(min(max(4.5, 1.8 + 0.42 * steps), 24.0), 1.3 + 0.5 * height)
    axes = figure.add_subplot()
    _draw_work(axes, made, rows)
    _draw_transfers(axes, made, rows)
    axes.set_xlim(0, steps)
    axes.set_ylim(height, 0)
    axes.set_yticks([rows[ipu] + 0.5 for ipu in rows], [_ipu_text(made, ipu) for ipu in rows])
    every = max(1, -(-steps // _LABELLED_STEPS))
    shown = range(0, steps, every)
    phases = made["phases"]
    axes.set_xticks([step + 0.5 for step in shown],
                    [str(phases[step] if phases else step) for step in shown])  # fmt: skip
    axes.set_xlabel("phase" if phases else "step")
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    title = f"{made['bubbles']:.0%} of the steps are bubbles"
    if made["stages"] > 1:
        title += f"; stage {made['bottleneck']} takes the most cycles"
    axes.set_title(title, fontsize="medium", loc="left")
    _add_legend(figure)
    return figure


def _ipu_text(made: dict[str, Any], ipu: int) -> str:
    names = sorted(made["blocks"][ipu]) if ipu < len(made["blocks"]) else []
    names = [name for name in names if name]
    if not names:
        return f"IPU {ipu}"
    text = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    return f"IPU {ipu}\n{text:.24}"


def _draw_work(axes: Axes, made: dict[str, Any], rows: dict[int, float]) -> None:
    cells: dict[tuple[int, int], list[dict]] = {}
    for work in made["cells"]:
        cells.setdefault((work["ipu"], work["step"]), []).append(work)
    trains = any(work["backward"] for work in made["cells"])
    labelled = made["steps"] <= _LABELLED_STEPS
    for (ipu, step), works in cells.items():
        width = 1 / len(works)
        # For one micro-batch in one stage, forward comes first, in any order of computation.
        first = {(w["stage"], w["micro_batch"]): i for i, w in reversed(list(enumerate(works)))}
        works.sort(key=lambda w: (first[w["stage"], w["micro_batch"]], w["backward"]))
        for place, work in enumerate(works):
            kind = "backward" if work["backward"] else "forward"
            left, top = step + place * width, rows[ipu]
            axes.bar(left, 0.9, width, top + 0.05, align="edge", color=_PASSES[kind],
                     edgecolor="white", linewidth=0.8, label=kind if trains else None)  # fmt: skip
            if labelled:
                size = 8 if len(works) < 2 else 6.5
                axes.text(left + width / 2, top + 0.5, str(work["micro_batch"]), ha="center",
                          va="center", fontsize=size)  # fmt: skip


def _draw_transfers(axes: Axes, made: dict[str, Any], rows: dict[int, float]) -> None:
    """Draws a mark for each step and direction; marks of IO tiles are hatched."""
    seen: dict[tuple[int, int], list[tuple[str, bool]]] = {}
    for transfer in made["transfers"]:
        mark = transfer["kind"], transfer["io_tiles"]
        marks = seen.setdefault((transfer["ipu"], transfer["step"]), [])
        if mark not in marks:
            marks.append(mark)
    for (ipu, step), marks in seen.items():
        width = 1 / len(marks)
        for place, (kind, on_io_tiles) in enumerate(marks):
            axes.bar(step + place * width, 0.3, width, rows[ipu] + 1.05, align="edge",
                     color=_TRANSFERS[kind], edgecolor="white", linewidth=0.8,
                     hatch="////" if on_io_tiles else None,
                     label=_TRANSFER_TEXTS[kind])  # fmt: skip


def memory(data: dict[str, Any]) -> Figure:
    """Draws the memory that each IPU holds at each instruction, by category, and its capacity.

    Args:
        data: The content of report.json (docs/profiling.md).

    Returns:
        The figure.

    Raises:
        poptorch.DependencyError: matplotlib is not installed.
    """
    held = data["memory"]
    ipus = held["ipus"]
    figure = _figure(9.0, 1.2 + 2.3 * len(ipus))
    grid = figure.subplots(len(ipus), 1, squeeze=False)
    for number, ipu in enumerate(ipus):
        _draw_ipu(grid[number][0], data, number, ipu)
    grid[-1][0].set_xlabel("instruction of the program")
    _add_legend(figure)
    return figure


def _draw_ipu(axes: Axes, data: dict[str, Any], number: int, ipu: dict[str, Any]) -> None:
    rows = np.flatnonzero(np.asarray(data["instructions"]["ipu"], np.int64) == number)
    first, count = (int(rows[0]), len(rows)) if len(rows) else (0, 1)
    layers = [(kind, np.full(count + 1, _sum_of(data, "always", number, kind))) for kind in _ALWAYS]
    layers += [(kind, _live(data, number, kind, first, count)) for kind in _ARENA]
    at, base = np.arange(count + 1), np.zeros(count + 1)
    for kind, held in layers:
        label = kind.replace("_", " ") if held.max() >= _SEEN * ipu["needed"] else None
        axes.fill_between(at, base / _MEBIBYTE, (base + held) / _MEBIBYTE, step="post",
                          color=(_ALWAYS | _ARENA)[kind], linewidth=0, label=label)  # fmt: skip
        base = base + held
    needed, capacity = ipu["needed"] / _MEBIBYTE, ipu["capacity"] / _MEBIBYTE
    top = 1.15 * max(needed, float(base.max()) / _MEBIBYTE)
    if capacity <= 3 * top:
        top = max(top, 1.08 * capacity)
        axes.axhline(capacity, color="#D00000", linestyle="--", linewidth=1.2)
        axes.annotate("capacity", (1, capacity), (-4, 3), xycoords=("axes fraction", "data"),
                      textcoords="offset points", ha="right", fontsize=8, color="#D00000",
                      bbox={"color": "white", "alpha": 0.7, "pad": 0.5})  # fmt: skip
    if ipu["peak"]["fragmentation"] >= _SEEN * ipu["needed"]:
        axes.axhline(needed, color="black", linestyle=":", linewidth=1, label="with holes")
    peak = ipu["peak"]["instruction"] - first
    if 0 <= peak <= count:
        axes.plot([peak + 0.5], [base[peak] / _MEBIBYTE], marker="v", color="black", clip_on=False,
                  linestyle="", label="peak")  # fmt: skip
    fits = "needs" if needed <= capacity else "does not fit: needs"
    axes.set_title(f"IPU {number} {fits} {_text(needed)} of {_text(capacity)}", fontsize="medium",
                   loc="left")  # fmt: skip
    axes.set_xlim(0, count)
    axes.set_ylim(0, top or 1)
    axes.set_ylabel("MiB")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _sum_of(data: dict[str, Any], table: str, ipu: int, kind: str) -> int:
    columns, strings = data["memory"][table], data["strings"]
    return sum(
        columns["bytes"][row]
        for row, owner in enumerate(columns["ipu"])
        if owner == ipu and strings[columns["kind"][row]] == kind
    )


def _live(data: dict[str, Any], ipu: int, kind: str, first: int, count: int) -> np.ndarray:
    """Returns the live bytes of a kind in the arena, per instruction, with the last one twice."""
    columns, strings = data["memory"]["allocations"], data["strings"]
    changes = np.zeros(count + 1)
    for row, owner in enumerate(columns["ipu"]):
        if owner == ipu and strings[columns["kind"][row]] == kind:
            changes[columns["first"][row] - first] += columns["bytes"][row]
            changes[columns["last"][row] - first + 1] -= columns["bytes"][row]
    live = np.cumsum(changes)
    live[-1] = live[-2] if count else 0
    return live


def _text(mebibytes: float) -> str:
    if mebibytes >= 10:
        return f"{mebibytes:,.0f} MiB"
    return f"{mebibytes:.2f} MiB" if mebibytes >= 0.01 else f"{mebibytes * 1024:.2g} KiB"


def _figure(width: float, height: float) -> Figure:
    """Creates a figure of this size in inches. Raises DependencyError without matplotlib."""
    module = optional_packages.load("matplotlib.figure", "a figure")
    return module.Figure(figsize=(width, height), layout="constrained")


def _add_legend(figure: Figure) -> None:
    """Adds one legend for all axes, below them."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        figure.legend(found.values(), found.keys(), loc="outside lower center", frameon=False,
                      ncols=min(len(found), 6), fontsize=8)  # fmt: skip
