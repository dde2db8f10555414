"""Tests poptorch.Options as programs inspect it: names, types, dictionary methods, toDict()."""

import poptorch
import pytest
import torch
from poptorch import poptorch_core

X = torch.arange(4.0).reshape(4, 1)
MODES, GROUPS = poptorch.OutputMode, poptorch.CommGroupType
FROM_THE_START = {
    "replication_factor": 1,
    "input_group_size": 1,
    "input_cgt": GROUPS.Consecutive,
    "broadcast_buffers": True,
    "device_iterations": 1,
    "log_dir": ".",
    "max_repeat_logs": 4,
    "auto_round_num_ipus": False,
    "anchored_tensors": {},
    "output_mode": 4,
    "output_return_period": 1,
    "connection_type": 0,
    "sync_pattern": 0,
    "available_memory_proportion": {},
}
SESSION = {"instrumentWithHardwareCycleCounter": False, "rearrangeAnchorsOnHost": False}


def test_what_exists_from_the_start():
    options = poptorch.Options()
    assert poptorch.options.OptionGroup.toDict(options) == FROM_THE_START
    assert options._Popart.options == SESSION
    assert options._popart is options._Popart
    assert options.Training.toDict() == {
        "gradient_accumulation": 1,
        "accumulation_and_replication_reduction_type": poptorch.ReductionType.Mean,
        "meanAccumulationAndReplicationReductionStrategy": poptorch.MeanReductionStrategy.Post,
    }
    assert options.Distributed.toDict() == {
        "num_distributed_processes": 1,
        "distributed_process_id": 0,
        "ipuof_configs": {},
    }
    for group in (options.Precision, options.Jit, options.TensorLocations):
        assert group.toDict() == {}


CREATED = {
    "model_name": ("modelName", "m", "m"),
    "use_model": ("useIpuModel", True, True),
    "ipu_id": ("useIpuId", 1, 1),
    "ipu_version": ("useOfflineIpuTarget", 21, 21),
    "random_seed": ("randomSeed", 7, 7),
    "max_repeat_logs": ("maxRepeatLogs", None, 2**64 - 1),
    "available_memory_proportion": ("setAvailableMemoryProportion", {"IPU0": 0.5}, {0: 0.5}),
    "_execution_strategy": ("setExecutionStrategy", *[poptorch.ShardedExecution()] * 2),
    "_relax_optimizer_checks": ("relaxOptimizerAttributesChecks", True, True),
    "_show_compilation_progress_bar": ("showCompilationProgressBar", False, False),
    "_source_location_excludes": ("sourceLocationExcludes", ["a"], ["a"]),
}


@pytest.mark.parametrize("name", CREATED)
def test_a_setter_stores_under_the_name_that_programs_read(name):
    setter, argument, stored = CREATED[name]
    options = poptorch.Options()
    if name not in FROM_THE_START and name[0] != "_":
        assert not options.exists(name)
        with pytest.raises(AttributeError, match=f"Invalid attribute {name}"):
            getattr(options, name)
    getattr(options, setter)(argument)
    assert getattr(options, name) == stored
    assert options.exists(name) == (name[0] != "_")
    assert repr(getattr(options.clone(), name)) == repr(stored)


def test_anchored_tensors_are_lists():
    options = poptorch.Options()
    options.anchorTensor("a", "x")
    options.anchorTensor("b", "y", MODES.EveryN, 3)
    assert options.anchored_tensors == {"a": ["x", True, 4, 1], "b": ["y", False, 1, 3]}
    model = torch.nn.Linear(1, 1)
    assert poptorch.inferenceModel(model, options).options.anchored_tensors["a"][2] == MODES.All


def test_locations_are_snapshots():
    settings = poptorch.TensorLocationSettings()
    assert settings.toDict() == {}
    settings.useOnChipStorage(False).minElementsForOffChip(3).useIOTilesToLoad()
    locations = poptorch.Options().TensorLocations.setWeightLocation(settings).numIOTiles(32)
    settings.useOnChipStorage(None)
    assert settings.toDict() == {"minElementsForOffChip": 3, "useIOTilesToLoad": 1}
    said = {"onChip": 0, "minElementsForOffChip": 3, "useIOTilesToLoad": 1}
    assert type(locations.location_weight) is dict and locations.location_weight == said
    assert locations.location_weight["onChip"] == 0
    assert locations.toDict() == {"location_weight": said, "numIOTiles": 32}
    assert locations("numIOTiles") == 32


def groups():
    options = poptorch.Options()
    return [
        (options, "device_iterations", 3),
        (options.Training, "gradient_accumulation", 3),
        (options.Distributed, "num_distributed_processes", 3),
        (poptorch.TensorLocationSettings().minElementsForOffChip(1), "minElementsForOffChip", 3),
    ]


@pytest.mark.parametrize("group, name, value", groups(), ids=lambda v: type(v).__name__)
def test_groups_are_dictionaries(group, name, value):
    group.set(**{name: value})
    assert group(name) == value and group.exists(name)
    with pytest.raises(AssertionError, match="Invalid option wibble"):
        group.set(wibble=1)
    with pytest.raises(AssertionError, match="Invalid option wibble"):
        group("wibble")
    with pytest.raises(AssertionError, match="Unexpected type"):
        group.set(**{name: "3"})
    group.createOrSet(wibble=1, **{name: 2})
    assert group("wibble") == group.wibble == 1 and group(name) == 2
    with pytest.raises(AssertionError, match="Unexpected type"):
        group.createOrSet(wibble="1")
    other = {"there": 1}
    assert group.update(other) is other
    assert other == {"there": 1} | {key: group(key) for key in other.keys() - {"there"}}
    assert {"there", "wibble", name} <= other.keys()
    with pytest.raises(AssertionError, match="wibble"):
        group.update({"wibble": 1})
    group.deleteIfExists("wibble")
    group.deleteIfExists("wibble")
    assert not group.exists("wibble")
    group._freeze()
    for change in (
        lambda: group.set(**{name: 1}),
        lambda: group.createOrSet(wobble=1),
        lambda: group.deleteIfExists(name),
        group.checkIsFrozen,
    ):
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            change()
    group._unfreeze()
    group.set(**{name: 1})
    group.checkIsFrozen()


def test_unknown_private_names():
    for group in (poptorch.Options(), poptorch.Options().Training):
        with pytest.raises(AttributeError, match="Invalid private attribute _wibble"):
            group._wibble = 1


def test_to_dict_is_flat():
    options = poptorch.Options()
    with pytest.raises(AssertionError, match="An output mode must be picked before serialisation"):
        options.toDict()
    options.outputMode(MODES.Sum).randomSeed(3).Training.gradientAccumulation(4)
    options.TensorLocations.numIOTiles(64)
    assert options.toDict() == {
        "execution_mode": 0,
        **SESSION,
        **FROM_THE_START,
        **options.Training.toDict(),
        **options.Distributed.toDict(),
        "output_mode": 3,
        "random_seed": 3,
        "numIOTiles": 64,
    }
    assert options.toDict()["gradient_accumulation"] == 4
    options._freeze()
    options.toDict()["anchored_tensors"]["x"] = 1
    assert options.anchored_tensors == {}
    with pytest.raises(AssertionError, match="random_seed"):
        options.update({"random_seed": 1})


STRATEGIES = [
    (poptorch.PipelinedExecution("a"), {"execution_mode": 0}),
    (poptorch.ShardedExecution("a"), {"execution_mode": 1}),
    (
        poptorch.SerialPhasedExecution(["a"]).setTensorsLiveness(
            poptorch.Liveness.OffChipAfterEachPhase
        ),
        {
            "execution_mode": 2,
            "separate_backward_phase": False,
            "tensors_liveness": 3,
            "serial_phases_execution": True,
        },
    ),
    (
        poptorch.ParallelPhasedExecution(["a"]).useSeparateBackwardPhase(),
        {
            "execution_mode": 2,
            "separate_backward_phase": True,
            "tensors_liveness": 0,
            "serial_phases_execution": False,
        },
    ),
]


@pytest.mark.parametrize("strategy, said", STRATEGIES, ids=lambda v: type(v).__name__)
def test_strategies_say_what_they_are(strategy, said):
    assert isinstance(strategy, poptorch.options._IExecutionStrategy)
    options = poptorch.Options().outputMode(MODES.All).setExecutionStrategy(strategy)
    assert options._execution_strategy is strategy
    assert said.items() <= options.toDict().items()
    poptorch_core._validateOptions(options.toDict())


def test_launchers_derive_from_the_classes():
    class Fixed(poptorch.options._DistributedOptions):
        def disable(self):
            raise RuntimeError("Cannot call `Distributed.disable`")

        @property
        def processId(self):
            return 5

    class Launched(poptorch.Options):
        def __init__(self):
            super().__init__()
            self.replicationFactor(2)
            self.Distributed.__class__ = Fixed

    options = poptorch.Options()
    options.Distributed = Fixed()
    assert options.Distributed.processId == options.clone().Distributed.processId == 5
    with pytest.raises(AssertionError, match="Unexpected type"):
        options.Distributed = poptorch.options._TrainingOptions()
    options._freeze()
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        options.Distributed = Fixed()

    options = Launched()
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (5, 1)
    with pytest.raises(RuntimeError, match="Cannot call"):
        options.Distributed.disable()
    copied = options.clone()
    assert type(copied) is Launched and type(copied.Distributed) is Fixed
    assert copied.replication_factor == 2
    for name in ("Precision", "Training", "TensorLocations", "Jit", "Popart"):
        kind = getattr(poptorch.options, f"_{name.removesuffix('s')}Options")
        assert isinstance(getattr(options, name if name != "Popart" else "_Popart"), kind)
    assert issubclass(poptorch.options.ConfigFileError, Exception)
