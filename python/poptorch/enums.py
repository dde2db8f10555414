"""The enumerations of the public API. Their numbers are part of the API."""

from enum import Enum as _Enum, IntEnum as _IntEnum

from poptorch_core import group_numbers as _numbers


class OutputMode(_IntEnum):
    """Selects the micro-batches whose outputs a call returns."""

    Final = 0  #: the last one of each replica
    EveryN = 1  #: every N-th
    All = 2  #: all of them
    Sum = 3  #: their sum, for each replica
    Default = 4  #: Final in training, All in inference


class ConnectionType(_IntEnum):
    """Says when a model attaches to a device."""

    Always = 0  #: before compilation
    OnDemand = 1  #: after compilation
    Never = 2  #: never: for offline compilation


class ReductionType(_IntEnum):
    """Says how values of accumulation steps and replicas are combined."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class MeanReductionStrategy(_IntEnum):
    """Says when a mean reduction divides."""

    Running = 0  #: the accumulator always holds the mean so far
    Post = 1  #: once, after accumulation
    PostAndLoss = 2  #: deprecated


class DataLoaderMode(_IntEnum):
    """Says how poptorch.DataLoader loads."""

    Sync = 0
    Async = 1
    AsyncRebatched = 2


class SharingStrategy(_IntEnum):
    """Says how a worker process passes its data on."""

    SharedMemory = 0
    FileSystem = 1
    Fork = 2
    ForkServer = 3


class SyncPattern(_IntEnum):
    """Selects the IPUs that synchronise with each other."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class HalfFloatCastingBehavior(_IntEnum):
    """Deprecated: mixed float16 and float32 operands are always converted to float32."""

    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class Liveness(_IntEnum):
    """Says when the tensors of a phase leave the chip."""

    AlwaysLive = 0
    OffChipAfterFwd = 1
    OffChipAfterFwdNoOverlap = 2
    OffChipAfterEachPhase = 3


class AutoStage(_IntEnum):
    """Says how stages are numbered if the model does not number them."""

    SameAsIpu = 0
    AutoIncrement = 1


class MultiConvPlanType(_IntEnum):
    """Says whether the convolutions of a MultiConv run together."""

    Parallel = 0
    Serial = 1


class CommGroupType(_IntEnum):
    """Selects the replicas that form a group."""

    All = _numbers.ALL
    Consecutive = _numbers.CONSECUTIVE
    Orthogonal = _numbers.ORTHOGONAL
    NoGrouping = _numbers.SEPARATE


class VariableRetrievalMode(_IntEnum):
    """Selects the replicas whose values of a grouped weight are returned."""

    OnePerGroup = _numbers.ONE_PER_GROUP
    AllReplicas = _numbers.ALL_REPLICAS


class MatMulSerializationMode(_Enum):
    """Selects the dimension of a matmul that is split."""

    InputChannels = "input_channels"
    ReducingDim = "reducing_dim"
    OutputChannels = "output_channels"
    Disabled = "none"


class OverlapMode(_Enum):
    """Selects the loop whose computation host transfers may overlap with."""

    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"
