"""The costs of a model's parts, and the cuts between them that these costs prefer."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy


@dataclass(frozen=True)
class Part:
    """The ops between two places where a block may begin. Cycles are those of a micro-batch."""

    module: str  # the path of the module that a block can begin at; "" for the first part
    forward_cycles: int = 0
    backward_cycles: int = 0
    weight_bytes: int = 0
    state_bytes: int = 0  # weights and buffers with optimiser state and accumulators
    activation_bytes: int = 0
    boundary_bytes: int = 0  # of values that the next part needs
    boundary_cycles: int = 0


class Costs:
    """Cycles and bytes of a stage with the parts a to b-1, for any a and b.

    In training, a stage except the last computes its forward values twice. It holds all of them
    during the backward pass, and keeps its inputs for every micro-batch in flight.
    """

    def __init__(self, parts: Sequence[Part], training: bool) -> None:
        self.training = training
        self.count = len(parts)

        def sums(name):
            return numpy.cumsum([0] + [getattr(part, name) for part in parts])

        self._forward, self._backward = sums("forward_cycles"), sums("backward_cycles")
        self.weights, self.state = sums("weight_bytes"), sums("state_bytes")
        self._activations = sums("activation_bytes")
        self._enters = numpy.array([0] + [part.boundary_bytes for part in parts])
        self._sends = numpy.array([part.boundary_cycles for part in parts])
        self._largest = numpy.array([part.activation_bytes for part in parts])

    def cycles(self, first: int, last):
        """Returns the cycles of a micro-batch; `last` may be an array."""
        forward = self._forward[last] - self._forward[first]
        total = forward + self._backward[last] - self._backward[first]
        ends = numpy.asarray(last) == self.count
        total = total + numpy.where(ends, 0, self._sends[numpy.asarray(last) - 1])
        if self.training:
            total = total + numpy.where(ends, 0, forward)
            total = total + (self._sends[first - 1] if first else 0)
        return total

    def activations(self, first: int, last):
        """Returns the bytes of values that are live at the same time."""
        if self.training:
            return self._activations[last] - self._activations[first]
        running = numpy.maximum.accumulate(self._largest[first:])
        return running[numpy.asarray(last) - first - 1]

    def stash(self, first: int, stages_behind: int) -> int:
        """Returns the bytes of inputs kept for the backward pass.

        stages_behind: the number of stages after this one.
        """
        return int(self._enters[first]) * 2 * stages_behind if self.training else 0

    def memory(self, first: int, last, stages_behind: int):
        """Returns all memory, in bytes."""
        state = self.state[last] - self.state[first]
        return state + self.activations(first, last) + self.stash(first, stages_behind)


def best_cuts(costs: Costs, stages: int, capacity: int | Sequence[int]) -> tuple[list[int], bool]:
    """Returns the first part of every stage, and whether all stages fit into memory.

    The cuts minimise the cycles of the slowest stage, by dynamic programming over the number of
    stages. If no cut fits, they minimise what the largest stage needs beyond its capacity.

    capacity: the bytes of an IPU, or those of each stage.
    """
    room = [capacity] * stages if isinstance(capacity, int) else list(capacity)

    def of_fitting(first, lasts, behind):
        fits = costs.memory(first, lasts, behind) <= room[stages - 1 - behind]
        return numpy.where(fits, costs.cycles(first, lasts).astype(float), numpy.inf)

    def missing(first, lasts, behind):
        return costs.memory(first, lasts, behind).astype(float) - room[stages - 1 - behind]

    found = _smallest_largest(costs, stages, of_fitting)
    if found is not None:
        return found, True
    found = _smallest_largest(costs, stages, missing)
    assert found is not None  # no cost is infinite
    return found, False


def _smallest_largest(costs: Costs, stages: int, cost) -> list[int] | None:
    """Returns the stages' first parts that minimise the largest `cost(first, lasts, behind)`.

    behind: the number of stages after this one.
    """
    count = costs.count
    best = numpy.full(count + 1, numpy.inf)
    best[0] = -numpy.inf
    chosen = numpy.zeros((stages, count + 1), int)
    for k in range(stages):
        now = numpy.full(count + 1, numpy.inf)
        for first in range(k, count):
            if best[first] == numpy.inf:
                continue
            lasts = numpy.arange(first + 1, count + 1)
            largest = numpy.maximum(best[first], cost(first, lasts, stages - 1 - k))
            better = largest < now[lasts]
            now[lasts[better]] = largest[better]
            chosen[k, lasts[better]] = first
        best = now
    if best[count] == numpy.inf:
        return None
    firsts, last = [], count
    for k in reversed(range(stages)):
        last = int(chosen[k, last])
        firsts.append(last)
    return firsts[::-1]


def _ancestors(path: str) -> list[str]:
    """Splits "a.b.c" into a, a.b and a.b.c."""
    names = path.split(".") if path else []
    return [".".join(names[: i + 1]) for i in range(len(names))]


def _places(segments: list[dict], called: Container[str] | None) -> dict[int, str]:
    """Returns the outermost module that begins at each segment where a block can begin.

    called: the modules that run, unlike lists of modules; None: all.
    """
    spans: dict[str, list[int]] = {}
    for i, segment in enumerate(segments):
        for path in _ancestors(segment["module"]):
            spans.setdefault(path, []).append(i)
    tied = [False] * (len(segments) + 1)  # a cut before segment i would separate a weight's uses
    uses: dict[str, list[int]] = {}
    for i, segment in enumerate(segments):
        for name in segment["parameters"]:
            uses.setdefault(name, []).append(i)
    for where in uses.values():
        for i in range(where[0] + 1, where[-1] + 1):
            tied[i] = True
    places = {}
    for i, segment in enumerate(segments):
        for path in _ancestors(segment["module"]):
            span = spans[path]
            once = span[-1] - span[0] + 1 == len(span)  # not called again later
            runs = called is None or path in called
            if i > 0 and span[0] == i and once and not tied[i] and runs:
                places[i] = path
                break
    return places


def parts_of(
    profile: dict, weights: dict[str, int], called: Container[str] | None = None
) -> list[Part]:
    """Joins the profile's segments between the places where blocks can begin.

    weights: bytes of each parameter, without its optimiser state. called: the modules that run.
    """
    segments, states = profile["segments"], dict(profile["states"])
    places = _places(segments, called)
    starts = [0, *sorted(places)]
    seen: set[str] = set()
    parts = []
    for start, end in zip(starts, [*starts[1:], len(segments)], strict=True):
        own = segments[start:end]
        names = [n for s in own for n in s["parameters"] if n not in seen]
        names = list(dict.fromkeys(names))
        seen.update(names)
        totals = {
            key: sum(segment[key] for segment in own)
            for key in ("forward_cycles", "backward_cycles", "activation_bytes")
        }
        parts.append(
            Part(
                module=places.get(start, ""),
                weight_bytes=sum(weights.get(name, 0) for name in names),
                state_bytes=sum(states.get(name, 0) for name in names),
                boundary_bytes=own[-1]["boundary_bytes"] if own else 0,
                boundary_cycles=own[-1]["boundary_cycles"] if own else 0,
                **totals,
            )
        )
    return parts
