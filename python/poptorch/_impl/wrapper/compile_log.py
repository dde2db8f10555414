"""Records of a compilation's options and results: in the log, and in the file of Options.logDir."""

import enum
import logging
from pathlib import Path
from typing import Any

from poptorch._impl.files import private_folders
from poptorch._impl.inspection import program_report
from poptorch._impl.options import core_table
from poptorch._impl.options.group_class import value_of
from poptorch._impl.placement.strategies import strategy_in
from poptorch._impl.wrapper.compiled_model import Compiled
from poptorch._logging import logger_of
from poptorch_core.writable import check_writable

logger = logger_of(__name__)


def check(options) -> None:
    """Raises poptorch.Error if Options.logDir is not writable."""
    if options.log_dir != ".":
        check_writable(Path(options.log_dir), "logDir")


def tell_options(options) -> None:
    """Logs the options of a compilation."""
    if not logger.isEnabledFor(logging.DEBUG):
        return
    for key, value in options.toDict().items():
        if isinstance(value, dict):
            for name, entry in value.items():
                logger.debug(f"poptorch.Options set {key}[{name}] to {_shown(entry)}")
        elif isinstance(value, (list, tuple, set)):
            for entry in value:
                logger.debug(f"poptorch.Options added {_shown(entry)} to {key}")
        elif isinstance(value, (bool, int, float, str)):
            logger.debug(f"poptorch.Options set {key} to value {_shown(value)}")


def warn_of_several(options) -> None:
    """Warns if each of several processes compiles because there is no executable cache."""
    if options.Distributed.numProcesses > 1 and not options.cache_path:
        logger.warning(
            "Use poptorch.Options.enableExecutableCaching() to avoid compiling the model once per "
            "process"
        )


def _shown(value: Any) -> str:
    """Formats booleans in small letters, enumerators as numbers, and floats as C++ does."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, enum.Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value)


_RECOMPUTATION_OF_PIPELINES = 3  # of popart.RecomputationType


def tell_choices(options, executable, *, training: bool) -> None:
    """Logs the settings that follow from the options and from the placement of blocks.

    Counts the phases of the strategy only: backward passes have further ones.
    """
    if not logger.isEnabledFor(logging.DEBUG):
        return
    said = core_table.said_by(options, "execution")
    strategy = said["strategy"]
    several = executable.ipus() > 1
    chosen = {"enablePipelining": int(strategy == "pipelined" and several)}
    if strategy == "pipelined":
        recomputes = several and training and said["recompute"]
        chosen["autoRecomputation"] = _RECOMPUTATION_OF_PIPELINES if recomputes else 0
    if strategy.endswith("phased"):
        chosen["executionPhaseSettings.phases"] = strategy_in(options).phase_count
    for name, value in chosen.items():
        logger.debug(f"{name} set to value {value}")


def own_folder(folder: Path, options) -> Path:
    """Returns this process's folder in one that all share, because their files have equal names."""
    process = options.Distributed.processId
    return folder / f"instance_{process}" if process else folder


def name_of(options, *, training: bool) -> str:
    """Returns the name of a model's files."""
    return value_of(options, "model_name") or ("training" if training else "inference")


def write(compiled: Compiled, model: str) -> None:
    """Writes `<logDir>/<model name>.log`, unless the folder is the default one.

    model: its name in messages.
    """
    options = compiled.options
    if options.log_dir == ".":
        return
    name = name_of(options, training=compiled.spec is not None)
    path = own_folder(Path(options.log_dir), options) / f"{name}.log"
    lines = [
        f"model: {model}",
        f"options: {options!r}",
        f"compiled in: {compiled.seconds:.2f} s",
        *(f"{name}: {value}" for name, value in program_report.report(compiled).items()),
        "",
        compiled.executable.text("placed", True),
    ]
    private_folders.write_text(path, "\n".join(lines), "logDir")
    logger.debug(f"Wrote {path}")
