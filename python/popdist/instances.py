"""The getters: what the launcher has said of this process."""

from popdist.instance import is_set, this_instance


def isPopdistEnvSet() -> bool:
    """Whether poprun has started this process."""
    return is_set()


def getInstanceIndex() -> int:
    """This process's number, from 0. Raises poptorch.Error where instances differ in size."""
    return this_instance().index


def getNumInstances() -> int:
    """How many processes there are. Raises poptorch.Error where they differ in size."""
    return this_instance().count


def getNumTotalReplicas() -> int:
    """Replicas of all instances."""
    return this_instance().total_replicas


def getNumLocalReplicas() -> int:
    """Replicas of this instance."""
    return this_instance().local_replicas


def getNumIpusPerReplica() -> int:
    """IPUs of a replica."""
    return this_instance().ipus_per_replica


def getReplicaIndexOffset() -> int:
    """The number of this instance's first replica among all."""
    return this_instance().offset


def getLocalInstanceIndex() -> int:
    """This process's number among those of its host."""
    return this_instance().local_index


def checkNumIpusPerReplica(n: int) -> bool:
    """Whether a program's number of IPUs is that of the launcher."""
    return n == this_instance().ipus_per_replica


def getDeviceId(ipus_per_replica: int = 0) -> int:
    """The id of a device that has the IPUs of this instance's replicas: one for each of a host.

    ipus_per_replica: 0: those of the launcher. Raises poptorch.Error where the pool has too few.
    """
    from poptorch._impl.devices.ipu_pool import Pool, device_size
    from poptorch_core import Error

    here, pool = this_instance(), Pool.of_environment()
    size = device_size(here.local_replicas * (ipus_per_replica or here.ipus_per_replica))
    devices = sorted(pool.groups(size))
    if here.local_index >= len(devices):
        raise Error(
            f"[popdist] instance {here.local_index} of this host needs a device of {size} IPUs, "
            f"but the pool has {len(devices)} of that size ({pool.ipus} IPUs). Choose a larger "
            "one with POPTORCH_IPU_POOL, or start fewer instances."
        )
    return devices[here.local_index]
