"""PopART's loggers: names with levels. They write to the compiler's log."""

from poptorch_core import _core

_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL", "OFF")


class Logger:
    """A named logger. Both its level and the log's level filter its lines.

    Args:
        name: The name of the logger.
    """

    def __init__(self, name: str) -> None:
        self.name, self._level = name, 0

    def setLevel(self, level: str) -> None:
        """Sets the least level: "TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL" or "OFF".

        Args:
            level: The level.

        Raises:
            ValueError: The level is another one.
        """
        if level.upper() not in _LEVELS:
            raise ValueError(f"A logger's level must be one of {_LEVELS} but is {level!r}.")
        self._level = _LEVELS.index(level.upper())

    def _log(self, level: int, text: str) -> None:
        if level >= self._level:
            _core.log(level, f"[{self.name}] {text}")

    def trace(self, text: str) -> None:
        """Logs a line of the finest level.

        Args:
            text: The text.
        """
        self._log(0, text)

    def debug(self, text: str) -> None:
        """Logs a line for debugging.

        Args:
            text: The text.
        """
        self._log(1, text)

    def info(self, text: str) -> None:
        """Logs an informational line.

        Args:
            text: The text.
        """
        self._log(2, text)

    def warn(self, text: str) -> None:
        """Logs a warning.

        Args:
            text: The text.
        """
        self._log(3, text)

    def error(self, text: str) -> None:
        """Logs an error.

        Args:
            text: The text.
        """
        self._log(4, text)

    def critical(self, text: str) -> None:
        """Logs an error that ends the program.

        Args:
            text: The text.
        """
        self._log(5, text)


_loggers: dict[str, Logger] = {}


def getLogger(name: str = "all") -> Logger:
    """Returns the logger of this name; the same object each time.

    Args:
        name: The name of the logger.
    """
    return _loggers.setdefault(name, Logger(name))
