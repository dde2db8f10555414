"""Each option of the compiler is set by one row of poptorch's options, and a new option needs one
row alone.
"""

import inspect
from types import SimpleNamespace

import poptorch
import pytest
import torch
from poptorch._impl.options import argument_texts, core_table, rows
from poptorch._impl.options.group_class import OptionGroup, groups_of
from poptorch_core import _core

# Options that poptorch's options do not set: the wrapped model, its outputs, the machine and
# POPTORCH_NUM_THREADS set them.
OF_THE_MODEL = {"device", "threads", "late_memory_check"}
# Options that processes and the launcher set: _impl/devices/processes.py.
OF_THE_MACHINE = {"link_domain", "sharding_replicas", "offline"}
TABLE = _core.option_table()


def said_names():
    """Yields the names of options and heads of lines that rows of all groups set."""
    options = poptorch.Options()
    for group in [*groups_of(options).values(), poptorch.TensorLocationSettings()]:
        for row in group.ROWS:
            yield from row.said_names()


def test_one_row_says_each_option():
    said = [name for name in said_names() if name and not name.startswith("location ")]
    assert len(said) == len(set(said))
    plain = {o.name for o in TABLE if o.keyword in ("execution", "location", "host")}
    found = {o.name for o in TABLE if o.found}
    assert set(said) == plain - found - OF_THE_MODEL - OF_THE_MACHINE
    kinds = {name.removeprefix("location ") for name in said_names() if " " in name}
    assert kinds == {"weights", "activations", "optimiser_state", "accumulators"}


WORDS = {(o.keyword, o.name): o.words for o in TABLE}


@pytest.mark.parametrize(
    ("enumeration", "words"),
    [
        (poptorch.OutputMode, [*WORDS["execution", "output_mode"], "Default"]),
        (poptorch.OutputMode, [*WORDS["anchor", "mode"], "Default"]),
        (poptorch.Liveness, WORDS["execution", "liveness"]),
        (poptorch.CommGroupType, _core.COMM_GROUPS),
    ],
)
def test_enumerations_have_the_compilers_words(enumeration, words):
    assert {member.name: member.value for member in enumeration} == {
        word: number for number, word in enumerate(words)
    }


def test_setters_of_the_table_are_options():
    groups = {path.rstrip("."): group for path, group in groups_of(poptorch.Options()).items()}
    groups["TensorLocationSettings"] = poptorch.TensorLocationSettings()
    setters = [o.setter.partition("(")[0] for o in TABLE if o.setter]
    assert len(setters) > 10
    for setter in setters:
        path, _, name = setter.rpartition(".")
        assert callable(getattr(groups[path], name)), setter


def option(name, type_, default, **more):
    """Returns a row in the table's format."""
    base = {"keyword": "execution", "least": None, "most": None, "words": [], "doc": "What."}
    base |= {"even": False, "allowed": "what it takes"}
    row = {"name": name, "type": type_, "default": default, "setter": f"Toy.{name}X(given)", **base}
    return SimpleNamespace(**{**row, **more})


@pytest.mark.parametrize(
    ("row", "good", "bad", "text"),
    [
        (option("on", "bool", False), True, 1, "expected True or False but got 1"),
        (option("kept", "bool?", None), False, 0, "expected True or False but got 0"),
        (option("turns", "int", 1, least=1, most=8), 8, 9, "got 9. Pass 1 to 8"),
        (option("tiles", "int", 0, least=0, most=8), 4, -1, "from 0 to 8 but got -1"),
        (option("pair", "int", 0, least=2, most=8, even=True), 4, 5, "what it takes but got 5"),
        (option("mode", "str", "", words=["", "a", "b"]), "b", "c", "'a' or 'b' but got 'c'"),
    ],
    ids=lambda value: value.name if isinstance(value, SimpleNamespace) else "",
)
def test_a_row_of_the_compilers_table_is_a_whole_option(row, good, bad, text):
    class ToyOptions(OptionGroup):
        ROWS = core_table.rows_of("Toy", [row])

    options = ToyOptions()
    setter = getattr(options, f"{row.name}X")
    assert getattr(options, f"{row.name}_x") == row.default
    with pytest.raises((poptorch.Error, AssertionError, ValueError), match=text):
        setter(bad)
    assert setter(good) is options
    assert setter(given=good) is options
    assert options.ROWS[0].said(options) == {row.name: good}
    assert "What." in setter.__doc__


# Programs pass these arguments by name. `=`: there is a default; none: no argument.
ARGUMENTS = {
    "": """
        deviceIterations(device_iterations) replicationFactor(replication_factor)
        autoRoundNumIPUs(auto_round_num_ipus=) broadcastBuffers(broadcast_buffers=)
        outputMode(output_mode,output_return_period=) setExecutionStrategy(strategy)
        setAvailableMemoryProportion(available_memory_proportion) logDir(log_dir)
        maxRepeatLogs(max_lines) modelName(name) enableExecutableCaching(path)
        enableProfiling(profile_dir=) useIpuModel(use_model) useIpuId(ipu_id)
        useOfflineIpuTarget(ipu_version=) connectionType(connection_type) syncPattern(sync_pattern)
        enableStableNorm(enabled) enableSyntheticData(enabled) logCycleCount(log_cycle_count)
        updatableNamedBuffers(buffers) sourceLocationExcludes(excludes)
        appendToLocationExcludes(excludes) relaxOptimizerAttributesChecks(relax=)
        showCompilationProgressBar(show=) from_json(string) loadFromFile(filepath)
        randomSeed(random_seed) disableModuleNamescope()
        anchorTensor(short_name,long_name,output_mode=,output_return_period=)
        inputReplicaGrouping(input_group_size,input_group_type)""",
    "Precision.": """
        enableFloatingPointExceptions(enabled) enableStochasticRounding(enabled)
        setPartialsType(dtype) halfFloatCasting(half_float_casting)
        runningStatisticsAlwaysFloat(value)""",
    "Training.": """
        gradientAccumulation(gradient_accumulation)
        accumulationAndReplicationReductionType(reduction_type)
        setMeanAccumulationAndReplicationReductionStrategy(mean_reduction_strategy)
        setAutomaticLossScaling(enabled) setConvolutionDithering(enabled)""",
    "TensorLocations.": """
        numIOTiles(num_tiles) setActivationLocation(location) setWeightLocation(location)
        setOptimizerLocation(location) setAccumulatorLocation(location)""",
    "TensorLocationSettings": """
        minElementsForOffChip(min_elements) useOnChipStorage(use=) useIOTilesToLoad(use=)
        minElementsForReplicatedTensorSharding(min_elements) useIOTilesToStore(use=)
        useReplicatedTensorSharding(use=)""",
    "Jit.": "traceModel(trace_model)",
    "Distributed.": """
        setEnvVarNames(var_num_processes,var_process_id)
        configureProcessId(process_id,num_processes) disable()""",
}


@pytest.mark.parametrize("path", ARGUMENTS)
def test_arguments_have_their_names(path):
    groups = groups_of(poptorch.Options())
    groups["TensorLocationSettings"] = poptorch.TensorLocationSettings()
    for text in ARGUMENTS[path].split():
        name = text.partition("(")[0]
        parameters = inspect.signature(getattr(groups[path], name)).parameters.values()
        given = [p.name + "=" * (p.default is not p.empty) for p in parameters]
        assert f"{name}({','.join(given)})" == text


def test_other_arguments_are_refused():
    options = poptorch.Options()
    assert options.deviceIterations(device_iterations=4).device_iterations == 4
    with pytest.raises(TypeError, match=r"deviceIterations\(\) .*'device_iterations'"):
        options.deviceIterations()
    with pytest.raises(TypeError, match=r"deviceIterations\(\) .*'iterations'"):
        options.deviceIterations(1, iterations=4)


def test_options_reach_the_compiler():
    options = poptorch.Options().deviceIterations(2).randomSeed(7)
    options.Precision.enableFloatingPointExceptions(True)
    options.TensorLocations.setWeightLocation(
        poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(1)
    )
    model = poptorch.inferenceModel(torch.nn.Linear(2, 2), options)
    model.compile(torch.ones(2, 2))
    text = model.graph("normal")
    assert "device_iterations=2" in text
    assert "random_seed=7" in text
    assert "floating_point_exceptions=true" in text
    assert 'location "weights" {least_off_chip=1, on_chip=false}' in text


def test_each_argument_of_a_setter_has_its_own_text():
    found = {}
    options = poptorch.Options()
    for group in [*groups_of(options).values(), poptorch.TensorLocationSettings()]:
        for row in group.ROWS:
            method = getattr(type(group), row.name)
            if method.__module__ == rows.__name__:  # the others have docstrings by hand
                names = [*inspect.signature(method).parameters][1:]
                found |= {row.name: set(names)} if names else {}
                for name in names:
                    assert f"    {name}: " in method.__doc__
                    assert "value to set" not in method.__doc__
    assert found == {name: set(texts) for name, texts in argument_texts.TEXTS.items()}
    assert "Allowed: 1 to " in poptorch.Options.deviceIterations.__doc__
