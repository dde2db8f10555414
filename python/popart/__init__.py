"""PopART's names for PopXL programs.

Importing a name never fails; the use of unsupported ones raises UnsupportedError (`refused.NAMES`).
`popart._internal.ir` shows the ops of a graph: `graph._pb_graph.getOps()`, each with `opType()`.
`ir._pb_ir.getSessionOptions()` returns the options of a program.
"""

from popart import enums, refused
from popart._internal.ir import (
    Patterns as Patterns,
    SessionOptions as SessionOptions,
)
from popart.devices import DeviceInfo as DeviceInfo, DeviceManager as DeviceManager
from popart.enums import *
from popart.logging import Logger as Logger, getLogger as getLogger
from popart.stepping import (
    AnchorReturnType as AnchorReturnType,
    DataFlow as DataFlow,
    InferenceSession as InferenceSession,
    PyStepIO as PyStepIO,
    PyWeightsIO as PyWeightsIO,
    TrainingSession as TrainingSession,
)
from poptorch_core import versions as _versions
from popxl.context import ExecutionContext as ExecutionContext
from popxl.errors import (
    Error as exception,
    popart_exception as popart_exception,
    poplar_application_runtime_error as poplar_application_runtime_error,
)
from popxl.locations import (
    ReplicatedTensorSharding as ReplicatedTensorSharding,
    TensorLocation as TensorLocation,
    TensorStorage as TensorStorage,
    TileSet as TileSet,
)
from popxl.ops.collectives import CommGroup as CommGroup, CommGroupType as CommGroupType
from popxl.replica_grouping import (
    VariableRetrievalMode as VariableRetrievalMode,
    VariableSettings as VariableSettings,
)

globals().update({name: refused.refused(name) for name in refused.NAMES})

__all__ = [
    "AnchorReturnType",
    "CommGroup",
    "CommGroupType",
    "DataFlow",
    "DeviceInfo",
    "DeviceManager",
    "ExecutionContext",
    "InferenceSession",
    "Logger",
    "Patterns",
    "PyStepIO",
    "PyWeightsIO",
    "ReplicatedTensorSharding",
    "SessionOptions",
    "TensorLocation",
    "TensorStorage",
    "TileSet",
    "TrainingSession",
    "VariableRetrievalMode",
    "VariableSettings",
    "exception",
    "getLogger",
    "poplar_application_runtime_error",
    "popart_exception",
]
__all__.extend([*enums.ALL, *refused.NAMES])  # pyright: ignore[reportUnsupportedDunderAll]

__version__ = _versions.VERSION
