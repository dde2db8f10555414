"""Refuses PopTorch's readers of wrapper files, which programs import by this path.

The module is empty: every name raises a poptorch.Error that points to poptorch.load and
loadExecutable.
"""

from typing import NoReturn

from poptorch_core import Error


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):  # names that Python itself looks up
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise Error(
        f"{__name__}.{name} is not supported: this version's files differ from PopTorch's. Read "
        "them with poptorch.load or a wrapper's loadExecutable; `python -m poptorch file show` "
        "prints the content of a file."
    )
