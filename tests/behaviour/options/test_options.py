"""Tests poptorch.Options: the table's rows, freezing, copies and checks."""

import copy

import poptorch
import pytest
import torch
from poptorch._impl.options.stored_values import state_of


def test_setters_chain_and_attributes_read_back():
    options = poptorch.Options().deviceIterations(4).replicationFactor(2)
    assert (options.device_iterations, options.replication_factor) == (4, 2)
    options.device_iterations = 5
    assert options.device_iterations == 5
    assert repr(options) == "Options(device_iterations=5, replication_factor=2)"


def test_the_repr_shows_what_was_set():
    assert repr(poptorch.Options()) == "Options()"
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    options.Precision.enableStochasticRounding(True)
    options.logDir("/logs")
    assert repr(options) == (
        "Options(log_dir='/logs', Training=TrainingOptions(gradient_accumulation=4), "
        "Popart=PopartOptions(options={'enableStochasticRounding': True}))"
    )


def test_every_row_has_documentation_and_a_place_of_effect():
    groups = [poptorch.Options()]
    groups += state_of(groups[0]).groups.values()
    groups.append(poptorch.TensorLocationSettings())
    rows = [row for group in groups for row in group.ROWS]
    assert len(rows) > 40
    for row in rows:
        assert len(row.doc) > 5 and row.effect, row.name
    assert "Takes effect at: compilation." in poptorch.Options.deviceIterations.__doc__


def test_unknown_names_and_wrong_types():
    options = poptorch.Options()
    with pytest.raises(AttributeError, match="Invalid attribute foo."):
        options.foo = 1
    with pytest.raises(AttributeError, match="Invalid attribute foo."):
        _ = options.foo
    with pytest.raises(AssertionError, match="Unexpected type"):
        options.device_iterations = "many"


def test_options_are_frozen_on_use_and_copies_are_not():
    options = poptorch.Options()
    wrapped = poptorch.inferenceModel(torch.nn.Linear(2, 2), options)
    for frozen in (options, wrapped.options):
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            frozen.deviceIterations(2)
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            frozen.Training.gradientAccumulation(2)
    for free in (options.clone(), copy.deepcopy(options)):
        free.deviceIterations(2).Training.gradientAccumulation(3)
        assert free.device_iterations == 2
    assert options.device_iterations == 1


@pytest.mark.parametrize(
    "wrong, error, text",
    [
        (lambda o: o.outputMode(2), AssertionError, "OutputMode"),
        (lambda o: o.outputMode(poptorch.OutputMode.EveryN), AssertionError, "positive period"),
        (lambda o: o.deviceIterations(0), poptorch.Error, "positive integer"),
        (lambda o: o.connectionType(1), AssertionError, "ConnectionType"),
        (lambda o: o.syncPattern(0), AssertionError, "SyncPattern"),
        (lambda o: o.useIpuId("0"), AssertionError, "integer"),
        (lambda o: o.randomSeed("0"), AssertionError, "integer"),
        (lambda o: o.setAvailableMemoryProportion({"0": 1}), AssertionError, "IPU0"),
        (lambda o: o.inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive), ValueError, "1"),
        (lambda o: o.inputReplicaGrouping(1, poptorch.CommGroupType.All), ValueError, "All"),
        (lambda o: o.TensorLocations.numIOTiles(31), AssertionError, "between 32 and 192"),
        (lambda o: o.TensorLocations.setWeightLocation(1), AssertionError, "LocationSettings"),
        (lambda o: o.Precision.setPartialsType(torch.int32), ValueError, "partials"),
        (lambda o: o.Precision.runningStatisticsAlwaysFloat(1), ValueError, "True or False"),
        (
            lambda o: o.Training.accumulationAndReplicationReductionType(
                poptorch.ReductionType.NoReduction
            ),
            ValueError,
            "Mean",
        ),
        (lambda o: o.Jit.traceModel(True), ValueError, "dispatcher"),
        (
            lambda o: o.updatableNamedBuffers("mean"),
            AssertionError,
            "list of strings but got 'mean'",
        ),
        (lambda o: o.sourceLocationExcludes("a.py"), AssertionError, "list of strings"),
        (lambda o: o.appendToLocationExcludes(3), AssertionError, "list of strings"),
    ],
)
def test_checks(wrong, error, text):
    with pytest.raises(error, match=text):
        wrong(poptorch.Options())


def test_distributed_reads_the_environment_once(monkeypatch):
    former = poptorch.Options()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    assert (former.Distributed.processId, former.Distributed.numProcesses) == (0, 1)
    options = poptorch.Options()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "8")
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (3, 4)
    assert options.Distributed.num_distributed_processes == 4
    options.Distributed.setEnvVarNames("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK")
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (3, 8)
    options.Distributed.configureProcessId(1, 2)
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (1, 2)
    options.Distributed.disable()
    assert options.Distributed.numProcesses == 1


def test_random_seed_seeds_torch_too():
    poptorch.Options().randomSeed(9)
    first = torch.rand(1)
    torch.manual_seed(9)
    assert torch.rand(1) == first


def load(tmp_path, text):
    file = tmp_path / "poptorch.conf"
    file.write_text(text)
    return poptorch.Options().loadFromFile(str(file))


def test_a_file_of_setter_calls(tmp_path):
    options = load(
        tmp_path,
        """
        # comments and blank lines count for nothing
        deviceIterations(3)  # nor do inline ones
        replicationFactor(2).outputMode(poptorch.OutputMode.EveryN, 3)
        Training.gradientAccumulation(4)
        Precision.setPartialsType(torch.half)
        setAvailableMemoryProportion({"IPU0": 0.5})
        TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
        """,
    )
    assert options.device_iterations == 3 and options.replication_factor == 2
    assert (options.output_mode, options.output_return_period) == (1, 3)
    assert options.Training.gradient_accumulation == 4
    assert options.Precision.partials_type is torch.half
    assert options.available_memory_proportion == {0: 0.5}
    assert options.TensorLocations.location_weight == {"onChip": 0}


@pytest.mark.parametrize(
    "line, reason",
    [
        ("deviceIterations(", "was never closed"),
        ("wibble(1)", "there is no option wibble"),
        ("Training.wibble(1)", "there is no option Training.wibble"),
        ("deviceIteration(1)", "option deviceIteration. Did you mean deviceIterations?"),
        ("gradientAccumulation(1)", "Did you mean Training.gradientAccumulation?"),
        ("opts.deviceIterations(1)", "Leave out the name of the options object"),
        ("deviceIterations(open('x'))", "open is not an option object"),
        ("deviceIterations(1 + 1)", "is not a literal"),
        ("device_iterations = 3", "invalid syntax"),
        ("_store({})", "there is no option _store"),
        ("outputMode(poptorch.OutputMode.Wibble)", "neither an enumeration member nor"),
        ("__class__", "a call of an option is expected"),
        ("deviceIterations(().__class__.__base__)", "is not a name"),
    ],
)
def test_a_file_is_parsed_and_never_executed(tmp_path, line, reason):
    with pytest.raises(poptorch.ConfigFileError, match=r"SyntaxError at line 2 of") as caught:
        load(tmp_path, f"replicationFactor(1)\n{line}\n")
    assert reason in str(caught.value)
    assert f"> options.{line}" in str(caught.value)


def test_reports_show_options_that_only_hardware_honours():
    options = poptorch.Options().syncPattern(poptorch.SyncPattern.SinglePipeline)
    options._Popart.set("dotChecks", "x")
    wrapped = poptorch.inferenceModel(torch.relu, options)
    wrapped(torch.ones(2))
    assert wrapped.report()["recorded_options"] == {"_Popart.options": {"dotChecks": "x"}}


def test_json_and_the_environment(monkeypatch):
    text = '{"Training.gradientAccumulation": 5, "outputMode": ["OutputMode.EveryN", 2]}'
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", text)
    options = poptorch.Options()
    assert options.Training.gradient_accumulation == 5
    assert options.toDict()["output_return_period"] == 2
    assert options.toDict()["gradient_accumulation"] == 5
    with pytest.raises(poptorch.ConfigFileError, match="there is no option wibble"):
        options.from_json('{"wibble": 1}')
    monkeypatch.delenv("POPTORCH_DEFAULT_OPTIONS")
    with pytest.raises(AssertionError, match="An output mode must be picked before serialisation"):
        poptorch.Options().toDict()
