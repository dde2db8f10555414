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


def seconds(run: Callable[[], object], calls: int = 1) -> float:
    """CPU time with one thread, so that other processes disturb it little; else wall time."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    for _ in range(calls):
        run()
    return clock() - start


def repetitions_of(run: Callable[[], object]) -> int:
    """Returns how many calls of `run` take SECONDS."""
    run()
    once = min(seconds(run), seconds(run))
    return max(1, min(MOST_REPETITIONS, int(SECONDS / max(once, 1e-7))))


def _longer(count: int, make: Callable[[int], Callable[[], object]]) -> int:
    """Returns a number of repetitions that takes about SECONDS here, at least `count`."""
    run = make(count)
    took = min(seconds(run) for _ in range(3))
    return count * max(1, min(MOST_TIMES_LONGER, int(SECONDS / max(took, 1e-7))))


def _are_proportional(once: float, twice: float) -> bool:
    return 1.7 * once < twice < 2.2 * once


def _slope(once: float, twice: float) -> float:
    """Returns the seconds of n repetitions, from those of n and 2n.

    Where other processes disturb the difference, half of the longer time is closer.
    """
    # Nothing is left of some cases in a repetition: the compiler computes them once.
    slope = max(twice - once, LEAST)
    # The overhead of a call is a large part of a short time.
    disturbed = twice > 1e-3 and not _are_proportional(once, twice)
    return twice / 2 if disturbed else slope


def measure(program: Program, stochastic: bool, with_eager: bool) -> Result:
    """Takes the smallest time of each side and length over the rounds."""
    eager = program.eager()
    count = repetitions_of(eager)
    ours = _longer(count, lambda n: program.ours(n, stochastic))
    once, twice = program.ours(ours, stochastic), program.ours(2 * ours, stochastic)
    sides: list[tuple[Callable[[], object], int]] = [(once, 1), (twice, 1)]
    if with_eager:
        sides += [(eager, count), (eager, 2 * count)]
    best = [float("inf")] * len(sides)
    for _ in range(TRIES):
        for _ in range(ROUNDS):
            for i, (run, calls) in enumerate(sides):
                best[i] = min(best[i], seconds(run, calls))
        if all(map(_are_proportional, best[::2], best[1::2])):
            break
    costs = once.costs()
    return Result(
        ours=_slope(best[0], best[1]) / ours,
        eager=_slope(best[2], best[3]) / count if with_eager else None,
        overhead=max(2 * best[0] - best[1], 0.0),
        rows=sorted({name for name, _, _ in costs}),
        reference_kernels=once.reference_kernels(),
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
        best = min(seconds(add, calls) for _ in range(10)) / calls
        bandwidths.append((size, size / best))
    return Limits(2 * 1024**3 / product, tuple(bandwidths))
