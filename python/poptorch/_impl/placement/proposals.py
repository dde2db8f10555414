"""Changes of the options of a planned pipeline, each with the estimate of its program."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from poptorch._impl.inspection.estimate import Estimate
from poptorch._impl.options import core_table
from poptorch._impl.options.definitions import TensorLocationSettings
from poptorch._impl.placement import planned_cuts
from poptorch.enums import SyncPattern
from poptorch.options import Options
from poptorch_core import Error
from torch.utils import _pytree as pytree

_RECOMPUTE = 3  # popart.RecomputationType.Pipeline
_REPLICAS = "replicas"  # a larger machine, which is not combined with other changes
_MORE_REPLICAS = (2, 4, 8)
_MICRO_BATCH_FACTORS = (0.5, 2, 4)
# A model that is written for one size of the batch raises one of these for another.
_REFUSALS = (Error, AssertionError, IndexError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True)
class Subject:
    """The arguments of an estimate, without the cuts."""

    model: torch.nn.Module
    inputs: Any
    options: Options
    training: bool
    optimizer: torch.optim.Optimizer | None

    def estimate(self, cuts: Sequence[str]) -> Estimate:
        """Returns the estimate of the pipeline with these cuts."""
        return planned_cuts.estimate(
            self.model,
            self.inputs,
            self.options,
            cuts,
            training=self.training,
            optimizer=self.optimizer,
        )


@dataclass(frozen=True)
class Proposal:
    """A change of the options with its predicted effect on the planned pipeline.

    Attributes:
        change: The change in words.
        lines: Python lines that make the change in `options`, or a comment on the inputs.
        estimate: The estimate of the pipeline with the change.
        speed: Samples per second of each IPU, divided by that of the plan.
        memory_bytes: The memory that the fullest IPU needs.
        memory_change: The difference of that memory from the plan's, in bytes.
        is_better: Whether it fits and the plan does not, or it is faster for each IPU.
    """

    change: str
    lines: tuple[str, ...]
    estimate: Estimate
    speed: float
    memory_bytes: int
    memory_change: int
    is_better: bool

    @property
    def fits(self) -> bool:
        """Whether every IPU and the Streaming Memory have the memory that they need."""
        return self.estimate.fits

    def row(self) -> tuple[str, ...]:
        """Returns the cells of the printed table."""
        return (
            self.change,
            f"{self.memory_bytes / 1e6:.2f} MB ({self.memory_change / 1e6:+.2f})",
            f"{self.estimate.samples_per_second:,.1f}",
            f"{self.speed - 1:+.1%}",
            "yes" if self.fits else "no",
        )


@dataclass(frozen=True)
class _Change:
    """A change in words, as lines of Python, and as a function of what is estimated."""

    kind: str  # changes of one kind exclude each other
    name: str
    lines: tuple[str, ...]
    make: Callable[[Subject], Subject | None]  # None: it is not possible


def proposals_for(
    subject: Subject, cuts: Sequence[str], estimate: Estimate
) -> tuple[Proposal, ...]:
    """Returns the proposals for a plan, the best first.

    Those that fit come first, ordered by the samples per second of each IPU; others are ordered by
    the memory that is missing. One proposal combines the changes that are better together.
    """
    changes = list(_changes(subject, estimate))
    tried = [(change, _tried(change.make(subject), cuts)) for change in changes]
    known = [(change, found) for change, found in tried if found is not None]
    known.sort(key=lambda pair: _rank(pair[1]))
    if together := _together(subject, cuts, estimate, [change for change, _ in known]):
        known.append(together)
        known.sort(key=lambda pair: _rank(pair[1]))
    return tuple(_proposal(change, found, estimate) for change, found in known)


def _together(
    subject: Subject, cuts: Sequence[str], estimate: Estimate, changes: Sequence[_Change]
) -> tuple[_Change, Estimate] | None:
    """Combines changes one by one, as long as each is better than without it."""
    best = estimate
    used: list[_Change] = []
    for change in changes:
        if change.kind in {_REPLICAS, *(other.kind for other in used)}:
            continue
        made = change.make(subject)
        found = _tried(made, cuts)
        if made is None or found is None or _rank(found) >= _rank(best):
            continue
        subject, best = made, found
        used.append(change)
    if len(used) < 2:
        return None
    lines = tuple(line for change in used for line in change.lines)
    name = " and ".join(change.name for change in used)
    return _Change("together", name, lines, lambda subject: subject), best


def _tried(subject: Subject | None, cuts: Sequence[str]) -> Estimate | None:
    if subject is None:
        return None
    try:
        return subject.estimate(cuts)
    except _REFUSALS:
        return None


def _missing(estimate: Estimate) -> int:
    streaming = max(0, estimate.streaming_bytes - estimate.streaming_capacity)
    return streaming + sum(max(0, ipu.needed_bytes - ipu.capacity_bytes) for ipu in estimate.ipus)


def _speed(estimate: Estimate) -> float:
    return estimate.samples_per_second / (estimate.replicas * len(estimate.ipus))


def _rank(estimate: Estimate) -> tuple[int, float]:
    return _missing(estimate), -_speed(estimate)


def _proposal(change: _Change, found: Estimate, base: Estimate) -> Proposal:
    def needs(estimate: Estimate) -> int:
        return max(ipu.needed_bytes for ipu in estimate.ipus)

    return Proposal(
        change=change.name,
        lines=change.lines,
        estimate=found,
        speed=_speed(found) / _speed(base) if _speed(base) else 1.0,
        memory_bytes=needs(found),
        memory_change=needs(found) - needs(base),
        is_better=_rank(found) < _rank(base),
    )


def _changes(subject: Subject, estimate: Estimate) -> Iterator[_Change]:
    if subject.training and len(estimate.ipus) > 1:
        yield _recomputation(subject)
    if len(estimate.ipus) > 1 and subject.options.sync_pattern != SyncPattern.SinglePipeline:
        yield _own_transfers()
    optimiser = sum(ipu["optimiser_bytes"] for ipu in estimate.report["ipus"])
    if subject.training and optimiser and estimate.streaming_capacity:
        yield _off_chip(sharded=False)
        if estimate.replicas > 1:
            yield _off_chip(sharded=True)
    for factor in _MICRO_BATCH_FACTORS:
        yield _micro_batch(subject, factor)
    for factor in _MORE_REPLICAS:
        yield _replicas(subject, factor * subject.options.replication_factor)


def _with_options(subject: Subject, change: Callable[[Options], Any]) -> Subject:
    options = subject.options.clone()
    change(options)
    return replace(subject, options=options)


def _recomputation(subject: Subject) -> _Change:
    recomputes = core_table.said_by(subject.options, "execution")["recompute"]
    kind = 0 if recomputes else _RECOMPUTE

    def make(subject: Subject) -> Subject:
        return _with_options(subject, lambda o: o._Popart.set("autoRecomputation", kind))

    name = "without recomputation" if recomputes else "with recomputation"
    return _Change("recompute", name, (f'options._Popart.set("autoRecomputation", {kind})',), make)


def _own_transfers() -> _Change:
    """IPUs do not wait for the transfers of others with the host."""

    def make(subject: Subject) -> Subject:
        return _with_options(subject, lambda o: o.syncPattern(SyncPattern.SinglePipeline))

    lines = ("options.syncPattern(poptorch.SyncPattern.SinglePipeline)",)
    return _Change("sync", "sync pattern SinglePipeline", lines, make)


def _off_chip(sharded: bool) -> _Change:
    def make(subject: Subject) -> Subject:
        location = TensorLocationSettings().useOnChipStorage(False)
        if sharded:
            location.useReplicatedTensorSharding(True)
        return _with_options(subject, lambda o: o.TensorLocations.setOptimizerLocation(location))

    ending = ".useReplicatedTensorSharding(True)" if sharded else ""
    lines = (
        f"location = poptorch.TensorLocationSettings().useOnChipStorage(False){ending}",
        "options.TensorLocations.setOptimizerLocation(location)",
    )
    name = "optimiser state off chip" + (" and sharded" if sharded else "")
    return _Change("optimiser", name, lines, make)


def _micro_batch(subject: Subject, factor: float) -> _Change:
    """Changes the micro-batch, and the micro-batches of a run in the opposite direction."""
    options, training = subject.options, subject.training
    count = options.Training.gradient_accumulation if training else options.device_iterations
    others = max(1, round(count / factor))

    def set_count(options: Options) -> None:
        if training:
            options.Training.gradientAccumulation(others)
        else:
            options.deviceIterations(others)

    def make(subject: Subject) -> Subject | None:
        inputs = _scaled(subject.inputs, factor)
        if inputs is None:
            return None
        return replace(_with_options(subject, set_count), inputs=inputs)

    rows = _rows(subject.inputs)
    size = int(rows * factor)
    call = "Training.gradientAccumulation" if training else "deviceIterations"
    lines = (f"# a micro-batch of {size} samples instead of {rows}", f"options.{call}({others})")
    return _Change("micro-batch", f"micro-batch {size}", lines, make)


def _replicas(subject: Subject, count: int) -> _Change:
    def make(subject: Subject) -> Subject:
        return _with_options(subject, lambda o: o.replicationFactor(count))

    return _Change(_REPLICAS, f"{count} replicas", (f"options.replicationFactor({count})",), make)


def _tensors(inputs: Any) -> list[torch.Tensor]:
    leaves = pytree.tree_leaves(inputs)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim()]


def _rows(inputs: Any) -> int:
    return next((tensor.shape[0] for tensor in _tensors(inputs)), 1)


def _scaled(inputs: Any, factor: float) -> Any:
    """Returns inputs without values whose first dimension is scaled, or None."""
    if any(tensor.shape[0] * factor % 1 for tensor in _tensors(inputs)) or not _tensors(inputs):
        return None

    def scaled(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.dim():
            return leaf
        shape = (int(leaf.shape[0] * factor), *leaf.shape[1:])
        return torch.empty(shape, dtype=leaf.dtype, device="meta")

    return pytree.tree_map(scaled, inputs)
