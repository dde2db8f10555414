"""By this path programs import what reads files of wrappers: here poptorch.load and loadExecutable.

The module has nothing. Any name of it is a poptorch.Error, which says so.
"""

from typing import NoReturn

from poptorch_core import Error


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):  # Python's own questions to a module
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise Error(
        f"{__name__}.{name} is not supported by this version, whose files are not PopTorch's. Read "
        "them with poptorch.load or a wrapper's loadExecutable; `python -m poptorch file show` "
        "prints what is in one."
    )
