"""Lines of user code, by one rule for ops and messages."""

import contextlib
import copy
import os
from pathlib import Path

import poptorch_core
import torch
from poptorch_core import Error, _torch

# Files that are not user code. Options.sourceLocationExcludes adds to them.
OWN_FILES = (
    os.path.dirname(torch.__file__) + os.sep,
    str(Path(__file__).parents[2]) + os.sep,  # poptorch
    os.path.dirname(poptorch_core.__file__) + os.sep,
    contextlib.__file__,
    copy.__file__,
)


def user_location() -> str:
    """Returns the innermost line of user code, such as "folder/model.py:12"."""
    return _torch.user_location(OWN_FILES)


class TellingCall:
    """Context manager that adds the user's line to errors raised inside, before the model runs."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind, error: BaseException | None, _trace) -> None:
        if isinstance(error, (Error, AssertionError)):
            text = error.message if isinstance(error, Error) else str(error)
            raise type(error)(f"{text} (called at {user_location()})") from None
