"""PopART's enumerations: whole numbers with the names that programs hand on.

Most choose among ways of hardware: what heeds one says so.
"""

from enum import IntEnum
from typing import Any


def _enum(name: str, members: str, doc: str) -> Any:
    """Members counted from 0."""
    made = IntEnum(name, members, start=0, module=__name__)  # type: ignore[misc]
    made.__doc__ = doc
    return made


AccumulateOuterFragmentSchedule = _enum(
    "AccumulateOuterFragmentSchedule",
    "Scheduler Serial OverlapCycleOptimized OverlapMemoryOptimized",
    "The order of what runs once a weight update.",
)
AdamMode = _enum("AdamMode", "Adam AdamNoBias AdaMax Lamb LambNoBias", "Adam and its relatives.")
AdaptiveMode = _enum(
    "AdaptiveMode", "AdaGrad RMSProp CenteredRMSProp AdaDelta", "Optimisers that adapt rates."
)
AnchorReturnTypeId = _enum(
    "AnchorReturnTypeId", "Final EveryN All Sum", "Which values of a run come back."
)
AutodiffStitchStrategy = _enum(
    "AutodiffStitchStrategy",
    "RecomputeMinimal RecomputeAllNonInputs AddFwdOutputs SafeAddFwdOutputs",
    "How gradient graphs get forward values.",
)
BatchSerializationBatchSchedule = _enum(
    "BatchSerializationBatchSchedule",
    "Scheduler Isomorphic OverlapOnIo OverlapOnCompute",
    "The order of the parts of a batch.",
)
BatchSerializationMethod = _enum(
    "BatchSerializationMethod", "UnrollDynamic UnrollStatic Loop", "How a batch is cut."
)
BatchSerializationTransformContext = _enum(
    "BatchSerializationTransformContext", "Fwd Bwd", "When a batch is cut."
)
CollectiveOperator = _enum(
    "CollectiveOperator",
    "Add Mean Mul Min Max LogicalAnd LogicalOr SquareAdd Local",
    "What a collective does with the replicas' values.",
)
DataType = _enum(
    "DataType",
    "UINT8 INT8 FLOAT8_143 FLOAT8_152 UINT16 INT16 INT32 INT64 UINT32 UINT64 BOOL FLOAT FLOAT16 "
    "BFLOAT16 DOUBLE COMPLEX64 COMPLEX128 STRING UNDEFINED",
    "Element types.",
)
DeviceConnectionType = _enum(
    "DeviceConnectionType", "Always OnDemand OfflineCompile Never", "When a device is attached."
)
DeviceSelectionCriterion = _enum(
    "DeviceSelectionCriterion", "First Random", "Which of several devices is taken."
)
DeviceType = _enum("DeviceType", "IpuModel Cpu Ipu OfflineIpu Sim", "Kinds of devices.")
ExecutionPhaseIOSchedule = _enum(
    "ExecutionPhaseIOSchedule", "Preload OnDemand", "When a phase's data comes."
)
ExecutionPhaseSchedule = _enum(
    "ExecutionPhaseSchedule", "Interleaving Batch BatchClusteredIO", "The order within a phase."
)
GradientTensorTrackingMethod = _enum(
    "GradientTensorTrackingMethod",
    "AllNonViewChangingGradientTensors ConvAndMatmulGradients GradientsOfUserSpecifiedTensors",
    "Which gradients automatic loss scaling looks at.",
)
InitType = _enum("InitType", "NoInit Zero", "What new memory holds.")
Instrumentation = _enum("Instrumentation", "Outer Inner", "What is measured.")
IrSerializationFormat = _enum("IrSerializationFormat", "JSON", "Forms of an Ir in files.")
MeanReductionStrategy = _enum(
    "MeanReductionStrategy", "Running Post PostAndLoss", "When a mean is divided."
)
MergeVarUpdateType = _enum(
    "MergeVarUpdateType", "Off All AutoLoose AutoTight", "Which updates are merged."
)
OptimizerReductionType = _enum(
    "OptimizerReductionType",
    "None GradReduce AcclReduce AccumReduce",
    "What an optimiser reduces over replicas.",
)
OptimizerType = _enum("OptimizerType", "SGD Adam Adaptive", "Optimisers.")
PatternsLevel = _enum("PatternsLevel", "NoPatterns Minimal Default All", "How many patterns run.")
RecomputationType = _enum(
    "RecomputationType",
    "NoRecompute Standard NormOnly Pipeline RecomputeAll",
    "What is computed again in the backward pass.",
)
RecomputeType = _enum(
    "RecomputeType", "Undefined Checkpoint Recompute Recomputed", "Whether an op is run again."
)
ReductionType = _enum(
    "ReductionType", "Sum Mean NoReduction", "How a loss or gradients are reduced."
)
ReplicatedStreamMode = _enum(
    "ReplicatedStreamMode", "Replicate Broadcast", "Whether replicas get data of their own."
)
SGDAccumulatorAndMomentum = _enum(
    "SGDAccumulatorAndMomentum", "Combined Separate", "What SGD keeps in one tensor."
)
ScatterReduction = _enum("ScatterReduction", "Sum Max Min Mul None", "How elements that meet join.")
SubgraphCopyingStrategy = _enum(
    "SubgraphCopyingStrategy", "OnEnterAndExit JustInTime", "When a call copies its inputs."
)
SyncPattern = _enum(
    "SyncPattern", "Full SinglePipeline ReplicaAndLadder", "Which IPUs wait for each other."
)
SyntheticDataMode = _enum(
    "SyntheticDataMode", "Off Zeros RandomNormal RandomUniform", "What stands in for data."
)
TensorRemapType = _enum(
    "TensorRemapType", "FwdBwdReverse FwdBwd Fwd", "When a tensor is laid out anew."
)
TensorType = _enum("TensorType", "ActGrad Const Stream Unknown Variable", "Kinds of tensors.")
VirtualGraphMode = _enum(
    "VirtualGraphMode", "Off Manual Auto ExecutionPhases", "Who decides on which IPU ops are."
)
WeightDecayMode = _enum("WeightDecayMode", "Decay L2Regularization", "What a decay acts on.")

ALL = tuple(name for name, value in tuple(vars().items()) if isinstance(value, type(IntEnum)))
ALL = tuple(name for name in ALL if name != "IntEnum")
