"""Graphs, ops and options in PopART's interface: views of popxl's objects."""

from popart._internal.ir import op, patterns
from popart._internal.ir.graph import Graph
from popart._internal.ir.ids import NumInputs, OperatorIdentifier
from popart._internal.ir.ir import Ir
from popart._internal.ir.op import Op
from popart._internal.ir.op.classes import view as view_of_op
from popart._internal.ir.options import SessionOptions
from popart._internal.ir.patterns import Patterns
from popart._internal.ir.replica_grouping import ReplicaGrouping
from popart._internal.ir.tensor import Tensor, TensorInfo, data_type
from popart.enums import (
    AccumulateOuterFragmentSchedule,
    AnchorReturnTypeId,
    DataType,
    MergeVarUpdateType,
    PatternsLevel,
    RecomputationType,
    ReductionType,
    SubgraphCopyingStrategy,
    SyntheticDataMode,
    TensorType,
    VirtualGraphMode,
)
from popxl._impl import popart_views
from popxl._impl.connections import ExpectedConnection, ExpectedConnectionType
from popxl.context import ExecutionContext
from popxl.locations import (
    ReplicatedTensorSharding,
    TensorLocation,
    TensorStorage,
    TileSet,
)
from popxl.replica_grouping import VariableRetrievalMode, VariableSettings

__all__ = [
    "AccumulateOuterFragmentSchedule",
    "AnchorReturnTypeId",
    "DataType",
    "ExecutionContext",
    "ExpectedConnection",
    "ExpectedConnectionType",
    "Graph",
    "Ir",
    "MergeVarUpdateType",
    "NumInputs",
    "Op",
    "OperatorIdentifier",
    "Patterns",
    "PatternsLevel",
    "RecomputationType",
    "ReductionType",
    "ReplicaGrouping",
    "ReplicatedTensorSharding",
    "SessionOptions",
    "SubgraphCopyingStrategy",
    "SyntheticDataMode",
    "Tensor",
    "TensorInfo",
    "TensorLocation",
    "TensorStorage",
    "TensorType",
    "TileSet",
    "VariableRetrievalMode",
    "VariableSettings",
    "VirtualGraphMode",
    "op",
    "patterns",
]

popart_views.provide(
    ir=Ir, graph=Graph, tensor=Tensor, op=view_of_op,
    replica_grouping=ReplicaGrouping, data_type=data_type,
)  # fmt: skip
