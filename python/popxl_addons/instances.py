"""What the instances (processes) of the current program leave to the first of them: files."""

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
    """What holds there, on every instance of the current program."""
    if _is_alone(None):
        return condition
    return bool(collectives.broadcast(np.array([condition]))[0])


@contextmanager
def first_instance_first(ir: "popxl.Ir | None" = None) -> Iterator[bool]:
    """The others wait for the first instance to be through; gives whether this is it.

    ir: the current program by default. poptorch.Error that names it, if it never is.
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
