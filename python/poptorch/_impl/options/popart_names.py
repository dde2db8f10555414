"""Names and value types of the options that the backend accepts.

Most session options (`opts._Popart`) are only recorded.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from poptorch_core import Error

NAMES = frozenset(
    """
    accumulateOuterFragmentSettings accumulationAndReplicationReductionType accumulationFactor
    accumulationReductionType accumulatorTensorLocationSettings activationTensorLocationSettings
    aliasZeroCopy autoRecomputation autodiffSettings automaticLossScalingSettings
    batchSerializationSettings bufferingDepthMap cachePath compileEngine constantWeights
    convolutionOptions createImplicitPipeliningFwdOnlyProgram customCodeletCompileFlags
    customCodelets decomposeGradSum defaultBufferingDepth defaultPrefetchBufferingDepth
    delayVarUpdates developerSettings disableGradAccumulationTensorStreams
    disableOptimizerStateTensorStreams dotChecks dotOpNames
    enableConstantFoldingOfMultipleConsumers enableDistributedReplicatedGraphs enableEngineCaching
    enableExplicitIR enableExplicitMainLoops enableFloatingPointChecks enableFullyConnectedPass
    enableGradientAccumulation enableInplaceAmbiguityChecking enableLoadAndOffloadRNGState
    enableMergeExchange enableNonStableSoftmax enableOutlining enableOutliningCopyCostPruning
    enablePipelining enablePrefetchDatastreams enableReplicatedGraphs enableRngStateManagement
    enableSerializedMatmuls enableStableNorm enableStochasticRounding
    enableSupportedDataTypeCasting enableVariablesCaching engineOptions ensureFp32LossScaleTensor
    executionPhaseSettings explicitRecomputation exportPoplarComputationGraph
    exportPoplarVertexGraph finalDotOp firstDotOp gclOptions globalReplicaOffset
    globalReplicationFactor groupHostSync groupNormStridedChannelGrouping hardwareInstrumentations
    instrumentWithHardwareCycleCounter kahnTieBreaker logDir lstmOptions matmulOptions
    meanAccumulationAndReplicationReductionStrategy mergeVarUpdate mergeVarUpdateMemThreshold
    numIOTiles optimizerStateTensorLocationSettings opxAliasChecking opxModifyChecking
    outlineSequenceBreakCost outlineThreshold partialsTypeMatMuls patterns patternsLevel
    patterns_level prefetchBufferingDepthMap rearrangeAnchorsOnHost rearrangeStreamsOnHost
    replicatedCollectivesSettings replicatedGraphCount reportOptions
    saveInitializersToFile
    scheduleNonWeightUpdateGradientConsumersEarly separateCallOpPdfs
    serializedPoprithmsAnnealGraphsDir serializedPoprithmsShiftGraphsDir strictOpVersions
    subgraphCopyingStrategy swapLimitScheduler syntheticDataMode tensorLocationSettingsOverride
    throwIfLog2ScaleTensorNotInRange timeLimitScheduler transitiveClosureOptimizationThreshold
    updatableNamedBuffers useHostCopyOps useLoopCandidateCreator virtualGraphMode
    weightTensorLocationSettings
    """.split()
)
_KINDS = {bool: "bool", int: "int", float: "float", str: "string", dict: "dict",
          list: "list", tuple: "list", set: "list"}  # fmt: skip
# Options of execution strategies: see ExecutionStrategy.toDict.
_OF_STRATEGIES = frozenset(
    ("execution_mode", "separate_backward_phase", "tensors_liveness", "serial_phases_execution")
)


def validate(said: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises poptorch.Error for names and value types that the backend does not accept.

    said: the result of Options.toDict(). known: the names of poptorch.Options.
    """
    names = {*known, *_OF_STRATEGIES, *NAMES}
    for name, value in said.items():
        kind = next((text for kind, text in _KINDS.items() if isinstance(value, kind)), None)
        if kind is None:
            raise Error(
                f"Unknown value type {type(value)} for option {name}. Use a number, a boolean, "
                "a string, a list or a dict."
            )
        if name.partition(".")[0] not in names:
            close = difflib.get_close_matches(name, names, 1)
            raise Error(
                f"Unknown {kind} option {name}."
                + (f" Did you mean {close[0]}?" if close else " Do not set it.")
            )
