"""An executable loaded from a file continues bit-identically, in other processes and on any number
of threads.
"""

import os
import sys
from pathlib import Path

import exported_models
import poptorch
import pytest
import torch
import zygote
from poptorch.enums import ConnectionType

HERE = Path(__file__).parents[1]


def in_process(*arguments, **environment):
    done = zygote.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True,
        env={**os.environ, "POPTORCH_LOG_LEVEL": "WARN", **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a file of every case after two steps, and the results of two more steps."""
    folder = tmp_path_factory.mktemp("exports")
    expected = {}
    for name in exported_models.CASES:
        executor = exported_models.wrapped(name)
        exported_models.run(executor, range(2))
        executor.save(folder / f"{name}.poptorch")
        results, weights = exported_models.run(executor, range(2, 4))
        expected[name] = (repr(results), exported_models.tensors(results), weights)
        executor.destroy()
    return folder, expected


@pytest.mark.shared
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_training_goes_on_with_the_same_bits_in_another_process(trained, threads, tmp_path):
    folder, expected = trained
    out = tmp_path / "found"
    in_process(HERE / "exported_models.py", folder, out, POPTORCH_NUM_THREADS=str(threads))
    found = torch.load(out)
    assert found.keys() == expected.keys()
    for name, (text, results, weights) in expected.items():
        assert found[name][0] == text, name
        assert all(map(torch.equal, found[name][1], results)), name
        assert found[name][2].keys() == weights.keys(), name
        for key, value in weights.items():
            assert torch.equal(found[name][2][key], value), (name, key)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(10, 10)
        self.loss = torch.nn.MSELoss()

    def forward(self, x, target=None):
        y = self.fc(x)
        return (y, self.loss(y, target)) if self.training else y


X, TARGET = torch.randn(4, 10), torch.randn(4, 10)


def options():
    return poptorch.Options().showCompilationProgressBar(False)


@pytest.fixture
def exported(tmp_path):
    model = poptorch.inferenceModel(Model().eval(), options())
    model.compileAndExport(tmp_path / "f", X)
    return model, tmp_path / "f"


def test_save_makes_folders_and_takes_one_as_a_name(tmp_path, caplog):
    model = poptorch.inferenceModel(Model().eval(), options())
    with pytest.raises(poptorch.Error, match="has not been compiled or has been destroyed"):
        model.save(tmp_path / "f")
    model.compileAndExport(tmp_path / "a/b/f", X)
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["f"]
    model.save(tmp_path / "a")
    assert (tmp_path / "a/model.poptorch").exists()
    with pytest.raises(AssertionError, match="is a file"):
        model.save(tmp_path / "a/b/f/g")
    assert (tmp_path / "a/b/f").stat().st_mode & 0o777 == 0o600


def test_a_folder_as_a_name_is_told(tmp_path, capfd):
    poptorch.inferenceModel(Model().eval(), options()).compileAndExport(tmp_path, X)
    path = tmp_path / "model.poptorch"
    assert f"save(): {tmp_path} is a directory, saving model to {path}" in capfd.readouterr().err


def test_loaded_inference_gives_the_same_and_its_model_runs_on_the_host(exported):
    model, path = exported
    loaded = poptorch.load(path)
    assert loaded.isCompiled() and not loaded.isAttachedToDevice()
    assert torch.equal(loaded(X), model(X))
    assert loaded.isAttachedToDevice()
    torch.testing.assert_close(loaded.model(X), model(X))
    assert loaded.model.state_dict().keys() == model.model.state_dict().keys()


def test_weights_given_before_the_first_run_are_used(exported):
    model, path = exported
    torch.manual_seed(9)
    other = Model().eval()
    loaded, touched = poptorch.load(path), poptorch.load(path)
    loaded.load_state_dict(other.state_dict())
    torch.testing.assert_close(loaded(X), other(X))
    with torch.no_grad():
        touched.model.fc.weight.zero_()
        touched.model.fc.bias.fill_(2)
    assert torch.equal(touched(X), torch.full((4, 10), 2.0))
    assert torch.equal(poptorch.load(path)(X), model(X))


def training(path):
    model = Model().train()
    optimiser = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    wrapper = poptorch.trainingModel(model, options(), optimiser)
    wrapper.compileAndExport(path / "t", X, TARGET)
    wrapper.destroy()
    validation = poptorch.inferenceModel(model.eval(), options())
    validation.compileAndExport(path / "v", X)
    return path / "t", path / "v"


def test_two_loads_are_independent(tmp_path):
    path, _ = training(tmp_path)
    one, two = poptorch.load(path), poptorch.load(path)
    first = one(X, TARGET)
    for _ in range(3):
        one(X, TARGET)
    assert all(map(torch.equal, two(X, TARGET), first))
    assert not torch.equal(one.model.fc.weight, two.model.fc.weight)


def test_a_loaded_model_is_connected_again(tmp_path):
    path, validation_path = training(tmp_path)
    trained = poptorch.load(path)
    validation = poptorch.inferenceModel(trained, options())
    trained.model.eval()
    validation.loadExecutable(validation_path)
    before = validation(X)
    trained(X, TARGET)
    assert not torch.equal(validation(X), before)
    torch.testing.assert_close(validation(X), torch.nn.functional.linear(
        X, trained.model.fc.weight, trained.model.fc.bias))  # fmt: skip


def test_the_executable_alone_needs_the_model(tmp_path):
    class Local(Model):
        """Returns a hook, a function that cannot be pickled."""

    model = Local().eval()
    wrapper = poptorch.inferenceModel(model, options())
    with pytest.raises(poptorch.Error, match=r"Local.*cannot be pickled.*export_model=False"):
        wrapper.compileAndExport(tmp_path / "f", X)
    assert not (tmp_path / "f").exists()
    wrapper.compileAndExport(tmp_path / "f", X, export_model=False)
    with pytest.raises(AssertionError) as refused:
        poptorch.load(tmp_path / "f")
    assert str(refused.value) == (
        f"{tmp_path / 'f'} is a valid PopTorch file but was created with 'export_model=False' "
        "which means you need to re-create the PopTorch model using poptorch.inferenceModel then "
        f"call poptorch_model.loadExecutable({str(tmp_path / 'f')!r})."
    )
    again = poptorch.inferenceModel(Local().eval(), options())
    again.rng_state = [5, 7]  # as a loaded checkpoint does before
    again.loadExecutable(tmp_path / "f")
    assert again.rng_state == [5, 7]
    torch.testing.assert_close(again(X), again.model(X))
    assert again._debugGetPopartIR() == "unavailable (Cached executable)"


def test_an_executable_of_another_model_or_other_options_is_refused(tmp_path, exported):
    _, path = exported
    other = poptorch.inferenceModel(torch.nn.Linear(10, 10), options())
    with pytest.raises(poptorch.Error, match=rf"Invalid file {path}: .*a model with 'fc"):
        other.loadExecutable(path)
    longer = poptorch.inferenceModel(Model().eval(), options().deviceIterations(2))
    with pytest.raises(poptorch.Error, match="device_iterations is 1 in the file, 2 here"):
        longer.loadExecutable(path)
    assert not longer.isCompiled()


def test_options_that_take_effect_at_run_time_can_be_edited(exported, capfd):
    _, path = exported

    def edit(opts):
        opts.connectionType(ConnectionType.OnDemand)
        opts.deviceIterations(7)
        return "ignored"

    loaded = poptorch.load(path, edit_opts_fn=edit)
    assert loaded.options.connection_type == ConnectionType.OnDemand
    assert loaded.options.device_iterations == 1
    warnings = [line for line in capfd.readouterr().err.splitlines() if "is compiled in" in line]
    assert len(warnings) == 1
    assert "deviceIterations is compiled in: the change is ignored" in warnings[0]

    def fails(opts):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        poptorch.load(path, edit_opts_fn=fails)


def test_offline_targets_are_exported_and_run_elsewhere(tmp_path):
    opts = options().useOfflineIpuTarget()
    wrapper = poptorch.trainingModel(Model().train(), opts)
    wrapper.compileAndExport(tmp_path / "f", X, TARGET)
    with pytest.raises(AssertionError, match="offline device"):
        wrapper(X, TARGET)
    loaded = poptorch.load(tmp_path / "f")
    assert loaded.options.connection_type == ConnectionType.Always
    loaded(X, TARGET)


def test_the_state_of_random_numbers_goes_along_or_not(tmp_path):
    model = poptorch.inferenceModel(lambda x: x + torch.rand(4), options().randomSeed(3))
    model(torch.zeros(4))
    model.save(tmp_path / "with", export_model=False)
    model.save(tmp_path / "without", export_model=False, save_rng_state=False)
    second = model(torch.zeros(4))
    found = {}
    for name in ("with", "without"):
        again = poptorch.inferenceModel(lambda x: x + torch.rand(4), options().randomSeed(3))
        again.loadExecutable(tmp_path / name)
        found[name] = again(torch.zeros(4))
    assert torch.equal(found["with"], second)
    assert not torch.equal(found["without"], second)


def test_every_option_survives(tmp_path):
    opts = options().deviceIterations(2).randomSeed(5).logDir(str(tmp_path))
    opts.Training.gradientAccumulation(3)
    opts.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    opts.Precision.enableStochasticRounding(True)
    opts.TensorLocations.setOptimizerLocation(
        poptorch.TensorLocationSettings().useOnChipStorage(True)
    )
    opts.Emulator.memoryLimit("warn")
    opts.outputMode(poptorch.OutputMode.EveryN, 3).anchorTensor("weight", "fc.weight")
    opts.setAvailableMemoryProportion({"IPU0": 0.4}).modelName("net")
    wrapper = poptorch.trainingModel(Model().train(), opts)
    wrapper.compileAndExport(tmp_path / "f", X.repeat(6, 1), TARGET.repeat(6, 1))
    assert repr(poptorch.load(tmp_path / "f").options) == repr(wrapper.options)


def test_what_is_damaged_or_missing_is_told(exported, tmp_path):
    _, path = exported
    text = path.read_bytes()
    path.write_bytes(text[:-1])
    with pytest.raises(AssertionError, match=f"Invalid file {path}: .*is damaged: it ends too"):
        poptorch.load(path)
    with pytest.raises(poptorch.Error, match=f"Invalid file {path}: .*is damaged: it ends too"):
        poptorch.inferenceModel(Model().eval(), options()).loadExecutable(path)
    with pytest.raises(AssertionError, match="No such file"):
        poptorch.load(tmp_path / "none")


def test_a_model_without_device_ops_is_not_exported(tmp_path):
    wrapper = poptorch.inferenceModel(lambda x: 3, options())
    with pytest.raises(poptorch.Error, match=r"Nothing to export\."):
        wrapper.compileAndExport(tmp_path / "f", X)
    assert not (tmp_path / "f").exists()


def test_inputs_that_forward_writes_are_written_after_loading(tmp_path):
    wrapper = poptorch.inferenceModel(add_in_place, options())
    wrapper.compileAndExport(tmp_path / "f", torch.zeros(3), export_model=False)
    again = poptorch.inferenceModel(add_in_place, options())
    again.loadExecutable(tmp_path / "f")
    x = torch.ones(3)
    assert torch.equal(again(x), torch.full((3,), 4.0))
    assert torch.equal(x, torch.full((3,), 2.0))


def add_in_place(x):
    x += 1
    return x * 2


# The guide's listings 4.27 to 4.35, each on a separate machine: a process.
MODEL = """
import sys
import types
import torch
import poptorch

class ExampleModelWithLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(10, 10)
        self.loss = torch.nn.MSELoss()

    def forward(self, x, target=None):
        fc = self.fc(x)
        if self.training:
            return fc, self.loss(fc, target)
        return fc

torch.manual_seed(2)
input = torch.randn(10)
target = torch.randn(10)
filename = "model.poptorch"
"""
PRECOMPILE = """
model = ExampleModelWithLoss()
opts = poptorch.Options()
opts.useOfflineIpuTarget(2)
poptorch_model = poptorch.trainingModel(model, opts)
poptorch_model.compileAndExport(filename, input, target{more})
"""
LOAD = """
poptorch_model = poptorch.load(filename)
print(float(poptorch_model(input, target)[1]))
"""
LOAD_ON_AN_IPU = """
def setIpuDevice(opts):
    opts.useIpuId(1)  # always use IPU 1

poptorch_model = poptorch.load(filename, edit_opts_fn=setIpuDevice)
print(float(poptorch_model(input, target)[1]))
"""
LOAD_THE_EXECUTABLE = """
model = ExampleModelWithLoss()
opts = poptorch.Options()
poptorch_model = poptorch.trainingModel(model, opts)
poptorch_model.loadExecutable(filename)
poptorch_model(input, target)
print("ran")
"""
PRECOMPILE_BOTH = """
model = ExampleModelWithLoss()
opts = poptorch.Options()
training_model = poptorch.trainingModel(model, opts)
training_model.compileAndExport("training.poptorch", input, target)
model.eval()
validation_model = poptorch.inferenceModel(model, opts)
validation_model.compileAndExport("validation.poptorch", input)
"""
COPY = """
training_model = poptorch.load("training.poptorch")
validation_model = poptorch.load("validation.poptorch")
before = validation_model(input)
for epoch in range(2):
    training_model(input, target)
    training_model.copyWeightsToHost()
    validation_model.load_state_dict(training_model.state_dict())
    validation_model.copyWeightsToDevice()
    after = validation_model(input)
print(torch.allclose(after, training_model.fc(input)), torch.equal(before, after))
"""
CONNECT = """
training_model = poptorch.load("training.poptorch")
validation_model = poptorch.inferenceModel(training_model)
validation_model.loadExecutable("validation.poptorch")
before = validation_model(input)
for epoch in range(2):
    training_model(input, target)
    after = validation_model(input)
print(torch.allclose(after, training_model.fc(input)), torch.equal(before, after))
"""


def machine(folder, code, **environment):
    (folder / "script.py").write_text(f"{MODEL}\nimport os\nos.chdir({str(folder)!r})\n{code}")
    return in_process(folder / "script.py", **environment).split("\n")


@pytest.mark.shared
def test_listings_of_a_precompiled_model(tmp_path):
    machine(tmp_path, PRECOMPILE.format(more=""))
    (loss, _), (on_one, _) = machine(tmp_path, LOAD), machine(tmp_path, LOAD_ON_AN_IPU)
    assert loss == on_one


@pytest.mark.shared
def test_listings_of_a_precompiled_executable(tmp_path):
    machine(tmp_path, PRECOMPILE.format(more=", export_model=False"))
    assert machine(tmp_path, LOAD_THE_EXECUTABLE) == ["ran", ""]


@pytest.mark.shared
def test_listings_of_two_precompiled_models(tmp_path):
    machine(tmp_path, PRECOMPILE_BOTH)
    for listing in (COPY, CONNECT):
        assert machine(tmp_path, listing) == ["True False", ""]
