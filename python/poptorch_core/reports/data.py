"""Makes the data of a report: the content and costs of an executable, as one object for JSON.

docs/profiling.md describes the parts, and report.schema.json their structure.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from poptorch_core.reports import summary

FORMAT, VERSION = "poptorch-report", 1
# The most allocations that are listed for a peak.
MOST_ALLOCATIONS = 100

Table = dict[str, Any]


class Executable(Protocol):
    """An executable of `_core` or `_torch`."""

    def report(self) -> dict: ...

    def inspect(self) -> dict: ...

    def form_lines(self) -> dict: ...


def make(executable: Executable, about: dict[str, Any]) -> dict[str, Any]:
    """Makes the report of an executable, without its advice.

    Args:
        executable: An executable of `_core` or `_torch`.
        about: Facts that the executable does not have: `name`, `kind` and `class` of the model, its
            `options` (name → text) and `samples_per_run`. All are optional.

    Returns:
        The content of report.json, of plain Python objects.
    """
    report, found = executable.report(), executable.inspect()
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": _model(about, found),
        "target": _target(report, found),
        "options": dict(about.get("options", {})),
        "strings": found["strings"],
        "summary": summary.make(report, found, about.get("samples_per_run", 0)),
        "measured": {**measured(report), "compile_seconds": found["compile"]["seconds"]},
        "ipus": report["ipus"],
        "stages": report["stages"],
        "streams": report["streams"],
        "ops": report["ops"],
        "collectives": report["collectives"],
        "instructions": _table(found["instructions"]),
        "memory": _memory(report, found),
        "execution": _execution(found["execution"]),
        "graph": _graph(found["graph"], executable.form_lines()),
        "compile": found["compile"],
    }


def _table(columns: Table) -> Table:
    return {
        name: column.tolist() if isinstance(column, np.ndarray) else column
        for name, column in columns.items()
    }


def _model(about: dict, found: dict) -> dict:
    return {
        "name": about.get("name", ""),
        "kind": about.get("kind", "program"),
        "class": about.get("class", ""),
        "library_version": found["library_version"],
        "strategy": found["strategy"],
        "micro_batches_per_run": found["micro_batches_per_run"],
        "samples_per_run": about.get("samples_per_run", 0),
    }


def _target(report: dict, found: dict) -> dict:
    device = found["target"]
    return {
        "device": device["device"],
        "clock_hz": device["clock_hz"],
        "tiles": device["tiles"],
        "io_tiles": found["io_tiles"],
        "bytes_per_ipu": device["bytes_per_ipu"],
        "ipus": len(report["ipus"]),
        "replicas": report["replicas"],
        "instances": report["instances"],
        "idle_ipus": report["idle_ipus"],
    }


def measured(report: dict) -> dict:
    """Returns this host's measurements of the runs so far.

    Args:
        report: `Executable.report()`.
    """
    return {
        "runs": report["runs"],
        "run_seconds": report["run_seconds"],
        "host_wait_seconds": report["between_runs_seconds"],
        "reference_kernels": report["reference_kernels"],
    }


def _memory(report: dict, found: dict) -> dict:
    memory = found["memory"]
    allocations, always = memory["allocations"], memory["always"]
    return {
        "always": _table(always),
        "allocations": _table(allocations),
        "ipus": [
            {
                "needed": ipu["needed"],
                "capacity": ipu["capacity"],
                "always": ipu["needed"] - ipu["arena"],
                "arena": ipu["arena"],
                "peak": _peak(allocations, np.flatnonzero(allocations["ipu"] == number), ipu),
                "tile_groups": _tile_groups(found, number, ipu),
                "remedies": ipu["remedies"],
            }
            for number, ipu in enumerate(memory["ipus"])
        ],
        "streaming": {
            "needed": report["streaming_bytes"],
            "capacity": report["streaming_capacity"],
        },
    }


def _tile_groups(found: dict, number: int, ipu: dict) -> list[dict]:
    """Divides an IPU's memory among its compute tiles and its IO tiles.

    The part that is always held is on compute tiles. A tensor is on the tiles of the instruction
    that makes it.
    """
    allocations = found["memory"]["allocations"]
    tiles, io_tiles = found["target"]["tiles"], found["io_tiles"]
    makers = found["instructions"]["tiles"][allocations["first"]]
    groups = []
    for kind, (name, count) in enumerate((("compute", tiles - io_tiles), ("io", io_tiles))):
        if count <= 0:
            continue
        rows = np.flatnonzero((allocations["ipu"] == number) & (makers == kind))
        peak = _peak(allocations, rows, ipu)
        always = ipu["needed"] - ipu["arena"] if name == "compute" else 0
        groups.append(
            {
                "name": name,
                "tiles": count,
                "capacity": ipu["capacity"] * count // tiles,
                "always": always,
                "needed": always + peak["bytes"],
                "instruction": peak["instruction"],
            }
        )
    return groups


def _peak(allocations: Table, rows: np.ndarray, known: dict) -> dict:
    """Finds the instruction at which the selected allocations of an arena hold the most bytes.

    Fragmentation is the rest of the arena: holes into which no allocation fitted.
    """
    first, last = allocations["first"][rows], allocations["last"][rows]
    sizes = allocations["bytes"][rows]
    if len(rows) == 0:
        return {
            "instruction": -1,
            "bytes": 0,
            "fragmentation": known["arena"],
            "allocations": [],
        }
    changes = np.zeros(known["last"] - known["first"] + 2, np.int64)
    np.add.at(changes, first - known["first"], sizes)
    np.add.at(changes, last - known["first"] + 1, -sizes)
    held = np.cumsum(changes)
    when = int(np.argmax(held))
    peak, instruction = int(held[when]), when + known["first"]
    live = np.flatnonzero((first <= instruction) & (instruction <= last))
    largest = live[np.argsort(-sizes[live], kind="stable")][:MOST_ALLOCATIONS]
    return {
        "instruction": instruction,
        "bytes": peak,
        "fragmentation": known["arena"] - peak,
        "allocations": rows[largest].tolist(),
    }


def _execution(execution: dict) -> dict:
    lanes = _table(execution["lanes"])
    return {
        "lanes": [
            {"ipu": ipu, "tiles": tiles}
            for ipu, tiles in zip(lanes["ipu"], lanes["tiles"], strict=True)
        ],
        "events": _table(execution["events"]),
        "complete": execution["complete"],
        "shown_cycles": execution["shown_cycles"],
        "total_cycles": execution["total_cycles"],
    }


def _graph(graph: dict, forms: dict) -> dict:
    return {
        "modules": _table(graph["modules"]),
        "crossings": _table(graph["crossings"]),
        "forms": {form: _table(lines) for form, lines in forms.items()},
    }
