"""Models of several processes: the replicas of this process, and the connection to the others.

A model of N processes with L replicas each is compiled for N·L replicas. The engine runs this
process's replicas; popdist's transport carries data between processes.
"""

from typing import Any

from poptorch._impl.devices import ipu_pool
from poptorch.options import Options
from poptorch_core import Error


def replicas_of(options: Options) -> int:
    """Returns the number of replicas in all processes."""
    return options.replication_factor * options.Distributed.numProcesses


def machine_of(options: Options) -> dict[str, int]:
    """Returns the compiler's options about all processes' replicas and the links of their IPUs."""
    from popdist import instance

    machine = {"replication_factor": replicas_of(options), "link_domain": instance.link_domain()}
    if options.Distributed.numProcesses > 1:  # PopTorch shards only within a process
        machine["sharding_replicas"] = options.replication_factor
    return machine


def share_of(options: Options, *, training: bool) -> dict[str, Any]:
    """Returns the compiler's arguments about the replicas of this process.

    The first call for a device waits for the other processes. Raises poptorch.Error if the model is
    for training and the processes are not connected; inference does not need a connection.
    """
    index, count = options.Distributed.processId, options.Distributed.numProcesses
    if count == 1:
        return {}
    share = {"instances": count, "instance": index}
    if not ipu_pool.is_online(options):  # nothing runs
        return share
    from popdist import together

    if training:
        together.adopt(index, count, options.replication_factor)
    here = together.here()
    if (here.index, here.count) != (index, count):
        if not training:
            return share
        raise Error(
            f"[processes] options.Distributed says that this is process {index} of {count}, but "
            f"popdist has {here.index} of {here.count}. So the processes are not connected, and "
            "each would train a separate model. Use the launcher's numbers, or call "
            "options.Distributed.disable()."
        )
    if len(together.members()) != count:
        raise Error(
            "[processes] within popdist.execute_on_instances a model cannot use all instances, "
            "because some of them do not take part. Call Distributed.disable() of its "
            "poptorch.Options."
        )
    return {**share, **together.joined()}
