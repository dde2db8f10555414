"""The place of one process among the instances of a program, read from environment variables.

The launcher writes the variables that this module reads: their names are defined only here.
Importing it costs almost nothing.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from poptorch_core.errors import Error
from poptorch_core.variables import whole_number

TOTAL = "POPDIST_NUM_TOTAL_REPLICAS"
LOCAL = "POPDIST_NUM_LOCAL_REPLICAS"
OFFSET = "POPDIST_REPLICA_INDEX_OFFSET"
IPUS = "POPDIST_NUM_IPUS_PER_REPLICA"
LOCAL_INDEX = "POPDIST_LOCAL_INSTANCE_INDEX"
UNIFORM = "POPDIST_UNIFORM_REPLICAS_PER_INSTANCE"
# This project's variables. STORE: where instances meet ("file:<path>", "meeting:<path>",
# "tcp://<address>:<port>", "agent://<address>:<port>"). ADDRESS: the address on which this instance
# listens; SUBNET: the network that has it. OFFLINE: whether it runs without devices.
STORE = "POPDIST_STORE"
ADDRESS = "POPDIST_ADDRESS"
SUBNET = "POPDIST_SUBNET"
OFFLINE = "POPDIST_OFFLINE_MODE"
LAUNCHER = "POPDIST_LAUNCHER"
RESTARTS = "POPDIST_RESTART_COUNT"
# For tests: this machine counts as several hosts, each with so many instances.
PER_HOST = "POPDIST_INSTANCES_PER_HOST"
# Poplar's variable: JSON, from which this module reads ipuLinkDomainSize.
TARGET = "POPLAR_TARGET_OPTIONS"
MOST_LINKED = 64
# The folder of stand-ins that is at the end of the search path.
COMPAT = "POPDIST_COMPAT"


@dataclass(frozen=True)
class Instance:
    """One of `count` processes; its replicas start at number `offset`.

    Attributes:
        local_index: Its number among the instances of its host.
        local_count: The number of instances on its host.
    """

    total_replicas: int = 1
    local_replicas: int = 1
    offset: int = 0
    ipus_per_replica: int = 1
    local_index: int = 0
    local_count: int = 1
    uniform: bool = True

    @property
    def count(self) -> int:
        """The number of all instances. Raises poptorch.Error if they differ in size."""
        self._check_uniform()
        return self.total_replicas // self.local_replicas

    @property
    def index(self) -> int:
        """This instance's number. Raises poptorch.Error if instances differ in size."""
        self._check_uniform()
        return self.offset // self.local_replicas

    def _check_uniform(self) -> None:
        even = self.total_replicas % self.local_replicas == self.offset % self.local_replicas == 0
        if not self.uniform or not even:
            raise Error(
                "[popdist] instances have no numbers if they differ in their number of replicas: "
                f"{UNIFORM} is {int(self.uniform)}, and this one has {self.local_replicas} of "
                f"{self.total_replicas} replicas, starting at {self.offset}. Start equally many "
                "replicas in each instance."
            )

    def variables(self) -> dict[str, str]:
        """Returns the variables for programs: popdist's, Open MPI's and torch.distributed's."""
        return {
            **{TOTAL: str(self.total_replicas), LOCAL: str(self.local_replicas)},
            **{OFFSET: str(self.offset), IPUS: str(self.ipus_per_replica)},
            **{LOCAL_INDEX: str(self.local_index), UNIFORM: str(int(self.uniform))},
            **dict.fromkeys(("OMPI_COMM_WORLD_SIZE", "WORLD_SIZE"), str(self.count)),
            **dict.fromkeys(("OMPI_COMM_WORLD_RANK", "RANK"), str(self.index)),
            **dict.fromkeys(
                ("OMPI_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE"), str(self.local_count)
            ),
            **dict.fromkeys(("OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK"), str(self.local_index)),
        }


def is_set(environ: Mapping[str, str] = os.environ) -> bool:
    """Returns whether a launcher has started this process."""
    return bool(environ.get(TOTAL))


def this_instance(environ: Mapping[str, str] = os.environ) -> Instance:
    """Returns the instance that the environment describes; by default one with one replica.

    Raises:
        poptorch.Error: The values contradict each other.
    """
    if not is_set(environ):
        return Instance()
    total = whole_number(environ, TOTAL, 1, least=1)
    local = whole_number(environ, LOCAL, total, least=1)
    offset = whole_number(environ, OFFSET, 0, least=0)
    if offset + local > total:
        raise Error(
            f"[environment] {OFFSET} is {offset} and {LOCAL} {local}, but there are {total} "
            f"replicas ({TOTAL}). Start the program with poprun, which sets all three."
        )
    return Instance(
        total,
        local,
        offset,
        whole_number(environ, IPUS, 1, least=1),
        whole_number(environ, LOCAL_INDEX, 0, least=0),
        whole_number(environ, "OMPI_COMM_WORLD_LOCAL_SIZE", max(total // local, 1), least=1),
        whole_number(environ, UNIFORM, 1, least=0) != 0,
    )


def runtime_folder() -> Path:
    """Returns the folder that this user's programs share, for example for poptorch's locks."""
    given = os.environ.get("XDG_RUNTIME_DIR", "")
    try:
        if os.path.isabs(given) and os.stat(given).st_uid == os.geteuid():
            return Path(given, "poptorch")
    except OSError:
        pass
    return Path(tempfile.gettempdir(), f"poptorch-{os.geteuid()}")


def note_of(meeting_file: str, index: int) -> Path:
    """Returns the path of the launcher's note on an instance, for instances that wait for it.

    The note holds its process and how it ended, in JSON: [pid, text or ""].
    """
    return Path(f"{meeting_file}.{index}")


def is_offline(environ: Mapping[str, str] = os.environ) -> bool:
    """Returns whether the program runs with --offline-mode, without devices."""
    return environ.get(OFFLINE) == "1"


def link_domain(environ: Mapping[str, str] = os.environ) -> int:
    """Returns the number of IPUs in a domain of IPU-Links; GW-Links connect domains.

    The result is MOST_LINKED if the variable is not set, or if all IPUs of the launcher are in one
    domain: programs then equal those of one process.

    Raises:
        poptorch.Error: The variable has an invalid value.
    """
    given = environ.get(TARGET, "")
    try:
        said = json.loads(given or "{}").get("ipuLinkDomainSize", MOST_LINKED)
        size = int(said)
    except (ValueError, TypeError, AttributeError):
        size = 0
    if not 1 <= size <= MOST_LINKED:
        raise Error(
            f"[environment] {TARGET} is {given!r}. Set it to a JSON object whose ipuLinkDomainSize "
            f"is 1 to {MOST_LINKED}, or unset it."
        )
    here = this_instance(environ)
    in_one = is_set(environ) and here.total_replicas * here.ipus_per_replica <= size
    return MOST_LINKED if in_one else size
