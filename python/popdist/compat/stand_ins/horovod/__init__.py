"""A stand-in from popdist: see horovod.torch."""

from typing import Any

from popdist import compat


def __getattr__(name: str) -> Any:
    compat.refuse("horovod", name)
