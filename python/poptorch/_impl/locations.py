"""Where in the user's program something happens: one rule for the lines of ops and of messages."""

import os

import poptorch_core
import torch
from poptorch_core import _torch

# What is not the user's. Options.sourceLocationExcludes adds to it.
OWN_FILES = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    os.path.dirname(poptorch_core.__file__) + os.sep,
)


def user_location() -> str:
    """ "model.py:12", with its folder: the innermost line that is the user's."""
    return _torch.user_location(OWN_FILES)
