"""The exceptions that leave PopTorch. The native modules raise these very classes."""

from collections.abc import Sequence

PYTHON_TYPE = "poptorch_py_error"


class Error(RuntimeError):
    """An error in the program or a misuse of the API.

    message: the text without any context.
    type: the part of the stack that raised it, e.g. "poptorch_py_error", "poptorch_cpp_error".
    location: where it was raised: a numbered list of context frames, innermost first; empty for
        errors of the Python layer.
    """

    def __init__(self, message: str, type: str = PYTHON_TYPE, frames: Sequence[str] = ()) -> None:
        self.message = message
        self.type = type
        self.location = "\n".join(f"  [{i}] {frame}" for i, frame in enumerate(frames))
        super().__init__(message, type, tuple(frames))  # pickled and rebuilt from these

    def __str__(self) -> str:
        origin = f"\nError raised in:\n{self.location}" if self.location else ""
        return f"'{self.type}': {self.message}{self._cure()}{origin}"

    def _cure(self) -> str:
        return ""


class RecoverableError(Error):
    """A transient failure of the device.

    recovery_action: "IPU_RESET", "LINK_RESET", "PARTITION_RESET" or "FULL_RESET".
    """

    def __init__(
        self,
        message: str,
        type: str = "poplar_recoverable_runtime_error",
        frames: Sequence[str] = (),
        recovery_action: str = "IPU_RESET",
    ) -> None:
        super().__init__(message, type, frames)
        self.recovery_action = recovery_action
        self.args = (message, type, tuple(frames), recovery_action)

    def _cure(self) -> str:
        return f"\nRecovery action required: {self.recovery_action}"


class UnrecoverableError(Error):
    """A lasting failure of the device: take the system out of operation."""

    def __init__(
        self,
        message: str,
        type: str = "poplar_unrecoverable_runtime_error",
        frames: Sequence[str] = (),
    ) -> None:
        super().__init__(message, type, frames)


class DependencyError(Error, ImportError):
    """Something that PopTorch needs is missing or of another version."""
