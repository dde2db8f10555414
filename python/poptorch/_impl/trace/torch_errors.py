"""Errors of a trace that also have torch's type, for programs that catch it."""

import contextlib
import re
import traceback
from collections.abc import Iterator

import torch
from poptorch._impl.inspection.source_lines import OWN_FILES
from poptorch_core import Error
from torch._subclasses.fake_tensor import DynamicOutputShapeException

_DYNAMIC = "output shape is determined at runtime"


class _PlainError(RuntimeError):
    """Restores methods that torch's exception, which is a dataclass, replaces."""

    def __init__(self, *args: object) -> None:
        RuntimeError.__init__(self, *args)

    __repr__ = RuntimeError.__repr__
    __eq__ = RuntimeError.__eq__
    __hash__ = RuntimeError.__hash__


class DynamicShapeError(Error, _PlainError, DynamicOutputShapeException):
    """Raised for an operator whose output shape depends on the values of its arguments."""

    func = torch.ops.aten.nonzero.default


@contextlib.contextmanager
def as_torch_has_them() -> Iterator[None]:
    """Converts errors in the body for which torch has a type into errors of both types."""
    try:
        yield
    except Error as error:
        if type(error) is not Error or _DYNAMIC not in error.message:
            raise
        raise DynamicShapeError(*error.args) from error.__cause__


_OUT_OF_RANGE = re.compile(
    r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\]"
)


@contextlib.contextmanager
def with_remedy() -> Iterator[None]:
    """Adds a remedy and the user's line to an error about a dimension that Python code raises.

    The operators of the tracer do so by themselves (tracer/dispatch/dimension_errors.cpp).
    """
    try:
        yield
    except IndexError as error:
        found = _OUT_OF_RANGE.match(str(error))
        if found is None:
            raise
        lines = [
            f"{frame.filename}:{frame.lineno}"
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith(OWN_FILES)
        ]
        place = f" ({lines[-1]})" if lines else ""
        least, most = found.groups()
        raise Error(f"[tracer] {error}. Give one from {least} to {most}.{place}") from error
