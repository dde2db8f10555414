"""Times one program: the slope between n and 2n repetitions, ours and eager's in turn."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable

import torch

from benchmarks.ops.program import Program

SECONDS = 4e-3  # of n repetitions
MOST_REPETITIONS = 1000
ROUNDS = 3
MOST_TIMES_LONGER = 20
LEAST = 1e-6  # seconds that a slope can tell from none
TRIES = 8  # of as many rounds, while twice the repetitions do not take about twice the time
ENOUGH = 0.5  # seconds after which no further round begins
LONG = 0.05  # a repetition of as many seconds needs no slope: its call takes nothing beside it


@dataclasses.dataclass
class Result:
    """Seconds of one repetition, and what ran. `eager` is None where torch has no such kernel."""

    ours: float
    eager: float | None
    overhead: float  # of one of our calls, without its repetitions
    rows: list[str]
    reference_kernels: list[str]
    flops: float
    bytes: float


def seconds(run: Callable[[], object]) -> float:
    """CPU time with one thread, so that other processes disturb it little; else wall time."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    run()
    return clock() - start


def _least(run: Callable[[], object]) -> float:
    took = seconds(run)
    return took if took > LONG else min(took, seconds(run), seconds(run))


class Side:
    """Runs n and 2n repetitions by the calls that `make` returns, and keeps the least times."""

    def __init__(self, make: Callable[[int], Callable[[], object]]) -> None:
        count = max(1, min(MOST_REPETITIONS, int(SECONDS / max(_least(make(1)), 1e-7))))
        longer = max(1, min(MOST_TIMES_LONGER, int(SECONDS / max(_least(make(count)), 1e-7))))
        self.count = count * longer
        self.once = make(self.count)
        self.first, self.second = _least(self.once), 0.0
        self.twice = None
        if self.first < LONG:
            self.twice, self.second = make(2 * self.count), float("inf")

    def run(self) -> None:
        self.first = min(self.first, seconds(self.once))
        if self.twice is not None:
            self.second = min(self.second, seconds(self.twice))

    def is_proportional(self) -> bool:
        return self.twice is None or 1.7 * self.first < self.second < 2.2 * self.first

    def repetition(self) -> float:
        """Returns the seconds of one repetition: the slope between n and 2n.

        Where other processes disturb the difference, half of the longer time is closer.
        """
        if self.twice is None:
            return self.first / self.count
        # Nothing is left of some cases in a repetition: the compiler computes them once.
        slope = max(self.second - self.first, LEAST)
        # The overhead of a call is a large part of a short time.
        disturbed = self.second > 1e-3 and not self.is_proportional()
        return (self.second / 2 if disturbed else slope) / self.count

    def overhead(self) -> float:
        """Returns the seconds of a call without its repetitions."""
        return 0.0 if self.twice is None else max(2 * self.first - self.second, 0.0)


def _run_in_turn(sides: list[Side]) -> None:
    start = time.perf_counter()
    for _ in range(TRIES):
        for _ in range(ROUNDS):
            for side in sides:
                side.run()
            if time.perf_counter() - start > ENOUGH:
                return
        if all(side.is_proportional() for side in sides):
            return


def _repeat(run: Callable[[], object], count: int) -> Callable[[], object]:
    def repeated() -> None:
        for _ in range(count):
            run()

    return repeated


def measure(program: Program, stochastic: bool, with_eager: bool) -> Result:
    """Takes the smallest time of each side and length over the rounds."""
    ours = Side(lambda count: program.ours(count, stochastic))
    run_eager = program.eager()
    eager = Side(lambda count: _repeat(run_eager, count)) if with_eager else None
    _run_in_turn([ours] if eager is None else [ours, eager])
    costs = ours.once.costs()
    return Result(
        ours=ours.repetition(),
        eager=eager and eager.repetition(),
        overhead=ours.overhead(),
        rows=sorted({name for name, _, _ in costs}),
        reference_kernels=ours.once.reference_kernels(),
        flops=sum(flops for _, flops, _ in costs),
        bytes=sum(size for _, _, size in costs),
    )


@dataclasses.dataclass(frozen=True)
class Limits:
    """The host's FLOP/s in float32 products, and its bytes/s by working set (bytes, rate)."""

    flops: float
    bandwidths: tuple[tuple[int, float], ...]

    def bound(self, flops: float, size: float) -> float:
        """The least seconds for this work: the roofline."""
        rates = [rate for most, rate in self.bandwidths if size <= most]
        rate = rates[0] if rates else self.bandwidths[-1][1]
        return max(flops / self.flops, size / rate)


def measure_limits() -> Limits:
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    product = min(seconds(lambda: torch.mm(a, b)) for _ in range(20))
    bandwidths = []
    for size in (1 << 18, 1 << 22, 1 << 25, 1 << 28):
        x, y, z = (torch.zeros(size // 12) for _ in range(3))
        calls = max(1, (1 << 24) // size)
        add = functools.partial(torch.add, x, y, out=z)
        best = min(seconds(_repeat(add, calls)) for _ in range(10)) / calls
        bandwidths.append((size, size / best))
    return Limits(2 * 1024**3 / product, tuple(bandwidths))
