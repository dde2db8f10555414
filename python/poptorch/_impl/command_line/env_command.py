"""`python -m poptorch env`: prints what a report of a bug needs."""

import importlib.metadata
import json
import os
import platform
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from poptorch._impl.devices import ipu_pool
from poptorch._impl.options import environment
from poptorch._versions import VERSION

_PACKAGES = ("numpy", "safetensors", "lightning", "pytorch-lightning", "transformers")
_VARIABLES = ("OMP_", "OMPI_COMM_WORLD_", "POPDIST_", "POPTORCH_", "TORCH_")
_FLAGS = {  # of /proc/cpuinfo
    "sse4_2": "SSE4", "avx2": "AVX2", "avx512f": "AVX512", "avx512_bf16": "AVX512-BF16",
    "avx512_fp16": "AVX512-FP16", "amx_tile": "AMX", "asimd": "NEON",
}  # fmt: skip


def show(given: Namespace) -> int:
    """Prints versions, the host and its settings. given.json: whether to print JSON."""
    found = describe()
    if given.json:
        print(json.dumps(found, indent=1))
        return 0
    for topic, values in found.items():
        print(f"{topic}:")
        for name, value in values.items():
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            print(f"  {name}: {'-' if shown in (None, '') else shown}")
    return 0


def describe() -> dict[str, dict[str, Any]]:
    """Returns versions, the host, the variables that are set, and the pool of IPUs."""
    return {
        "versions": _versions(),
        "host": _host(),
        "variables": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)
        },
        "pool": _pool(),
    }


def _versions() -> dict[str, Any]:
    found: dict[str, Any] = {
        "poptorch": VERSION,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    found["installed in"] = str(Path(sys.modules["poptorch"].__path__[0]))
    return found


def _host() -> dict[str, Any]:
    about = _cpuinfo()
    flags = about.get("flags", about.get("Features", "")).split()
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    usable = len(os.sched_getaffinity(0))
    return {
        "processor": about.get("model name", platform.machine()),
        "instruction sets": [name for flag, name in _FLAGS.items() if flag in flags],
        "limit of instruction sets": environment.text("POPTORCH_MAX_CPU_ISA"),
        "cores": os.cpu_count(),
        "usable cores": usable,
        "threads": environment.number("POPTORCH_NUM_THREADS", 0) or usable,
        "memory GiB": round(pages / 2**30, 1),
    }


def _cpuinfo() -> dict[str, str]:
    """Returns the facts about the first processor."""
    try:
        text = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _pool() -> dict[str, Any]:
    if ipu_pool.uses_model():
        return {"kind": "IPU Model"}
    pool = ipu_pool.Pool.of_environment()
    held = ipu_pool.processes_with(pool)
    return {
        "kind": "emulated IPUs",
        "IPUs": pool.ipus,
        "version": pool.version,
        "folder": pool.folder,
        "IPUs in use": len(held),
        "processes": sorted(set(held.values())),
    }
