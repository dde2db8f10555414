"""The environment of each instance."""

import json
import os
import shlex
import socket
from collections.abc import Mapping
from pathlib import Path

from popdist import compat, instance as names
from popdist.launcher.command_line import Given, UsageError
from popdist.launcher.plan import Placed, Plan, is_here

# Words for mpirun that have no effect here, with the number of words that follow each.
_ACCEPTED = {"--tag-output": 0, "--allow-run-as-root": 0, "--bind-to": 1, "--mca": 2,
             "-mca": 2, "--map-by": 1, "--oversubscribe": 0}  # fmt: skip
_LARGEST_POOL = 64  # IPUs of the default pool


def mpi_words(given: Given) -> tuple[dict[str, str | None], Path | None]:
    """Returns the variables that words for mpirun set, and the folder for output.

    A variable with None is passed on as it is. Raises UsageError for other words.
    """
    variables: dict[str, str | None] = {}
    folder = None
    for option in ("mpi_global_args", "mpi_local_args"):
        words = list(given.values[option])
        while words:
            word = words.pop(0)
            follow = 1 if word in ("-x", "--output-filename") else _ACCEPTED.get(word)
            if follow is None or len(words) < follow:
                raise UsageError(
                    f"--{option.replace('_', '-')} has {word!r}, which is "
                    f"{'unknown' if follow is None else f'not followed by {follow} word(s)'}. It "
                    f"takes -x NAME[=value], --output-filename folder, {', '.join(_ACCEPTED)}."
                )
            values, words = words[:follow], words[follow:]
            if word == "-x":
                name, equals, value = values[0].partition("=")
                if not name:
                    raise UsageError(
                        f"--{option.replace('_', '-')} has -x {values[0]!r}, which does not name a "
                        "variable. It takes -x NAME or -x NAME=value."
                    )
                variables[name] = value if equals else None
            elif word == "--output-filename":
                folder = Path(values[0])
    return variables, folder


class Environments:
    """Makes the environments of a plan's instances.

    Args:
        given: The command line.
        plan: The instances and their hosts.
        folder: A folder private to this launch, in which instances of one host meet.
        base: The launcher's environment.
    """

    def __init__(self, given: Given, plan: Plan, folder: Path, base: Mapping[str, str]) -> None:
        self._given, self._plan, self._folder, self._base = given, plan, folder, base
        self._set, _ = mpi_words(given)
        self._is_local = all(is_here(host) for host in plan.hosts)
        self._master = "127.0.0.1" if self._is_local else _address(plan.hosts[0], given)
        self._reserved = reserved_ports(2)  # held while the launcher runs
        self._ports = [each.getsockname()[1] for each in self._reserved]
        self._cores = len(os.sched_getaffinity(0))

    def of(self, placed: Placed, attempt: int) -> dict[str, str]:
        """Returns an instance's complete environment. attempt: the number of earlier starts."""
        found = {**self._base, **self._own(placed, attempt)}
        for name, value in self._set.items():
            if value is not None:
                found[name] = value
        return found

    def passed_on(self, placed: Placed, attempt: int) -> dict[str, str]:
        """Returns the variables that are added to the environment of another host."""
        own = self._own(placed, attempt)
        for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV"):
            if name in self._base:
                own.setdefault(name, self._base[name])
        for name, value in self._set.items():
            if value is not None or name in self._base:
                own[name] = self._base[name] if value is None else value
        return own

    def _own(self, placed: Placed, attempt: int) -> dict[str, str]:
        instance, given, base = placed.instance, self._given, self._base
        threads = str(max(1, self._cores // instance.local_count))
        found = {
            **instance.variables(),
            names.LAUNCHER: "poprun",
            names.RESTARTS: str(attempt),
            "TORCHELASTIC_RESTART_COUNT": str(attempt),
            "MASTER_ADDR": self._master,
            "MASTER_PORT": str(self._ports[0]),
            "POPLAR_TARGET_OPTIONS": self._target_options(placed),
            # Output that an instance writes just before it ends is not lost in a buffer.
            "PYTHONUNBUFFERED": base.get("PYTHONUNBUFFERED", "1"),
            "OMP_NUM_THREADS": base.get("OMP_NUM_THREADS", threads),
            "POPTORCH_NUM_THREADS": base.get("POPTORCH_NUM_THREADS", threads),
        }
        if self._is_local:
            found[names.STORE] = f"file:{self._folder / f'store-{attempt}'}"
            found[names.ADDRESS] = self._master
            found["GLOO_SOCKET_IFNAME"] = base.get("GLOO_SOCKET_IFNAME", "lo")
        else:
            found[names.STORE] = f"tcp://{self._master}:{self._ports[1]}"
            if given.host_subnet:
                found[names.SUBNET] = given.host_subnet
        if given.offline_mode:
            found[names.OFFLINE] = "1"
        if given.executable_cache_path is not None:
            folder = os.path.abspath(given.executable_cache_path)
            found.update(POPTORCH_CACHE_DIR=folder, POPXL_CACHE_DIR=folder)
        if given.compat:
            found.update(compat.variables(base))
        found.update(self._pool(instance))
        found.update(self._partition(placed))
        return found

    def _target_options(self, placed: Placed) -> str:
        each = placed.instance.local_replicas * placed.instance.ipus_per_replica
        options = {
            "ipuLinkDomainSize": str(self._plan.ipus_per_ild),
            "ipuLinkConfiguration": "Default",
            "ipuLinkTopology": "mesh",
            "gatewayMode": "true" if self._plan.ilds > 1 else "false",
            "instanceSize": str(each),
        }
        given = self._base.get("POPLAR_TARGET_OPTIONS", "")
        try:
            own = json.loads(given) if given else {}
            return json.dumps({**options, **own})
        except (ValueError, TypeError):
            raise UsageError(f"POPLAR_TARGET_OPTIONS is not a JSON object: {given!r}.") from None

    def _pool(self, instance: names.Instance) -> dict[str, str]:
        """Returns the partition's pool, which has a device for every instance of the host."""
        partition = self._given.vipu_partition
        each = 1 << max(instance.local_replicas * instance.ipus_per_replica - 1, 0).bit_length()
        needed = 1 << max(each * instance.local_count - 1, 0).bit_length()
        if "POPTORCH_IPU_POOL" in self._base or (needed <= _LARGEST_POOL and not partition):
            return {}
        kept = "".join(c if c.isalnum() or c in "-_" else "_" for c in partition or "")
        # The pool appends its own folder names to it, "ipus/ipu2".
        folder = names.runtime_folder() / f"partition-{kept}" if partition else ""
        return {"POPTORCH_IPU_POOL": f"{max(needed, _LARGEST_POOL)}:2:{folder}"}

    def _partition(self, placed: Placed) -> dict[str, str]:
        given = self._given
        if given.vipu_partition is None and given.vipu_server_host is None:
            return {}
        found = {
            "PORT": given.vipu_server_port,
            "TIMEOUT": given.vipu_server_timeout,
            "HOST": given.vipu_server_host,
            "PARTITION_ID": given.vipu_partition,
            "GCD_ID": placed.ild,
        }
        return {f"IPUOF_VIPU_API_{k}": str(v) for k, v in found.items() if v is not None}


def _address(host: str, given: Given) -> str:
    """Returns the address at which other hosts reach the first one."""
    if not given.host_subnet:
        return socket.gethostname() if is_here(host) else host.rpartition("@")[2]
    from popdist.addresses import addresses_of, in_subnet

    found = in_subnet(addresses_of(None if is_here(host) else host), given.host_subnet)
    if found is None:
        raise UsageError(f"host {host} has no address in --host-subnet {given.host_subnet}.")
    return found


def reserved_ports(count: int) -> list[socket.socket]:
    """Returns sockets that reserve one port each: the kernel gives it to nobody else meanwhile.

    They do not listen. A program that sets SO_REUSEADDR, like torch.distributed, can listen there.
    """
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind(("", 0))
    return sockets


def program_words(program: tuple[str, ...], python: str) -> tuple[str, ...]:
    """Returns the words to execute: Python comes before a Python script that is not executable."""
    first = program[0]
    if first.endswith(".py") and os.path.isfile(first) and not os.access(first, os.X_OK):
        return (python, *program)
    return program


def shown(words: tuple[str, ...]) -> str:
    """Returns the words as text for the log."""
    return shlex.join(words)
