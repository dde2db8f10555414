"""A stand-in from popdist: see mpi4py.MPI."""

from typing import Any

from popdist import compat


def __getattr__(name: str) -> Any:
    compat.refuse("mpi4py", name)
