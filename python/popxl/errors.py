"""The exceptions that popxl raises besides Python's."""

from collections.abc import Iterator
from contextlib import contextmanager

from poptorch_core.errors import Error


class UndefinedValue(Exception):
    """A property is not defined yet, e.g. the IPU of a tensor without ops."""


class UnsupportedError(Error):
    """A name or form of PopXL that this implementation does not have."""


class popart_exception(Error):
    """A program that breaks a rule of the compiler, e.g. in-place writes without a fixed order."""


class poplar_application_runtime_error(Error):
    """A program that fails when it runs, e.g. because a scale of float8 is out of range."""


def unsupported(name: str, cure: str = "") -> UnsupportedError:
    """Returns the error for a name of the API that is missing here; `cure`: what to do instead."""
    api, page = "PopXL", "docs/popxl.md"
    if name.startswith("popart."):
        api, page = "PopART", "The reference of popart"
    return UnsupportedError(
        f"[popxl] {name} is part of {api} but is not implemented here. "
        f"{cure + ' ' if cure else ''}{page} lists what is missing."
    )


@contextmanager
def compiling() -> Iterator[None]:
    """Converts errors of the compiler to popart_exception, with their text and frames."""
    try:
        yield
    except Error as error:
        if type(error) is not Error:  # a failure of the device or of this package
            raise
        raise popart_exception(*error.args) from None


@contextmanager
def running() -> Iterator[None]:
    """Converts errors of the running program to poplar_application_runtime_error."""
    try:
        yield
    except Error as error:
        if type(error) is not Error:
            raise
        raise poplar_application_runtime_error(*error.args) from None


__all__ = [
    "Error",
    "UndefinedValue",
    "UnsupportedError",
    "poplar_application_runtime_error",
    "popart_exception",
]
