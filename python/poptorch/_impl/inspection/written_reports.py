"""Written reports of wrapped models: their folder, and the model's part of their content."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from poptorch._impl.options import core_table
from poptorch._impl.options.group_class import differing
from poptorch._impl.wrapper import compile_log, model_classes
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._impl.wrapper.spec import Wrapped
from poptorch._logging import logger_of
from poptorch.options import Options
from poptorch.profiling import recorded
from poptorch_core.reports import asked
from poptorch_core.writable import check_writable

logger = logger_of(__name__)


def is_asked(options: Options) -> bool:
    """Returns whether options or environment request the report of a model."""
    return _asked_folder(options, lambda text: None) is not None


def folder_of(options: Options, *, training: bool) -> Path | None:
    """Returns the folder for the report of a model, or None if no report is requested.

    Raises poptorch.Error if the folder is not writable. Call it before the compilation.
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
    """Writes the report of a compiled model, then checks whether the program fits into memory.

    The report is written again when the model is destroyed or the process ends. folder: see
    folder_of().
    """
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
    """Writes the current report of a compiled model."""
    from poptorch_core.reports import recording

    about = about_of(wrapped, compiled)
    recording.write(folder, compiled.executable, about, recorded)


def about_of(wrapped: Wrapped, compiled: Compiled) -> dict[str, Any]:
    """Returns the content of reports about the model, apart from its program."""
    tensors, options = compiled.arguments.tensors, compiled.options
    batch = len(tensors[0]) if tensors and tensors[0].dim() else 0
    return {
        "name": compile_log.name_of(options, training=wrapped.training),
        "kind": "training" if wrapped.training else "inference",
        "class": model_classes.original_name(wrapped.model),
        "options": {name: repr(value) for name, value in differing(options).items()},
        "samples_per_run": batch * options.Distributed.numProcesses,  # replicas count all processes
    }
