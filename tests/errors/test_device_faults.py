"""Tests the errors and warnings about a device fault, and the state that a program can read after
it.
"""

import gc
import os
import pathlib
import pickle
import sys

import poptorch
import pytest
import torch
import zygote
from poptorch.testing import inject_fault

X = torch.randn(4, 3)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)

    def forward(self, x):
        return poptorch.identity_loss(self.fc(x).square(), reduction="mean")


@pytest.fixture
def log(caplog):
    return caplog


def warnings_of(log):
    return [r.getMessage() for r in log.records if r.levelname == "WARNING"]


def training():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer, poptorch.trainingModel(model, None, optimizer)


def failed(steps=2, kind="IPU_RESET", point="run"):
    """Returns a wrapper whose device failed after its first step was copied, and those weights."""
    model, optimizer, wrapper = training()
    wrapper(X)
    optimizer.state_dict()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for _ in range(steps - 1):
        wrapper(X)
    with inject_fault(point, kind), pytest.raises(poptorch.Error) as caught:
        wrapper(X) if point == "run" else wrapper.copyWeightsToHost()
    return model, optimizer, wrapper, before, caught.value


def same(model, values):
    return all(torch.equal(model.state_dict()[name], value) for name, value in values.items())


def test_the_text_of_a_fault():
    *_, error = failed(kind="PARTITION_RESET")
    lines = str(error).splitlines()
    assert lines[0].startswith("In scheduling.cpp:")
    assert ": 'poplar_recoverable_runtime_error': [device] IPU 0 failed (injected: " in lines[0]
    assert lines[1:3] == ["Recovery action required: PARTITION_RESET", "Error raised in:"]
    assert lines[3:] == ["  [0] IPU 0, which had finished 0 micro-batches", "  [1] run"]
    assert error.message == lines[0].partition("': ")[2] and "\n" not in error.message
    assert error.location == "\n".join(lines[3:])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is poptorch.RecoverableError
    assert (str(again), again.recovery_action) == (str(error), "PARTITION_RESET")


@pytest.mark.parametrize("point", ["run", "copy"])
def test_the_host_keeps_what_was_copied_last(log, point):
    model, optimizer, wrapper, before, _ = failed(point=point)
    assert same(model, before)
    (told,) = warnings_of(log)
    lost = "The device of Model for training has failed: its weights and optimiser state are lost"
    assert lost in told
    state = optimizer.state_dict()["state"]
    assert torch.isfinite(state[0]["momentum_buffer"]).all()
    assert not wrapper.copyWeightsToHostIfNeeded()
    wrapper.destroy()
    assert same(model, before) and len(warnings_of(log)) == 1


def test_what_asks_the_device_itself_is_refused():
    _, _, wrapper, _, _ = failed(kind="LINK_RESET")
    for ask in (
        wrapper.copyWeightsToHost,
        wrapper.copyWeightsToDevice,
        lambda: wrapper(X),
    ):
        with pytest.raises(
            poptorch.RecoverableError, match="not been attached again since this error: IPU 0"
        ) as caught:
            ask()
        assert caught.value.recovery_action == "LINK_RESET"


def test_destroy_tells_and_fetches_nothing(log):
    model, optimizer, wrapper, before, _ = failed(steps=4)
    wrapper.destroy()
    assert len(warnings_of(log)) == 1
    assert not wrapper.isCompiled() and same(model, before)
    again = poptorch.trainingModel(model, None, optimizer)
    assert torch.isfinite(again(X))


def test_destroy_can_be_called_again_when_its_copy_failed():
    model, _, wrapper = training()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    wrapper(X)
    with inject_fault("copy"):
        with pytest.raises(poptorch.RecoverableError):
            wrapper.destroy()
        assert wrapper.isCompiled()
        wrapper.destroy()
    assert not wrapper.isCompiled() and same(model, before)


def test_steps_are_those_of_the_state_that_is_left():
    model = Model()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.1)
    wrapper = poptorch.trainingModel(model, None, optimizer)
    wrapper(X)
    assert optimizer.state_dict()["state"][0]["step"] == 1
    wrapper(X)
    with inject_fault("run"), pytest.raises(poptorch.RecoverableError):
        wrapper(X)
    assert optimizer.state_dict()["state"][0]["step"] == 1
    wrapper.detachFromDevice()
    wrapper.attachToDevice()
    wrapper(X)
    assert optimizer.state_dict()["state"][0]["step"] == 2


def test_learning_rates_of_a_failed_device_are_the_new_ones():
    model, optimizer, wrapper, before, _ = failed()
    other, _, reference = training()
    other.load_state_dict(before)
    other_optimizer = torch.optim.SGD(other.parameters(), lr=0.5, momentum=0.9)
    other_optimizer.load_state_dict(optimizer.state_dict())
    for group in (*optimizer.param_groups, *other_optimizer.param_groups):
        group["lr"] = 0.5
    wrapper.setOptimizer(optimizer)
    wrapper.detachFromDevice()
    wrapper.attachToDevice()
    reference.setOptimizer(other_optimizer)
    for _ in range(3):
        assert torch.equal(wrapper(X), reference(X))
    assert same(other, model.state_dict())


@pytest.mark.parametrize("detaches", [False, True])
def test_a_wrapper_takes_weights_for_a_device_that_has_failed(detaches):
    _, _, wrapper, before, _ = failed()
    values = {name: torch.full_like(value, 0.25) for name, value in before.items()}
    if detaches:
        wrapper.detachFromDevice()
    wrapper.load_state_dict(values)
    if not detaches:
        wrapper.detachFromDevice()
    wrapper.attachToDevice()
    expected = Model()
    expected.load_state_dict(values)
    torch.testing.assert_close(wrapper(X), expected(X).detach())


def test_another_wrapper_gets_what_the_host_has(log):
    model, _, wrapper, before, _ = failed()
    inference = poptorch.inferenceModel(model)
    expected = poptorch.inferenceModel(Model())
    expected.load_state_dict(before)
    assert torch.equal(inference(X), expected(X))
    assert len(warnings_of(log)) == 1
    assert wrapper.isCompiled()


def test_inference_goes_on_when_it_is_attached_again(log):
    wrapper = poptorch.inferenceModel(torch.nn.Linear(3, 2))
    expected = wrapper(X)
    with inject_fault("run"), pytest.raises(poptorch.RecoverableError):
        wrapper(X)
    wrapper.detachFromDevice()
    wrapper.attachToDevice()
    assert torch.equal(wrapper(X), expected)
    assert not warnings_of(log)


def test_a_device_that_was_not_had_is_free():
    wrapper = poptorch.inferenceModel(torch.nn.Linear(3, 2), poptorch.Options().useIpuId(3))
    with inject_fault("attach"), pytest.raises(poptorch.RecoverableError, match="Attach again"):
        wrapper(X)
    assert not wrapper.isCompiled() and not wrapper.isAttachedToDevice()
    other = poptorch.inferenceModel(torch.neg, poptorch.Options().useIpuId(3))
    other(X)
    other.destroy()
    assert wrapper(X).shape == (4, 2)


def test_an_unrecoverable_fault():
    other = poptorch.inferenceModel(torch.neg)
    other(X)
    model, _, wrapper = training()
    wrapper(X)
    with inject_fault("run", "UNRECOVERABLE") as fault:
        with pytest.raises(
            poptorch.UnrecoverableError, match=r"failed .*Take the system out of operation\."
        ) as caught:
            wrapper(X)
        assert not hasattr(caught.value, "recovery_action")
        wrapper.detachFromDevice()
        for _ in range(2):
            with pytest.raises(poptorch.UnrecoverableError, match="no device is available since"):
                wrapper.attachToDevice()
        assert torch.equal(other(X), -X)  # it has its device
        assert fault.struck
    wrapper.attachToDevice()
    assert torch.isfinite(wrapper(X)) and torch.isfinite(model.fc.weight).all()


REFUSED = {
    "point": (
        ("boil",),
        {},
        "there is no point 'boil': it is one of attach, compile, run",
    ),
    "kind": (("run", "RESET"), {}, "there is no kind 'RESET': it is one of IPU_RESET, LINK_RESET"),
    "nth": (("run",), {"nth": 0}, "occurrence is '0', which is not a whole number"),
    "micro-batch": (("run",), {"micro_batch": -1}, "the micro-batch is '-1'"),
    "IPU": (("run",), {"ipu": "x"}, "the IPU is 'x'"),
    "copy": (("copy",), {"ipu": 1}, "copy has at most 3 parts, but got 5"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_faults_that_there_are_not(case):
    arguments, numbers, message = REFUSED[case]
    with pytest.raises(poptorch.Error, match=message):
        inject_fault(*arguments, **numbers)


def test_a_fault_of_an_ipu_that_there_is_not():
    wrapper = poptorch.inferenceModel(torch.neg)
    with inject_fault("run", ipu=1), pytest.raises(poptorch.Error, match="there is no IPU 1, the"):
        wrapper(X)
    assert torch.equal(wrapper(X), -X)


def run_program(text, **variables):
    return zygote.run(
        [sys.executable, "-c", text],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )


def test_a_variable_that_is_no_fault_is_refused_at_import():
    done = run_program("import poptorch", POPTORCH_FAULT="run:3:IPU_RESTE")
    assert done.returncode != 0
    assert (
        "[environment] POPTORCH_FAULT: [faults] 'run:3:IPU_RESTE': there is no kind 'IPU_RESTE'"
        in done.stderr
    )
    assert "Did you mean IPU_RESET?" in done.stderr


FAILS_TWICE = """
import poptorch, torch
model = poptorch.inferenceModel(torch.neg)
for step in range(5):
    try:
        model(torch.ones(2))
    except poptorch.RecoverableError as error:
        print(step, error.recovery_action)
        model.detachFromDevice()
    except poptorch.UnrecoverableError as error:
        print(step, error.type)
"""


def test_the_variable_arms_faults():
    done = run_program(FAILS_TWICE, POPTORCH_FAULT="run:2:FULL_RESET,run:4:UNRECOVERABLE")
    assert done.stdout.splitlines() == [
        "1 FULL_RESET",
        "3 poplar_unrecoverable_runtime_error",
        "4 poplar_unrecoverable_runtime_error",
    ]


def test_a_fault_is_armed_as_long_as_its_context_lasts():
    wrapper = poptorch.inferenceModel(torch.neg)
    with inject_fault("run") as fault:
        assert repr(fault) == "InjectedFault('run:1:0:0:IPU_RESET')"
    wrapper(X)
    assert not fault.struck
    inject_fault("run", nth=2)
    gc.collect()
    wrapper(X)
    with pytest.raises(poptorch.RecoverableError):
        wrapper(X)


def raise_long(lines):
    from poptorch_core.errors import of_core

    text = "\n".join(f"line {i}" for i in range(lines))
    raise of_core(text, "popart_exception", ["here"], "", "")


def test_long_messages_are_in_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = pathlib.Path("poptorch_error.log")
    with pytest.raises(poptorch.Error) as caught:
        raise_long(80)
    assert not file.exists() and caught.value.message.endswith("line 79")
    for lines in (100, 81):
        with pytest.raises(poptorch.Error) as caught:
            raise_long(lines)
        assert caught.value.message.endswith("line 79\nSee poptorch_error.log for details")
        assert file.read_text().splitlines() == [f"line {i}" for i in range(lines)]
        assert caught.value.location == "  [0] here"


@pytest.mark.parametrize("obstacle", ["folder", "link", "pipe", "no folder"])
def test_long_messages_stay_whole_where_there_can_be_no_file(tmp_path, monkeypatch, obstacle):
    monkeypatch.chdir(tmp_path)
    file = pathlib.Path("poptorch_error.log")
    if obstacle == "folder":
        file.mkdir()
    elif obstacle == "link":
        pathlib.Path("else").write_text("mine")
        file.symlink_to("else")
    elif obstacle == "pipe":
        os.mkfifo(file)
    else:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
    with pytest.raises(poptorch.Error) as caught:
        raise_long(100)
    assert caught.value.message.endswith("line 99")
    if obstacle == "link":
        assert pathlib.Path("else").read_text() == "mine"
