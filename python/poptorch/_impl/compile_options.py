"""poptorch.Options as the compiler takes them: the fields of session::CompileOptions."""

from poptorch._impl.tensor_locations import locations_of
from poptorch.enums import CommGroupType, ReductionType
from poptorch.options import Options


def compile_options(options: Options, training: bool) -> dict:
    """What the options say; the device, anchors and replica groups are the executor's to add."""
    strategy = options.execution_strategy
    group = options.input_group_size
    orthogonal = options.input_group_type == CommGroupType.Orthogonal
    reduction = options.Training.accumulation_and_replication_reduction_type
    return {
        "training": training,
        "strategy": strategy.NAME,
        "liveness": int(strategy.liveness),
        "separate_backward_phase": strategy.separate_backward_phase,
        "locations": locations_of(options.TensorLocations),
        "io_tiles": options.TensorLocations.num_io_tiles,
        "round_ipu_count": options.auto_round_num_ipus,
        "device_iterations": options.device_iterations,
        "gradient_accumulation": options.Training.gradient_accumulation,
        "replication_factor": options.replication_factor,
        "output_mode": options.output_mode,
        "output_period": options.output_return_period,
        "mean_reduction": reduction == ReductionType.Mean,
        "random_seed": options.random_seed or 0,
        "memory_limit": options.Emulator.memory_limit,
        "input_group_size": group,
        "input_group_stride": options.replication_factor // group if orthogonal else 1,
        "floating_point_exceptions": options.Precision.enable_floating_point_exceptions,
        "check_indices": options.Emulator.check_indices,
        "stochastic_rounding": options.Precision.enable_stochastic_rounding,
        # PopART's RecomputationType; 0 is NoRecompute.
        "recompute": int(options._Popart.options.get("autoRecomputation", 3)) != 0,
    }
