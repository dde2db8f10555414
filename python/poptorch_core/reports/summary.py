"""Sums up how a run spends its time."""

from __future__ import annotations

import numpy as np

HOST, STREAMING = ("stream_in", "stream_out"), ("load", "store")


def make(report: dict, found: dict, samples_per_run: int) -> dict:
    """Makes the summary of a report.

    Args:
        report: `Executable.report()`.
        found: `Executable.inspect()`.
        samples_per_run: The samples of a run; 0 if the number is unknown.

    Returns:
        The modelled time of a run, and `shares` of the time of all IPUs, which add up to 1. Time in
        which compute tiles wait while IO tiles or other IPUs of a pipeline transfer counts as
        transfer.
    """
    ipus = report["ipus"]
    total = report["cycles_per_run"] * len(ipus)
    beside = _transferred(found["instructions"], found["strings"])
    waited = _waited_for(found)
    waited["host"] += sum(ipu["host_wait_cycles"] for ipu in ipus)
    waited["exchange"] = sum(ipu["link_wait_cycles"] for ipu in ipus)
    cycles = {
        "compute": sum(ipu["compute_cycles"] for ipu in ipus),
        "exchange": sum(ipu["link_cycles"] + ipu["gateway_cycles"] for ipu in ipus)
        + waited["exchange"],
        "host": sum(ipu["host_cycles"] for ipu in ipus) - beside["host"] + waited["host"],
        "streaming": sum(ipu["streaming_cycles"] for ipu in ipus)
        - beside["streaming"]
        + waited["streaming"],
        "waiting": sum(ipu["idle_cycles"] for ipu in ipus) - sum(waited.values()),
    }
    seconds = report["seconds_per_run"]
    return {
        "cycles_per_run": report["cycles_per_run"],
        "seconds_per_run": seconds,
        "samples_per_second": samples_per_run / seconds if seconds else 0.0,
        "bound_by": max(cycles, key=cycles.__getitem__),
        "shares": {word: part / total if total else 0.0 for word, part in cycles.items()},
    }


def _numbers_of(words: tuple[str, ...], strings: list[str]) -> list[int]:
    known = {text: number for number, text in enumerate(strings)}
    return [known[word] for word in words if word in known]


def _transferred(instructions: dict, strings: list[str]) -> dict[str, int]:
    """Returns the cycles of a run's transfers through IO tiles."""
    cycles = instructions["cycles"] * instructions["count"] * instructions["tiles"]
    return {
        word: int(cycles[np.isin(instructions["kind"], _numbers_of(kinds, strings))].sum())
        for word, kinds in (("host", HOST), ("streaming", STREAMING))
    }


def _waited_for(found: dict) -> dict[str, float]:
    """Returns the cycles of a run in which compute tiles wait while IO tiles transfer."""
    execution, strings = found["execution"], found["strings"]
    lanes, events, kinds = execution["lanes"], execution["events"], found["instructions"]["kind"]
    whole = execution["total_cycles"] / max(execution["shown_cycles"], 1)
    waited = {"host": 0.0, "streaming": 0.0}
    of_compute = {ipu: lane for lane, ipu in enumerate(lanes["ipu"]) if not lanes["tiles"][lane]}
    for lane in np.flatnonzero(lanes["tiles"]):
        shown = events["start"] < execution["shown_cycles"]
        own = shown & (events["lane"] == of_compute[lanes["ipu"][lane]])
        times, busy = _busy_until(events["start"][own], events["cycles"][own])
        for word, words in (("host", HOST), ("streaming", STREAMING)):
            of_kind = np.isin(kinds[events["instruction"]], _numbers_of(words, strings))
            transfers = shown & (events["lane"] == lane) & of_kind
            start = events["start"][transfers]
            end = start + events["cycles"][transfers]
            working = np.interp(end, times, busy) - np.interp(start, times, busy)
            waited[word] += float((end - start - working).sum()) * whole
    return waited


def _busy_until(start: np.ndarray, cycles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns points in time, and the total duration of events until each of them."""
    times = np.stack([start, start + cycles], axis=1).reshape(-1)
    busy = np.stack([np.cumsum(cycles) - cycles, np.cumsum(cycles)], axis=1).reshape(-1)
    return np.concatenate([[0], times]), np.concatenate([[0], busy])
