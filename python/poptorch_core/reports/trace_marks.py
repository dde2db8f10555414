"""Makes the counters of memory and the arrows between IPUs that a trace shows beside its bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from poptorch_core.reports.trace_run import COMPUTE, Event, Run


def memory(run: Run) -> Iterator[Event]:
    """Yields the bytes that each IPU holds, by kind, at each change."""
    memory, rows = run.data["memory"], len(run.instructions["ipu"])
    kinds = [run.strings[kind] for kind in memory["allocations"]["kind"]]
    owner = np.asarray(memory["allocations"]["ipu"], np.int64)
    for lane, events in enumerate(run.by_lane):
        if run.thread[lane] != COMPUTE:
            continue
        ipu = run.process[lane] - 1
        held = {}
        for kind in dict.fromkeys(kinds):
            own = (owner == ipu) & (np.asarray(kinds) == kind)
            held[kind] = _held(memory["allocations"], own, rows)
        always = memory["ipus"][ipu]["always"]
        before = None
        for row in events:
            instruction = run.events["instruction"][row]
            now = {"always": always, **{kind: int(by[instruction]) for kind, by in held.items()}}
            if now != before:
                yield {
                    "name": "memory in bytes",
                    "ph": "C",
                    "pid": ipu + 1,
                    "ts": run.time(run.events["start"][row]),
                    "args": now,
                }
            before = now


def _held(allocations: dict[str, list], own: np.ndarray, rows: int) -> np.ndarray:
    """Returns the live bytes of the selected allocations at each instruction."""
    column = {name: np.asarray(allocations[name])[own] for name in ("first", "last", "bytes")}
    changes = np.zeros(rows + 1, np.int64)
    np.add.at(changes, column["first"], column["bytes"])
    np.add.at(changes, column["last"] + 1, -column["bytes"])
    return np.cumsum(changes)


def flows(run: Run) -> Iterator[Event]:
    """Yields arrows from each sending instruction to the first that runs after the receipt."""
    lane_of = {
        run.process[lane] - 1: lane for lane in range(len(run.by_lane)) if not run.thread[lane]
    }
    crossings, events = run.data["graph"]["crossings"], run.events
    routes: dict[tuple[int, int, int], list[int]] = {}  # (from, to, op) → sending instructions
    for row, send in enumerate(crossings["instruction"]):
        op = run.instructions["op_id"][send]
        way = crossings["from_ipu"][row], crossings["to_ipu"][row], op
        routes.setdefault(way, []).append(send)
    landings = _landings(run)
    by_instruction: dict[int, list[int]] = {}
    for row, instruction in enumerate(events["instruction"]):
        by_instruction.setdefault(instruction, []).append(row)

    def occurrences(instructions: Iterable[int]) -> list[int]:
        rows = [row for one in instructions for row in by_instruction.get(one, [])]
        return sorted(rows, key=events["start"].__getitem__)

    number = 0
    for (source, target, op), sends in routes.items():
        name = run.text("name", sends[0])
        pairs = zip(occurrences(sends), occurrences(landings.get((target, op), [])), strict=False)
        for sent, landed in pairs:
            number += 1
            for phase, ipu, row in (("s", source, sent), ("f", target, landed)):
                yield {
                    "name": name,
                    "cat": "crossing",
                    "ph": phase,
                    "bp": "e",
                    "id": number,
                    "pid": run.process[lane_of[ipu]],
                    "tid": COMPUTE,
                    "ts": run.time(events["start"][row]),
                }


def _landings(run: Run) -> dict[tuple[int, int], list[int]]:
    """Returns, by IPU and op, the first instruction that takes time after each receipt.

    Receiving itself takes no time.
    """
    kinds = run.instructions["kind"]
    found: dict[tuple[int, int], list[int]] = {}
    parents, cycles = run.instructions["parent"], run.instructions["cycles"]
    receive = run.strings.index("receive") if "receive" in run.strings else -1
    next_in: dict[tuple[int, int], int] = {}  # (IPU, loop) → next instruction that takes time
    for row in range(len(kinds) - 1, -1, -1):
        ipu = run.instructions["ipu"][row]
        if kinds[row] == receive:
            landing = next_in.get((ipu, parents[row]))
            if landing is not None:
                op = run.instructions["op_id"][row]
                found.setdefault((ipu, op), []).append(landing)
        elif cycles[row] > 0:
            next_in[ipu, parents[row]] = row
    return found
