"""The few names of PopART that PopXL programs use; the rest is refused by name.

`popart._internal.ir` shows the ops of a graph: `graph._pb_graph.getOps()`, each with `opType()`.
`ir._pb_ir.getSessionOptions()` holds options for hardware.
"""

from typing import Any

from popxl.context import ExecutionContext
from popxl.errors import popart_exception, unsupported

MISSING = (
    *("AnchorReturnType", "Builder", "CommGroup", "CommGroupType", "DataFlow", "DeviceManager"),
    *("ExecutionMode", "InferenceSession", "OptimizerType", "Patterns", "PyStepIO", "Recompute"),
    *("ReductionType", "SGD", "Adam", "SessionOptions", "SyncPattern", "TensorInfo", "TileSet"),
    *("TrainingSession", "VirtualGraphMode"),
)


def __getattr__(name: str) -> Any:
    if name in MISSING:
        raise unsupported(f"popart.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
