"""Programs over several processes (instances): their connection, and data that they exchange.

Every instance compiles the program of all replicas and runs its own replicas. Every host has the
data of all replicas.
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
    """Returns the compiler's arguments for the replicas of this instance.

    The first call blocks until the other instances have called it.

    Raises:
        popart_exception: The instances are not connected.
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
            f"but it was started as {here.index} of {here.count}, so the instances cannot connect. "
            "Start it with poprun, or with `python -m popdist` under another launcher."
        )
    check_all_are_here(replicas, "A session")
    together.init()
    return {**share, **together.joined()}


def check_can_attach() -> None:
    """Raises popart_exception if the program runs with --offline-mode."""
    if instance.is_offline():
        raise popart_exception(
            "poprun was started with --offline-mode, which compiles programs and writes their "
            "reports, but does not run them."
        )


def check_all_are_here(replicas: Replicas, what: str) -> None:
    """Raises popart_exception inside popdist.execute_on_instances of fewer instances."""
    if replicas.instances > 1 and len(together.members()) < replicas.instances:
        raise popart_exception(
            f"{what} of a program of {replicas.instances} instances needs all of them, but within "
            f"popdist.execute_on_instances there are only {list(together.members())}. Call it "
            "outside, or make a program of one instance: popxl.Ir(replication=...)."
        )


def compare(replicas: Replicas, data: "Mapping[Any, np.ndarray]") -> None:
    """Warns of the first variable whose data differs between instances. All must call it."""
    if replicas.instances == 1 or not data:
        return
    from popdist import collectives

    flat = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in data.values())
    own = np.array([zlib.crc32(each.data) for each in flat], np.int64)
    digests = collectives.all_gather(own, name="variables of popxl")
    if digests.size != own.size * replicas.instances:
        return  # the programs differ, which the first run refuses
    differs = (digests.reshape(-1, own.size) != own).T
    for variable, there in zip(data, differs, strict=True):
        if there.any():
            _core.log(
                _WARNING,
                f"{variable!r} begins with other data in instance {there.argmax()} than in "
                f"instance {replicas.instance}, this one. Every instance needs the data of all "
                "replicas: draw it from the same seed, or read it from the same file.",
            )
            return


def exchanged(executable: Any, rows: np.ndarray, replicas: Sequence[int], what: str) -> np.ndarray:
    """Returns `rows`, with the rows of other instances' replicas fetched from them, in place.

    All instances must call it.

    Args:
        executable: The compiled program.
        rows: A dense array with a row for each of `replicas`.
        replicas: The numbers of the replicas.
        what: The operation, for errors.
    """
    _, here, everywhere = executable.replicas
    if here < everywhere:
        executable.exchange(rows, [replica // here for replica in replicas], what)
    return rows
