"""Programs of several processes: this process's place among them, and their joint operations.

Without a launcher there is one process with one replica, and everything works. No file or
connection is opened, and torch is not imported, before init() or the first collective.
"""

import importlib as _importlib
import os as _os
import sys as _sys
from typing import Any as _Any

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
from poptorch_core import versions as _versions


def synchronize() -> None:
    """Blocks until all instances have called it; within execute_on_instances, those of its set.

    Raises:
        poptorch.Error: Some instances did not call it; the message names them.
    """
    from popdist import collectives  # imports numpy

    collectives.barrier()


def __getattr__(name: str) -> _Any:
    """Imports popdist.collectives at its first use, since it needs NumPy."""
    if name == "collectives":
        return _importlib.import_module("popdist.collectives")
    raise AttributeError(f"module 'popdist' has no attribute {name!r}")


__version__ = _versions.VERSION

# The launcher's start-up file has done this, unless Python runs without such files.
_stand_ins = _os.environ.get(_instance.COMPAT)
if _stand_ins and _stand_ins not in _sys.path:
    _sys.path.append(_stand_ins)
