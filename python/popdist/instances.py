"""The getters for what the launcher has set for this process."""

from popdist.instance import is_set, this_instance


def isPopdistEnvSet() -> bool:
    """Returns whether poprun has started this process."""
    return is_set()


def getInstanceIndex() -> int:
    """Returns this process's number, from 0. Raises poptorch.Error if instances differ in size."""
    return this_instance().index


def getNumInstances() -> int:
    """Returns the number of processes. Raises poptorch.Error if they differ in size."""
    return this_instance().count


def getNumTotalReplicas() -> int:
    """Returns the number of replicas of all instances."""
    return this_instance().total_replicas


def getNumLocalReplicas() -> int:
    """Returns the number of replicas of this instance."""
    return this_instance().local_replicas


def getNumIpusPerReplica() -> int:
    """Returns the number of IPUs of a replica."""
    return this_instance().ipus_per_replica


def getReplicaIndexOffset() -> int:
    """Returns the number of this instance's first replica among all replicas."""
    return this_instance().offset


def getLocalInstanceIndex() -> int:
    """Returns this process's number among those of its host."""
    return this_instance().local_index


def checkNumIpusPerReplica(n: int) -> bool:
    """Returns whether a program's number of IPUs per replica equals the launcher's.

    Args:
        n: The number of IPUs per replica.
    """
    return n == this_instance().ipus_per_replica


def getDeviceId(ipus_per_replica: int = 0) -> int:
    """Returns the id of a device for this instance's replicas; each instance of a host gets one.

    Args:
        ipus_per_replica: The IPUs of a replica; 0: the launcher's number.

    Raises:
        poptorch.Error: The pool has too few devices.
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
