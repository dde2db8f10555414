"""poptorch.explain: lists a model's ops, parameters and activations without running it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from poptorch._impl.inspection import given, notebook
from poptorch._impl.trace import session
from poptorch._impl.wrapper import results
from poptorch._impl.wrapper.call_arguments import of_micro_batch
from poptorch._impl.wrapper.executor import PoplarExecutor

# Lines of user code with the number of uses: ("model.py:42", 3).
Places = tuple[tuple[str, int], ...]

_BEHIND = " Later ops were not checked."


@dataclass(frozen=True)
class UsedOp:
    """An op of the captured graph."""

    name: str
    places: Places
    foreign: bool  # has a kernel of torch or a library instead of one for the device

    @property
    def count(self) -> int:
        """The number of uses in the graph."""
        return sum(count for _, count in self.places)


@dataclass(frozen=True)
class RefusedOp:
    """An op that is not supported, or not with these arguments; `reason` ends with a remedy."""

    name: str
    places: Places
    reason: str


@dataclass(frozen=True)
class UsedModule:
    """A module with its submodules. Parameters that modules share count in each."""

    path: str  # "" for the model
    kind: str
    parameters: int
    parameter_bytes: int
    ops: int
    activation_bytes: int  # of all results of a micro-batch, except views


@dataclass(frozen=True)
class Explanation:
    """The result of poptorch.explain(); str() returns a table.

    Attributes:
        ops: The ops, the most frequent first.
        refusals: The ops that are not supported.
        ended_by: The error that ended the capture; "" if the whole model was captured.
        modules: The modules with their parameters, activations (bytes) and numbers of ops.
    """

    ops: tuple[UsedOp, ...]
    refusals: tuple[RefusedOp, ...]
    ended_by: str
    modules: tuple[UsedModule, ...]

    @property
    def is_supported(self) -> bool:
        """Whether the whole model was captured without a refusal."""
        return not self.refusals and not self.ended_by

    def __str__(self) -> str:
        total = sum(op.count for op in self.ops)
        lines = [f"Ops: {total}, of {len(self.ops)} kinds"]
        lines += [f"{op.count:8} {op.name}  {_shown(op.places)}" for op in self.ops]
        foreign = [op for op in self.ops if op.foreign]
        if foreign:
            lines.append("Without a kernel for the device (cycles are a rough estimate)")
            lines += [f"         {op.name}  {_shown(op.places)}" for op in foreign]
            lines.append("         Replace them by other ops if speed matters.")
        if not self.is_supported:
            lines.append("Refused")
            lines += [f"         {r.name}  {_shown(r.places)}: {r.reason}" for r in self.refusals]
        if self.ended_by:
            lines.append(f"         The capture ended here: {self.ended_by}{_BEHIND}")
        lines.append("  parameters      bytes  activation bytes  ops  module")
        lines += [
            f"{m.parameters:12} {m.parameter_bytes:10} {m.activation_bytes:17} {m.ops:4}  "
            f"{m.path or 'the model'} ({m.kind})"
            for m in self.modules
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Returns HTML for notebooks."""
        refused = [(r.name, _shown(r.places), r.reason) for r in self.refusals]
        parts = [
            notebook.table(
                ("op", "count", "lines", "kernel"),
                [
                    (op.name, op.count, _shown(op.places), "a rough estimate" if op.foreign else "")
                    for op in self.ops
                ],
                f"{sum(op.count for op in self.ops)} ops of {len(self.ops)} kinds",
            )
        ]
        if refused:
            parts.append(notebook.table(("refused", "lines", "reason and remedy"), refused))
        if self.ended_by:
            parts.append(notebook.paragraph(f"The capture ended here: {self.ended_by}{_BEHIND}"))
        size = notebook.size
        rows = [
            (f"{m.path or 'the model'} ({m.kind})", f"{m.parameters:,}", size(m.parameter_bytes),
             size(m.activation_bytes), m.ops)
            for m in self.modules
        ]  # fmt: skip
        head = ("module", "parameters", "parameter size", "activations", "ops")
        return "".join([*parts, notebook.table(head, rows)])


def explain(model: Any, inputs, *, training: bool | None = None) -> Explanation:
    """Lists a model's ops, parameters and activations without compiling or running it.

    The model and its inputs may be on device "meta".

    Args:
        model: A module, a function of tensors, or a wrapper.
        inputs: The arguments of one micro-batch: a tuple or list, or one tensor.
        training: Whether to capture the model for training. The default is the model's mode.

    Returns:
        The ops with their counts, ops without a kernel for the device, refused ops with their lines
        and remedies, and parameters and activations by module.

    Raises:
        AssertionError: There are too many inputs.
        poptorch.Error: An input is missing, or is not a plain tensor of the host; or `training` is
            not a bool.

    Example:
        >>> print(poptorch.explain(model, torch.zeros(8, 3, 32, 32)))
    """
    given.check_training("explain", training)
    if isinstance(model, PoplarExecutor):
        model = model.model
    module = model if isinstance(model, torch.nn.Module) else None
    arguments = of_micro_batch("explain", model, inputs)
    recorder = results.Outputs()

    def call(tensors):
        positional, keyword = arguments.rebuild(iter(tensors))
        return recorder.record(model(*positional, **keyword))

    if training is None:
        training = module is not None and module.training
    found = session.explain(call, module, arguments.tensors, training=training)
    return Explanation(
        ops=tuple(UsedOp(op, _places(lines), foreign) for op, foreign, lines in found["ops"]),
        refusals=tuple(RefusedOp(op, _places(lines), why) for op, why, lines in found["refusals"]),
        ended_by=found["end"],
        modules=() if module is None else tuple(_sums_by_module(module, found["modules"])),
    )


def _places(by_line: dict[str, int]) -> Places:
    return tuple(by_line.items())


def _shown(places: Places, most: int = 3) -> str:
    shown = [line if count == 1 else f"{line}, {count} times" for line, count in places[:most]]
    more = len(places) - most
    return "; ".join([*shown, f"and {more} more lines"] if more > 0 else shown)


def _sums_by_module(
    model: torch.nn.Module, own: Sequence[tuple[str, int, int]]
) -> Iterable[UsedModule]:
    """Yields all modules of the model. `own`: path, ops and bytes of each without submodules."""
    for path, module in model.named_modules():
        inside = [n for n in own if not path or n[0] == path or n[0].startswith(f"{path}.")]
        weights = list(module.parameters())
        yield UsedModule(
            path=path,
            kind=type(module).__name__,
            parameters=sum(w.numel() for w in weights),
            parameter_bytes=sum(w.numel() * w.element_size() for w in weights),
            ops=sum(ops for _, ops, _ in inside),
            activation_bytes=sum(size for _, _, size in inside),
        )
