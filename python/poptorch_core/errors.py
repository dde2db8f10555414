"""The exceptions that PopTorch raises, also in its native modules."""

import os
import sys
from collections.abc import Sequence

_OWN = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), package) + os.sep
    for package in ("poptorch", "poptorch_core")
)
_LIBRARIES = {"torch", "numpy"}  # their lines do not help users
PYTHON_TYPE = "poptorch_py_error"
LONG_MESSAGES = "poptorch_error.log"
_MOST_LINES = 80


class Error(RuntimeError):
    """An error in the program or a misuse of the API.

    Attributes:
        message: The text without any context.
        type: The part of the stack that raised it, e.g. "poptorch_py_error", "poptorch_cpp_error".
        location: The place that raised it, as a numbered list of context frames, innermost first.
            It is empty for errors of the Python layer.
    """

    def __init__(
        self,
        message: str,
        type: str = PYTHON_TYPE,
        frames: Sequence[str] = (),
        origin: str = "",
    ) -> None:
        self.message = message
        self.type = type
        self.location = "\n".join(f"  [{i}] {frame}" for i, frame in enumerate(frames))
        self._origin = origin  # <file>:<line> in the core
        super().__init__(message, type, tuple(frames), origin)  # pickling stores these arguments

    def __str__(self) -> str:
        begin = f"In {self._origin}: " if self._origin else ""
        end = f"\nError raised in:\n{self.location}" if self.location else ""
        return f"{begin}'{self.type}': {self.message}{self._cure()}{end}"

    def _cure(self) -> str:
        return ""


class RecoverableError(Error):
    """A transient failure of the device.

    Attributes:
        recovery_action: "IPU_RESET", "LINK_RESET", "PARTITION_RESET" or "FULL_RESET".
    """

    def __init__(
        self,
        message: str,
        type: str = "poplar_recoverable_runtime_error",
        frames: Sequence[str] = (),
        origin: str = "",
        recovery_action: str = "IPU_RESET",
    ) -> None:
        super().__init__(message, type, frames, origin)
        self.recovery_action = recovery_action
        self.args = (*self.args, recovery_action)

    def _cure(self) -> str:
        return f"\nRecovery action required: {self.recovery_action}"


class UnrecoverableError(Error):
    """A lasting failure of the device: take the system out of operation."""

    def __init__(
        self,
        message: str,
        type: str = "poplar_unrecoverable_runtime_error",
        frames: Sequence[str] = (),
        origin: str = "",
    ) -> None:
        super().__init__(message, type, frames, origin)


class DependencyError(Error, ImportError):
    """A dependency of PopTorch is missing or has another version."""


def of_core(
    message: str, type: str, frames: Sequence[str], origin: str, recovery_action: str
) -> Error:
    """Returns the exception that a native module raises.

    Args:
        message: The text. If it has many lines, the file LONG_MESSAGES gets all of it.
        type: The part of the stack that raises it.
        frames: The context frames, innermost first.
        origin: <file>:<line> in the core.
        recovery_action: The action of a RecoverableError, else empty.
    """
    message = _shortened(message)
    if recovery_action:
        return RecoverableError(message, type, frames, origin, recovery_action)
    if type == "poplar_unrecoverable_runtime_error":
        return UnrecoverableError(message, type, frames, origin)
    return Error(message, type, frames, origin)


def while_tracing(message: str) -> Error:
    """Returns a tracer's error, for its Python part to raise, with the caller's line as origin."""
    caller = sys._getframe(1)
    origin = f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}"
    return Error(message, "poptorch_cpp_error", ["trace"], origin)


def listed(names: Sequence[str], most: int) -> str:
    """Returns the first names with commas, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _shortened(message: str) -> str:
    """Returns the first lines of a long message, if the file LONG_MESSAGES can be written."""
    lines = message.split("\n")
    if len(lines) <= _MOST_LINES:
        return message
    try:
        # A link would redirect the text, and a pipe would block the error until a reader comes.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(LONG_MESSAGES, flags, 0o600), "w", errors="backslashreplace") as file:
            file.write(message + "\n")
    except OSError:
        return message
    return "\n".join([*lines[:_MOST_LINES], f"See {LONG_MESSAGES} for details"])


# Exceptions of user functions inside of a program, kept until a poptorch.Error reports them.
_causes: list[tuple[str, BaseException]] = []
_MOST_CAUSES = 16


def keep_cause(raised: BaseException) -> str:
    """Keeps an exception for with_cause(), and returns its text with the line that raised it."""
    line = ""
    trace = raised.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_OWN) and not _LIBRARIES.intersection(file.split(os.sep)):
            line = f" ({file}:{trace.tb_lineno})"
        trace = trace.tb_next
    text = f"{type(raised).__name__}: {raised}"[:700] + line
    _causes[: -_MOST_CAUSES + 1] = []
    _causes.append((text, raised))
    return text


def with_cause(error: Error) -> BaseException:
    """Returns the error, with the kept exception that its message quotes as its cause, if any.

    If the kept exception is not an Exception (KeyboardInterrupt, SystemExit), returns that instead.
    """
    for entry in reversed(_causes):
        text, raised = entry
        if text in error.message:
            _causes.remove(entry)
            if not isinstance(raised, Exception):
                return raised
            error.__cause__ = raised
            break
    return error
