"""What programs reach for in PopTorch's native module: errors, the log level, what is captured.

The native modules themselves are in the package of that name beside this one.
"""

import enum
import os
from collections.abc import Mapping
from typing import Any

from poptorch import _logging, _native, options
from poptorch._impl.devices.ipu_pool import ipuHardwareVersion as ipuHardwareVersion
from poptorch_core import (
    Error as Error,
    RecoverableError as RecoverableError,
    UnrecoverableError as UnrecoverableError,
)


class TestErrorType(enum.IntEnum):
    """Errors that a handler may have to tell apart: see _throwTestError."""

    __test__ = False  # pytest takes classes of such names for tests

    Poptorch = 0
    Popart = 1
    PopartInternal = 2
    Poplibs = 3
    PoplarUnrecoverable = 4
    PoplarUnknown = 5
    PoplarRecoverableFullReset = 6
    PoplarLinkError = 7


_TYPES = {
    TestErrorType.Poptorch: "poptorch_cpp_error",
    TestErrorType.Popart: "popart_exception",
    TestErrorType.PopartInternal: "popart_internal_exception",
    TestErrorType.Poplibs: "poplibs_exception",
    TestErrorType.PoplarUnrecoverable: "poplar_unrecoverable_runtime_error",
    TestErrorType.PoplarUnknown: "poplar_unknown_runtime_error",
    TestErrorType.PoplarRecoverableFullReset: "poplar_recoverable_runtime_error",
    TestErrorType.PoplarLinkError: "poplar_link_error",
}
_FRAMES = ("throwTestError::bottomLevel", "throwTestError::topLevel")


def isCompilingWithDispatcher() -> bool:
    """Whether a model is being captured just now."""
    return _native.is_tracing()


def _validateOptions(said: Mapping[str, Any]) -> None:
    """Raises poptorch.Error for what the backend does not know of Options.toDict()."""
    options.validate(said)


def setLogLevel(level: int) -> None:
    """poptorch.setLogLevel of a number: 0, 1, 2, 3, 4 or 6. Raises ValueError for others."""
    _native.set_log_level(_logging.set_level(level))


def _throwTestError(type: TestErrorType) -> None:
    """Raises an error of that type, as a failing device would, to try out a handler."""
    name = TestErrorType(type).name
    message = f"[test] an error of the kind {name}, which was asked for."
    if type == TestErrorType.PoplarLinkError:
        message += " The linker's output:\nundefined symbol: none"
    code = _throwTestError.__code__
    said: dict[str, Any] = {
        "type": _TYPES[TestErrorType(type)],
        "frames": _FRAMES,
        "origin": f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}",
    }
    if type == TestErrorType.PoplarRecoverableFullReset:
        raise RecoverableError(message, recovery_action="FULL_RESET", **said)
    if type == TestErrorType.PoplarUnrecoverable:
        raise UnrecoverableError(message, **said)
    raise Error(message, **said)
