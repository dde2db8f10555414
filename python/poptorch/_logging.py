"""The loggers of the Python layer: `poptorch`, and below it `poptorch.compile` and others.

The default handler writes lines as PopTorch does: `[HH:MM:SS.mmm] [poptorch::python] [level] text`.
POPTORCH_LOG_LEVEL and POPTORCH_LOG_DEST set the level and the destination, also for the core.
"""

import faulthandler
import logging
import sys
import traceback
from subprocess import CalledProcessError

import poptorch_core

TRACE = 5  # a level of Python's logging
# Maps a name to (number in setLogLevel, level of Python's logging). Error texts omit hidden names.
LEVELS = {
    "TRACE_ALL": (-1, 1),
    "TRACE": (0, TRACE),
    "DEBUG": (1, logging.DEBUG),
    "DEBUG_IR": (1, logging.DEBUG),
    "INFO": (2, logging.INFO),
    "WARN": (3, logging.WARNING),
    "ERR": (4, logging.ERROR),
    "OFF": (6, logging.CRITICAL + 1),
}
HIDDEN = ("TRACE_ALL", "DEBUG_IR")
DEFAULT_LEVEL = "INFO"
COLOURS = {"warning": "\033[33m", "error": "\033[31m"}

DEFAULT_REPEATS = 4  # Options.maxRepeatLogs

logger = logging.getLogger("poptorch")
# The same logger is also known under PopTorch's name.
logging.root.manager.loggerDict["poptorch::python"] = logger
# Maps a package of poptorch._impl, or a public module, to the last part of its logger's name.
_TOPICS = {
    "wrapper": "compile",
    "optim": "optimisers",
    "async_accessor": "data",
    "data_loader": "data",
}


def logger_of(module: str) -> logging.Logger:
    """Returns the logger of a module, such as `poptorch.data` for poptorch._impl.data.epochs."""
    package = module.removeprefix("poptorch._impl.").removeprefix("poptorch.").partition(".")[0]
    return logger.getChild(_TOPICS.get(package, package))


class _Formatter(logging.Formatter):
    """Formats lines as PopTorch does: lower-case levels, milliseconds, colours on a terminal."""

    def __init__(self, coloured: bool) -> None:
        super().__init__(
            "[%(asctime)s.%(msecs)03d] [poptorch::python] [%(levelname)s] %(message)s", "%H:%M:%S"
        )
        self.coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        name = record.levelname
        record.levelname = name.lower()
        try:
            line = super().format(record)
        finally:
            record.levelname = name
        colour = COLOURS.get(name.lower()) if self.coloured else None
        return f"{colour}{line}\033[0m" if colour else line


class _RepeatFilter(logging.Filter):
    """Lets a text pass `limit` times (None: always). The last time, the text says so."""

    def __init__(self) -> None:
        super().__init__()
        self.restart(DEFAULT_REPEATS)

    def restart(self, limit: int | None) -> None:
        """Sets the limit, and counts again from 0."""
        self.limit = limit
        self._seen: dict[tuple[int, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if self.limit is None:
            return True
        key = record.levelno, record.getMessage()
        count = self._seen[key] = self._seen.get(key, 0) + 1
        if count == self.limit > 1:
            record.msg = f"{key[1]} (this message is not repeated any more: see maxRepeatLogs)"
            record.args = ()
        return count <= self.limit


_repeats = _RepeatFilter()


def set_repeat_limit(limit: int | None) -> None:
    """Sets how often one text is logged; None: without limit. Counts start again from 0."""
    _repeats.restart(limit)


def _writes_to_console(handler: logging.Handler) -> bool:
    """Returns whether a program's handler writes to the terminal, such as Rich's with a console."""
    stream = getattr(handler, "stream", None)
    consoles = (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)
    return hasattr(handler, "console") or (stream is not None and stream in consoles)


class _Handler(logging.StreamHandler):
    """Writes to the current sys.stderr or sys.stdout, so that programs can capture the output.

    Writes nothing while records propagate to the root logger and that one writes to the console.
    """

    def __init__(self, name: str) -> None:
        self.stream_name = name
        logging.Handler.__init__(self)

    def emit(self, record: logging.LogRecord) -> None:
        from poptorch_core import _core  # _native has checked that it loads

        if logger.propagate and any(map(_writes_to_console, logging.root.handlers)):
            return
        # A record must not continue the line of the progress bar.
        if self.stream_name == "stderr" and _core.end_open_line():
            self.stream.write("\n")
        super().emit(record)

    @property
    def stream(self):
        return getattr(sys, self.stream_name)


def _make_handler(destination: str) -> logging.Handler:
    if destination in ("stdout", "stderr"):
        console = _Handler(destination)
        console.setFormatter(_Formatter(getattr(sys, destination).isatty()))
        return console
    try:
        handler = logging.FileHandler(destination)
    except OSError as error:
        raise poptorch_core.Error(
            f"[logging] POPTORCH_LOG_DEST is {destination!r}, which cannot be written: "
            f"{error.strerror}. Set it to stderr, stdout or a file, or unset it."
        ) from None
    handler.setFormatter(_Formatter(False))
    return handler


def level_name(level: str | int) -> str:
    """Checks a level as setLogLevel takes it, and returns its name.

    Raises:
        ValueError: The name or number is unknown.
    """
    if isinstance(level, str):
        if level.upper() not in LEVELS:
            shown = sorted(set(LEVELS) - set(HIDDEN))
            valid = f"{', '.join(shown[:-1])} and {shown[-1]}"
            raise ValueError(f"Unknown log level: {level}. Valid values are {valid}")
        return level.upper()
    for name, (number, _) in LEVELS.items():
        if number == level and name not in HIDDEN:
            return name
    raise ValueError(f"Invalid log level integer: {level}")


def set_level(level: str | int) -> int:
    """Sets the level of the Python layer, and returns the number that the core takes."""
    number, python_level = LEVELS[level_name(level)]
    logger.setLevel(python_level)
    return number


def setPopartLogLevel(level: str) -> None:
    """Sets the level of the compiler's own log, which setLogLevel does not change.

    Args:
        level: The name of a level, as for setLogLevel.

    Raises:
        ValueError: The name is unknown.
    """
    from poptorch import _native  # which imports this module

    _native.set_compiler_log_level(LEVELS[level_name(level)][0])


def set_up() -> None:
    """Adds the handler, and applies the environment's settings. A wrong level is an error."""
    from poptorch_core import _core  # _native has checked that it loads

    for number, python_level in LEVELS.values():
        if number <= 0:
            logging.addLevelName(python_level, "TRACE")
    if not logger.handlers:
        handler = _make_handler(_core.environment_text("POPTORCH_LOG_DEST", "stderr"))
        handler.addFilter(_repeats)
        logger.addHandler(handler)
    if _core.environment_flag("POPTORCH_LOG_UNCAUGHT"):
        enable_crash_logs()
    level = _core.environment_text("POPTORCH_LOG_LEVEL", DEFAULT_LEVEL)
    set_level(int(level) if level.isdecimal() else level)
    _core.environment_text("POPART_LOG_LEVEL")  # the core follows it by itself


def enable_crash_logs() -> None:
    """Logs uncaught exceptions, and prints the threads' stacks when a signal ends the process.

    Such a signal is SIGSEGV. A hook or handler that the program has set stays in place.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = log_uncaught
    if not faulthandler.is_enabled():
        faulthandler.enable()


def log_uncaught(kind, value, traceback_) -> None:
    """Logs a traceback, and the stderr of a failed child process. Serves as sys.excepthook."""
    if issubclass(kind, KeyboardInterrupt) or not logger.isEnabledFor(logging.ERROR):
        sys.__excepthook__(kind, value, traceback_)
        return
    logger.error("".join(traceback.format_exception(kind, value, traceback_)).rstrip())
    written = getattr(value, "stderr", None) if issubclass(kind, CalledProcessError) else None
    if written:
        text = written.decode(errors="replace") if isinstance(written, bytes) else written
        logger.error(f"The child process wrote: {text.rstrip()}")


def warn_once(log: logging.Logger, seen: set, key, text: str) -> None:
    """Logs a warning unless `key` is in `seen`, and adds it."""
    if key not in seen:
        seen.add(key)
        log.warning(text)
