"""Programs of several processes: what this one is among them, and what they do together.

Without a launcher there is one process with one replica, and everything works. Nothing is opened
before init() or the first collective, and torch is not imported before.
"""

import os as _os
import sys as _sys

from popdist import instance as _instance
from popdist.instances import (
    checkNumIpusPerReplica as checkNumIpusPerReplica,
    getDeviceId as getDeviceId,
    getInstanceIndex as getInstanceIndex,
    getLocalInstanceIndex as getLocalInstanceIndex,
    getNumInstances as getNumInstances,
    getNumIpusPerReplica as getNumIpusPerReplica,
    getNumLocalReplicas as getNumLocalReplicas,
    getNumTotalReplicas as getNumTotalReplicas,
    getReplicaIndexOffset as getReplicaIndexOffset,
    isPopdistEnvSet as isPopdistEnvSet,
)
from popdist.together import (
    execute_on_instances as execute_on_instances,
    finalizeBackend as finalizeBackend,
    init as init,
    initializeBackend as initializeBackend,
    isBackendInitialized as isBackendInitialized,
    registerBackend as registerBackend,
    registerDefaultBackend as registerDefaultBackend,
)


def synchronize() -> None:
    """Waits until all instances are here; within execute_on_instances, those of its set.

    Raises poptorch.Error that names the instances that did not come.
    """
    from popdist import collectives  # which imports numpy

    collectives.barrier()


# The launcher's start-up file has done this, unless Python was told to leave such files out.
_stand_ins = _os.environ.get(_instance.COMPAT)
if _stand_ins and _stand_ins not in _sys.path:
    _sys.path.append(_stand_ins)
