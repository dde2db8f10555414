"""Reports of wrapped models: who asks for them, and what they say beside the program."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from poptorch._impl.options import core_table
from poptorch._impl.options.group_class import differing
from poptorch._impl.wrapper import compile_log
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._impl.wrapper.spec import Wrapped
from poptorch._logging import logger_of
from poptorch.options import Options
from poptorch.profiling import recorded
from poptorch_core.reports import asked
from poptorch_core.writable import check_writable

logger = logger_of(__name__)


def is_asked(options: Options) -> bool:
    """Whether somebody asks for the report of a model with these options."""
    return _asked_folder(options, lambda text: None) is not None


def folder_of(options: Options, *, training: bool) -> Path | None:
    """Where the report of a model with these options goes; None: nobody asks for one.

    Raises poptorch.Error where it cannot be written, before anything is compiled for it.
    """
    folder = _asked_folder(options, logger.warning)
    if folder is None:
        return None
    own = compile_log.own_folder(folder, options)
    own /= compile_log.name_of(options, training=training)
    check_writable(own, "profiling")
    return own


def _asked_folder(options: Options, warn: Callable[[str], object]) -> Path | None:
    engine = options._Popart.options.get("engineOptions")
    return asked.folder(engine if isinstance(engine, dict) else {}, warn)


def begin(wrapped: Wrapped, compiled: Compiled, folder: Path | None) -> None:
    """Writes the report of what was compiled, and lets it be written again once the model is
    destroyed or the process ends. Only then is told what does not fit. folder: see folder_of."""
    if folder is not None:
        from poptorch_core.reports import recording

        about = about_of(wrapped, compiled)
        place = recording.record(
            compiled, compiled.executable, about, folder, logger.error, recorded
        )
        logger.info(f"Wrote the report of {wrapped.name} into {place}")
        limit = core_table.said_by(wrapped.options, "host").get("memory_limit", "")
        compiled.executable.check_memory(limit)


def write(wrapped: Wrapped, compiled: Compiled, folder: Path) -> None:
    """Writes the report of what is compiled, as it is now."""
    from poptorch_core.reports import recording

    about = about_of(wrapped, compiled)
    recording.write(folder, compiled.executable, about, recorded)


def about_of(wrapped: Wrapped, compiled: Compiled) -> dict[str, Any]:
    """What reports say of the model beside its program."""
    tensors, options = compiled.arguments.tensors, compiled.options
    batch = len(tensors[0]) if tensors and tensors[0].dim() else 0
    return {
        "name": compile_log.name_of(options, training=wrapped.training),
        "kind": "training" if wrapped.training else "inference",
        "class": type(wrapped.model).__name__,
        "options": {name: repr(value) for name, value in differing(options).items()},
        "samples_per_run": batch * options.Distributed.numProcesses,  # as the replicas are of all
    }
