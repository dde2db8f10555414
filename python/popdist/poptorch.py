"""PopTorch's options for an instance, and its rows of a batch."""

from typing import Any, NoReturn

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


def _refused(name: str) -> Any:
    def refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError(f"Cannot call `{name}` with popdist.poptorch.Options")

    refuse.__name__ = name.rpartition(".")[2]
    refuse.__doc__ = "Raises RuntimeError: the launcher decides."
    return refuse


class DistributedOptions(_Base):
    """The number of this instance, which the launcher sets."""

    disable = _refused("Distributed.disable")
    setEnvVarNames = _refused("Distributed.setEnvVarNames")
    configureProcessId = _refused("Distributed.configureProcessId")

    def __init__(self) -> None:
        super().__init__()
        number, count = getInstanceIndex(), getNumInstances()
        state_of(self).store({"distributed_process_id": number, "num_distributed_processes": count})


class Options(poptorch.Options):
    """poptorch.Options of this instance: its replicas, its number, its device.

    Setting an option that the launcher decides raises RuntimeError.

    Args:
        ipus_per_replica: The launcher's number; None takes it from the launcher.

    Raises:
        poptorch.Error: ipus_per_replica differs from the launcher's number.
    """

    useIpuId = _refused("useIpuId")
    replicationFactor = _refused("replicationFactor")

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
