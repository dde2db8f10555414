"""How a wrapped model is compiled, and with what."""

import time

import torch
from poptorch import _native
from poptorch._impl import anchors, attachment, core_options, hooks, optimiser_updates, outputs
from poptorch._impl.arguments import Arguments, check_host, check_weights, warn_about_dicts
from poptorch._impl.changes import OptimiserWatch
from poptorch._impl.compile_options import (
    anchor_lines,
    group_lines,
    optimiser_lines,
)
from poptorch._impl.compiled import Compiled
from poptorch._impl.progress import Progress
from poptorch._impl.wrapped import Wrapped
from poptorch.options import Options
from poptorch_core import Error


def check(wrapped: Wrapped, arguments: Arguments) -> None:
    """Raises unless the model can be compiled for arguments like these."""
    for name, tensor in zip(_names(arguments), arguments.tensors, strict=True):
        check_host(name, tensor)
        wrapped.batching.check(name, tensor)
        if 0 in tensor.shape:
            raise Error(
                f"Zero-sized tensors are unsupported (Got shape {list(tensor.shape)}): input "
                f"{name}."
            )
    warn_about_dicts(arguments)
    if wrapped.module is not None:
        check_weights(wrapped.module)


def compiled_for(
    wrapped: Wrapped,
    optimizer: torch.optim.Optimizer | None,
    arguments: Arguments,
    *,
    positional: bool,
) -> Compiled:
    """Traces and compiles the model for calls like the one that had these arguments.

    positional: whether that call had no others. The host must have the newest weights.
    """
    options, spec, watch = wrapped.options, None, None
    if wrapped.training:
        spec = optimiser_updates.described(optimizer, wrapped.model, options)
        options = optimiser_updates.with_needs(options, spec)
        watch = OptimiserWatch(optimizer, spec, options.relax_optimizer_attributes_checks)
    recorder = outputs.Outputs()
    start = time.perf_counter()
    executable = _executable(wrapped, options, spec, arguments, recorder)
    seconds = time.perf_counter() - start
    recorder.connect(executable.outputs)
    synthetic = attachment.synthetic_inputs(options, arguments.tensors)
    made = Compiled(
        executable=executable,
        arguments=arguments,
        rebuild=recorder.rebuilder(),
        plain_inputs=arguments.all_tensors() if positional and synthetic is None else None,
        synthetic_inputs=synthetic,
        optimiser=watch,
        options=options,
        seconds=seconds,
    )
    anchors.check(made)
    return made


def _executable(
    wrapped: Wrapped,
    options: Options,
    spec: dict | None,
    arguments: Arguments,
    recorder: outputs.Outputs,
) -> _native.Executable:
    def call(tensors):
        positional, keyword = arguments.rebuild(iter(tensors))
        with wrapped.placement.recording(wrapped.model):
            return recorder.record(wrapped.model(*positional, **keyword))

    execution = {
        "training": wrapped.training,
        "device": attachment.profile_of(options),
        **core_options.said_by(options, "execution"),
    }
    lines = [
        ("execution", "", execution),
        *core_options.lines_of(options),
        *group_lines(wrapped.groupings.of(wrapped.model)),
        *anchor_lines(anchors.requests(options, _names(arguments))),
        *optimiser_lines(spec),
    ]
    progress = Progress(options.show_compilation_progress_bar)
    finished = False
    try:
        stand_ins = wrapped.groupings.stand_ins(wrapped.model)
        with hooks.around_compilation(), stand_ins as held_by:
            executable = _native.compile_model(
                call,
                wrapped.module,
                [wrapped.batching.micro_batch(tensor) for tensor in arguments.tensors],
                lines,
                core_options.said_by(options, "host"),
                location_excludes=options.source_location_excludes,
                module_scopes=not options.disable_module_namescope,
                progress=progress,
                held_by=held_by,
            )
        finished = True
    finally:
        progress.close(finished)
    return wrapped.placement.adapted(executable)


def _names(arguments: Arguments) -> list[str]:
    return [node.name for node in arguments.tensor_nodes()]
