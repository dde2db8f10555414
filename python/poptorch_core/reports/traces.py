"""Traces for chrome://tracing and Perfetto, in the Trace Event format, from a report's data.

A process is an IPU. Its threads are the compute tiles, the IO tiles, and the stages, with a bar for
each section of a stage's work on a micro-batch. The host's events form separate processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from poptorch_core.reports import trace_marks
from poptorch_core.reports.trace_run import COMPUTE, DIGITS, IO, STAGES, Event, Run

# Maps an instruction to the category of its time, named as in the summary. Others are computation.
CATEGORIES = {
    "send": "exchange",
    "receive": "exchange",
    "collective": "exchange",
    "stream_in": "host",
    "stream_out": "host",
    "load": "streaming",
    "store": "streaming",
}
_THREADS = {COMPUTE: "compute tiles", IO: "IO tiles", STAGES: "stages"}


def of(data: dict[str, Any], host: Sequence[Event] = ()) -> dict[str, Any]:
    """Makes the trace of a run.

    Args:
        data: The content of report.json (docs/profiling.md).
        host: Events of the host's processes, those of PVTI_OPTIONS, in the same format. Their times
            are in microseconds since any moment; in the trace the first event begins at 0.

    Returns:
        An object of the Trace Event format. A complete event (`ph` X) of category compute,
        exchange, host or streaming is an event of `execution`. Its name is that of the op, and its
        `args` contain `cycles`, `bytes`, `module`, `source` and so on, without empty ones. Times
        are modelled: cycles divided by the device's clock rate.
    """
    run = Run(data)
    events = [
        *_names(run),
        *_instructions(run),
        *_stretches(run),
        *trace_marks.memory(run),
        *trace_marks.flows(run),
        *_host(host, len(data["ipus"])),
    ]
    model, target = data["model"], data["target"]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "model": model["name"],
            "device": target["device"],
            "clock_hz": target["clock_hz"],
            "complete": data["execution"]["complete"],
        },
    }


def _metadata(kind: str, process: int, name: str, thread: int = 0) -> Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


def _names(run: Run) -> Iterator[Event]:
    for ipu in range(len(run.data["ipus"])):
        yield _metadata("process_name", ipu + 1, f"IPU {ipu}")
        yield {
            "name": "process_sort_index",
            "ph": "M",
            "pid": ipu + 1,
            "args": {"sort_index": ipu},
        }
        yield _metadata("thread_name", ipu + 1, _THREADS[STAGES], STAGES)
    for process, thread in zip(run.process, run.thread, strict=True):
        yield _metadata("thread_name", process, _THREADS[thread], thread)


def _instructions(run: Run) -> Iterator[Event]:
    events, known = run.events, {}
    for row, instruction in enumerate(events["instruction"]):
        if instruction not in known:
            known[instruction] = _described(run, instruction)
        lane, start, cycles = events["lane"][row], events["start"][row], events["cycles"][row]
        about = known[instruction]
        args = {**about["args"], "cycles": cycles}
        if events["micro_batch"][row] >= 0:
            args["micro_batch"] = events["micro_batch"][row]
        if events["rounds"][row] > 1:
            args["rounds"] = events["rounds"][row]
        yield {
            "name": about["name"],
            "cat": about["cat"],
            "ph": "X",
            "pid": run.process[lane],
            "tid": run.thread[lane],
            **run.span(start, start + cycles),
            "args": args,
        }


def _described(run: Run, row: int) -> Event:
    """Returns the fields that all events of an instruction share."""
    kind, file = run.text("kind", row), run.text("file", row)
    args = {
        "instruction": row,
        "module": run.text("module", row),
        "tensor": run.text("name", row),
        "source": f"{file}:{run.instructions['line'][row]}" if file else "",
        "block": run.text("block", row),
        "pass": run.text("pass", row),
        "bytes": run.instructions["bytes"][row],
    }
    args |= {place: run.instructions[place][row] for place in ("stage", "phase")}
    empty = {"module": "", "tensor": "", "source": "", "block": "", "stage": -1, "phase": -1}
    return {
        "name": run.text("op", row) or kind,
        "cat": CATEGORIES.get(kind, "compute"),
        "args": {key: value for key, value in args.items() if value != empty.get(key)},
    }


def _stretches(run: Run) -> Iterator[Event]:
    """Yields a bar for each section in which compute tiles work on one stage's micro-batch."""
    for lane, rows in enumerate(run.by_lane):
        if run.thread[lane] != COMPUTE:
            continue
        at: tuple | None = None
        start = end = 0
        for row in rows:
            place = _place(run, row)
            if place is None:  # does not interrupt a section
                continue
            begin = run.events["start"][row]
            if place != at:
                if at is not None:
                    yield _stretch(run, lane, at, start, end)
                at, start = place, begin
            end = begin + run.events["cycles"][row]
        if at is not None:
            yield _stretch(run, lane, at, start, end)


def _place(run: Run, row: int) -> tuple[int, str, int] | None:
    instruction = run.events["instruction"][row]
    stage, micro_batch = run.instructions["stage"][instruction], run.events["micro_batch"][row]
    if stage < 0 or micro_batch < 0 or run.events["rounds"][row] > 1:
        return None
    if run.text("kind", instruction) in ("stash", "restore"):  # forward in any section
        return None
    return stage, run.text("pass", instruction), micro_batch


def _stretch(run: Run, lane: int, place: tuple[int, str, int], start: int, end: int) -> Event:
    stage, kind, micro_batch = place
    return {
        "name": f"stage {stage} {kind}",
        "cat": "stage",
        "ph": "X",
        "pid": run.process[lane],
        "tid": STAGES,
        **run.span(start, end),
        "args": {"stage": stage, "micro_batch": micro_batch},
    }


def _host(events: Sequence[Event], ipus: int) -> Iterator[Event]:
    """Yields the host's events from time 0, with process numbers after those of the IPUs."""
    timed = [event["ts"] for event in events if "ts" in event]
    first = min(timed, default=0.0)
    processes: dict[int, int] = {}
    for event in events:
        number = processes.setdefault(event["pid"], ipus + 1 + len(processes))
        moved = {**event, "pid": number}
        if "ts" in event:
            moved["ts"] = round(event["ts"] - first, DIGITS)
        yield moved
    for process, number in processes.items():
        yield _metadata("process_name", number, f"host, process {process}")
