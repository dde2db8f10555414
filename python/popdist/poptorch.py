"""PopTorch's options for an instance, and its rows of a batch."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import poptorch
import torch
from popdist.instances import (
    getInstanceIndex,
    getNumInstances,
    getNumIpusPerReplica,
    getNumLocalReplicas,
    isPopdistEnvSet,
)
from poptorch._impl.data.shares import replica_rows
from poptorch._impl.options.definitions import DistributedOptions as _Base
from poptorch._impl.options.stored_values import state_of
from poptorch_core import Error


def _launchers(plain: Callable, group: str = "") -> Any:
    """Returns the method of a setting that the launcher decides, if there is a launcher.

    plain: the method of poptorch.Options, or of the group that an error names.
    """

    @wraps(plain)
    def set_or_refuse(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if isPopdistEnvSet():
            name = group + plain.__name__
            # PopTorch's own message, which programs compare.
            raise RuntimeError(f"Cannot call `{name}` with popdist.poptorch.Options")
        return plain(self, *arguments, **keywords)

    set_or_refuse.__doc__ = f"{plain.__doc__}\n\nRaises RuntimeError if a launcher decides it."
    return set_or_refuse


class DistributedOptions(_Base):
    """The number of this instance, which the launcher sets."""

    disable = _launchers(_Base.disable, "Distributed.")
    setEnvVarNames = _launchers(_Base.setEnvVarNames, "Distributed.")
    configureProcessId = _launchers(_Base.configureProcessId, "Distributed.")

    def __init__(self) -> None:
        super().__init__()
        number, count = getInstanceIndex(), getNumInstances()
        state_of(self).store({"distributed_process_id": number, "num_distributed_processes": count})


class Options(poptorch.Options):
    """poptorch.Options of this instance: its replicas, its number, its device.

    Setting an option that the launcher decides raises RuntimeError. Without a launcher, these are
    the options of one instance, and all of them can be set.

    Args:
        ipus_per_replica: The launcher's number; None takes it from the launcher.

    Raises:
        poptorch.Error: ipus_per_replica differs from the launcher's number.
    """

    useIpuId = _launchers(poptorch.Options.useIpuId)
    replicationFactor = _launchers(poptorch.Options.replicationFactor)

    def __init__(self, ipus_per_replica: int | None = None) -> None:
        super().__init__()
        launched = getNumIpusPerReplica()
        if isPopdistEnvSet() and ipus_per_replica not in (None, launched):
            raise Error(
                f"[popdist] popdist.poptorch.Options(ipus_per_replica={ipus_per_replica}), but "
                f"the program was started with --ipus-per-replica {launched}. Make them equal."
            )
        self.Distributed = DistributedOptions()
        poptorch.Options.replicationFactor(self, getNumLocalReplicas())


def local_rows(tensor: torch.Tensor, options: poptorch.Options) -> torch.Tensor:
    """Returns this instance's rows of a global batch.

    Each replica gets the rows that it would get in one process with all replicas.

    Args:
        tensor: The rows of a step of all N instances, in the order of device iterations, then
            accumulation, then replicas.
        options: The options of this instance.

    Raises:
        poptorch.Error: The rows cannot be divided equally.
    """
    process, count = options.Distributed.processId, options.Distributed.numProcesses
    rows = replica_rows(len(tensor), options, process, count)
    return tensor if count == 1 else tensor[rows]
