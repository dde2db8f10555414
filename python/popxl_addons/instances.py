"""File access that only the first instance (process) of the current program does."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import popdist
import popxl
from popdist import collectives
from popxl._impl.records import of


def _is_alone(ir: "popxl.Ir | None") -> bool:
    return of(ir or popxl.gir()).replicas.instances == 1


def is_so_on_first_instance(condition: bool) -> bool:
    """Returns the first instance's condition, on every instance of the current program."""
    if _is_alone(None):
        return condition
    return bool(collectives.broadcast(np.array([condition]))[0])


@contextmanager
def first_instance_first(ir: "popxl.Ir | None" = None) -> Iterator[bool]:
    """Runs the block on the first instance, then on the others. Yields whether this is the first.

    Args:
        ir: The program; by default the current one.

    Raises:
        poptorch.Error: The first instance does not finish; the message names it.
    """
    if _is_alone(ir):
        yield True
        return
    is_first = of(ir or popxl.gir()).replicas.instance == 0
    if not is_first:
        popdist.synchronize()
    yield is_first
    if is_first:
        popdist.synchronize()
