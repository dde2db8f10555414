"""Gives the parts of a trace access to a report's data: its columns, lanes and times."""

from __future__ import annotations

from typing import Any

COMPUTE, IO, STAGES = 0, 1, 2  # threads of an IPU
DIGITS = 4  # decimals of microseconds: a tenth of a nanosecond

Event = dict[str, Any]


class Run:
    """The columns that a trace needs."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.strings: list[str] = data["strings"]
        self.instructions: dict[str, list] = data["instructions"]
        self.events: dict[str, list] = data["execution"]["events"]
        lanes = data["execution"]["lanes"]
        self.process = [lane["ipu"] + 1 for lane in lanes]
        self.thread = [IO if lane["tiles"] else COMPUTE for lane in lanes]
        self.by_lane: list[list[int]] = [[] for _ in lanes]  # events, in the order of their start
        for row, lane in enumerate(self.events["lane"]):
            self.by_lane[lane].append(row)
        self._microseconds = 1e6 / data["target"]["clock_hz"]

    def text(self, column: str, row: int) -> str:
        index = self.instructions[column][row]
        return "" if index < 0 else self.strings[index]

    def time(self, cycles: float) -> float:
        """Converts cycles to microseconds."""
        return round(cycles * self._microseconds, DIGITS)

    def span(self, start: int, end: int) -> dict[str, float]:
        """Returns an event's times; rounded events that follow each other do not overlap."""
        begin = self.time(start)
        return {"ts": begin, "dur": round(self.time(end) - begin, DIGITS)}
