"""PopART's loggers: names with levels, whose lines go into the compiler's log."""

from poptorch_core import _core

_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL", "OFF")


class Logger:
    """A named logger. A level of its own keeps its lines back; the log's level rules as well."""

    def __init__(self, name: str) -> None:
        self.name, self._level = name, 0

    def setLevel(self, level: str) -> None:
        """From which of "TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL", "OFF" on it writes.

        ValueError for another.
        """
        if level.upper() not in _LEVELS:
            raise ValueError(f"A logger's level is one of {_LEVELS} but {level!r} was given.")
        self._level = _LEVELS.index(level.upper())

    def _log(self, level: int, text: str) -> None:
        if level >= self._level:
            _core.log(level, f"[{self.name}] {text}")

    def trace(self, text: str) -> None:
        """A line of the finest level."""
        self._log(0, text)

    def debug(self, text: str) -> None:
        """A line for those who look for a fault."""
        self._log(1, text)

    def info(self, text: str) -> None:
        """A line that tells what goes on."""
        self._log(2, text)

    def warn(self, text: str) -> None:
        """A line about what may be wrong."""
        self._log(3, text)

    def error(self, text: str) -> None:
        """A line about what went wrong."""
        self._log(4, text)

    def critical(self, text: str) -> None:
        """A line about what ends the program."""
        self._log(5, text)


_loggers: dict[str, Logger] = {}


def getLogger(name: str = "all") -> Logger:
    """The logger of this name; the same object each time."""
    return _loggers.setdefault(name, Logger(name))
