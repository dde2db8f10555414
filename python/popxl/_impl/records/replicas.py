"""Which replicas run a program, and which of them in this process."""

from dataclasses import dataclass
from typing import Any

from popxl.errors import popart_exception


def positive(replicas: Any) -> int:
    """ValueError unless it is a positive int."""
    if not isinstance(replicas, int) or replicas < 1:
        raise ValueError(f"replication must be a positive int but is {replicas!r}.")
    return replicas


@dataclass
class Replicas:
    """The replicas that run a program: `here` in this process, from number `first` on.

    everywhere: those of all processes, where it is distributed over several.
    """

    here: int = 1
    distributed: bool = False
    everywhere: int = 1
    first: int = 0

    @property
    def total(self) -> int:
        """Replicas of all processes."""
        return self.everywhere if self.distributed else self.here

    @property
    def instances(self) -> int:
        """Processes, with equally many replicas each."""
        return max(self.total // self.here, 1)

    @property
    def instance(self) -> int:
        """The number of this process."""
        return self.first // self.here if self.distributed else 0

    def resize(self, total: int) -> None:
        """Other numbers, of as many processes. ValueError: they cannot share so many."""
        each, rest = divmod(total, self.instances)
        if rest or not each:
            raise ValueError(
                f"{self.instances} instances cannot have {total} replicas: take a multiple."
            )
        self.first, self.everywhere, self.here = self.instance * each, total, each

    def check(self, are_enabled: bool) -> None:
        """popart_exception for numbers that cannot be. are_enabled: enableReplicatedGraphs."""
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
