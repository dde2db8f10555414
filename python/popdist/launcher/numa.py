"""The NUMA nodes of this host."""

import os
import re
from pathlib import Path

_NODES = Path("/sys/devices/system/node")


def nodes(folder: Path = _NODES) -> list[frozenset[int]]:
    """Returns the processors of each node that this process may use, in the order of the nodes."""
    allowed = os.sched_getaffinity(0)
    numbered = []
    for node in folder.glob("node*"):
        if name := re.fullmatch(r"node(\d+)", node.name):
            cpus = cpu_list((node / "cpulist").read_text()) & allowed
            if cpus:
                numbered.append((int(name[1]), frozenset(cpus)))
    return [cpus for _, cpus in sorted(numbered, key=lambda item: item[0])]


def cpu_list(text: str) -> set[int]:
    """Parses the kernel's lists, such as `0-3,8`."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
