"""Printing on the device, depending on the environment variable MODEL_LOG_LEVEL.

Its values are TRACE, DEBUG, INFO (the default) and WARN: output of that level or above is printed.
"""

from typing import Any

import numpy as np
import popxl
from poptorch_core import _core
from popxl import ops

_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN")


def _is_active(level: str) -> bool:
    ranks = []
    for name in (_core.environment_text("MODEL_LOG_LEVEL", "INFO"), level):
        if name.upper() not in _LEVELS:
            raise ValueError(f"A log level is one of {_LEVELS} but is {name!r}.")
        ranks.append(_LEVELS.index(name.upper()))
    return ranks[0] <= ranks[1]


def print_tensor(t: popxl.Tensor, *args: Any, level: str = "DEBUG", **kwargs: Any) -> popxl.Tensor:
    """Calls `ops.print_tensor` with these arguments if `level` is printed, else returns `t`.

    Args:
        t: The tensor.
        *args: Further positional arguments of `ops.print_tensor`.
        level: The least level at which it is printed.
        **kwargs: Keyword arguments of `ops.print_tensor`.

    Raises:
        ValueError: MODEL_LOG_LEVEL or `level` is not a level.
    """
    return ops.print_tensor(t, *args, **kwargs) if _is_active(level) else t


def print_text(text: str, num: "float | None" = None, level: str = "DEBUG") -> None:
    """Prints `text`, and a number, on stderr when the program runs, if `level` is printed.

    Args:
        text: The text.
        num: The number, printed after the text.
        level: The least level at which it is printed.

    Raises:
        ValueError: MODEL_LOG_LEVEL or `level` is not a level.
    """
    if not _is_active(level):
        return
    shown = np.zeros((0,), np.float32) if num is None else np.asarray(num)
    ops.print_tensor(popxl.constant(shown), text)
