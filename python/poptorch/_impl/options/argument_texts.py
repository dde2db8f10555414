"""Describes the arguments of setters, with their units: for docstrings and types.pyi.

rows.py adds the range of a number from the check of its row.
"""

_LOCATION = "Settings for tensors of this kind; they are copied."
_USE = "True to transfer through the IO tiles, False through all tiles."
_FOLDER = "A path, absolute or relative to the working directory."

# Texts by argument, for each setter.
TEXTS: dict[str, dict[str, str]] = {
    "enableStochasticRounding": {"enabled": "True to round at random, False to the nearest."},
    "enableFloatingPointExceptions": {
        "enabled": "True to stop at the first such value, False to continue with it."
    },
    "setPartialsType": {"dtype": "torch.float or torch.half."},
    "halfFloatCasting": {"half_float_casting": "Ignored."},
    "runningStatisticsAlwaysFloat": {"value": "Ignored; True or False."},
    "gradientAccumulation": {"gradient_accumulation": "Micro-batches in each weight update."},
    "accumulationAndReplicationReductionType": {
        "reduction_type": "ReductionType.Mean or ReductionType.Sum."
    },
    "setMeanAccumulationAndReplicationReductionStrategy": {
        "mean_reduction_strategy": "MeanReductionStrategy.Post or MeanReductionStrategy.Running. "
        "PostAndLoss is deprecated and has the effect of Post."
    },
    "setAutomaticLossScaling": {"enabled": "True to adapt the scale, False to keep the given one."},
    "setConvolutionDithering": {"enabled": "Recorded; True or False."},
    "traceModel": {"trace_model": "False; True raises an error."},
    "useOnChipStorage": {
        "use": "True for the memory of the IPU, False for Streaming Memory, None for the default."
    },
    "minElementsForOffChip": {
        "min_elements": "Elements of the smallest tensor that may leave the chip."
    },
    "useReplicatedTensorSharding": {
        "use": "True to keep a share in each replica, False to keep the tensor whole."
    },
    "minElementsForReplicatedTensorSharding": {
        "min_elements": "Elements of the smallest tensor that may be sharded."
    },
    "useIOTilesToLoad": {"use": _USE},
    "useIOTilesToStore": {"use": _USE},
    "numIOTiles": {"num_tiles": "Tiles of each IPU that transfer data and do not compute."},
    "setActivationLocation": {"location": _LOCATION},
    "setWeightLocation": {"location": _LOCATION},
    "setOptimizerLocation": {"location": _LOCATION},
    "setAccumulatorLocation": {"location": _LOCATION},
    "setEnvVarNames": {
        "var_num_processes": "The variable with the number of processes, 1 or more. If it is not "
        "set, there is one process.",
        "var_process_id": "The variable with this process's number, from 0. If it is not set, the "
        "number is 0.",
    },
    "configureProcessId": {
        "process_id": "This process's number, from 0 to num_processes - 1.",
        "num_processes": "The number of processes, 1 or more.",
    },
    "devicePool": {
        "ipus": "The number of IPUs in the pool, a power of two.",
        "version": "The version of the IPUs: 1, 2 or 21.",
        "folder": "The folder of the locks by which processes share the pool. If empty, the pool "
        "belongs to this process.",
    },
    "checkIndices": {"enabled": "True to stop with an error, False to continue."},
    "memoryLimit": {"mode": "The reaction to a program that does not fit."},
    "set": {
        "key": "The name of a session option.",
        "value": "The value, of the type that the option has in PopART.",
    },
    "setEngineOptions": {"values": "Texts by the names of engine options."},
    "setPatterns": {
        "patterns": "Whether to use each pattern, by its name.",
        "level": "The level that gives the other patterns their values: 0 (none) to 3 (all).",
    },
    "deviceIterations": {"device_iterations": "Iterations of the step in each call."},
    "autoRoundNumIPUs": {
        "auto_round_num_ipus": "True to reserve more IPUs than the model needs, False to raise an "
        "error for a number that is not a power of two."
    },
    "replicationFactor": {
        "replication_factor": "The number of replicas in this process. Each needs the IPUs of a "
        "whole model."
    },
    "inputReplicaGrouping": {
        "input_group_size": "The number of replicas in a group. It divides the replication factor, "
        "which is set before.",
        "input_group_type": "The replicas that form a group: CommGroupType.Consecutive, "
        "Orthogonal, All or NoGrouping.",
    },
    "broadcastBuffers": {
        "broadcast_buffers": "True to refuse such models, False to keep a buffer in each replica."
    },
    "outputMode": {
        "output_mode": "OutputMode.Final, All, Sum, EveryN or Default: Final for training, All for "
        "inference.",
        "output_return_period": "For EveryN: the number of micro-batches, 1 or more, of which the "
        "last one's outputs are returned. Other modes ignore it.",
    },
    "setExecutionStrategy": {
        "strategy": "PipelinedExecution, ShardedExecution, ParallelPhasedExecution, "
        "SerialPhasedExecution, or an AutoStage, which makes a pipeline."
    },
    "setAvailableMemoryProportion": {
        "available_memory_proportion": "Shares from 0 to 1 by IPU, such as {'IPU0': 0.5}."
    },
    "logDir": {"log_dir": f"{_FOLDER} '.' writes no file."},
    "maxRepeatLogs": {
        "max_lines": "How often the same message is logged, 1 or more; None for no limit."
    },
    "modelName": {"name": "A name of up to 200 bytes, without slashes and backslashes."},
    "enableExecutableCaching": {"path": f"{_FOLDER} None stores nothing."},
    "useIpuModel": {"use_model": "True for the IPU Model, False for the pool of IPUs."},
    "connectionType": {
        "connection_type": "ConnectionType.Always (before the compilation), OnDemand (after it) or "
        "Never (compile only)."
    },
    "syncPattern": {
        "sync_pattern": "SyncPattern.Full, SinglePipeline, or ReplicaAndLadder (as Full)."
    },
    "useIpuId": {"ipu_id": "The number of the device in the pool."},
    "useOfflineIpuTarget": {"ipu_version": "The version of the IPU: 1, 2 or 21."},
    "randomSeed": {"random_seed": "The seed, from 0 to 2**64 - 1."},
    "enableStableNorm": {"enabled": "Recorded; True or False."},
    "enableSyntheticData": {"enabled": "True to use random data, False to transfer the inputs."},
    "logCycleCount": {"log_cycle_count": "True to count cycles and log them, False to count none."},
    "enableProfiling": {"profile_dir": f"{_FOLDER} None is the working directory."},
    "updatableNamedBuffers": {"buffers": "Names of buffers, as in named_buffers()."},
    "relaxOptimizerAttributesChecks": {
        "relax": "True to log them at debug level, False to warn about them."
    },
    "showCompilationProgressBar": {"show": "True to show the bar, False to hide it."},
    "sourceLocationExcludes": {
        "excludes": "Texts that are parts of paths. They replace the current ones."
    },
    "appendToLocationExcludes": {"excludes": "Texts that are parts of paths."},
}
