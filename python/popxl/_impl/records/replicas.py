"""The replicas that run a program, and those of this process."""

from dataclasses import dataclass
from typing import Any

from popxl.errors import popart_exception


def positive(replicas: Any) -> int:
    """Returns the number. Raises ValueError unless it is a positive int."""
    if not isinstance(replicas, int) or replicas < 1:
        raise ValueError(f"replication must be a positive int but is {replicas!r}.")
    return replicas


@dataclass
class Replicas:
    """The replicas that run a program.

    Attributes:
        here: The number of replicas in this process.
        distributed: Whether the program is distributed over several processes.
        everywhere: The number of replicas in all processes of a distributed program.
        first: The number of this process's first replica.
    """

    here: int = 1
    distributed: bool = False
    everywhere: int = 1
    first: int = 0

    @property
    def total(self) -> int:
        """The number of replicas of all processes."""
        return self.everywhere if self.distributed else self.here

    @property
    def instances(self) -> int:
        """The number of processes, which have equally many replicas."""
        return max(self.total // self.here, 1)

    @property
    def instance(self) -> int:
        """The number of this process."""
        return self.first // self.here if self.distributed else 0

    def resize(self, total: int) -> None:
        """Sets the total number of replicas. Raises ValueError unless the processes divide it."""
        each, rest = divmod(total, self.instances)
        if rest or not each:
            raise ValueError(
                f"{self.instances} instances cannot have {total} replicas: use a multiple of "
                f"{self.instances}."
            )
        self.first, self.everywhere, self.here = self.instance * each, total, each

    def check(self, are_enabled: bool) -> None:
        """Raises popart_exception for invalid numbers. are_enabled: enableReplicatedGraphs."""
        if not self.distributed:
            return
        here, first, everywhere = self.here, self.first, self.everywhere
        if everywhere < 1:
            raise popart_exception(
                f"Invalid globalReplicationFactor value: {everywhere}. It is the number of "
                "replicas of all instances, 1 or more."
            )
        if first < 0:
            raise popart_exception(
                f"Invalid globalReplicaOffset value: {first}. It is the number of this instance's "
                "first replica, 0 or more."
            )
        if are_enabled and here == 1:
            raise popart_exception(
                "Local replicated graphs enabled but replication factor is 1: leave "
                "enableReplicatedGraphs off, or set replicatedGraphCount to more."
            )
        if here < 1 or everywhere % here or first % here:
            raise popart_exception(
                f"Invalid local replication factor: replicatedGraphCount is {here}, which must "
                f"divide globalReplicationFactor {everywhere} and globalReplicaOffset {first}."
            )
        if first + here > everywhere:
            raise popart_exception(
                f"Global replica offset {first} with {here} replicas here is beyond the "
                f"{everywhere} of all instances (globalReplicationFactor)."
            )
