"""Other launchers (torchrun, mpirun, srun), recognised by the variables that they set."""

import contextlib
import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from popdist import compat, instance as names
from popdist.instance import Instance, runtime_folder
from popdist.launcher import values
from poptorch_core.errors import Error
from poptorch_core.variables import whole_number


class Foreign(NamedTuple):
    """The names of a launcher's variables.

    Attributes:
        job: Variables that together identify one of its jobs.
        needs: Variables without which it is not this launcher.
        hosts: The variable with the list of hosts, if it sets one.
    """

    name: str
    size: str
    rank: str
    local_size: str
    local_rank: str
    job: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    hosts: str = ""


LAUNCHERS = (
    Foreign("torchrun", "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK",
            ("TORCHELASTIC_RUN_ID",), ("MASTER_ADDR", "MASTER_PORT")),
    Foreign("mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK", ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid")),
    # SLURM_NTASKS is also set in a batch shell, where one process runs: only a step's variables
    # count.
    Foreign("srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE",
            "SLURM_LOCALID", ("SLURM_JOB_ID", "SLURM_STEP_ID"), hosts="SLURM_STEP_NODELIST"),
    Foreign("mpiexec", "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID",
            ("PMI_JOBID",)),
)  # fmt: skip


# The program numbers its processes itself.
_BY_HAND = Foreign("configureProcessId", "", "", "", "")


def launcher_of(environ: Mapping[str, str]) -> Foreign | None:
    """Returns the launcher that has started this process and others; None without one."""
    for launcher in LAUNCHERS:
        wanted = (launcher.size, launcher.rank, *launcher.needs)
        if all(environ.get(name) for name in wanted):
            size = whole_number(environ, launcher.size, 1, least=1)
            if size > 1 or launcher.name == "torchrun":
                return launcher
    return None


def translated(
    launcher: Foreign, environ: Mapping[str, str], replicas: int, ipus: int
) -> dict[str, str]:
    """Returns the environment with the variables that poprun would set.

    Args:
        launcher: The launcher that has started this process.
        environ: The environment that it has set.
        replicas: The replicas of an instance.
        ipus: The IPUs of a replica.

    Raises:
        poptorch.Error: The variables contradict each other.
    """
    count = whole_number(environ, launcher.size, 1, least=1)
    index = whole_number(environ, launcher.rank, 0, least=0)
    if index >= count:
        raise Error(
            f"[environment] {launcher.rank} is {index}, but {launcher.size} is {count}: processes "
            "are numbered from 0. Set both to the launcher's values."
        )
    hosts = values.hosts(environ[launcher.hosts]) if environ.get(launcher.hosts) else ()
    local_count = _local_count(environ, launcher, count, len(hosts))
    local = whole_number(environ, launcher.local_rank, index % local_count, least=0)
    here = Instance(count * replicas, replicas, index * replicas, ipus, local, local_count)
    found = {**environ, **here.variables(), names.LAUNCHER: launcher.name}
    found[names.RESTARTS] = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    found.update(compat.variables(environ))
    found.update(_meeting_place(environ, launcher, here, hosts))
    return found


def instance_of(
    index: int, count: int, replicas: int, environ: Mapping[str, str] = os.environ
) -> tuple[Instance, Mapping[str, str]]:
    """Returns the instance that a process without popdist's launcher is, and its environment.

    The environment says where the instances meet. If no launcher gives the same numbers, they meet
    at MASTER_ADDR and MASTER_PORT. Without these, all are on this host and children of one process.

    Args:
        index: The number of the process, according to its program.
        count: The number of processes, according to its program.
        replicas: The replicas of an instance.
        environ: The environment of the process.

    Raises:
        poptorch.Error: The variables contradict each other.
    """
    launcher = launcher_of(environ)
    if launcher is not None:
        found = translated(launcher, environ, replicas, 1)
        here = names.this_instance(found)
        if (here.index, here.count) == (index, count):
            return here, found
    is_told = bool(environ.get("MASTER_ADDR") and environ.get("MASTER_PORT"))
    local = (0, 1) if is_told else (index, count)
    here = Instance(count * replicas, replicas, index * replicas, 1, *local)
    return here, {**environ, **_meeting_place(environ, _BY_HAND, here, ())}


def _local_count(environ: Mapping[str, str], launcher: Foreign, count: int, hosts: int) -> int:
    given = environ.get(launcher.local_size, "")
    if per_node := re.fullmatch(r"(\d+)(\(x\d+\))?", given):  # Slurm's "2(x3)"
        return max(int(per_node[1]), 1)
    return max(count // hosts, 1) if hosts else count


def _meeting_place(
    environ: Mapping[str, str], launcher: Foreign, here: Instance, hosts: tuple[str, ...]
) -> dict[str, str]:
    """Returns the variables that say where instances meet."""
    address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    if address and port and environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return {names.STORE: f"agent://{address}:{port}"}
    # A launcher that does not name hosts may have used several, if an address was given.
    is_said = bool(hosts or environ.get(launcher.local_size) or not (address and port))
    if here.local_count == here.count and is_said:
        folder = runtime_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            raise Error(
                f"[popdist] {folder} belongs to another user. Remove it, or set XDG_RUNTIME_DIR."
            )
        job = "-".join(environ.get(name, "") for name in launcher.job).strip("-")
        kept = re.sub(r"[^\w.-]", "_", job)[:100]
        path = folder / f"popdist-{launcher.name}-{kept or _launching_process(launcher.rank)}"
        return {names.STORE: f"meeting:{path}", names.ADDRESS: "127.0.0.1"}
    address = address or (hosts[0] if hosts else "")
    if not address:
        raise Error(
            f"[popdist] {launcher.name} has started {here.count} processes, {here.local_count} on "
            "this host, and no variable says where they meet. Set MASTER_ADDR and MASTER_PORT."
        )
    job_number = int(environ.get("SLURM_JOB_ID", "0") or 0)
    number_of_port = int(port) if port else 20000 + job_number % 20000 // 2 * 2
    # The next port: MASTER_PORT itself is for the program's own torch.distributed.
    return {
        "MASTER_ADDR": address,
        "MASTER_PORT": str(number_of_port),
        names.STORE: f"tcp://{address}:{number_of_port + 1}",
    }


def _launching_process(variable: str) -> int:
    """Returns the nearest ancestor without a variable that the launcher sets.

    Shells and similar processes between the launcher and this process have the variable.
    """
    found = os.getppid()
    with contextlib.suppress(OSError, ValueError):
        while f"\0{variable}=" in "\0" + Path(f"/proc/{found}/environ").read_text("latin-1"):
            status = Path(f"/proc/{found}/stat").read_text("latin-1")
            found = int(status.rpartition(")")[2].split()[1])
    return found


def warn_about_mpi4py(count: int) -> None:
    """Warns that an installed mpi4py works under MPI's launchers only."""
    if os.environ.get(names.LAUNCHER) in ("mpirun", "mpiexec"):
        return
    try:
        found = importlib.util.find_spec("mpi4py")
    except (ImportError, ValueError):
        return
    own = os.environ.get(names.COMPAT, "\0")
    if found is not None and not str(found.origin).startswith(own):
        print(
            f"popdist: the installed mpi4py ({found.origin}) sees a world of one process, not of "
            f"{count}, because MPI has not started them: Bcast from another rank fails or waits. "
            f"Start the program with mpirun -n {count} python -m popdist <program>, or uninstall "
            "mpi4py.",
            file=sys.stderr,
        )
