"""The public names, arguments and defaults are those of PopTorch's documentation."""

import inspect

import poptorch
import poptorch.testing
import pytest
import torch
from popxl import replica_grouping
from popxl.ops import collectives

NAMES = """
    Error RecoverableError UnrecoverableError PoplarExecutor DataLoader AsynchronousDataAccessor
    trainingModel inferenceModel isRunningOnIpu ipuHardwareIsAvailable ipuHardwareVersion
    setLogLevel ICustomArgParser registerCustomArgParser registerPreCompileHook
    registerPostCompileHook print __version__ ConfigFileError Options TensorLocationSettings
    options.ConfigFileError options.Options poptorch_core.Error optim profiling enums options ops
    testing createPoptorchError module_repr poptorch_core _impl _logging _utils profiling.Channel
    testing.allclose
    optim.SGD optim.Adam optim.AdamW optim.RMSprop optim.LAMB optim.VariableAttributes
    enums.OutputMode enums.SharingStrategy OutputMode ConnectionType ReductionType
    MeanReductionStrategy DataLoaderMode SharingStrategy SyncPattern HalfFloatCastingBehavior
    Liveness AutoStage MultiConvPlanType CommGroupType VariableRetrievalMode
    MatMulSerializationMode OverlapMode identity_loss Attribute load for_loop cond custom_op CPU
    ctc_beam_search_decoder ipu_print_tensor nop recomputationCheckpoint dynamic_slice
    dynamic_update serializedMatMul set_available_memory set_overlap_for_input
    set_overlap_for_output MultiConv NameScope fps nearest Block BeginBlock BlockFunction
    save_checkpoint load_checkpoint Checkpoint
    distributed.all_reduce distributed.all_gather distributed.reduce_scatter distributed.all_to_all
    distributed.group_size distributed.group_rank distributed.ReplicaGroup
    removeBlocks Stage Phase PipelinedExecution ShardedExecution ParallelPhasedExecution
    SerialPhasedExecution TensorLocationSettings
""".split()
MEMBERS = """
    __call__ compile copyWeightsToHost copyWeightsToDevice copyWeightsToHostIfNeeded
    copyNamedBuffersToDevice setOptimizer load_state_dict destroy isCompiled isAttachedToDevice
    attachToDevice detachFromDevice rng_state model options getTensorNames getAnchoredTensor
    getPerfCounters getHostIpuLatency getComputeLatency getIpuHostLatency getLatency cycleCount
    compilationTime _debugGetPopartIR compileAndExport save loadExecutable
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    found = poptorch
    for part in name.split("."):
        found = getattr(found, part)


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_the_wrapper(name):
    assert hasattr(poptorch.PoplarExecutor, name)


F32, INF = torch.float32, float("inf")
MOMENTS = {
    "accum_type": F32,
    "first_order_momentum_accum_type": F32,
    "second_order_momentum_accum_type": F32,
}
DEFAULTS = {
    poptorch.trainingModel: {"options": None, "optimizer": None},
    poptorch.inferenceModel: {"options": None},
    poptorch.DataLoader: {
        "batch_size": 1,
        "shuffle": None,
        "num_workers": 0,
        "drop_last": True,
        "persistent_workers": None,
        "auto_distributed_partitioning": True,
        "mode": poptorch.DataLoaderMode.Sync,
        "async_options": None,
        "rebatched_worker_size": None,
        "batch_sampler": None,
    },
    poptorch.AsynchronousDataAccessor: {
        "buffer_size": 3,
        "miss_sleep_time_in_ms": 0.1,
        "load_indefinitely": True,
        "early_preload": False,
        "sharing_strategy": poptorch.SharingStrategy.ForkServer,
        "rebatched_size": None,
    },
    poptorch.optim.SGD: {
        **dict.fromkeys(("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")),
        **dict.fromkeys(("foreach", "differentiable", "loss_scaling", "velocity_scaling")),
        "use_combined_accum": False,
        "accum_type": F32,
        "velocity_accum_type": F32,
        "max_grad_norm": None,
    },
    poptorch.optim.Adam: {
        **dict.fromkeys(("lr", "betas", "eps", "weight_decay", "amsgrad", "foreach", "maximize")),
        **dict.fromkeys(("capturable", "differentiable", "fused", "loss_scaling")),
        **MOMENTS,
        "max_grad_norm": None,
    },
    poptorch.optim.AdamW: {
        **dict.fromkeys(("lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach")),
        **dict.fromkeys(("capturable", "differentiable", "fused", "loss_scaling")),
        "bias_correction": True,
        **MOMENTS,
        "max_grad_norm": None,
    },
    poptorch.optim.RMSprop: {
        **dict.fromkeys(("lr", "alpha", "eps", "weight_decay", "momentum", "centered", "foreach")),
        **dict.fromkeys(("maximize", "differentiable", "loss_scaling")),
        **MOMENTS,
        "use_tf_variant": False,
    },
    poptorch.optim.LAMB: {
        **dict.fromkeys(("lr", "betas", "eps", "weight_decay", "loss_scaling", "max_weight_norm")),
        "bias_correction": True,
        **MOMENTS,
    },
    poptorch.Options.useOfflineIpuTarget: {"ipu_version": 2},
    poptorch.Options.outputMode: {"output_return_period": None},
    poptorch.Options.anchorTensor: {"output_mode": None, "output_return_period": 1},
    poptorch.testing.allclose: {"rtol": 1e-5, "atol": 1e-8, "equal_nan": False},
    poptorch.ipuHardwareIsAvailable: {"num_ipus": 1},
}


@pytest.mark.parametrize("function", DEFAULTS, ids=lambda f: f.__qualname__)
def test_arguments_and_defaults(function):
    parameters = inspect.signature(function).parameters
    for name, default in DEFAULTS[function].items():
        assert parameters[name].default == default, name


@pytest.mark.parametrize(
    "kind, values",
    [
        ("SGD", {"loss_scaling": 1.0, "max_grad_norm": INF, "use_combined_accum": False}),
        ("Adam", {"loss_scaling": 1.0, "max_grad_norm": INF}),
        ("AdamW", {"loss_scaling": 1.0, "max_grad_norm": INF, "bias_correction": True}),
        ("RMSprop", {"loss_scaling": 1.0, "use_tf_variant": False}),
        ("LAMB", {"loss_scaling": 1.0, "bias_correction": True}),
    ],
)
def test_attributes_of_an_optimiser(kind, values):
    parameters = [torch.nn.Parameter(torch.zeros(1))]
    lr = {"lr": 0.1} if kind == "SGD" else {}
    made = getattr(poptorch.optim, kind)(parameters, **lr)
    for name, value in values.items():
        assert getattr(made, name) == value, name
    group = made.param_groups[0]
    if kind == "SGD":
        assert group["velocity_scaling"] == 1.0
    if kind == "LAMB":
        expected = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2}
        assert {**expected, "max_weight_norm": 65500.0}.items() <= group.items()


@pytest.mark.parametrize(
    "name, values",
    [
        ("OutputMode", {"Final": 0, "EveryN": 1, "All": 2, "Sum": 3, "Default": 4}),
        ("ConnectionType", {"Always": 0, "OnDemand": 1, "Never": 2}),
        ("ReductionType", {"Sum": 0, "Mean": 1, "NoReduction": 2}),
        ("MeanReductionStrategy", {"Running": 0, "Post": 1, "PostAndLoss": 2}),
        ("DataLoaderMode", {"Sync": 0, "Async": 1, "AsyncRebatched": 2}),
        ("SharingStrategy", {"SharedMemory": 0, "FileSystem": 1, "Fork": 2, "ForkServer": 3}),
        ("SyncPattern", {"Full": 0, "SinglePipeline": 1, "ReplicaAndLadder": 2}),
        (
            "HalfFloatCastingBehavior",
            {"FloatDowncastToHalf": 0, "HalfUpcastToFloat": 1, "Default": 2},
        ),
        (
            "Liveness",
            {
                "AlwaysLive": 0,
                "OffChipAfterFwd": 1,
                "OffChipAfterFwdNoOverlap": 2,
                "OffChipAfterEachPhase": 3,
            },
        ),
        ("AutoStage", {"SameAsIpu": 0, "AutoIncrement": 1}),
        ("MultiConvPlanType", {"Parallel": 0, "Serial": 1}),
        ("CommGroupType", {"All": 0, "Consecutive": 1, "Orthogonal": 2, "NoGrouping": 3}),
        ("VariableRetrievalMode", {"OnePerGroup": 0, "AllReplicas": 2}),
        (
            "MatMulSerializationMode",
            {
                "InputChannels": "input_channels",
                "ReducingDim": "reducing_dim",
                "OutputChannels": "output_channels",
                "Disabled": "none",
            },
        ),
        (
            "OverlapMode",
            {
                "NoOverlap": "no_overlap",
                "OverlapAccumulationLoop": "overlap_accumulation_loop",
                "OverlapDeviceIterationLoop": "overlap_device_iteration_loop",
            },
        ),
    ],
)
def test_enumerations(name, values):
    assert {member.name: member.value for member in getattr(poptorch, name)} == values


@pytest.mark.parametrize(
    ("ours", "popart"),
    [
        (poptorch.CommGroupType, collectives.CommGroupType),
        (poptorch.VariableRetrievalMode, replica_grouping.VariableRetrievalMode),
    ],
)
def test_enumerations_of_both_front_ends_have_the_same_numbers(ours, popart):
    """Each API has names that the other lacks, so there are two classes."""
    shared = ours.__members__.keys() & popart.__members__.keys()
    assert len(shared) >= 2
    assert {name: ours[name].value for name in shared} == {
        name: popart[name].value for name in shared
    }
