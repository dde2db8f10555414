"""Tests Options.to_dict and from_dict: every option survives, also as JSON."""

import json

import poptorch
import pytest
import torch
from hypothesis import given, settings, strategies as st
from poptorch._impl.options.group_class import differing, groups_of

FLAG = st.booleans()
TEXTS = st.lists(st.text("ab/.", max_size=5), max_size=2)
LOCATION = st.fixed_dictionaries(
    {},
    optional={"onChip": st.integers(0, 1), "minElementsForOffChip": st.integers(0, 9)},
)


def members(kind):
    return st.sampled_from(list(kind))


def numbers(kind):
    return members(kind).map(int)


STAGES = st.sampled_from(
    [["a"], ["a", "b"], ["a", poptorch.Stage("b", "c").ipu(3)], [poptorch.Stage("x", "y")]]
)
PHASED = st.builds(
    lambda kind, stages, liveness, separate: _phased(kind, stages, liveness, separate),
    st.sampled_from([poptorch.SerialPhasedExecution, poptorch.ParallelPhasedExecution]),
    STAGES, members(poptorch.Liveness), FLAG,
)  # fmt: skip
STRATEGIES = st.one_of(
    st.builds(lambda kind, auto: kind(auto),
              st.sampled_from([poptorch.PipelinedExecution, poptorch.ShardedExecution]),
              members(poptorch.AutoStage)),
    st.builds(lambda stages: poptorch.PipelinedExecution(*stages), STAGES),
    PHASED,
)  # fmt: skip


def _phased(kind, stages, liveness, separate):
    made = kind(*stages, poptorch.Phase(poptorch.Stage("p"), poptorch.Stage("q")).ipus(1, 0))
    made.liveness = liveness
    return made.useSeparateBackwardPhase(separate)


# Values to assign, by dotted attribute. test_the_table_has_every_option checks the keys.
VALUES = {
    "device_iterations": st.integers(1, 9),
    "auto_round_num_ipus": FLAG,
    "replication_factor": st.just(4),
    "input_group_size": st.sampled_from([1, 2, 4]),
    "input_cgt": st.sampled_from([poptorch.CommGroupType.All, poptorch.CommGroupType.Orthogonal]),
    "broadcast_buffers": FLAG,
    "output_mode": numbers(poptorch.OutputMode),
    "output_return_period": st.integers(1, 9),
    "_execution_strategy": STRATEGIES,
    "available_memory_proportion": st.dictionaries(st.integers(0, 5), st.floats(0, 1)),
    "log_dir": st.text("ab/", max_size=5),
    "max_repeat_logs": st.integers(1, 9),
    "model_name": st.sampled_from(["m", "OutputMode.All", "torch.half"]),
    "cache_path": st.sampled_from([None, "d", "OutputMode.All"]),
    "use_model": FLAG,
    "connection_type": numbers(poptorch.ConnectionType),
    "sync_pattern": numbers(poptorch.SyncPattern),
    "ipu_id": st.integers(0, 9),
    "ipu_version": st.sampled_from([1, 2, 21]),
    "anchored_tensors": st.dictionaries(st.text("ab", min_size=1), st.just(["x", True, 4, 1])),
    "random_seed": st.integers(0, 2**64 - 1),
    "stable_norm": FLAG,
    "synthetic_data": FLAG,
    "log_cycle_count": FLAG,
    "profile_dir": st.sampled_from(["p", "q/r"]),
    "_module_namescope_enabled": FLAG,
    "updatable_named_buffers": TEXTS,
    "_relax_optimizer_checks": FLAG,
    "_show_compilation_progress_bar": FLAG,
    "_source_location_excludes": TEXTS,
    "Precision.enable_stochastic_rounding": FLAG,
    "Precision.enable_floating_point_exceptions": FLAG,
    "Precision.partials_type": st.sampled_from([torch.float, torch.half]),
    "Training.gradient_accumulation": st.integers(1, 9),
    "Training.accumulation_and_replication_reduction_type": members(poptorch.ReductionType),
    "Training.meanAccumulationAndReplicationReductionStrategy":
        members(poptorch.MeanReductionStrategy),
    "Training.auto_loss_scaling": FLAG,
    "Training.convolution_dithering": FLAG,
    "TensorLocations.numIOTiles": st.sampled_from([32, 64]),
    "TensorLocations.location_activation": LOCATION,
    "TensorLocations.location_weight": LOCATION,
    "TensorLocations.location_optimizer": LOCATION,
    "TensorLocations.location_accumulator": LOCATION,
    "Distributed.num_distributed_processes": st.integers(1, 9),
    "Distributed.distributed_process_id": st.integers(0, 9),
    "Distributed.ipuof_configs": st.just({}),
    "Emulator.device_pool": st.sampled_from([None, (4, 2, "/tmp/p"), (64, 21, "")]),
    "Emulator.check_indices": FLAG,
    "Emulator.memory_limit": st.sampled_from(["", "warn"]),
}  # fmt: skip
# Session options without a setter, and one that a setter shares.
SESSION = {"anything": 3, "convolutionOptions": {"mine": "x"}, "rearrangeAnchorsOnHost": True}


def table_of(options):
    for path, group in groups_of(options).items():
        for row in group.ROWS:
            for attribute in row.values():
                yield path + attribute, group, attribute


def test_the_table_has_every_option():
    names = [name for name, _, _ in table_of(poptorch.Options())]
    assert set(names) - {"_Popart.options"} == set(VALUES)


def same(one, other):
    assert repr(one) == repr(other)
    assert {n: repr(v) for n, v in differing(one).items()} == {
        n: repr(v) for n, v in differing(other).items()
    }
    assert one._Popart.options == other._Popart.options


@settings(max_examples=60, deadline=None, database=None)
@given(st.fixed_dictionaries({}, optional=VALUES), st.fixed_dictionaries({}, optional={
    name: st.just(value) for name, value in SESSION.items()}))  # fmt: skip
def test_options_survive_a_round_trip(values, session):
    options = poptorch.Options()
    for name, value in session.items():
        options._Popart.set(name, value)
    for name, group, attribute in table_of(options):
        if name not in values:
            continue
        try:
            setattr(group, attribute, values[name])
        except (AssertionError, ValueError):  # it does not fit the others
            continue
    for only_set in (True, False):
        found = options.to_dict(only_set)
        text = json.dumps(found)
        again = poptorch.Options.from_dict(json.loads(text))
        assert json.dumps(again.to_dict(only_set)) == text
        assert repr(options._execution_strategy) == repr(again._execution_strategy)
        if not only_set:
            assert set(again.to_dict()) == set(found)


def test_defaults_are_left_out():
    assert poptorch.Options().to_dict(only_set=True) == {}
    options = poptorch.Options().deviceIterations(4).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(2)
    assert options.to_dict(only_set=True) == {
        "device_iterations": 4,
        "output_mode": "OutputMode.All",
        "Training": {"gradient_accumulation": 2},
    }
    same(poptorch.Options.from_dict(options.to_dict()), options)


def test_short_forms_of_strategies():
    given = {"kind": "PipelinedExecution", "stages": ["a", ["b", "c"], {"blocks": ["d"], "ipu": 0}]}
    made = poptorch.Options.from_dict({"execution_strategy": given})._execution_strategy
    assert repr(made) == "PipelinedExecution(Stage('a'), Stage('b', 'c'), Stage('d').ipu(0))"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device_iteration": 3}, "no option device_iteration. Did you mean device_iterations?"),
        ({"training": {}}, "no option training. Did you mean Training?"),
        ({"xyz": {}}, "no option xyz. Use one of: Distributed, Emulator,"),
        ({"Jit": {"xyz": 1}}, "no option Jit.xyz. Leave it out"),
        ({"Training": {"xyz": 1}}, "Use one of: accumulation_and_replication_reduction_type, "),
        (None, "expected a dict of options but got None"),
        ({"Training": 3}, "expected a dict of options for Training but got 3"),
        ({"Training": {"gradient_accumulation": "x"}}, "gradient_accumulation: Unexpected"),
        ({"output_mode": "OutputMode.Wibble"}, "output_mode: expected one of OutputMode.Final, "),
        ({"output_mode": "All"}, "but got 'All'"),
        ({"output_mode": "SyncPattern.Full"}, "but got 'SyncPattern.Full'"),
        (
            {"Training": {"accumulation_and_replication_reduction_type": "Mean"}},
            "expected one of ReductionType.Sum, ReductionType.Mean, ",
        ),
        ({"gradient_accumulation": 4}, "here. It is an option of the group Training, so"),
        ({"Training": {"random_seed": 4}}, "here. It is an option of the top level, so"),
        ({"execution_strategy": {"kind": "Wibble"}}, "a strategy has a kind: one of Pipelined"),
        ({"execution_strategy": {"kind": "Wibble"}}, "Execution, not 'Wibble'."),
        ({"execution_strategy": {}}, "Execution, not None."),
        ({"execution_strategy": "ShardedExecution"}, 'such as {"kind": "ShardedExecution"}'),
        ({"execution_strategy": {"kind": "PipelinedExecution", "x": 1}}, "has no x"),
    ],
)
def test_refusals_name_the_option(given, message):
    with pytest.raises(poptorch.ConfigFileError) as error:
        poptorch.Options.from_dict(given)
    assert message in error.value.message


def test_strategies_of_other_classes_are_refused():
    class Mine(poptorch.PipelinedExecution):
        pass

    with pytest.raises(ValueError, match="Mine is not one of"):
        poptorch.Options().setExecutionStrategy(Mine()).to_dict()
