"""Invalid values of options are refused by setters, by assignment, in files and in JSON."""

import json
import math
import os
import re
from pathlib import Path

import poptorch
import pytest
import torch
from poptorch._impl.options.group_class import OptionGroup, value_of
from poptorch._impl.options.stored_values import state_of
from poptorch_core._core import option_table

NONSENSE = [object(), [object()], {"a": object()}, -(2**80), 2**80, "\0", math.nan, b"x", 3 + 4j]


def groups():
    options = poptorch.Options()
    yield from [options, *state_of(options).groups.values(), poptorch.TensorLocationSettings()]


def attributes():
    return [
        pytest.param(type(group), name, id=f"{type(group).__name__}.{name}")
        for group in groups()
        for row in group.ROWS
        for name in row.values()
    ]


def fresh(kind) -> OptionGroup:
    return next(group for group in groups() if type(group) is kind)


@pytest.mark.parametrize("kind, name", attributes())
def test_assignment_refuses_nonsense(kind, name):
    for value in NONSENSE:
        options = fresh(kind)
        before = value_of(options, name)
        try:
            setattr(options, name, value)
        except (poptorch.Error, AssertionError, ValueError) as error:
            assert name in str(error) and "<locals>" not in str(error)
            assert value_of(options, name) == before
        else:
            # These attributes take any text or collection.
            free = ("log_dir", "cache_path", "profile_dir", "options", "ipuof_configs")
            assert name in free, f"{name} takes {value!r}"


def limits():
    """Yields (class of the group, attribute, largest number) of the compiler's integer options."""
    most = {option.name: option.most for option in option_table() if option.type == "int"}
    for group in groups():
        for row in group.ROWS:
            for attribute in row.values():
                said = row.says if isinstance(row.says, str) else attribute
                if most.get(said) is not None:
                    yield type(group), attribute, most[said]
    yield type(poptorch.Options()), "output_return_period", most["output_period"]


def test_numbers_above_the_limits_of_the_compiler_are_refused():
    found = list(limits())
    names = {attribute for _, attribute, _ in found}
    assert {"replication_factor", "device_iterations", "gradient_accumulation"} <= names
    assert {"input_group_size", "output_return_period", "numIOTiles"} <= names
    for kind, attribute, most in found:
        with pytest.raises((poptorch.Error, AssertionError, ValueError), match=str(most)):
            setattr(fresh(kind), attribute, most + 2)
    for refused in (
        lambda options: options.replicationFactor(2**15 + 1),
        lambda options: options.inputReplicaGrouping(2**15 + 1, poptorch.CommGroupType.Orthogonal),
        lambda options: options.outputMode(poptorch.OutputMode.EveryN, 2**40 + 1),
    ):
        with pytest.raises(poptorch.Error, match="expected a positive integer"):
            refused(poptorch.Options())
    assert poptorch.Options().replicationFactor(2**15).replication_factor == 2**15


@pytest.mark.parametrize("kind, name", attributes())
def test_assignment_takes_what_is_read(kind, name):
    options = fresh(kind)
    value = value_of(options, name)
    if value or options.exists(name):
        setattr(options, name, value)
    assert value_of(options, name) == value


STRATEGY = poptorch.SerialPhasedExecution(["a"])
TAKEN = [
    ("device_iterations", 3, 3),
    ("output_mode", poptorch.OutputMode.All, 2),
    ("output_mode", 2, 2),
    ("connection_type", poptorch.ConnectionType.Never, 2),
    ("connection_type", 1, 1),
    ("ipu_id", 3, 3),
    ("available_memory_proportion", {"IPU1": 1}, {1: 1}),
    ("available_memory_proportion", {1: 0.5}, {1: 0.5}),
    ("_execution_strategy", STRATEGY, STRATEGY),
    ("max_repeat_logs", 2**64 - 1, 2**64 - 1),
    ("input_cgt", poptorch.CommGroupType.Orthogonal, 2),
    ("random_seed", 2**64 - 1, 2**64 - 1),
    ("Training.accumulation_and_replication_reduction_type", poptorch.ReductionType.Sum, 0),
    ("TensorLocations.location_weight", {"onChip": 0}, {"onChip": 0}),
    ("Distributed.num_distributed_processes", 4, 4),
    ("Precision.enable_stochastic_rounding", True, True),
    ("Emulator.device_pool", (4, 1, "x"), (4, 1, "x")),
    ("Emulator.memory_limit", "off", "off"),
]


@pytest.mark.parametrize("path, value, stored", TAKEN)
def test_assignment_takes_what_the_setter_takes(path, value, stored):
    group = poptorch.Options()
    *groups, name = path.split(".")
    for part in groups:
        group = getattr(group, part)
    setattr(group, name, value)
    assert getattr(group, name) == stored


REFUSED = [
    ("device_iterations", -1, "positive integer but got -1. Pass 1 to 1073741824"),
    ("device_iterations", 2**31, "positive integer but got 2147483648"),
    ("device_iterations", True, "positive integer but got True"),
    ("available_memory_proportion", {"IPU0": 5.0}, "from 0 to 1, for IPU0 but got 5.0"),
    ("available_memory_proportion", {"IPUs": 0.5}, "a key such as 'IPU0' but got 'IPUs'"),
    ("available_memory_proportion", {0: 5.0}, "from 0 to 1, for IPU0 but got 5.0"),
    ("random_seed", -1, "from 0 to 18446744073709551615 but got -1"),
    ("random_seed", 2**70, f"but got {2**70}"),
    ("output_mode", 7, "one of OutputMode.Final, .* but got 7"),
    ("connection_type", 9, "one of ConnectionType.Always, .* but got 9"),
    ("input_group_size", 3, "3 must divide the replication factor 1"),
    ("ipu_id", -1, "whole number from 0 to"),
    ("ipu_version", 3, "1, 2 or 21, not 3"),
    ("model_name", "../x", "without / and "),
    ("model_name", "a/b", "without / and "),
    ("model_name", "a\nb", "without / and "),
    ("model_name", "n" * 201, "up to 200 bytes"),
    ("anchored_tensors", {"a": 3}, "Call anchorTensor"),
    ("Training.gradient_accumulation", 0, "positive integer but got 0"),
    ("Distributed.distributed_process_id", -1, "whole number from 0"),
    ("Emulator.memory_limit", "perhaps", "'warn', 'error' or 'off'"),
    ("Emulator.device_pool", (3,), "choose 0 or a power of two"),
    ("TensorLocations.numIOTiles", 33, "even number between 32 and 192"),
    ("TensorLocations.location_weight", {"wibble": 1}, "have no 'wibble'"),
    ("TensorLocations.location_weight", {"onChip": 2}, "from 0 to 1 but got 2"),
]


@pytest.mark.parametrize("path, value, reason", REFUSED)
def test_assignment_runs_the_setters_checks(path, value, reason):
    group = poptorch.Options()
    *groups, name = path.split(".")
    for part in groups:
        group = getattr(group, part)
    with pytest.raises((poptorch.Error, AssertionError, ValueError), match=reason) as caught:
        setattr(group, name, value)
    assert re.search(rf"\({name}, given at .*test_refused_options.py:\d+\)", str(caught.value))


def test_a_setter_says_where_it_was_called():
    with pytest.raises(ValueError, match=r"\(randomSeed, given at .*test_refused_options.py:\d+"):
        poptorch.Options().randomSeed(-1)


def test_numbers_of_processes_fit_together(monkeypatch):
    distributed = poptorch.Options().Distributed
    with pytest.raises(ValueError, match="no process 5 among 2: they are numbered from 0 to 1"):
        distributed.configureProcessId(5, 2)
    monkeypatch.setenv("MY_COUNT", "2")
    monkeypatch.setenv("MY_RANK", "2")
    with pytest.raises(poptorch.Error, match=r"MY_RANK is 2, but there are 2 processes \(MY_COUN"):
        distributed.setEnvVarNames("MY_COUNT", "MY_RANK")
    monkeypatch.setenv("MY_COUNT", "two")
    with pytest.raises(poptorch.Error, match="MY_COUNT is 'two'. Set it to a whole number of 1 or"):
        distributed.setEnvVarNames("MY_COUNT", "MY_RANK")


def test_frozen_options_do_not_seed():
    options = poptorch.Options()
    state_of(options).freeze()
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        options.randomSeed(3)
    assert torch.rand(1) == expected


def load(folder, text, options=None):
    file = folder / "poptorch.conf"
    file.write_text(text)
    return (options or poptorch.Options()).loadFromFile(str(file))


WRONG_LINES = [
    ("deviceIterations(0)", "positive integer but got 0"),
    ("deviceIterations()", "missing a required argument"),
    ("deviceIterations(1, 2)", "too many positional arguments"),
    ("deviceIterations(wibble=1)", "argument"),
    ("outputMode(2)", "OutputMode"),
    ("randomSeed(-1)", "from 0 to"),
    ("Training.gradientAccumulation('2')", "positive integer"),
    ("setAvailableMemoryProportion({'IPU0': 5.0})", "from 0 to 1"),
    ("Distributed.configureProcessId(5, 2)", "no process 5 among 2"),
    ("setExecutionStrategy(3)", "."),
    ("TensorLocations.setWeightLocation(3)", "TensorLocationSettings"),
    ("modelName('../../etc/passwd')", "without / and"),
    ("logDir('/etc')", "leaves '.', the folder that the program has set"),
    ("logDir('a/../../b')", "leaves '.'"),
    ("logDir(3)", "leaves '.'"),
    ("enableProfiling('/etc')", "leaves '.'"),
    ("enableExecutableCaching('/etc')", "leaves '.'"),
    ("Emulator.devicePool(4, 2, '/etc')", "leaves '.*/poptorch"),
    ("Emulator.devicePool(4, folder='../x')", "leaves '.*/poptorch"),
    ("replicationFactor(2).logDir('/etc')", "leaves '.'"),
    ("deviceIterations(" + "(" * 500, "nest|never closed"),
    ("deviceIterations(" + "[" * 3000 + "]" * 3000 + ")", "."),
    ("sourceLocationExcludes([" + "'a'," * 10 + "3])", "list of strings"),
    ("deviceIterations(99999999999999999999)", "beyond 64 bits"),
    ("setAvailableMemoryProportion({[]: 1})", "."),
    ("useIpuId(None)", "expected an integer"),
    ("__init__()", "there is no option __init__"),
    ("_values.update({})", "there is no option"),
    ("loadFromFile('x')", "there is no option loadFromFile"),
    ("from_json('{}')", "there is no option from_json"),
    ("clone()", "there is no option clone"),
    ("Training.__class__('x')", "there is no option"),
    ("deviceIterations(*[1])", "not a literal"),
    ("deviceIterations(**{'a': 1})", r"\*\* is not taken"),
    ("deviceIterations(f'{1}')", "not a literal"),
    ("deviceIterations(lambda: 1)", "not a literal"),
    ("deviceIterations([x for x in (1,)])", "not a literal"),
]


@pytest.mark.parametrize("line, reason", WRONG_LINES, ids=range(len(WRONG_LINES)))
def test_a_wrong_line_is_named_and_nothing_is_taken(tmp_path, line, reason):
    options = poptorch.Options()
    before = repr(options)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    good = "deviceIterations(7)\nTraining.gradientAccumulation(3)\nrandomSeed(9)\n"
    with pytest.raises(poptorch.ConfigFileError, match=reason) as caught:
        load(tmp_path, f"{good}\n  {line}\n", options)
    assert f" at line 5 of {tmp_path / 'poptorch.conf'}: " in str(caught.value)
    assert str(caught.value).endswith(f"> options.{line}")
    assert repr(options) == before
    assert torch.rand(1) == expected


def test_a_file_is_taken_at_once(tmp_path):
    options = load(tmp_path, "randomSeed(9)\nTraining.gradientAccumulation(3)\nmodelName('m')")
    drawn = torch.rand(1)
    torch.manual_seed(9)
    assert torch.rand(1) == drawn
    assert options.Training.gradient_accumulation == 3 and options.model_name == "m"
    options.deviceIterations(2)  # it is not a draft any more
    assert options.device_iterations == 2


def test_bytes_that_are_no_text(tmp_path):
    file = tmp_path / "poptorch.conf"
    file.write_bytes(b"deviceIterations(2)\n\xff\xfe\0(\n")
    with pytest.raises(poptorch.ConfigFileError, match="at line 2"):
        poptorch.Options().loadFromFile(str(file))


WRONG_JSON = [
    ("[1,2]", "expected an object such as .*, not a list"),
    ("3", "not a int"),
    ("{", "Expecting property name"),
    ('{"deviceIterations": 0}', "positive integer"),
    ('{"deviceIterations": 2, "deviceIterations": 3}', "deviceIterations appears twice"),
    ('{"deviceIterations": [1, 2]}', "too many positional arguments"),
    ('{"Training": 2}', "there is no option Training"),
    ('{"Training.deviceIterations.x": 2}', "there is no option"),
    ('{"Training.xyz": 2}', "option Training.xyz. Use one of: .*, Training.gradientAccumulation, "),
    ('{"xyz": 2}', "option xyz. Use one of: anchorTensor, "),
    ('{"logDir": "/etc"}', "leaves '.'"),
    ('{"modelName": "a/b"}', "without / and"),
    ('{"Emulator.devicePool": [4, 2, "/etc"]}', "leaves"),
    ('{"randomSeed": -1}', "from 0 to"),
    ("[" * 100000, ""),
]


@pytest.mark.parametrize("text, reason", WRONG_JSON, ids=range(len(WRONG_JSON)))
def test_wrong_json_is_refused_and_nothing_is_taken(text, reason, monkeypatch):
    options = poptorch.Options()
    with pytest.raises(poptorch.ConfigFileError, match=reason) as caught:
        options.from_json(text)
    assert "[options] JSON options: " in str(caught.value)
    assert repr(options) == repr(poptorch.Options())
    if len(text) < 1000 and "leaves" not in reason:  # the user's variables may name any folder
        monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", text)
        with pytest.raises(poptorch.ConfigFileError, match=reason) as caught:
            poptorch.Options()
        assert "[environment] POPTORCH_DEFAULT_OPTIONS: " in str(caught.value)


def test_folders_of_a_file_are_in_those_of_the_program(tmp_path, monkeypatch):
    program = poptorch.Options().logDir(str(tmp_path / "logs"))
    program.Emulator.devicePool(4, 2, str(tmp_path / "pools"))
    text = "logDir('run/1')\nEmulator.devicePool(8, folder='mine')\nmodelName('net')"
    options = load(tmp_path, text, program)
    assert options.log_dir == str(tmp_path / "logs/run/1")
    assert options.Emulator.device_pool == (8, 2, str(tmp_path / "pools/mine"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    options = load(tmp_path, "logDir('logs')\nEmulator.devicePool(8, folder='mine')")
    assert options.log_dir == "logs"
    assert options.Emulator.device_pool == (8, 2, str(tmp_path / "poptorch/mine"))
    assert load(tmp_path, "Emulator.devicePool(8)").Emulator.device_pool == (8, 2, "")


FOLDERS = {
    "logDir": (lambda o: o.log_dir, "{}/logs"),
    "enableProfiling": (lambda o: o.profile_dir, "{}/reports"),
    "enableExecutableCaching": (lambda o: o.cache_path, "{}/../cache"),
    "Emulator.devicePool": (lambda o: o.Emulator.device_pool[2], "{}/pool"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_the_users_variables_are_anywhere(tmp_path, monkeypatch, name):
    read, folder = FOLDERS[name][0], FOLDERS[name][1].format(tmp_path / "there")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    given = [4, 2, folder] if name == "Emulator.devicePool" else folder
    text = json.dumps({name: given, "deviceIterations": 2})
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", text)
    options = poptorch.Options()
    assert read(options) == folder and options.device_iterations == 2
    with pytest.raises(poptorch.ConfigFileError, match="leaves '.*there"):
        options.from_json(text.replace(folder, str(tmp_path)))
    line = f"{name}(4, folder='/etc')" if name == "Emulator.devicePool" else f"{name}('/etc')"
    with pytest.raises(poptorch.ConfigFileError, match="leaves '.*there"):
        load(tmp_path, line, options)
    inside = line.replace("/etc", "run")
    assert read(load(tmp_path, inside, options)) == str(Path(folder, "run"))


def test_a_model_uses_the_folders_of_the_users_variables(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("POPTORCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("POPTORCH_IPU_POOL", f"4:2:{tmp_path / 'pool'}")
    monkeypatch.setenv("POPTORCH_DEFAULT_OPTIONS", json.dumps({"logDir": str(tmp_path / "logs")}))
    engine = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "reports")}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(engine))
    model = poptorch.inferenceModel(torch.relu)
    assert torch.equal(model(torch.ones(2)), torch.ones(2))
    model.destroy()
    assert all((tmp_path / name).is_dir() for name in ("cache", "pool", "logs", "reports"))
    assert os.listdir(tmp_path / "here") == []


def test_a_link_out_of_the_programs_folder_is_refused(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/out").symlink_to(tmp_path)
    program = poptorch.Options().logDir(str(tmp_path / "logs"))
    with pytest.raises(poptorch.ConfigFileError, match="is a link that leads out of"):
        load(tmp_path, "logDir('out')", program)


def test_a_log_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file/below"):
        options = poptorch.Options().logDir(str(folder))
        with pytest.raises(poptorch.Error, match=r"\[logDir\] '.*/file.*' cannot be written: .*"):
            poptorch.inferenceModel(torch.relu, options)


def test_a_link_in_place_of_a_log_is_left_alone(tmp_path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "inference.log").symlink_to(tmp_path / "victim")
    model = poptorch.inferenceModel(torch.relu, poptorch.Options().logDir(str(tmp_path)))
    with pytest.raises(poptorch.Error, match=r"\[logDir\] '.*inference.log' cannot be written"):
        model.compile(torch.ones(2))
    assert (tmp_path / "victim").read_text() == "mine"
    assert os.listdir(tmp_path) and torch.equal(model(torch.ones(2)), torch.ones(2))
