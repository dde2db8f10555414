"""PopART's enumerations: whole numbers with names that programs pass on.

Most are options of hardware without effect here. Code that uses one documents it.
"""

from enum import IntEnum

AccumulateOuterFragmentSchedule = IntEnum(
    "AccumulateOuterFragmentSchedule",
    "Scheduler Serial OverlapCycleOptimized OverlapMemoryOptimized",
    start=0,
)
AdamMode = IntEnum("AdamMode", "Adam AdamNoBias AdaMax Lamb LambNoBias", start=0)
AdaptiveMode = IntEnum("AdaptiveMode", "AdaGrad RMSProp CenteredRMSProp AdaDelta", start=0)
AnchorReturnTypeId = IntEnum("AnchorReturnTypeId", "Final EveryN All Sum", start=0)
AutodiffStitchStrategy = IntEnum(
    "AutodiffStitchStrategy",
    "RecomputeMinimal RecomputeAllNonInputs AddFwdOutputs SafeAddFwdOutputs",
    start=0,
)
BatchSerializationBatchSchedule = IntEnum(
    "BatchSerializationBatchSchedule",
    "Scheduler Isomorphic OverlapOnIo OverlapOnCompute",
    start=0,
)
BatchSerializationMethod = IntEnum(
    "BatchSerializationMethod",
    "UnrollDynamic UnrollStatic Loop",
    start=0,
)
BatchSerializationTransformContext = IntEnum(
    "BatchSerializationTransformContext",
    "Fwd Bwd",
    start=0,
)
CollectiveOperator = IntEnum(
    "CollectiveOperator",
    "Add Mean Mul Min Max LogicalAnd LogicalOr SquareAdd Local",
    start=0,
)
DataType = IntEnum(
    "DataType",
    "UINT8 INT8 FLOAT8_143 FLOAT8_152 UINT16 INT16 INT32 INT64 UINT32 UINT64 BOOL FLOAT "
    "FLOAT16 BFLOAT16 DOUBLE COMPLEX64 COMPLEX128 STRING UNDEFINED",
    start=0,
)
DeviceConnectionType = IntEnum(
    "DeviceConnectionType",
    "Always OnDemand OfflineCompile Never",
    start=0,
)
DeviceSelectionCriterion = IntEnum("DeviceSelectionCriterion", "First Random", start=0)
DeviceType = IntEnum("DeviceType", "IpuModel Cpu Ipu OfflineIpu Sim", start=0)
ExecutionPhaseIOSchedule = IntEnum("ExecutionPhaseIOSchedule", "Preload OnDemand", start=0)
ExecutionPhaseSchedule = IntEnum(
    "ExecutionPhaseSchedule",
    "Interleaving Batch BatchClusteredIO",
    start=0,
)
GradientTensorTrackingMethod = IntEnum(
    "GradientTensorTrackingMethod",
    "AllNonViewChangingGradientTensors ConvAndMatmulGradients GradientsOfUserSpecifiedTensors",
    start=0,
)
InitType = IntEnum("InitType", "NoInit Zero", start=0)
Instrumentation = IntEnum("Instrumentation", "Outer Inner", start=0)
IrSerializationFormat = IntEnum("IrSerializationFormat", "JSON", start=0)
MeanReductionStrategy = IntEnum("MeanReductionStrategy", "Running Post PostAndLoss", start=0)
MergeVarUpdateType = IntEnum("MergeVarUpdateType", "Off All AutoLoose AutoTight", start=0)
OptimizerReductionType = IntEnum(
    "OptimizerReductionType",
    "None GradReduce AcclReduce AccumReduce",
    start=0,
)
OptimizerType = IntEnum("OptimizerType", "SGD Adam Adaptive", start=0)
PatternsLevel = IntEnum("PatternsLevel", "NoPatterns Minimal Default All", start=0)
RecomputationType = IntEnum(
    "RecomputationType",
    "NoRecompute Standard NormOnly Pipeline RecomputeAll",
    start=0,
)
RecomputeType = IntEnum("RecomputeType", "Undefined Checkpoint Recompute Recomputed", start=0)
ReductionType = IntEnum("ReductionType", "Sum Mean NoReduction", start=0)
ReplicatedStreamMode = IntEnum("ReplicatedStreamMode", "Replicate Broadcast", start=0)
SGDAccumulatorAndMomentum = IntEnum("SGDAccumulatorAndMomentum", "Combined Separate", start=0)
ScatterReduction = IntEnum("ScatterReduction", "Sum Max Min Mul None", start=0)
SubgraphCopyingStrategy = IntEnum("SubgraphCopyingStrategy", "OnEnterAndExit JustInTime", start=0)
SyncPattern = IntEnum("SyncPattern", "Full SinglePipeline ReplicaAndLadder", start=0)
SyntheticDataMode = IntEnum("SyntheticDataMode", "Off Zeros RandomNormal RandomUniform", start=0)
TensorRemapType = IntEnum("TensorRemapType", "FwdBwdReverse FwdBwd Fwd", start=0)
TensorType = IntEnum("TensorType", "ActGrad Const Stream Unknown Variable", start=0)
VirtualGraphMode = IntEnum("VirtualGraphMode", "Off Manual Auto ExecutionPhases", start=0)
WeightDecayMode = IntEnum("WeightDecayMode", "Decay L2Regularization", start=0)

ALL = tuple(name for name, value in tuple(vars().items()) if isinstance(value, type(IntEnum)))
ALL = tuple(name for name in ALL if name != "IntEnum")

# The functional form, which type checkers know, takes no docstring.
_DOCS = {
    AccumulateOuterFragmentSchedule: "The order of ops that run once per weight update.",
    AdamMode: "Adam and its relatives.",
    AdaptiveMode: "Optimisers with adaptive learning rates.",
    AnchorReturnTypeId: "The values of a run that are returned.",
    AutodiffStitchStrategy: "The source of forward values in gradient graphs.",
    BatchSerializationBatchSchedule: "The order of the parts of a batch.",
    BatchSerializationMethod: "The method of splitting a batch.",
    BatchSerializationTransformContext: "The pass in which a batch is split.",
    CollectiveOperator: "The operation of a collective on the replicas' values.",
    DataType: "Element types.",
    DeviceConnectionType: "The time at which a device is attached.",
    DeviceSelectionCriterion: "The choice among several devices.",
    DeviceType: "Kinds of devices.",
    ExecutionPhaseIOSchedule: "The time at which a phase's data is loaded.",
    ExecutionPhaseSchedule: "The order within a phase.",
    GradientTensorTrackingMethod: "The gradients that automatic loss scaling tracks.",
    InitType: "The content of new memory.",
    Instrumentation: "The loops that are measured.",
    IrSerializationFormat: "File formats of an Ir.",
    MeanReductionStrategy: "The time of the division of a mean.",
    MergeVarUpdateType: "The updates that are merged.",
    OptimizerReductionType: "The tensors that an optimiser reduces over replicas.",
    OptimizerType: "Optimisers.",
    PatternsLevel: "The set of patterns that run.",
    RecomputationType: "The ops that are recomputed in the backward pass.",
    RecomputeType: "Whether an op is recomputed.",
    ReductionType: "The reduction of a loss or gradients.",
    ReplicatedStreamMode: "Whether each replica gets separate data.",
    SGDAccumulatorAndMomentum: "Whether SGD keeps accumulator and momentum in one tensor.",
    ScatterReduction: "The reduction of elements with equal indices.",
    SubgraphCopyingStrategy: "The time at which a call copies its inputs.",
    SyncPattern: "The IPUs that synchronise with each other.",
    SyntheticDataMode: "The replacement of data.",
    TensorRemapType: "The passes in which a tensor gets a new layout.",
    TensorType: "Kinds of tensors.",
    VirtualGraphMode: "The choice of IPUs for ops.",
    WeightDecayMode: "The target of a weight decay.",
}
for _kind, _doc in _DOCS.items():
    _kind.__doc__ = _doc
