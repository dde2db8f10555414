"""poptorch.plan: chooses the cuts of a model into pipeline stages from the costs of its parts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy
import torch
from poptorch import optim
from poptorch._impl.devices import ipu_pool
from poptorch._impl.inspection import notebook
from poptorch._impl.optimisers import description
from poptorch._impl.placement.policy import BlockStart, Placement
from poptorch._impl.placement.strategies import PipelinedExecution
from poptorch._impl.trace import session
from poptorch._impl.wrapper import results
from poptorch._impl.wrapper.call_arguments import of_micro_batch
from poptorch._impl.wrapper.execution_text import optimiser_lines
from poptorch_core import Error


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


@dataclass(frozen=True)
class Stage:
    """One IPU's share: the parts first to last-1, and their costs by the model of `Costs`."""

    begins_at: str
    first: int
    last: int
    cycles: int
    weight_bytes: int
    state_bytes: int
    activation_bytes: int
    stash_bytes: int

    @property
    def memory_bytes(self) -> int:
        """All memory that the stage needs, in bytes."""
        return self.state_bytes + self.activation_bytes + self.stash_bytes


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


def best_cuts(costs: Costs, stages: int, capacity: int) -> tuple[list[int], bool]:
    """Returns the first part of every stage, and whether all stages fit into memory.

    The cuts minimise the cycles of the slowest stage, by dynamic programming over the number of
    stages. If no cut fits into `capacity` bytes an IPU, they minimise the largest stage's memory.
    """
    found = _smallest_largest(costs, stages, lambda a, b, behind: numpy.where(
        costs.memory(a, b, behind) <= capacity, costs.cycles(a, b).astype(float), numpy.inf
    ))  # fmt: skip
    if found is not None:
        return found, True
    found = _smallest_largest(
        costs, stages, lambda a, b, behind: costs.memory(a, b, behind).astype(float)
    )
    assert found is not None  # no cost is infinite
    return found, False


def _smallest_largest(costs: Costs, stages: int, cost) -> list[int] | None:
    """Returns the stages' first parts that minimise the largest `cost(first, lasts, behind)`.

    behind: the number of stages after this one.
    """
    count = costs.count
    best = numpy.full(count + 1, numpy.inf)
    best[0] = 0
    chosen = numpy.zeros((stages, count + 1), int)
    for k in range(stages):
        now = numpy.full(count + 1, numpy.inf)
        for first in range(k, count):
            if not numpy.isfinite(best[first]):
                continue
            lasts = numpy.arange(first + 1, count + 1)
            largest = numpy.maximum(best[first], cost(first, lasts, stages - 1 - k))
            better = largest < now[lasts]
            now[lasts[better]] = largest[better]
            chosen[k, lasts[better]] = first
        best = now
    if not numpy.isfinite(best[count]):
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


def _places(segments: list[dict]) -> dict[int, str]:
    """Returns the outermost module that begins at each segment where a block can begin."""
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
            if i > 0 and span[0] == i and once and not tied[i]:
                places[i] = path
                break
    return places


def parts_of(profile: dict, weights: dict[str, int]) -> list[Part]:
    """Joins the profile's segments between the places where blocks can begin.

    weights: bytes of each parameter, without its optimiser state.
    """
    segments, states = profile["segments"], dict(profile["states"])
    places = _places(segments)
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


@dataclass(frozen=True)
class Plan:
    """A division of a model into pipeline stages; str() returns a table and the lines to paste.

    Attributes:
        stages: The stages with their cycles a micro-batch and their memory in bytes.
        capacity_bytes: The memory of an IPU.
        fits: Whether all stages fit into memory.
    """

    stages: tuple[Stage, ...]
    capacity_bytes: int
    fits: bool

    @property
    def cuts(self) -> list[str]:
        """Paths of the modules at which the stages after the first begin."""
        return [stage.begins_at for stage in self.stages[1:]]

    @property
    def placement(self) -> Placement:
        """A pipeline whose stages after the first begin at the cuts."""
        begins = [BlockStart(path, str(i), i) for i, path in enumerate(self.cuts, 1)]
        return Placement(PipelinedExecution(), begins=tuple(begins))

    @property
    def lines(self) -> list[str]:
        """Python lines that cut `model`."""
        return [
            f'poptorch.BeginBlock({_expression(module)}, "{block}", ipu_id={ipu})'
            for module, block, ipu in self.placement.begins
        ]

    def apply(self, model: torch.nn.Module) -> torch.nn.Module:
        """Adds the blocks to the model, like `lines`, and returns it."""
        self.placement.annotate(model)
        return model

    def _rows(self) -> list[tuple[str, ...]]:
        """Returns the rows of the table: a head, then a row for each stage."""
        rows: list[tuple[str, ...]] = [
            ("IPU", "begins at", "weights", "state", "activations", "stash", "cycles")
        ]
        for i, stage in enumerate(self.stages):
            sizes = (stage.weight_bytes, stage.state_bytes, stage.activation_bytes)
            rows.append(
                (
                    str(i),
                    stage.begins_at or "(the start)",
                    *(_megabytes(size) for size in (*sizes, stage.stash_bytes)),
                    str(stage.cycles),
                )
            )
        return rows

    def _remarks(self) -> list[str]:
        cycles = [stage.cycles for stage in self.stages]
        slowest = cycles.index(max(cycles))
        balance = sum(cycles) / (len(cycles) * max(max(cycles), 1))
        lines = [f"slowest: IPU {slowest}; the IPUs are busy {balance:.0%} of a full pipeline"]
        if not self.fits:
            need = max(stage.memory_bytes for stage in self.stages)
            lines.append(
                f"it does not fit: {_megabytes(need)} on an IPU of "
                f"{_megabytes(self.capacity_bytes)}. Use more IPUs or a smaller micro-batch."
            )
        return lines

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(len(text) for text in column) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                text.ljust(width) if i < 2 else text.rjust(width)
                for i, (text, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        return "\n".join([*lines, *self._remarks(), "", *self.lines])

    def _repr_html_(self) -> str:
        """Returns HTML for notebooks."""
        head, *rows = self._rows()
        remarks = "".join(notebook.paragraph(text) for text in self._remarks())
        return notebook.table(head, rows) + remarks + notebook.code(self.lines)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


def _expression(path: str) -> str:
    """Converts layers.2.norm to model.layers[2].norm."""
    return "model" + re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", "." + path)


def plan(
    model: torch.nn.Module,
    inputs,
    num_ipus: int,
    *,
    training: bool | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    ipu_version: int = 2,
) -> Plan:
    """Proposes cuts of a model into a pipeline; prints and returns them.

    The cuts are between modules. They minimise the cycles of the slowest stage, by the compiler's
    cost model, among those that fit into memory. Existing blocks are ignored. Nothing runs, so
    model and inputs may be on device "meta".

    Args:
        model: The model. For training, its outputs include the loss.
        inputs: The arguments of one micro-batch: a tuple or list, or one tensor.
        num_ipus: The number of IPUs, and so of stages.
        training: Whether to plan for training. The default is the model's mode.
        optimizer: The optimiser, whose state needs memory; default SGD.
        ipu_version: The IPU version: 1, 2 or 21.

    Raises:
        poptorch.Error: The model has too few places to cut.
    """
    if callable(model) and not isinstance(model, (torch.nn.Module, type)):
        raise Error("[plan] expected a module but got a function, which has no parts to divide.")
    arguments = of_micro_batch("plan", model, inputs)
    training = model.training if training is None else training
    spec = None
    if training:
        optimizer = optimizer or optim.SGD(model.parameters(), lr=0.01)
        spec = description.describe(optimizer, model)
    recorder = results.Outputs()

    def call(tensors):
        positional, keyword = arguments.as_called(iter(tensors))
        return recorder.record(model(*positional, **keyword))

    said = {"training": training, "device": ipu_pool.VERSIONS[ipu_version]}
    lines = [("execution", "", said), *optimiser_lines(spec)]
    profile = session.profile(call, model, arguments.tensors, lines)
    weights = {name: value.numel() * value.element_size() for name, value in _parameters(model)}
    parts = parts_of(profile, weights)
    if len(parts) < num_ipus or num_ipus < 1:
        raise Error(
            f"[plan] {num_ipus} IPUs need {num_ipus - 1} cuts, but this model allows only "
            f"{len(parts) - 1} (at module boundaries across which no weight is shared). Use fewer "
            "IPUs, or divide its modules."
        )
    costs = Costs(parts, training)
    firsts, fits = best_cuts(costs, num_ipus, profile["capacity_bytes"])
    stages = []
    for k, (first, last) in enumerate(zip(firsts, [*firsts[1:], len(parts)], strict=True)):
        stages.append(
            Stage(
                begins_at=parts[first].module,
                first=first,
                last=last,
                cycles=int(costs.cycles(first, last)),
                weight_bytes=int(costs.weights[last] - costs.weights[first]),
                state_bytes=int(costs.state[last] - costs.state[first]),
                activation_bytes=int(costs.activations(first, last)),
                stash_bytes=costs.stash(first, num_ipus - 1 - k),
            )
        )
    found = Plan(tuple(stages), profile["capacity_bytes"], fits)
    print(found)
    return found


def _parameters(model: torch.nn.Module):
    return model.named_parameters(remove_duplicate=False)
