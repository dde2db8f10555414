"""The enumerations of the public API. The numbers are part of it."""

from enum import Enum as _Enum, IntEnum as _IntEnum


class OutputMode(_IntEnum):
    """Which micro-batches' outputs a call returns."""

    Final = 0  #: the last of each replica
    EveryN = 1  #: every N-th
    All = 2  #: all of them
    Sum = 3  #: their sum, of each replica
    Default = 4  #: Final in training, All in inference


class ConnectionType(_IntEnum):
    """When to attach to a device."""

    Always = 0  #: before compilation
    OnDemand = 1  #: after compilation
    Never = 2  #: never: for offline compilation


class ReductionType(_IntEnum):
    """How values of accumulation steps and replicas are combined."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class MeanReductionStrategy(_IntEnum):
    """Where the division of a mean reduction happens."""

    Running = 0  #: the accumulator always holds the mean so far
    Post = 1  #: once, after accumulation
    PostAndLoss = 2  #: deprecated


class DataLoaderMode(_IntEnum):
    """How poptorch.DataLoader loads."""

    Sync = 0
    Async = 1
    AsyncRebatched = 2


class SharingStrategy(_IntEnum):
    """How a worker process hands over its data."""

    SharedMemory = 0
    FileSystem = 1
    Fork = 2
    ForkServer = 3


class SyncPattern(_IntEnum):
    """Which IPUs synchronise with each other."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class HalfFloatCastingBehavior(_IntEnum):
    """Deprecated: mixed float16 and float32 operands always go to float32."""

    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class Liveness(_IntEnum):
    """When a phase's tensors leave the chip."""

    AlwaysLive = 0
    OffChipAfterFwd = 1
    OffChipAfterFwdNoOverlap = 2
    OffChipAfterEachPhase = 3


class AutoStage(_IntEnum):
    """How stages are numbered when none are given."""

    SameAsIpu = 0
    AutoIncrement = 1


class MultiConvPlanType(_IntEnum):
    """Whether the convolutions of a MultiConv run together."""

    Parallel = 0
    Serial = 1


class CommGroupType(_IntEnum):
    """Which replicas form a group."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    NoGrouping = 3


class VariableRetrievalMode(_IntEnum):
    """Which replicas' values of a grouped weight come back."""

    OnePerGroup = 0
    AllReplicas = 2


class MatMulSerializationMode(_Enum):
    """Which dimension of a matmul is split."""

    InputChannels = "input_channels"
    ReducingDim = "reducing_dim"
    OutputChannels = "output_channels"
    Disabled = "none"


class OverlapMode(_Enum):
    """What host transfers may overlap with."""

    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"
