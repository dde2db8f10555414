"""The best cuts of a model, found by branch and bound: exact without costing all cuts.

A stage has the ops of its parts, whatever the other cuts are; a stage with more parts has more. A
run takes at least the cycles of the ops of each IPU, and those of the longest stream with the host,
during which all IPUs wait and which do not depend on the cuts. So a program with a stage bounds
from below all programs with a stage of the same IPU that has these parts. Cuts whose bound is not
below the best known run are left out. Each further program checks that its stages and transfers
agree with the bounds.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy

Firsts = tuple[int, ...]  # the numbers of the first parts of all stages: the first is 0


@dataclass(frozen=True)
class Run:
    """The cycles of a run, and those of the ops of each IPU and of the longest stream in it."""

    cycles: int
    ops: tuple[int, ...]
    host: int = 0


class BestCuts:
    """Finds the cuts with the fewest cycles.

    Args:
        parts: The number of parts.
        stages: The number of stages, each with at least one part.
        cost: Returns the run with the given first parts; called once for each.
    """

    def __init__(self, parts: int, stages: int, cost: Callable[[Firsts], Run]) -> None:
        self._parts, self._stages, self._cost = parts, stages, cost
        self._host: int | None = None
        self._runs: dict[Firsts, Run] = {}
        self._best: Firsts = ()
        # Cycles of ops by IPU, first part and end: at least those of stages with some of the
        # parts, and at most those of stages with more.
        shape = (stages, parts + 1, parts + 1)
        self._least = numpy.zeros(shape)
        self._most = numpy.full(shape, numpy.inf)

    @property
    def costed(self) -> int:
        """The number of cuts that were costed."""
        return len(self._runs)

    def run(self, start: Sequence[int]) -> tuple[Firsts, int]:
        """Returns the best cuts and the cycles of their run.

        Args:
            start: Cuts to begin with; the better, the fewer are costed.
        """
        self._look(tuple(start))
        for firsts in self._candidates():
            self._look(firsts)
        return self._best, self._runs[self._best].cycles

    def _candidates(self) -> Iterator[Firsts]:
        """Yields all cuts that the bounds do not rule out."""
        pending: list[Firsts] = [(0,)]
        while pending:
            firsts = pending.pop()
            if self._bound(firsts) >= self._runs[self._best].cycles:
                continue
            if len(firsts) == self._stages:
                yield firsts
                continue
            ends = range(firsts[-1] + 1, self._parts - (self._stages - len(firsts)) + 1)
            pending += [(*firsts, end) for end in reversed(ends)]

    def _bound(self, firsts: Firsts) -> float:
        """Returns the least cycles of a run with cuts that begin with `firsts`."""
        assert self._host is not None  # of the start
        pairs = enumerate(zip(firsts[:-1], firsts[1:], strict=True))
        known = max((self._least[k, first, end] for k, (first, end) in pairs), default=0)
        return self._host + max(known, self._rest(len(firsts) - 1)[firsts[-1]])

    def _rest(self, ipu: int) -> numpy.ndarray:
        """Returns, by the first part of an IPU, the bound of its stage and those after it."""
        rest = self._least[self._stages - 1, :, self._parts].copy()
        rest[self._parts] = numpy.inf  # a stage without parts
        for k in range(self._stages - 2, ipu - 1, -1):
            both = numpy.maximum(self._least[k], rest)
            both[numpy.tril_indices(self._parts + 1)] = numpy.inf
            rest = both.min(axis=1)
        return rest

    def _look(self, firsts: Firsts) -> None:
        if firsts in self._runs:
            return
        run = self._runs[firsts] = self._cost(firsts)
        if self._host is None:
            self._host = run.host
        if run.host != self._host:
            raise ValueError(
                f"The longest stream takes {run.host:,} cycles with the cuts {firsts}, and "
                f"{self._host:,} with others: the search is not exact."
            )
        if not self._best or run.cycles < self._runs[self._best].cycles:
            self._best = firsts
        ends = (*firsts[1:], self._parts)
        for k, (first, end) in enumerate(zip(firsts, ends, strict=True)):
            self._note(k, first, end, run.ops[k])

    def _note(self, ipu: int, first: int, end: int, cycles: int) -> None:
        least, most = self._least[ipu], self._most[ipu]
        if not least[first, end] <= cycles <= most[first, end]:
            raise ValueError(
                f"The ops of IPU {ipu} with parts {first} to {end} take {cycles:,} cycles, which "
                f"disagrees with the {least[first, end]:,.0f} to {most[first, end]:,.0f} of other "
                "cuts: the search is not exact."
            )
        numpy.maximum(least[: first + 1, end:], cycles, out=least[: first + 1, end:])
        numpy.minimum(most[first:, : end + 1], cycles, out=most[first:, : end + 1])
