"""A program over several processes, instances: what joins them, and what only together they have.

Every instance compiles the program of all replicas and runs its own; hosts have the data of all.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from popdist import instance, together
from poptorch_core import _core
from popxl._impl.records.replicas import Replicas
from popxl.errors import popart_exception

_WARNING = 3  # a level of the core's log


def share_of(replicas: Replicas) -> dict[str, Any]:
    """What the compiler is told, beside its options, of the replicas that run here.

    Waits for the other instances when it is first called. popart_exception where nothing joins
    them.
    """
    if replicas.instances == 1:
        return {}
    share = {"instances": replicas.instances, "instance": replicas.instance}
    if instance.is_offline():
        return share
    here = instance.this_instance()
    if (here.index, here.count) != (replicas.instance, replicas.instances):
        raise popart_exception(
            f"The program says that this is instance {replicas.instance} of {replicas.instances}, "
            f"but it was started as {here.index} of {here.count}, so nothing joins the instances. "
            "Start it with poprun, or with `python -m popdist` under another launcher."
        )
    check_all_are_here(replicas, "A session")
    together.init()
    return {**share, **together.joined()}


def check_can_attach() -> None:
    """popart_exception where the launcher was told to run without devices."""
    if instance.is_offline():
        raise popart_exception(
            "poprun was started with --offline-mode, in which programs are compiled and reported, "
            "but not attached and run."
        )


def check_all_are_here(replicas: Replicas, what: str) -> None:
    """popart_exception within popdist.execute_on_instances, where some instances are not."""
    if replicas.instances > 1 and len(together.members()) < replicas.instances:
        raise popart_exception(
            f"{what} of a program of {replicas.instances} instances needs all of them, but within "
            f"popdist.execute_on_instances there are only {list(together.members())}. Do it "
            "outside, or make a program of one instance: popxl.Ir(replication=...)."
        )


def compare(replicas: Replicas, data: "Mapping[Any, np.ndarray]") -> None:
    """Warns of the first variable of which instances have other data. They call it together."""
    if replicas.instances == 1 or not data:
        return
    from popdist import collectives

    flat = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in data.values())
    own = np.array([zlib.crc32(each.data) for each in flat], np.int64)
    digests = collectives.all_gather(own, name="variables of popxl")
    if digests.size != own.size * replicas.instances:
        return  # other programs, which the first run refuses
    differs = (digests.reshape(-1, own.size) != own).T
    for variable, there in zip(data, differs, strict=True):
        if there.any():
            _core.log(
                _WARNING,
                f"{variable!r} begins with other data in instance {there.argmax()} than in "
                f"instance {replicas.instance}, this one. Every instance takes the data of all "
                "replicas: draw it from one seed, or read it from one file.",
            )
            return


def exchanged(executable: Any, rows: np.ndarray, replicas: Sequence[int], what: str) -> np.ndarray:
    """Rows of replicas, each as its instance has it: those of others are put in place.

    rows: dense, one for each of `replicas`. All instances call it. what: for errors.
    """
    _, here, everywhere = executable.replicas
    if here < everywhere:
        executable.exchange(rows, [replica // here for replica in replicas], what)
    return rows
