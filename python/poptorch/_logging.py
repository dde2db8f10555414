"""The loggers of the Python layer: `poptorch`, and below it `poptorch.compile` and others.

A default handler writes PopTorch's lines, `[HH:MM:SS.mmm] [poptorch::python] [level] text`. Level
and destination come from POPTORCH_LOG_LEVEL and POPTORCH_LOG_DEST; the core reads the same.
"""

import faulthandler
import logging
import sys
import traceback
from subprocess import CalledProcessError

import poptorch_core

TRACE = 5  # a level of Python's logging
# name: (number of setLogLevel, level of Python's logging). The hidden ones are not advertised.
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
# PopTorch's name of the same logger.
logging.root.manager.loggerDict["poptorch::python"] = logger
# By package of poptorch._impl, or public module: the last part of the logger's name.
_TOPICS = {
    "wrapper": "compile",
    "optim": "optimisers",
    "async_accessor": "data",
    "data_loader": "data",
}


def logger_of(module: str) -> logging.Logger:
    """Returns the logger of a module: `poptorch.data` of poptorch._impl.data.epochs."""
    package = module.removeprefix("poptorch._impl.").removeprefix("poptorch.").partition(".")[0]
    return logger.getChild(_TOPICS.get(package, package))


class _Formatter(logging.Formatter):
    """Formats PopTorch's lines: lower-case levels, milliseconds, colours on a terminal only."""

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
    """Lets a text through `limit` times (None: always); the last time says that it is the last."""

    def __init__(self) -> None:
        super().__init__()
        self.restart(DEFAULT_REPEATS)

    def restart(self, limit: int | None) -> None:
        """Counts anew."""
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
    """How often one text is logged from now on; None: without limit. Counts start anew."""
    _repeats.restart(limit)


def _writes_to_console(handler: logging.Handler) -> bool:
    """Whether a program's handler shows records on the terminal, as Rich's do by their console."""
    stream = getattr(handler, "stream", None)
    consoles = (sys.stderr, sys.stdout, sys.__stderr__, sys.__stdout__)
    return hasattr(handler, "console") or (stream is not None and stream in consoles)


class _Handler(logging.StreamHandler):
    """Writes to whatever sys.stderr (or sys.stdout) is at the time, so that it can be captured.

    Writes nothing while the root logger, to which records propagate, writes to the console itself.
    """

    def __init__(self, name: str) -> None:
        self.stream_name = name
        logging.Handler.__init__(self)

    def emit(self, record: logging.LogRecord) -> None:
        from poptorch_core import _core  # which _native has found to be loadable

        if logger.propagate and any(map(_writes_to_console, logging.root.handlers)):
            return
        # Not into the line of the progress bar.
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
    """Checks a level as setLogLevel takes it and gives its name.

    Raises ValueError for unknown names and numbers.
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
    """Sets the Python layer's level; gives the number that the core takes."""
    number, python_level = LEVELS[level_name(level)]
    logger.setLevel(python_level)
    return number


def setPopartLogLevel(level: str) -> None:
    """Sets the level of what the compiler says of itself, apart from setLogLevel.

    Raises ValueError for what is no level.
    """
    from poptorch import _native  # which imports this module

    _native.set_compiler_log_level(LEVELS[level_name(level)][0])


def set_up() -> None:
    """Adds the handler and follows the environment. A bad level is an error at import."""
    from poptorch_core import _core  # which _native has found to be loadable

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
    """Logs uncaught exceptions, and prints the stacks of threads when a signal such as SIGSEGV ends
    the process. A hook or handler of the program's own is kept.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = log_uncaught
    if not faulthandler.is_enabled():
        faulthandler.enable()


def log_uncaught(kind, value, traceback_) -> None:
    """An excepthook: logs the traceback, and what a failed child process wrote on stderr."""
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
