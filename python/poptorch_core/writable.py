"""Checks that a requested folder can be written, before long work is done for it."""

import tempfile
from pathlib import Path

from poptorch_core import Error


def check_writable(folder: Path, what: str) -> None:
    """Creates a folder if needed, and checks that it can be written.

    Args:
        folder: The folder.
        what: The tag of the error.

    Raises:
        poptorch.Error: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise cannot_write(folder, what, error) from None


def cannot_write(path: Path, what: str, error: OSError) -> Error:
    """Returns the error for a requested place that cannot be written.

    Args:
        path: The place.
        what: The tag of the error.
        error: The system's error.
    """
    return Error(
        f"[{what}] {str(path)!r} cannot be written: {error.strerror}. "
        "Choose a folder that you can write in."
    )
