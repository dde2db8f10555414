"""Where in the user's program something happens: one rule for the lines of ops and of messages."""

import contextlib
import copy
import os
from pathlib import Path

import poptorch_core
import torch
from poptorch_core import Error, _torch

# What is not the user's. Options.sourceLocationExcludes adds to it.
OWN_FILES = (
    os.path.dirname(torch.__file__) + os.sep,
    str(Path(__file__).parents[2]) + os.sep,  # poptorch
    os.path.dirname(poptorch_core.__file__) + os.sep,
    contextlib.__file__,
    copy.__file__,
)


def user_location() -> str:
    """ "model.py:12", with its folder: the innermost line that is the user's."""
    return _torch.user_location(OWN_FILES)


class TellingCall:
    """A context: what is refused inside, before the model runs, leaves with the user's line."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind, error: BaseException | None, _trace) -> None:
        if isinstance(error, (Error, AssertionError)):
            text = error.message if isinstance(error, Error) else str(error)
            raise type(error)(f"{text} (called at {user_location()})") from None
