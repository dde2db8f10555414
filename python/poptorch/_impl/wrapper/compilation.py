"""Compilation of a wrapped model: checks, the description for the compiler, and the trace."""

from typing import Any

import torch
from poptorch import _native
from poptorch._impl.devices import ipu_pool, processes
from poptorch._impl.inspection import written_reports
from poptorch._impl.inspection.progress import Progress
from poptorch._impl.inspection.source_lines import TellingCall
from poptorch._impl.ops import group_norms
from poptorch._impl.optimisers import foreign_parameters, popart_log, updates
from poptorch._impl.options import core_table
from poptorch._impl.options.group_class import value_of
from poptorch._impl.options.stored_values import state_of
from poptorch._impl.pytree.structures import Node
from poptorch._impl.trace import closures, session
from poptorch._impl.trace.forward_effects import ForwardEffects, twins_of
from poptorch._impl.weights import members, transfer
from poptorch._impl.wrapper import (
    anchors,
    compile_hooks,
    compile_log,
    device_binding,
    results,
    returned_weights,
)
from poptorch._impl.wrapper.call_arguments import (
    Arguments,
    check_host,
    check_weights,
    warn_about_dicts,
)
from poptorch._impl.wrapper.changed_arguments import ArgumentWatch
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._impl.wrapper.execution_text import anchor_lines, group_lines, optimiser_lines
from poptorch._impl.wrapper.host_changes import OptimiserWatch
from poptorch._impl.wrapper.spec import Wrapped
from poptorch.enums import OutputMode
from poptorch.options import Options, validate
from poptorch_core import Error


def check(wrapped: Wrapped, arguments: Arguments) -> None:
    """Raises unless the model can be compiled for arguments like these."""
    device_binding.check_target(wrapped.options)
    _check_options(wrapped)
    with TellingCall():
        _check_gradients(wrapped)
        for name, tensor in zip(_names(arguments), arguments.tensors, strict=True):
            check_host(name, tensor)
            wrapped.batching.check(name, tensor)
            if 0 in tensor.shape:
                raise Error(
                    f"Zero-sized tensors are unsupported (Got shape {list(tensor.shape)}): input "
                    f"{name}. Pass at least one element, or leave the argument out."
                )
    warn_about_dicts(arguments)
    if wrapped.module is not None:
        check_weights(wrapped.module, with_values=ipu_pool.is_online(wrapped.options))


def _check_gradients(wrapped: Wrapped) -> None:
    """Raises poptorch.Error if torch records no gradients: the trace would find none either."""
    if wrapped.training and not torch.is_grad_enabled():
        mode = "inference_mode" if torch.is_inference_mode_enabled() else "no_grad"
        raise Error(
            f"[loss] {wrapped.name} is compiled under torch.{mode}(), where no gradients are "
            "recorded, so that nothing would be trained. Make the first call outside of it."
        )


def _check_options(wrapped: Wrapped) -> None:
    options = wrapped.options
    validate(options.toDict())
    replicas = options.replication_factor
    if replicas > ipu_pool.LARGEST_PER_PROCESS and ipu_pool.is_online(options):
        raise ipu_pool.too_many(replicas)
    if wrapped.module is not None:
        transfer.check_named_buffers(wrapped)


def compiled_for(
    wrapped: Wrapped,
    optimizer: torch.optim.Optimizer | None,
    arguments: Arguments,
    *,
    positional: bool,
    separate_steps: bool = False,
) -> Compiled:
    """Traces and compiles the model for calls with arguments like these.

    positional: all arguments were positional. The host must have the newest weights.
    separate_steps: each parameter has its own number of updates on the device.
    """
    with members.listed_once():
        options, spec, watch = optimiser_of(wrapped, optimizer)
    compile_log.tell_options(options)
    compile_log.warn_of_several(options)
    recorder = results.Outputs()
    bar = state_of(options).values.get("_progress_bar")
    is_first = options.Distributed.processId == 0
    shows = is_first and value_of(options, "_show_compilation_progress_bar")
    progress = Progress(shows, bar)
    with foreign_parameters.refused_in_forward(optimizer, wrapped.module):
        lines = optimiser_lines(spec, separate_steps)
        executable = _executable(wrapped, options, lines, arguments, recorder, progress)
    if optimizer is not None:
        foreign_parameters.warn(optimizer, wrapped.trained_model)
    compile_log.tell_choices(options, executable, training=wrapped.training)
    recorder.connect(executable.outputs)
    synthetic = device_binding.synthetic_inputs(options, arguments.tensors)
    made = Compiled(
        name=wrapped.name,
        executable=executable,
        arguments=arguments,
        rebuild=returned_weights.rebuilder(recorder, executable),
        outputs=recorder,
        plain_inputs=arguments.plain(positional and synthetic is None),
        synthetic_inputs=synthetic,
        optimiser=watch,
        options=options,
        seconds=progress.seconds,
    )
    anchors.check(made)
    return made


def optimiser_of(
    wrapped: Wrapped, optimizer: torch.optim.Optimizer | None
) -> tuple[Options, dict | None, OptimiserWatch | None]:
    """Returns the options with those that the optimiser needs, its description and its watch.

    Description and watch are None without an optimiser.
    """
    options = wrapped.options
    if optimizer is None:
        return options, None, None
    spec = updates.described(optimizer, wrapped.trained_model, options)
    options = updates.with_needs(options, spec)
    popart_log.tell(optimizer, spec)
    watch = OptimiserWatch(optimizer, spec, value_of(options, "_relax_optimizer_checks"))
    return options, spec, watch


def _executable(
    wrapped: Wrapped,
    options: Options,
    optimiser: list[core_table.Line],
    arguments: Arguments,
    recorder: results.Outputs,
    progress: Progress,
) -> _native.Executable:
    groups = wrapped.groupings.of(wrapped.model)
    divided = [n for n, group in groups.items() if group.values(wrapped.groupings.replicas) > 1]

    def forward(tensors: list[torch.Tensor]) -> tuple[list[torch.Tensor], Node | None]:
        outputs = recorder if recorder.node is None else results.Outputs()  # of a second trace
        if wrapped.module is None:
            _native.freeze(closures.constants_of(wrapped.model))
        positional, keyword = arguments.as_called(iter(tensors))
        watch = ArgumentWatch([n.name for n in arguments.positional], positional, keyword)
        with wrapped.placement.recording(wrapped.model), group_norms.grouped(options):
            leaves = outputs.record(wrapped.model(*positional, **keyword))
        if wrapped.training:
            outputs.weights = returned_weights.without_former(
                returned_weights.find(leaves, wrapped.module),
                divided,
                summed=options.output_mode == OutputMode.Sum,
            )
        if outputs is recorder:
            watch.look()
        return leaves, outputs.node

    effects = ForwardEffects(wrapped.model, forward, twins_of(wrapped.model, wrapped.user_model))
    inputs = [wrapped.batching.micro_batch(tensor) for tensor in arguments.tensors]
    names = _names(arguments)
    lines = [
        execution_line(wrapped, options),
        *core_table.lines_of(options),
        *group_lines(groups),
        *anchor_lines(anchors.requests(options, names)),
        *optimiser,
    ]

    def compiled() -> _native.Executable:
        return session.compile(
            effects.traced,
            wrapped.module,
            inputs,
            lines,
            host_options(wrapped, options),
            location_excludes=value_of(options, "_source_location_excludes"),
            module_scopes=value_of(options, "_module_namescope_enabled"),
            progress=progress,
            held_by=held_by,
            broadcast_buffers=options.broadcast_buffers,
            input_names=names,
        )

    stand_ins = wrapped.groupings.stand_ins(wrapped.model)
    with compile_hooks.around_compilation(), stand_ins as held_by, progress:
        executable = compiled()
        if effects.check(
            lambda call: session.trace_again(call, wrapped.module, inputs, lines, names)
        ):
            executable = compiled()
    recorder.keep(effects)
    device_binding.warn_of_rounding(options, executable)
    return wrapped.placement.adapted(executable)


def host_options(wrapped: Wrapped, options: Options) -> dict[str, Any]:
    """Returns the compiler's options that do not describe the execution of the model."""
    said = core_table.said_by(options, "host")
    if not ipu_pool.is_online(options):  # no device is reserved, so any number of IPUs fits
        said.update(round_ipu_count=True, offline=True)
    said["late_memory_check"] = written_reports.is_asked(options)
    return {**said, **processes.share_of(options, training=wrapped.training)}


def execution_line(wrapped: Wrapped, options: Options | None = None) -> core_table.Line:
    """Returns the line that describes the execution of the model.

    options: the wrapper's options by default, or those with additions for the optimiser.
    """
    options = wrapped.options if options is None else options
    said = core_table.said_by(options, "execution")
    device = device_binding.profile_of(options)
    said.update(processes.machine_of(options))
    return "execution", "", {"training": wrapped.training, "device": device, **said}


def _names(arguments: Arguments) -> list[str]:
    return [node.name for node in arguments.tensor_nodes()]
