"""PopART's session options and devices for an instance."""

from typing import Any

import popart
from popdist.instance import is_offline, this_instance


def configureSessionOptions(options: Any) -> None:
    """Sets the options with which a program runs this instance's replicas.

    These are the local and the total number of replicas, and the number of the first.
    """
    here = this_instance()
    options.enableReplicatedGraphs = here.local_replicas > 1
    options.replicatedGraphCount = here.local_replicas
    options.enableDistributedReplicatedGraphs = here.count > 1
    options.globalReplicaOffset = here.offset
    options.globalReplicationFactor = here.total_replicas


def getDevice(
    ipus_per_replica: int = 0,
    connectionType: popart.DeviceConnectionType = popart.DeviceConnectionType.Always,
) -> popart.DeviceInfo:
    """Returns a device with the IPUs of this instance's replicas.

    Args:
        ipus_per_replica: The IPUs of a replica; 0: the launcher's number.
        connectionType: When to attach to the device.
    """
    here = this_instance()
    ipus = here.local_replicas * (ipus_per_replica or here.ipus_per_replica)
    manager = popart.DeviceManager()
    if is_offline():
        return manager.createOfflineIPUDevice({"numIPUs": ipus})
    return manager.acquireAvailableDevice(ipus, connectionType=connectionType)
