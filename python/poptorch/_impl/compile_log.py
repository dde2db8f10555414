"""The file that Options.logDir asks for: what a compilation was given and what it made."""

from pathlib import Path

from poptorch._impl import own_folders
from poptorch._logging import logger


def model_name(executor) -> str:
    """Options.modelName, or what the wrapper is for."""
    return executor.options.model_name or ("training" if executor._training else "inference")


def check(options) -> None:
    """Raises poptorch.Error where nothing can be written into Options.logDir."""
    if options.log_dir != ".":
        own_folders.check_writable(Path(options.log_dir), "logDir")


def write(executor) -> None:
    """Writes `<logDir>/<model name>.log`, unless the folder is the default one."""
    options = executor.options
    if options.log_dir == ".":
        return
    path = Path(options.log_dir) / f"{model_name(executor)}.log"
    report = executor.report()
    lines = [
        f"model: {executor._name()}",
        f"options: {options!r}",
        f"compiled in: {executor._compile_seconds:.2f} s",
        *(f"{name}: {value}" for name, value in report.items()),
        "",
        executor.graph("placed", locations=True),
    ]
    own_folders.write_text(path, "\n".join(lines), "logDir")
    logger.debug(f"Wrote {path}")
