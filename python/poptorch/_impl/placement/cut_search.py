"""Search for the cuts of a pipeline: costs of parts propose cuts, compiled programs decide."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from poptorch._impl.inspection.estimate import Estimate
from poptorch._impl.placement.part_costs import Costs, Part, best_cuts

# Programs that one search compiles: fewer for models of many parts, whose programs are long.
_MOST_PROGRAMS, _LEAST_PROGRAMS, _PROGRAMS_BY_PARTS = 40, 8, 4000
_ROUNDS = 6
_BALANCED = 0.99  # of the mean cycles to those of the slowest stage


@dataclass(frozen=True)
class Found:
    """Cuts, as the numbers of the stages' first parts, with the estimate of their program."""

    firsts: tuple[int, ...]
    estimate: Estimate

    @property
    def is_whole(self) -> bool:
        """Whether each stage has an IPU: a stage without ops has none."""
        return len(self.estimate.ipus) == len(self.firsts)

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The bytes that do not fit, then the cycles of a run: the less, the better."""
        missing = sum(max(0, ipu.needed_bytes - ipu.capacity_bytes) for ipu in self.estimate.ipus)
        return not self.is_whole, missing, self.estimate.cycles_per_run

    @property
    def cycles(self) -> list[int]:
        """The cycles of a micro-batch of each IPU, without waiting and weight updates."""
        totals = [0] * len(self.firsts)
        for stage in self.estimate.report["stages"]:
            totals[stage["ipu"]] += stage["cycles"]
        return totals


class CutSearch:
    """Finds cuts by the costs of the parts, and corrects these costs by compiled programs.

    Each compiled program scales the cycles of the parts of a stage to its own. When the corrected
    costs propose nothing new, cuts beside the slowest stage are moved.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        stages: int,
        training: bool,
        capacity: int,
        estimate: Callable[[tuple[int, ...]], Estimate],
    ) -> None:
        self._parts = list(parts)
        self._stages = stages
        self._training = training
        self._capacities = [capacity] * stages
        self._capacity = capacity
        self._estimate = estimate
        self._known: dict[tuple[int, ...], Found] = {}
        by_parts = _PROGRAMS_BY_PARTS // max(len(parts), 1)
        self._most = min(_MOST_PROGRAMS, max(_LEAST_PROGRAMS, by_parts))

    @property
    def tried(self) -> int:
        """The number of programs that were compiled."""
        return len(self._known)

    def run(self) -> Found:
        """Returns the best cuts that were found."""
        best = self._corrected()
        while not self._is_balanced(best) and (better := self._moved(best)) is not None:
            best = better
        return best

    def _is_balanced(self, found: Found) -> bool:
        cycles = found.cycles
        return found.estimate.fits and sum(cycles) >= _BALANCED * max(cycles) * len(cycles)

    def _look(self, firsts: Sequence[int]) -> Found:
        key = tuple(firsts)
        if key not in self._known:
            self._known[key] = Found(key, self._estimate(key))
        return self._known[key]

    def _costs(self) -> Costs:
        return Costs(self._parts, self._training)

    def _corrected(self) -> Found:
        """Returns the best of the cuts that repeatedly corrected costs propose."""
        best = None
        for _ in range(_ROUNDS):
            firsts, _fits = best_cuts(self._costs(), self._stages, self._capacities)
            is_new = tuple(firsts) not in self._known
            found = self._look(firsts)
            if best is None or found.rank < best.rank:
                best = found
            if not is_new or not found.is_whole:
                break
            self._correct(found)
        assert best is not None
        return best

    def _correct(self, found: Found) -> None:
        costs = self._costs()
        lasts = [*found.firsts[1:], len(self._parts)]
        for k, (first, last) in enumerate(zip(found.firsts, lasts, strict=True)):
            predicted = int(costs.cycles(first, last))
            factor = found.cycles[k] / predicted if predicted else 1.0
            needed = found.estimate.ipus[k].needed_bytes
            beside = needed - int(costs.memory(first, last, self._stages - 1 - k))
            self._capacities[k] = self._capacity - beside
            for i in range(first, last):
                self._parts[i] = _scaled(self._parts[i], factor)

    def _moved(self, best: Found) -> Found | None:
        """Returns a better neighbour, or None."""
        for firsts in self._neighbours(best):
            if self.tried >= self._most and firsts not in self._known:
                continue
            found = self._look(firsts)
            if found.rank < best.rank:
                return found
        return None

    def _neighbours(self, best: Found):
        """Yields cuts of which one is moved, those of the slowest stages first."""
        count, cycles = len(self._parts), best.cycles
        order = sorted(range(self._stages), key=lambda k: -cycles[k])
        for distance in (1, 2, 3):
            for stage in order:
                for cut, step in ((stage, distance), (stage + 1, -distance)):
                    if not 0 < cut < self._stages:
                        continue
                    firsts = [*best.firsts, count]
                    firsts[cut] += step
                    if firsts[cut - 1] < firsts[cut] < firsts[cut + 1]:
                        yield tuple(firsts[:-1])


def _scaled(part: Part, factor: float) -> Part:
    return replace(
        part,
        forward_cycles=round(part.forward_cycles * factor),
        backward_cycles=round(part.backward_cycles * factor),
        boundary_cycles=round(part.boundary_cycles * factor),
    )
