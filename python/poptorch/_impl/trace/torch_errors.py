"""Errors of a trace that are torch's kind too, for programs which catch that."""

import contextlib
from collections.abc import Iterator

import torch
from poptorch_core import Error
from torch._subclasses.fake_tensor import DynamicOutputShapeException

_DYNAMIC = "output shape is determined at runtime"


class _PlainError(RuntimeError):
    """Keeps what torch makes of its exception, a dataclass, away from ours."""

    def __init__(self, *args: object) -> None:
        RuntimeError.__init__(self, *args)

    __repr__ = RuntimeError.__repr__
    __eq__ = RuntimeError.__eq__
    __hash__ = RuntimeError.__hash__


class DynamicShapeError(Error, _PlainError, DynamicOutputShapeException):
    """An operator whose result has as many elements as the values of its arguments say."""

    func = torch.ops.aten.nonzero.default


@contextlib.contextmanager
def as_torch_has_them() -> Iterator[None]:
    """Errors of the core that torch has a kind for leave as both."""
    try:
        yield
    except Error as error:
        if type(error) is not Error or _DYNAMIC not in error.message:
            raise
        raise DynamicShapeError(*error.args) from error.__cause__
