"""The file that Options.logDir asks for: what a compilation was given and what it made."""

from pathlib import Path

from poptorch._logging import logger


def model_name(executor) -> str:
    """Options.modelName, or what the wrapper is for."""
    return executor.options.model_name or ("training" if executor._training else "inference")


def write(executor) -> None:
    """Writes `<logDir>/<model name>.log`, unless the folder is the default one."""
    options = executor.options
    if options.log_dir == ".":
        return
    path = Path(options.log_dir) / f"{model_name(executor)}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    report = executor.report()
    lines = [
        f"model: {executor._name()}",
        f"options: {options!r}",
        f"compiled in: {executor._compile_seconds:.2f} s",
        *(f"{name}: {value}" for name, value in report.items()),
        "",
        executor.graph("placed", locations=True),
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    logger.debug(f"Wrote {path}")
