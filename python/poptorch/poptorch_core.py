"""Provides the names of PopTorch's native module that programs use.

The native modules are in the package poptorch_core, beside poptorch.
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
    """The kinds of errors that a handler may have to distinguish: see _throwTestError."""

    __test__ = False  # pytest collects classes of such names as tests

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
    """Returns whether a model is traced at this moment."""
    return _native.is_tracing()


def _validateOptions(said: Mapping[str, Any]) -> None:
    """Raises poptorch.Error if the backend does not know an entry of Options.toDict()."""
    options.validate(said)


def setLogLevel(level: int) -> None:
    """Sets the log level as poptorch.setLogLevel does, by number.

    Args:
        level: 0, 1, 2, 3, 4 or 6.

    Raises:
        ValueError: The number is not one of these.
    """
    _native.set_log_level(_logging.set_level(level))


def _throwTestError(type: TestErrorType) -> None:
    """Raises an error of a type, as a failing device would, to test a handler."""
    name = TestErrorType(type).name
    message = f"[test] This error of type {name} was requested."
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
