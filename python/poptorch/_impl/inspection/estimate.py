"""poptorch.estimate: the memory and the time that a model would need on a machine."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from poptorch import optim
from poptorch._impl.devices import ipu_pool
from poptorch._impl.inspection import given, program_report
from poptorch._impl.inspection.source_lines import TellingCall
from poptorch._impl.options.group_class import value_of
from poptorch._impl.wrapper import compilation, device_binding, model_classes, spec
from poptorch._impl.wrapper.call_arguments import Arguments, check_weights, of_micro_batch
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._impl.wrapper.executor import PoplarExecutor
from poptorch._impl.wrapper.state import wrapper_state
from poptorch.options import Options, validate
from poptorch_core import Error
from poptorch_core.reports.figures import Report

_BESIDE = "overlapped"  # counted in the transfers as well
_WAITED_FOR = ("host", "link")  # transfers during which all IPUs of a pipeline wait


@dataclass(frozen=True)
class IpuEstimate:
    """The memory of an IPU of each replica, and how it spends a run.

    Attributes:
        ipu: The number of the IPU in the replica.
        stages: The pipeline stages that it runs.
        needed_bytes: The memory that it needs: state, activations, stashes and code.
        state_bytes: The part for weights, buffers and the optimiser's state.
        arena_bytes: The part for activations.
        stash_bytes: The part for activations that a pipeline keeps for the backward pass.
        code_bytes: The part for code.
        capacity_bytes: The memory that it has.
        cycles: Cycles of a run, by kind: compute, link, gateway, host, streaming, idle. Time in
            which it waits for links or the host of other IPUs counts as link or host.
    """

    ipu: int
    stages: tuple[int, ...]
    needed_bytes: int
    state_bytes: int
    arena_bytes: int
    stash_bytes: int
    code_bytes: int
    capacity_bytes: int
    cycles: dict[str, int]

    @property
    def fits(self) -> bool:
        """Whether the IPU has the memory that it needs."""
        return self.needed_bytes <= self.capacity_bytes


@dataclass(frozen=True)
class Estimate:
    """The result of poptorch.estimate(); str() returns a table.

    Attributes:
        name: The model and what it is compiled for.
        device: The machine that is modelled, for example "ipu21".
        replicas: The number of replicas.
        samples_per_run: Samples that a run of the wrapped model processes, on all replicas.
        samples_per_second: Samples per second while the model runs without pauses.
        cycles_per_run: Cycles of the slowest IPU in a run.
        seconds_per_run: The time of these cycles.
        ipus: The IPUs of a replica.
        streaming_bytes: Bytes of a replica in Streaming Memory.
        streaming_capacity: Bytes of Streaming Memory that a replica has.
        shares: The shares of the time of all IPUs by kind, as in IpuEstimate.cycles.
        report: The whole report, as from PoplarExecutor.report().
    """

    name: str
    device: str
    replicas: int
    samples_per_run: int
    samples_per_second: float
    cycles_per_run: int
    seconds_per_run: float
    ipus: tuple[IpuEstimate, ...]
    streaming_bytes: int
    streaming_capacity: int
    shares: dict[str, float]
    report: Report

    @property
    def fits(self) -> bool:
        """Whether every IPU and the Streaming Memory have the memory that they need."""
        return all(ipu.fits for ipu in self.ipus) and not self._streaming_is_full

    @property
    def limiting_factor(self) -> str:
        """The reason that the model is not faster, or does not fit.

        It is "memory" or "streaming memory" if the model does not fit. Else it is the kind with the
        largest share of the time; "idle" means that IPUs wait for others.
        """
        if not all(ipu.fits for ipu in self.ipus):
            return "memory"
        if self._streaming_is_full:
            return "streaming memory"
        return max(self.shares, key=self.shares.__getitem__)

    @property
    def _streaming_is_full(self) -> bool:
        return self.streaming_bytes > self.streaming_capacity

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as a dictionary of plain values, which json.dumps() takes."""
        long = ("ipus", "report")
        own = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in long}
        return {  # short figures first, so that a reader of the text finds them
            **own,
            "fits": self.fits,
            "limiting_factor": self.limiting_factor,
            "ipus": [{**vars(ipu), "fits": ipu.fits} for ipu in self.ipus],
            "report": self.report,
        }

    def __str__(self) -> str:
        all_ipus = self.replicas * len(self.ipus)
        lines = [
            f"{self.name}: {all_ipus} IPUs ({self.device}), {self.replicas} replicas of "
            f"{len(self.ipus)}",
            f"{self.samples_per_second:,.1f} samples/s: {self.samples_per_run:,} samples in "
            f"{self.seconds_per_run:.4g} s, {self.cycles_per_run:,} cycles",
            f"Limited by {self._limit()}",
            *_table(self._rows()),
        ]
        if self.streaming_bytes:
            lines.append(
                f"Streaming Memory of a replica: {_size(self.streaming_bytes)} of "
                f"{_size(self.streaming_capacity)}"
            )
        return "\n".join(lines)

    def _limit(self) -> str:
        factor = self.limiting_factor
        if factor == "memory":
            worst = max(self.ipus, key=lambda ipu: ipu.needed_bytes - ipu.capacity_bytes)
            return (
                f"memory: IPU {worst.ipu} needs {_size(worst.needed_bytes)} but has "
                f"{_size(worst.capacity_bytes)}"
            )
        if factor == "streaming memory":
            return "Streaming Memory"
        slowest = self.report["bottleneck_stage"]
        return f"{factor}: {self.shares[factor]:.0%} of the time; the slowest stage is {slowest}"

    def _rows(self) -> list[list[str]]:
        """Returns the rows of the table, with a head; empty kinds of cycles are left out."""
        kinds = [kind for kind, share in self.shares.items() if share]
        rows = [["IPU", "stages", "needs", "of", "state", "activations", "stash", "code", *kinds]]
        for ipu in self.ipus:
            sizes = (ipu.needed_bytes, ipu.capacity_bytes, ipu.state_bytes, ipu.arena_bytes,
                     ipu.stash_bytes, ipu.code_bytes)  # fmt: skip
            total = max(sum(ipu.cycles.values()), 1)
            rows.append(
                [
                    str(ipu.ipu),
                    ", ".join(map(str, ipu.stages)),
                    *map(_size, sizes),
                    *(f"{ipu.cycles[kind] / total:.0%}" for kind in kinds),
                ]
            )
        return rows


def estimate(
    model: Any,
    inputs,
    options: Options | None = None,
    *,
    training: bool | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> Estimate:
    """Returns the memory and the throughput of a model on a machine that need not exist.

    The model is traced, differentiated, divided, scheduled and costed like a wrapped model, but
    nothing is allocated for it and nothing runs. The model and its inputs may be on device "meta".

    Args:
        model: A module, a function of tensors, or a wrapper, whose options and optimiser are then
            the defaults. For training, its outputs include the loss.
        inputs: The arguments of one micro-batch: a tuple or list, or one tensor.
        options: The options, with the version of the IPU (useOfflineIpuTarget); default
            poptorch.Options(). They are not changed.
        training: Whether to estimate training. The default is the wrapper's kind, or the model's
            mode.
        optimizer: The optimiser of training; default SGD.

    Returns:
        Samples per second, cycles, the memory of each IPU, the limiting factor and the report.

    Raises:
        AssertionError: There are too many inputs, or an option is invalid.
        poptorch.Error: An argument has a wrong type, or the model cannot be compiled. The message
            names the line of code that needs values, if there is one.

    Example:
        >>> with torch.device("meta"):
        ...     model, tokens = Model(), torch.zeros(8, 128, dtype=torch.int32)
        >>> options = poptorch.Options().useOfflineIpuTarget(21).replicationFactor(16)
        >>> print(poptorch.estimate(model, tokens, options))
    """
    given.check_training("estimate", training)
    given.check_options("estimate", options)
    model, options, training, optimizer = given.of_wrapper(model, options, training, optimizer)
    if training is None:
        training = isinstance(model, torch.nn.Module) and model.training
    with TellingCall():
        arguments = of_micro_batch("estimate", model, inputs)
    return _estimated(model, _offline(options), training, optimizer, arguments, is_micro_batch=True)


def of_call(wrapper: PoplarExecutor, args: tuple, kwargs: dict) -> Estimate:
    """Returns the estimate of a wrapper for the arguments of a call, which are a whole batch."""
    state = wrapper_state(wrapper)
    wrapped = state.wrapped
    arguments = wrapped.signature.bind(args, kwargs)
    return _estimated(
        wrapped.user_model,
        _offline(wrapped.asked),
        wrapped.training,
        state.optimizer,
        arguments,
        is_micro_batch=False,
    )


def _offline(options: Options | None) -> Options:
    """Returns a copy of the options that reserves no device and reports no lack of memory."""
    made = (options or Options()).clone()
    if ipu_pool.is_online(made):
        if value_of(made, "use_model"):
            made.useIpuModel(False)
        made.useOfflineIpuTarget(device_binding.pool_of(made).version)
    made.Emulator.memoryLimit("off")
    return made.showCompilationProgressBar(False)


def _estimated(
    model: Callable,
    options: Options,
    training: bool,
    optimizer: torch.optim.Optimizer | None,
    arguments: Arguments,
    *,
    is_micro_batch: bool,
) -> Estimate:
    wrapped = spec.wrapped(model, options, training)
    validate(wrapped.options.toDict())
    module = wrapped.module
    with contextlib.ExitStack() as stack:
        if training and module is not None:
            stack.enter_context(_plain_class(wrapped))
            if optimizer is None:
                optimizer = optim.SGD(module.parameters(), lr=0.01)
        if module is not None:
            check_weights(module, with_values=False)
        _without_values(wrapped, arguments, is_micro_batch)
        compiled = compilation.compiled_for(
            wrapped, optimizer if training else None, arguments, positional=False
        )
    rows = next((t.shape[0] for t in arguments.tensors if t.dim()), 1)
    return _figures(wrapped, compiled, rows)


@contextlib.contextmanager
def _plain_class(wrapped: spec.Wrapped):
    """Gives the copy of a model that a training wrapper wraps its original class."""
    model = wrapped.trained_model
    if model_classes.is_wrapped(model):
        model_classes.unwrap_class(model)
    yield


def _without_values(wrapped: spec.Wrapped, arguments: Arguments, is_micro_batch: bool) -> None:
    """Replaces inputs by tensors of device meta that have the rows of a whole batch."""
    factor = wrapped.batching.execution.input_factor if is_micro_batch else 1
    with TellingCall():
        for i, tensor in enumerate(arguments.tensors):
            if 0 in tensor.shape:
                raise Error(
                    f"[estimate] input {i} has shape {list(tensor.shape)}. Pass at least one "
                    "element."
                )
            shape = list(tensor.shape)
            if factor > 1:
                shape = [factor * (shape[0] if shape else 1), *shape[1:]]
            arguments.tensors[i] = torch.empty(shape, dtype=tensor.dtype, device="meta")
            wrapped.batching.check(f"{i}", arguments.tensors[i])


def _figures(wrapped: spec.Wrapped, compiled: Compiled, rows: int) -> Estimate:
    """Returns the estimate; `rows` are the samples of a call in each process."""
    report = program_report.report(compiled)
    samples = rows * report["instances"]
    stages: dict[int, list[int]] = {}
    for entry in report["stages"]:
        stages.setdefault(entry["ipu"], []).append(entry["stage"])
    ipus = []
    for number, figures in enumerate(report["ipus"]):
        said = cast(dict[str, int], figures)
        sizes = {name: said[name] for name in IpuEstimate.__annotations__ if name in said}
        cycles = _cycles_of(said)
        ipus.append(
            IpuEstimate(ipu=number, stages=tuple(stages.get(number, ())), cycles=cycles, **sizes)
        )
    total = max(sum(sum(ipu.cycles.values()) for ipu in ipus), 1)
    seconds = report["seconds_per_run"]
    return Estimate(
        name=wrapped.name,
        device=report["device"],
        replicas=report["replicas"],
        samples_per_run=samples,
        samples_per_second=samples / seconds if seconds else 0.0,
        cycles_per_run=report["cycles_per_run"],
        seconds_per_run=seconds,
        ipus=tuple(ipus),
        streaming_bytes=report["streaming_bytes"],
        streaming_capacity=report["streaming_capacity"],
        shares={
            kind: sum(ipu.cycles[kind] for ipu in ipus) / total
            for kind in (ipus[0].cycles if ipus else ())
        },
        report=report,
    )


def _cycles_of(figures: dict[str, int]) -> dict[str, int]:
    """Returns the cycles of an IPU by kind."""
    end = "_cycles"
    kinds = {name.removesuffix(end): n for name, n in figures.items() if name.endswith(end)}
    kinds.pop(_BESIDE, None)
    for kind in _WAITED_FOR:
        waited = kinds.pop(f"{kind}_wait", 0)
        kinds[kind] += waited
        kinds["idle"] -= waited
    return kinds


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count < 1e10 else f"{count / 1e9:,.1f} GB"


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in rows
    ]
