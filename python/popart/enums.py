"""PopART's enumerations: whole numbers with the names that programs hand on.

Most choose among ways of hardware: what heeds one says so.
"""

from enum import IntEnum

# The order of what runs once a weight update.
AccumulateOuterFragmentSchedule = IntEnum(
    "AccumulateOuterFragmentSchedule",
    "Scheduler Serial OverlapCycleOptimized OverlapMemoryOptimized",
    start=0,
)
# Adam and its relatives.
AdamMode = IntEnum("AdamMode", "Adam AdamNoBias AdaMax Lamb LambNoBias", start=0)
# Optimisers that adapt rates.
AdaptiveMode = IntEnum("AdaptiveMode", "AdaGrad RMSProp CenteredRMSProp AdaDelta", start=0)
# Which values of a run come back.
AnchorReturnTypeId = IntEnum("AnchorReturnTypeId", "Final EveryN All Sum", start=0)
# How gradient graphs get forward values.
AutodiffStitchStrategy = IntEnum(
    "AutodiffStitchStrategy",
    "RecomputeMinimal RecomputeAllNonInputs AddFwdOutputs SafeAddFwdOutputs",
    start=0,
)
# The order of the parts of a batch.
BatchSerializationBatchSchedule = IntEnum(
    "BatchSerializationBatchSchedule",
    "Scheduler Isomorphic OverlapOnIo OverlapOnCompute",
    start=0,
)
# How a batch is cut.
BatchSerializationMethod = IntEnum(
    "BatchSerializationMethod",
    "UnrollDynamic UnrollStatic Loop",
    start=0,
)
# When a batch is cut.
BatchSerializationTransformContext = IntEnum(
    "BatchSerializationTransformContext",
    "Fwd Bwd",
    start=0,
)
# What a collective does with the replicas' values.
CollectiveOperator = IntEnum(
    "CollectiveOperator",
    "Add Mean Mul Min Max LogicalAnd LogicalOr SquareAdd Local",
    start=0,
)
# Element types.
DataType = IntEnum(
    "DataType",
    "UINT8 INT8 FLOAT8_143 FLOAT8_152 UINT16 INT16 INT32 INT64 UINT32 UINT64 BOOL FLOAT "
    "FLOAT16 BFLOAT16 DOUBLE COMPLEX64 COMPLEX128 STRING UNDEFINED",
    start=0,
)
# When a device is attached.
DeviceConnectionType = IntEnum(
    "DeviceConnectionType",
    "Always OnDemand OfflineCompile Never",
    start=0,
)
# Which of several devices is taken.
DeviceSelectionCriterion = IntEnum("DeviceSelectionCriterion", "First Random", start=0)
# Kinds of devices.
DeviceType = IntEnum("DeviceType", "IpuModel Cpu Ipu OfflineIpu Sim", start=0)
# When a phase's data comes.
ExecutionPhaseIOSchedule = IntEnum("ExecutionPhaseIOSchedule", "Preload OnDemand", start=0)
# The order within a phase.
ExecutionPhaseSchedule = IntEnum(
    "ExecutionPhaseSchedule",
    "Interleaving Batch BatchClusteredIO",
    start=0,
)
# Which gradients automatic loss scaling looks at.
GradientTensorTrackingMethod = IntEnum(
    "GradientTensorTrackingMethod",
    "AllNonViewChangingGradientTensors ConvAndMatmulGradients GradientsOfUserSpecifiedTensors",
    start=0,
)
# What new memory holds.
InitType = IntEnum("InitType", "NoInit Zero", start=0)
# What is measured.
Instrumentation = IntEnum("Instrumentation", "Outer Inner", start=0)
# Forms of an Ir in files.
IrSerializationFormat = IntEnum("IrSerializationFormat", "JSON", start=0)
# When a mean is divided.
MeanReductionStrategy = IntEnum("MeanReductionStrategy", "Running Post PostAndLoss", start=0)
# Which updates are merged.
MergeVarUpdateType = IntEnum("MergeVarUpdateType", "Off All AutoLoose AutoTight", start=0)
# What an optimiser reduces over replicas.
OptimizerReductionType = IntEnum(
    "OptimizerReductionType",
    "None GradReduce AcclReduce AccumReduce",
    start=0,
)
# Optimisers.
OptimizerType = IntEnum("OptimizerType", "SGD Adam Adaptive", start=0)
# How many patterns run.
PatternsLevel = IntEnum("PatternsLevel", "NoPatterns Minimal Default All", start=0)
# What is computed again in the backward pass.
RecomputationType = IntEnum(
    "RecomputationType",
    "NoRecompute Standard NormOnly Pipeline RecomputeAll",
    start=0,
)
# Whether an op is run again.
RecomputeType = IntEnum("RecomputeType", "Undefined Checkpoint Recompute Recomputed", start=0)
# How a loss or gradients are reduced.
ReductionType = IntEnum("ReductionType", "Sum Mean NoReduction", start=0)
# Whether replicas get data of their own.
ReplicatedStreamMode = IntEnum("ReplicatedStreamMode", "Replicate Broadcast", start=0)
# What SGD keeps in one tensor.
SGDAccumulatorAndMomentum = IntEnum("SGDAccumulatorAndMomentum", "Combined Separate", start=0)
# How elements that meet join.
ScatterReduction = IntEnum("ScatterReduction", "Sum Max Min Mul None", start=0)
# When a call copies its inputs.
SubgraphCopyingStrategy = IntEnum("SubgraphCopyingStrategy", "OnEnterAndExit JustInTime", start=0)
# Which IPUs wait for each other.
SyncPattern = IntEnum("SyncPattern", "Full SinglePipeline ReplicaAndLadder", start=0)
# What stands in for data.
SyntheticDataMode = IntEnum("SyntheticDataMode", "Off Zeros RandomNormal RandomUniform", start=0)
# When a tensor is laid out anew.
TensorRemapType = IntEnum("TensorRemapType", "FwdBwdReverse FwdBwd Fwd", start=0)
# Kinds of tensors.
TensorType = IntEnum("TensorType", "ActGrad Const Stream Unknown Variable", start=0)
# Who decides on which IPU ops are.
VirtualGraphMode = IntEnum("VirtualGraphMode", "Off Manual Auto ExecutionPhases", start=0)
# What a decay acts on.
WeightDecayMode = IntEnum("WeightDecayMode", "Decay L2Regularization", start=0)

ALL = tuple(name for name, value in tuple(vars().items()) if isinstance(value, type(IntEnum)))
ALL = tuple(name for name in ALL if name != "IntEnum")
