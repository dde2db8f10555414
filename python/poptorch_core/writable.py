"""Whether a folder that was asked for can be written, before long work is done for it."""

import tempfile
from pathlib import Path

from poptorch_core import Error


def check_writable(folder: Path, what: str) -> None:
    """Makes a folder if needed. Raises poptorch.Error where nothing can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise cannot_write(folder, what, error) from None


def cannot_write(path: Path, what: str, error: OSError) -> Error:
    """The error for a place that was asked for and cannot be written."""
    return Error(
        f"[{what}] {str(path)!r} cannot be written: {error.strerror}. Choose a folder of your own."
    )
