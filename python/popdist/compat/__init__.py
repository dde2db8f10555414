"""Stand-ins of horovod.torch and mpi4py with the functions that programs call, over popdist.

They are in `stand_ins`, a folder that poprun puts at the end of the search path.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from popdist.instance import COMPAT

OFFERED = {
    "horovod": ("torch",),
    "horovod.torch": (
        *("init", "is_initialized", "shutdown", "rank", "size", "local_rank", "local_size"),
        *("allreduce", "grouped_allreduce", "allgather", "broadcast", "broadcast_parameters"),
        *("Average", "Sum", "Min", "Max"),
    ),
    "mpi4py": ("MPI",),
    "mpi4py.MPI": ("COMM_WORLD",),
    "mpi4py.MPI.COMM_WORLD": (
        *("Get_rank", "Get_size", "rank", "size", "Bcast", "bcast", "Barrier", "barrier"),
        "Allgather",
    ),
}


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that put the stand-ins at the end of Python's search path.

    PYTHONPATH would put them before installed packages. It therefore names the folder of a start-up
    file, which then removes this folder from the search path.
    """
    startup, stand_ins = (str(Path(__file__).parent / name) for name in ("startup", "stand_ins"))
    paths = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {
        "PYTHONPATH": os.pathsep.join([startup, *(path for path in paths if path != startup)]),
        COMPAT: stand_ins,
    }


def refuse(module: str, name: str) -> NoReturn:
    """Raises AttributeError for a name that a stand-in does not have."""
    raise AttributeError(
        f"{module}.{name} is not offered: this {module} is popdist's stand-in, which has "
        f"{', '.join(OFFERED[module])}. Install {module.partition('.')[0]} for the others."
    )
