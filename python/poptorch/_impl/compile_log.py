"""The file that Options.logDir asks for: what a compilation was given and what it made."""

from pathlib import Path

from poptorch._impl import inspection, own_folders
from poptorch._impl.compiled import Compiled
from poptorch._logging import logger


def check(options) -> None:
    """Raises poptorch.Error where nothing can be written into Options.logDir."""
    if options.log_dir != ".":
        own_folders.check_writable(Path(options.log_dir), "logDir")


def write(compiled: Compiled, model: str) -> None:
    """Writes `<logDir>/<model name>.log`, unless the folder is the default one.

    model: what messages call it.
    """
    options = compiled.options
    if options.log_dir == ".":
        return
    name = options.model_name or ("training" if compiled.spec else "inference")
    path = Path(options.log_dir) / f"{name}.log"
    lines = [
        f"model: {model}",
        f"options: {options!r}",
        f"compiled in: {compiled.seconds:.2f} s",
        *(f"{name}: {value}" for name, value in inspection.report(compiled).items()),
        "",
        compiled.executable.text("placed", True),
    ]
    own_folders.write_text(path, "\n".join(lines), "logDir")
    logger.debug(f"Wrote {path}")
