"""Every environment variable as one table, and a warning about those that have no effect yet."""

import os

from poptorch._logging import logger

# Name: (what it does, whether it has an effect).
VARIABLES = {
    "POPTORCH_LOG_LEVEL": ("TRACE, DEBUG, INFO (the default), WARN, ERR or OFF", True),
    "POPTORCH_LOG_DEST": ("where the log goes: `stderr` (the default), `stdout` or a file", True),
    "POPTORCH_DEFAULT_OPTIONS": ("JSON that every new Options takes: see `from_json`", True),
    "POPTORCH_NUM_THREADS": ("threads of the host that run the IPUs; results do not depend", True),
    "POPTORCH_MAX_CPU_ISA": ("`AVX512` (the default) or `AVX2`: what kernels may use", True),
    "POPTORCH_IPU_POOL": ("`<ipus>[:<version>[:<folder>]]`: the devices that there are", True),
    "POPTORCH_IPU_MODEL": ("1: run without a device; `useIpuModel` wins", True),
    "POPTORCH_IPU_MODEL_VERSION": ("`ipu1`, `ipu2` (the default) or `ipu21`", True),
    "POPTORCH_SMALL_IPU_MODEL": ("1: 4 tiles an IPU; POPTORCH_IPU_MODEL wins", True),
    "POPTORCH_WAIT_FOR_IPU": ("1: try again every 15 s while no device is free", True),
    "POPTORCH_MEMORY_LIMIT": (
        "`warn` (the default), `error` or `off`: programs that do not fit",
        True,
    ),
    "POPART_LOG_LEVEL": ("level of the compiler's own lines; else POPTORCH_LOG_LEVEL's", True),
    "POPTORCH_MAX_GRAPH_LEN": ("characters of a traced form in the log at TRACE; else all", True),
    "POPTORCH_DUMP": ("`all` or passes: print the module after each that changed it", True),
    "POPTORCH_DISABLE_PASSES": ("passes to skip, to look for a fault", True),
    "PVTI_OPTIONS": ('`{"enable":"true"}`: write a trace of the host\'s calls', True),
    "OMPI_COMM_WORLD_SIZE": ("default of `Distributed.numProcesses`", True),
    "OMPI_COMM_WORLD_RANK": ("default of `Distributed.processId`", True),
    "POPTORCH_CACHE_DIR": ("default of `enableExecutableCaching`", False),
    "POPTORCH_EXPORT_PROTO_FILE": ("file for the model as ONNX", False),
    "POPLAR_ENGINE_OPTIONS": ("options of Poplar's reports", False),
}


def warn_about_variables_without_effect() -> None:
    """Says which variables are set to no avail."""
    for name, (_, has_effect) in VARIABLES.items():
        if not has_effect and os.environ.get(name):
            logger.warning(f"The environment variable {name} has no effect in this version")
