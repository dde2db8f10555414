"""poptorch.Options as the compiler takes them: lines of the description of an execution.

A line is (keyword, name, options by name): see poptorch_core._core.option_table().
"""

from collections.abc import Iterable, Mapping

from poptorch._impl.replica_groups import ReplicaGroup
from poptorch._impl.tensor_locations import locations_of
from poptorch.enums import CommGroupType, Liveness, OutputMode, ReductionType
from poptorch.options import Options

Line = tuple[str, str, dict]


def execution_lines(options: Options, training: bool, device: str) -> list[Line]:
    """What the options say; anchors and replica groups depend on the model."""
    strategy = options.execution_strategy
    group = options.input_group_size
    orthogonal = options.input_group_type == CommGroupType.Orthogonal
    reduction = options.Training.accumulation_and_replication_reduction_type
    said = {
        "training": training,
        "device": device,
        "strategy": strategy.NAME,
        "liveness": Liveness(strategy.liveness).name,
        "separate_backward_phase": strategy.separate_backward_phase,
        "io_tiles": options.TensorLocations.num_io_tiles,
        "device_iterations": options.device_iterations,
        "gradient_accumulation": options.Training.gradient_accumulation,
        "replication_factor": options.replication_factor,
        "output_mode": OutputMode(options.output_mode).name,
        "output_period": options.output_return_period,
        "mean_reduction": reduction == ReductionType.Mean,
        "random_seed": options.random_seed or 0,
        "input_group_size": group,
        "input_group_stride": options.replication_factor // group if orthogonal else 1,
        "floating_point_exceptions": options.Precision.enable_floating_point_exceptions,
        "check_indices": options.Emulator.check_indices,
        "stochastic_rounding": options.Precision.enable_stochastic_rounding,
        # PopART's RecomputationType; 0 is NoRecompute.
        "recompute": int(options._Popart.options.get("autoRecomputation", 3)) != 0,
    }
    locations = locations_of(options.TensorLocations)
    return [("execution", "", said), *(("location", *item) for item in locations.items())]


def host_options(options: Options) -> dict:
    """What does not depend on the program."""
    return {
        "memory_limit": options.Emulator.memory_limit,
        "round_ipu_count": options.auto_round_num_ipus,
    }


def anchor_lines(requests: Iterable[tuple[str, OutputMode, int]]) -> list[Line]:
    return [
        ("anchor", name, {"mode": OutputMode(mode).name, "period": period})
        for name, mode, period in requests
    ]


def group_lines(groups: Mapping[str, ReplicaGroup]) -> list[Line]:
    return [
        ("replica_group", name, {"size": size, "stride": stride, "all_replicas": every})
        for name, (size, stride, every) in groups.items()
    ]


def optimiser_lines(spec: dict | None) -> list[Line]:
    """Of what optimisers.describe() gives."""
    if spec is None:
        return []
    plain = {name: value for name, value in spec.items() if name not in ("kind", "groups")}
    groups = [
        {"parameters": group["parameters"], "variable": group["variable"], **group["values"]}
        for group in spec["groups"]
    ]
    numbered = [("optimiser_group", str(i), group) for i, group in enumerate(groups)]
    return [("optimiser", spec["kind"], plain), *numbered]
