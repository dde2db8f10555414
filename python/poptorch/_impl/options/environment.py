"""Environment variables: the core's table (poptorch_cpp/support/environment.cpp) and its readers.

A value that the table does not allow raises an error with the variable, the value and the allowed
values: at import if it is set then, else when it is read.
"""

import difflib
import os

from poptorch._logging import logger_of
from poptorch_core import _core
from poptorch_core.variables import whole_number

logger = logger_of(__name__)

# name, kind, doc, allowed values, (least, most), whether it has an effect
VARIABLES = _core.environment()

text = _core.environment_text  # (name, otherwise="")
flag = _core.environment_flag  # (name)
number = _core.environment_number  # (name, otherwise)
_PREFIX = "POPTORCH_"
# Variables of this project's tests and build.
_OTHERS = ("POPTORCH_LOCAL_VERSION", "POPTORCH_REWRITE_GOLDEN", "POPTORCH_TEST_STEPS",
           "POPTORCH_TORCH_VERSION")  # fmt: skip
_OTHERS_BEGIN = ("POPTORCH_FUZZ_", "POPTORCH_INTERRUPT_", "POPTORCH_KILL_")


def number_of_variable(name: str, otherwise: int, least: int) -> int:
    """Returns a whole number from a variable whose name the program chose."""
    if any(name == known for known, *_ in VARIABLES):
        return number(name, otherwise)
    return whole_number(os.environ, name, otherwise, least)


def check() -> None:
    """Raises an error for values that the table does not allow; warns about unused variables."""
    _core.check_environment()
    for name, *_, has_effect in VARIABLES:
        if not has_effect and os.environ.get(name):
            logger.warning(f"The environment variable {name} has no effect in this version")
    known = [name for name, *_ in VARIABLES]
    for name in sorted(os.environ):
        if name in (*known, *_OTHERS) or not name.startswith(_PREFIX):
            continue
        if not name.startswith(_OTHERS_BEGIN):
            close = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean {close[0]}?" if close else ""
            logger.warning(f"There is no environment variable {name}: it has no effect.{hint}")
