"""The session options that opts._Popart records: their names, and what values they may have."""

import difflib

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
    prefetchBufferingDepthMap rearrangeAnchorsOnHost rearrangeStreamsOnHost
    replicatedCollectivesSettings replicatedGraphCount reportOptions
    scheduleNonWeightUpdateGradientConsumersEarly separateCallOpPdfs
    serializedPoprithmsAnnealGraphsDir serializedPoprithmsShiftGraphsDir strictOpVersions
    subgraphCopyingStrategy swapLimitScheduler syntheticDataMode tensorLocationSettingsOverride
    throwIfLog2ScaleTensorNotInRange timeLimitScheduler transitiveClosureOptimizationThreshold
    updatableNamedBuffers useHostCopyOps useLoopCandidateCreator virtualGraphMode
    weightTensorLocationSettings
    """.split()
)
VALUES = (bool, int, float, str, list, tuple, set, dict)


def check(options: dict) -> None:
    """Raises poptorch.Error for names that are no session option and values of other types."""
    for name, value in options.items():
        base, _, _ = name.partition(".")
        if base not in NAMES:
            close = difflib.get_close_matches(base, NAMES, 1)
            raise Error(
                f"Unknown session option {name}."
                + (f" Did you mean {close[0]}?" if close else " Remove it from opts._Popart.")
            )
        if not isinstance(value, VALUES):
            raise Error(
                f"Unknown value type {type(value)} for option {name}. Use a number, a truth "
                "value, a string, a list or a dict."
            )
