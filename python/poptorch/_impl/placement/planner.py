"""poptorch.plan: chooses the cuts of a model into pipeline stages, and proposes options."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from poptorch import optim
from poptorch._impl.inspection import given, notebook
from poptorch._impl.inspection.estimate import Estimate
from poptorch._impl.placement import planned_cuts, profiled_parts
from poptorch._impl.placement.cut_search import CutSearch, Found
from poptorch._impl.placement.part_costs import Part
from poptorch._impl.placement.policy import Placement
from poptorch._impl.placement.proposals import Proposal, Subject, proposals_for
from poptorch._impl.placement.strategies import PipelinedExecution
from poptorch.options import Options
from poptorch_core import Error

# Micro-batches of a run, where the options name none: enough to fill a pipeline.
_MICRO_BATCHES = 64


@dataclass(frozen=True)
class Stage:
    """One IPU's share: the parts first to last-1, and the figures of the compiled program.

    Cycles are those of a micro-batch, without waiting and weight updates.
    """

    begins_at: str
    first: int
    last: int
    cycles: int
    weight_bytes: int
    state_bytes: int
    activation_bytes: int
    stash_bytes: int
    code_bytes: int = 0

    @property
    def memory_bytes(self) -> int:
        """All memory that the stage needs, in bytes."""
        return self.state_bytes + self.activation_bytes + self.stash_bytes + self.code_bytes


@dataclass(frozen=True)
class Plan:
    """A division of a model into pipeline stages; str() returns a table and the lines to paste.

    Attributes:
        stages: The stages with their cycles a micro-batch and their memory in bytes.
        capacity_bytes: The memory of an IPU.
        fits: Whether all stages fit into memory.
        estimate: The estimate of the pipeline, as from poptorch.estimate.
        proposals: Changes of options with their predicted effect, the best first.
    """

    stages: tuple[Stage, ...]
    capacity_bytes: int
    fits: bool
    estimate: Estimate | None = None
    proposals: tuple[Proposal, ...] = ()

    @property
    def cuts(self) -> list[str]:
        """Paths of the modules at which the stages after the first begin."""
        return [stage.begins_at for stage in self.stages[1:]]

    @property
    def placement(self) -> Placement:
        """A pipeline whose stages after the first begin at the cuts."""
        return Placement(PipelinedExecution(), begins=planned_cuts.block_starts(self.cuts))

    @property
    def lines(self) -> list[str]:
        """Python lines that cut `model`."""
        return [
            f'poptorch.BeginBlock({_expression(module)}, "{block}", ipu_id={ipu})'
            for module, block, ipu in self.placement.begins
        ]

    def apply(self, model: torch.nn.Module) -> torch.nn.Module:
        """Adds the blocks to the model, like `lines`, and returns it.

        Args:
            model: The model that the plan was made for, or a copy of it.
        """
        self.placement.annotate(model)
        return model

    def _rows(self) -> list[tuple[str, ...]]:
        """Returns the rows of the table: a head, then a row for each stage."""
        rows: list[tuple[str, ...]] = [
            ("IPU", "begins at", "weights", "state", "activations", "stash", "code", "cycles")
        ]
        for i, stage in enumerate(self.stages):
            sizes = (stage.weight_bytes, stage.state_bytes, stage.activation_bytes,
                     stage.stash_bytes, stage.code_bytes)  # fmt: skip
            rows.append(
                (
                    str(i),
                    stage.begins_at or "(the start)",
                    *map(_megabytes, sizes),
                    str(stage.cycles),
                )
            )
        return rows

    def _remarks(self) -> list[str]:
        cycles = [stage.cycles for stage in self.stages]
        slowest = cycles.index(max(cycles))
        balance = sum(cycles) / (len(cycles) * max(max(cycles), 1))
        lines = [f"slowest: IPU {slowest}; the IPUs are busy {balance:.0%} of a full pipeline"]
        if self.estimate is not None:
            lines.append(f"predicted: {self.estimate.samples_per_second:,.1f} samples/s")
        if not self.fits:
            need = max(stage.memory_bytes for stage in self.stages)
            lines.append(
                f"it does not fit: {_megabytes(need)} on an IPU of "
                f"{_megabytes(self.capacity_bytes)}. Use more IPUs, or a proposal that fits."
            )
        return lines

    def _proposed(self) -> list[tuple[str, ...]]:
        """Returns the rows of the proposals, with a head."""
        head = ("proposal", "needs", "samples/s", "for each IPU", "fits")
        return [head, *(proposal.row() for proposal in self.proposals)]

    def __str__(self) -> str:
        lines = [*_aligned(self._rows(), texts=2), *self._remarks(), "", *self.lines]
        if self.proposals:
            lines += ["", *_aligned(self._proposed(), texts=1)]
            if self.proposals[0].is_better:
                lines += ["", f"# {self.proposals[0].change}", *self.proposals[0].lines]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Returns HTML for notebooks."""
        head, *rows = self._rows()
        remarks = "".join(notebook.paragraph(text) for text in self._remarks())
        text = notebook.table(head, rows) + remarks + notebook.code(self.lines)
        if self.proposals:
            head, *rows = self._proposed()
            text += notebook.table(head, rows)
        return text


def _aligned(rows: Sequence[Sequence[str]], texts: int) -> list[str]:
    """Returns the rows as lines. The first `texts` columns are aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if i < texts else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


def _expression(path: str) -> str:
    """Converts layers.2.norm to model.layers[2].norm."""
    return "model" + re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", "." + path)


def plan(
    model: Any,
    inputs,
    num_ipus: int,
    *,
    training: bool | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    ipu_version: int | None = None,
    options: Options | None = None,
) -> Plan:
    """Proposes cuts of a model into a pipeline, and options; prints and returns them.

    The cuts are between modules. The costs of the modules propose cuts; the programs of the best
    ones are compiled and compared as by poptorch.estimate. A pipeline that fits precedes one that
    does not; else the faster one wins. Existing blocks are ignored. Nothing runs, so model and
    inputs may be on device "meta".

    The options that are proposed concern recomputation, the pattern of synchronisation, the
    optimiser's state, the micro-batch and the replicas. Each comes with its estimate.

    Args:
        model: The model, or a wrapper, whose options, optimiser and kind are then the defaults.
            For training, its outputs include the loss.
        inputs: The arguments of one micro-batch: a tuple or list, or one tensor.
        num_ipus: The number of IPUs, and so of stages: 1 or more.
        training: Whether to plan for training. The default is the model's mode.
        optimizer: The optimiser, whose state needs memory; default SGD.
        ipu_version: The IPU version: 1, 2 or 21. The default is that of the options, or 2.
        options: The options, which are not changed. If they have one micro-batch a run, the plan is
            made for 64.

    Raises:
        AssertionError: There are too many inputs, or an option is invalid.
        poptorch.Error: An argument has a wrong type or value, the model cannot be compiled, or it
            has too few places to cut.
    """
    given.check_count("plan", "num_ipus", num_ipus)
    given.check_training("plan", training)
    given.check_options("plan", options)
    model, options, training, optimizer = given.of_wrapper(model, options, training, optimizer)
    if callable(model) and not isinstance(model, (torch.nn.Module, type)):
        raise Error("[plan] expected a module but got a function, which has no parts to divide.")
    training = getattr(model, "training", False) if training is None else training
    if training and optimizer is None and isinstance(model, torch.nn.Module):
        optimizer = optim.SGD(model.parameters(), lr=0.01)
    chosen = _options_of(options, ipu_version, training)
    parts, capacity = profiled_parts.profile(model, inputs, chosen, optimizer, training=training)
    if len(parts) < num_ipus:
        raise Error(
            f"[plan] {num_ipus} IPUs need {num_ipus - 1} cuts, but this model allows only "
            f"{len(parts) - 1} (at module boundaries across which no weight is shared). Use fewer "
            "IPUs, or divide its modules."
        )
    subject = Subject(model, inputs, chosen, training, optimizer)

    def estimated(firsts: Sequence[int]) -> Estimate:
        return subject.estimate([parts[first].module for first in firsts[1:]])

    found = CutSearch(parts, num_ipus, training, capacity, estimated).run()
    if not found.is_whole:
        raise Error(
            f"[plan] {num_ipus} IPUs are too many: a stage would be without ops. Use fewer IPUs."
        )
    stages = _stages(found, parts)
    proposals = proposals_for(subject, [stage.begins_at for stage in stages[1:]], found.estimate)
    made = Plan(stages, capacity, found.estimate.fits, found.estimate, proposals)
    print(made)
    return made


def _options_of(options: Options | None, ipu_version: int | None, training: bool) -> Options:
    """Returns a copy of the options, for an offline machine and several micro-batches a run."""
    made = Options() if options is None else options.clone()
    if ipu_version is not None or options is None:
        made.useOfflineIpuTarget(2 if ipu_version is None else ipu_version)
    if training and made.Training.gradient_accumulation == 1:
        made.Training.gradientAccumulation(_MICRO_BATCHES)
    elif not training and made.device_iterations == 1:
        made.deviceIterations(_MICRO_BATCHES)
    return made


def _stages(found: Found, parts: Sequence[Part]) -> tuple[Stage, ...]:
    lasts = [*found.firsts[1:], len(parts)]
    return tuple(
        Stage(
            begins_at=parts[first].module,
            first=first,
            last=last,
            cycles=cycles,
            weight_bytes=figures["weight_bytes"],
            state_bytes=ipu.state_bytes,
            activation_bytes=ipu.arena_bytes,
            stash_bytes=ipu.stash_bytes,
            code_bytes=ipu.code_bytes,
        )
        for first, last, cycles, ipu, figures in zip(
            found.firsts, lasts, found.cycles, found.estimate.ipus, found.estimate.report["ipus"],
            strict=True,
        )
    )  # fmt: skip
