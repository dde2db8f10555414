"""What several processes make of a model: which replicas this one runs, and what joins them.

A model of N processes with L replicas each is compiled for N·L; the engine runs this process's
share of them, and what crosses between processes goes through the fabric of popdist.
"""

from typing import Any

from poptorch._impl.devices import ipu_pool
from poptorch.options import Options
from poptorch_core import Error


def replicas_of(options: Options) -> int:
    """Replicas of all processes."""
    return options.replication_factor * options.Distributed.numProcesses


def machine_of(options: Options) -> dict[str, int]:
    """What the program is told of the replicas of all processes, and of what joins their IPUs."""
    from popdist import instance

    machine = {"replication_factor": replicas_of(options), "link_domain": instance.link_domain()}
    if options.Distributed.numProcesses > 1:  # PopTorch's shards stay within a process
        machine["sharding_replicas"] = options.replication_factor
    return machine


def share_of(options: Options, *, training: bool) -> dict[str, Any]:
    """What the compiler is told, beside its options, of the replicas that run here.

    Waits for the other processes, when it is first called for a device. Raises poptorch.Error where
    nothing joins them and the model trains; what infers may do without.
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
            f"popdist knows it as {here.index} of {here.count}, so nothing joins the processes and "
            "each would train a model of its own. Take the launcher's numbers, or call "
            "options.Distributed.disable()."
        )
    if len(together.members()) != count:
        raise Error(
            "[processes] within popdist.execute_on_instances a model cannot be one of all "
            "instances, since some of them are not there. Call Distributed.disable() of "
            "poptorch.Options for it."
        )
    return {**share, **together.joined()}
