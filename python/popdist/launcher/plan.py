"""The placement of instances on hosts, with checks of the command line, and its table."""

import functools
import socket
from dataclasses import dataclass

from popdist.addresses import addresses_of
from popdist.instance import Instance
from popdist.launcher import values
from popdist.launcher.command_line import Given, UsageError

IPUS_PER_ILD = 64
LOCAL = "localhost"


@dataclass(frozen=True)
class Placed:
    """An instance with its host's name and its domain of IPU-Links."""

    instance: Instance
    host: str
    ild: int


@dataclass(frozen=True)
class Plan:
    """All instances, in order. ipus_per_ild: the number of IPUs in a domain of IPU-Links."""

    instances: tuple[Placed, ...]
    ilds: int
    ipus_per_ild: int

    @property
    def hosts(self) -> list[str]:
        """Their names, in order."""
        return list(dict.fromkeys(placed.host for placed in self.instances))


def make_plan(given: Given) -> Plan:
    """Places instances on hosts in equal blocks. Raises UsageError, which names the numbers."""
    count = given.num_instances
    replicas = count if given.num_replicas is None else given.num_replicas
    if replicas % count:
        raise UsageError(
            f"--num-replicas {replicas} is not a multiple of --num-instances {count}. Every "
            "instance must have equally many replicas."
        )
    shown = given.only_output_from_instance
    if shown is not None and shown >= count:
        raise UsageError(
            f"--only-output-from-instance {shown}: there are {count} instances, numbered from 0 to "
            f"{count - 1}."
        )
    names = _hosts(given)
    if count % len(names):
        raise UsageError(
            f"--num-instances {count} is not a multiple of the {len(names)} hosts "
            f"({','.join(names)}). Every host must have equally many instances."
        )
    ipus = replicas * given.ipus_per_replica
    ilds = given.num_ilds or -(-ipus // IPUS_PER_ILD)
    if count % ilds or ilds * IPUS_PER_ILD < ipus:
        raise UsageError(
            f"{ipus} IPUs ({replicas} replicas of {given.ipus_per_replica}) in {ilds} ILDs of at "
            f"most {IPUS_PER_ILD} cannot be split over --num-instances {count}: every ILD needs "
            "equally many separate instances. Change --num-instances or --num-ilds."
        )
    each, local = replicas // count, count // len(names)
    placed = [
        Placed(
            Instance(replicas, each, i * each, given.ipus_per_replica, i % local, local),
            names[i // local],
            i * ilds // count,
        )
        for i in range(count)
    ]
    return Plan(tuple(placed), ilds, ipus // ilds)


def _hosts(given: Given) -> tuple[str, ...]:
    if given.host is not None and given.host_file is not None:
        raise UsageError("--host and --host-file exclude each other. Give one of them.")
    names: tuple[str, ...] = given.host or (LOCAL,)
    if given.host_file is not None:
        try:
            # Invalid UTF-8 is not the name of a host either: values.hosts refuses it.
            with open(given.host_file, encoding="utf-8", errors="surrogateescape") as file:
                lines = [line.partition("#")[0].split() for line in file]
            names = values.hosts(",".join(line[0] for line in lines if line))
        except OSError as error:
            raise UsageError(f"--host-file {given.host_file}: {error.strerror}.") from None
        except ValueError as error:
            raise UsageError(f"--host-file {given.host_file}: it takes {error}.") from None
    if len(set(names)) != len(names):
        raise UsageError(f"a host is named twice: {','.join(names)}.")
    own = [name for name in names if is_here(name)]
    if len(own) > 1:
        raise UsageError(f"{' and '.join(own)} are one host, this one. Name it once.")
    return names


def is_here(host: str) -> bool:
    """Returns whether a name or an address means this machine."""
    return host in _own_names()


@functools.cache
def _own_names() -> frozenset[str]:
    own = socket.gethostname()
    return frozenset({LOCAL, own, own.partition(".")[0], socket.getfqdn(), *addresses_of(None)})


def topology(plan: Plan) -> str:
    """Returns the table of --print-topology."""
    replicas = [p for p in plan.instances for _ in range(p.instance.local_replicas)]
    rows = [
        ("hosts", _runs([p.host for p in replicas])),
        ("ILDs", _runs([p.ild for p in replicas])),
        ("instances", _runs([p.instance.index for p in replicas])),
        ("replicas", _runs(list(range(len(replicas))))),
    ]
    # The width of a replica's column, such that every text has a blank on either side.
    width = max(-(-(len(text) + 2 - (n - 1)) // n) for _, cells in rows for text, n in cells)
    inner = len(replicas) * (width + 1) - 1
    label = max(len(name) for name, _ in rows)
    whole = label + 2 + 1 + inner
    lines = [" " + "=" * whole, f"|{_centred('poprun topology', whole)}|", f"|{'=' * whole}|"]
    for number, (name, cells) in enumerate(rows):
        if number:
            lines.append(f"|{'-' * (label + 2)}|{'-' * inner}|")
        texts = [_centred(text, n * (width + 1) - 1) for text, n in cells]
        lines.append(f"| {name:{label}} |{'|'.join(texts)}|")
    return "\n".join([*lines, " " + "-" * whole]) + "\n"


def _runs(items: list) -> list[tuple[str, int]]:
    """Returns each run of equal items, as the item and the length."""
    found: list[tuple[str, int]] = []
    for item in map(str, items):
        if found and found[-1][0] == item:
            found[-1] = (item, found[-1][1] + 1)
        else:
            found.append((item, 1))
    return found


def _centred(text: str, width: int) -> str:
    left = (width - len(text)) // 2
    return " " * left + text + " " * (width - len(text) - left)
