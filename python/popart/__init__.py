"""The few names of PopART that PopXL programs use; the rest is refused by name.

`popart._internal.ir` shows the ops of a graph: `graph._pb_graph.getOps()`, each with `opType()`.
`ir._pb_ir.getSessionOptions()` holds options for hardware.
"""

from enum import Enum
from typing import TYPE_CHECKING, Any

from popxl.context import ExecutionContext as ExecutionContext
from popxl.errors import popart_exception as popart_exception, unsupported
from popxl.locations import (
    ReplicatedTensorSharding as ReplicatedTensorSharding,
    TensorLocation as TensorLocation,
    TensorStorage as TensorStorage,
    TileSet as TileSet,
)
from popxl.ops.collectives import CommGroup as CommGroup, CommGroupType as CommGroupType

ReductionType = Enum("ReductionType", {"Sum": 0, "Mean": 1, "NoReduction": 2})
RecomputationType = Enum("RecomputationType", {"NoRecompute": 0, "Standard": 1, "Pipeline": 2})
SyncPattern = Enum("SyncPattern", {"Full": 0, "SinglePipeline": 1, "ReplicaAndLadder": 2})
VirtualGraphMode = Enum("VirtualGraphMode", {"Off": 0, "Manual": 1, "Auto": 2})
for _enum, _doc in (
    (ReductionType, "How a loss or gradients are reduced."),
    (RecomputationType, "What is computed again in the backward pass."),
    (SyncPattern, "Which IPUs wait for each other."),
    (VirtualGraphMode, "Who decides on which IPU ops are."),
):
    _enum.__doc__ = _doc

MISSING = (
    *("AnchorReturnType", "Builder", "DataFlow", "DeviceManager", "ExecutionMode"),
    *("InferenceSession", "OptimizerType", "Patterns", "PyStepIO", "SGD", "Adam"),
    *("SessionOptions", "TensorInfo", "TrainingSession"),
)


if not TYPE_CHECKING:  # which would take any name

    def __getattr__(name: str) -> Any:
        if name in MISSING:
            raise unsupported(f"popart.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
