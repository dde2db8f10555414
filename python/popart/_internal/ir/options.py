"""The options of a program."""

import copy
from typing import TYPE_CHECKING, Any

from popart.enums import (
    AccumulateOuterFragmentSchedule,
    AutodiffStitchStrategy,
    MeanReductionStrategy,
    MergeVarUpdateType,
    RecomputationType,
    ReductionType,
    SubgraphCopyingStrategy,
    SyntheticDataMode,
    VirtualGraphMode,
)
from poptorch_core import _core
from popxl._impl.records import Replicas, of, positive

if TYPE_CHECKING:
    import popxl

_FLAGS_ON = (
    *("aliasZeroCopy", "constantWeights", "decomposeGradSum", "enableExplicitIR"),
    *("enableExplicitMainLoops", "enableInplaceAmbiguityChecking", "enableOutlining"),
    *("enableVariablesCaching", "explicitRecomputation", "strictOpVersions"),
    *("throwIfLog2ScaleTensorNotInRange", "useHostCopyOps", "enableMergeExchange"),
    *("compileEngine", "enableFullyConnectedPass"),
)
_FLAGS_OFF = (
    *("delayVarUpdates", "enableFloatingPointChecks"),
    *("enableGradientAccumulation", "enableLoadAndOffloadRNGState", "enablePipelining"),
    *("enablePrefetchDatastreams", "enableReplicatedGraphs", "enableStochasticRounding"),
    *("enableSupportedDataTypeCasting", "exportPoplarComputationGraph", "groupHostSync"),
    *("instrumentWithHardwareCycleCounter", "replicatedAllReduce", "rearrangeAnchorsOnHost"),
    *("enableStableNorm", "rearrangeStreamsOnHost", "disableGradAccumulationTensorStreams"),
    *("enableSerializedMatmuls", "enableAutomaticLossScaling"),
)
_OTHERS: dict[str, Any] = {
    "accumulateOuterFragmentSchedule": AccumulateOuterFragmentSchedule.Scheduler,
    "accumulationAndReplicationReductionType": ReductionType.Sum,
    "accumulationFactor": 1,
    "autoRecomputation": RecomputationType.NoRecompute,
    "autodiffStitchStrategy": AutodiffStitchStrategy.RecomputeAllNonInputs,
    "convolutionOptions": {},
    "dotChecks": set(),
    "engineOptions": {},
    "firstDotOp": 0,
    "finalDotOp": 10000,
    "hardwareInstrumentations": set(),
    "kahnTieBreaker": "greedy",
    "logDir": "",
    "matmulOptions": {},
    "meanAccumulationAndReplicationReductionStrategy": MeanReductionStrategy.Post,
    "mergeVarUpdate": MergeVarUpdateType.Off,
    "numIOTiles": 0,
    "outlineThreshold": 1.0,
    "partialsTypeMatMuls": "",
    "reportOptions": {},
    "subgraphCopyingStrategy": SubgraphCopyingStrategy.OnEnterAndExit,
    "syntheticDataMode": SyntheticDataMode.Off,
    "timeLimitScheduler": 1e9,
    "swapLimitScheduler": 1000000000,
    "virtualGraphMode": VirtualGraphMode.Manual,
}
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(_FLAGS_ON, True),
    **dict.fromkeys(_FLAGS_OFF, False),
    **_OTHERS,
}


def _of_replicas(field: str, doc: str) -> Any:
    """Makes a property of the program's record.

    Setting it raises RuntimeError after a Session was made, and ValueError for an invalid number of
    replicas in this process.
    """

    def get(self: "SessionOptions") -> Any:
        return getattr(self._replicas, field)

    def put(self: "SessionOptions", value: Any) -> None:
        if self._ir is not None and of(self._ir).has_session:
            raise RuntimeError("The replication factor cannot change once a Session exists.")
        setattr(self._replicas, field, positive(value) if field == "here" else value)

    return property(get, put, doc=doc)


class SessionOptions:
    """Options of a program, made by `ir._pb_ir.getSessionOptions()`.

    Setting an unknown option raises AttributeError.

    Most are for hardware and have no effect. The emulator uses these:

    enableEngineCaching, cachePath: Whether compiled programs are cached for later sessions of equal
        programs, and in which folder. POPXL_CACHE_DIR sets both.
    dotChecks, logDir: The drawings that are made, and their folder.
    enableInplaceAmbiguityChecking: Whether in-place writes without an order are refused.
    throwIfLog2ScaleTensorNotInRange: Whether a scale outside [-32, 32) ends the run, for ops that
        are written afterwards.
    replicatedGraphCount: The replicas of this process.
    enableDistributedReplicatedGraphs: Whether other processes have replicas.
    globalReplicationFactor: The replicas of all processes.
    globalReplicaOffset: The number of this process's first replica.
    """

    def __init__(self, ir: "popxl.Ir | None" = None) -> None:
        object.__setattr__(self, "_ir", ir)
        object.__setattr__(self, "_own", Replicas())
        for name, value in DEFAULTS.items():
            object.__setattr__(self, name, copy.copy(value))
        path = _core.environment_text("POPXL_CACHE_DIR")
        object.__setattr__(self, "cachePath", path)
        object.__setattr__(self, "enableEngineCaching", path != "")
        checks = _core.environment_text("POPART_DOT_CHECKS")
        object.__setattr__(self, "dotChecks", set(filter(None, checks.split(":"))))

    if TYPE_CHECKING:  # the names in DEFAULTS

        def __getattr__(self, name: str) -> Any: ...

    replicatedGraphCount = _of_replicas("here", "The replicas of this process.")
    enableDistributedReplicatedGraphs = _of_replicas("distributed", "Whether others have replicas.")
    globalReplicationFactor = _of_replicas("everywhere", "The replicas of all processes.")
    globalReplicaOffset = _of_replicas("first", "The number of this process's first replica.")

    def getGlobalReplicationFactor(self) -> int:
        """Returns the number of replicas of all processes."""
        return self._replicas.total

    @property
    def _replicas(self) -> Replicas:
        return self._own if self._ir is None else of(self._ir).replicas

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name) and name not in vars(self):
            raise AttributeError(f"There is no session option {name!r} here.")
        object.__setattr__(self, name, value)


def options_of(ir: "popxl.Ir") -> SessionOptions:
    """Returns the options of a program; the same object each time."""
    record = of(ir)
    if record.options is None:
        record.options = SessionOptions(ir)
    return record.options
