"""Where in the user's program something happens."""

import sys
from pathlib import Path

import torch

_SKIPPED = tuple(str(Path(p).parent) for p in (torch.__file__, Path(__file__).parent))


def user_location() -> str:
    """ "file.py:12" of the innermost frame outside torch and poptorch."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_SKIPPED) and not name.startswith("<frozen"):
            return f"{Path(name).name}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown line"
