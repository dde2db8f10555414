"""load_state_dict(assign=True) of a wrapper uses the given tensors, as torch's does."""

import poptorch
import pytest
import torch

X = torch.arange(6.0).reshape(2, 3)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))
        self.note = "new"

    def forward(self, x):
        y = self.fc(x) * self.scale
        return y, poptorch.identity_loss(y.square(), "mean")

    def get_extra_state(self):
        return {"note": self.note}

    def set_extra_state(self, state):
        self.note = state["note"]


def other_state(seed=1):
    torch.manual_seed(seed)
    made = Model()
    made.scale.fill_(2.0)
    made.note = "old"
    return made.state_dict()


def shares(model, state):
    held = model.state_dict()
    return {
        name: held[name].data_ptr() == state[name].data_ptr()
        for name in held
        if name[-5:] != "state"
    }


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("wrap", [poptorch.trainingModel, poptorch.inferenceModel])
def test_the_model_and_the_device_use_the_given_tensors(wrap, when):
    model, eager, state = Model(), Model(), other_state()
    wrapped = wrap(model)
    if when == "after":
        wrapped(X)
    report = wrapped.load_state_dict(state, assign=True)
    assert not report.missing_keys and not report.unexpected_keys
    assert shares(model, state) == {"fc.weight": True, "fc.bias": True, "scale": True}
    assert model.note == "old" and model.fc.weight.requires_grad
    eager.load_state_dict(other_state(), assign=True)
    torch.testing.assert_close(wrapped(X)[0], eager(X)[0].detach())


def test_training_continues_with_the_optimiser():
    model, eager, state = Model(), Model(), other_state()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    wrapped = poptorch.trainingModel(model, optimizer=optimizer)
    wrapped(X)
    wrapped.load_state_dict(state, assign=True)
    eager.load_state_dict(other_state())
    reference = torch.optim.SGD(eager.parameters(), lr=0.1)
    for _ in range(2):
        wrapped(X)
        reference.zero_grad()
        eager(X)[1].backward()
        reference.step()
    torch.testing.assert_close(model.fc.weight.detach(), eager.fc.weight.detach())
    assert torch.equal(state["fc.weight"], model.fc.weight)  # the same memory


def test_other_wrappers_of_the_model_follow():
    model = Model()
    training = poptorch.trainingModel(model)
    inference = poptorch.inferenceModel(training)
    training(X), inference(X)
    training.load_state_dict(other_state(), assign=True)
    eager = Model()
    eager.load_state_dict(other_state())
    torch.testing.assert_close(inference(X)[0], eager(X)[0].detach())


def test_a_model_without_memory_gets_it():
    with torch.device("meta"):
        model = Model()
    wrapped = poptorch.inferenceModel(model)
    state = other_state()
    wrapped.load_state_dict(state, assign=True)
    assert model.fc.weight.device.type == "cpu" and all(shares(model, state).values())
    eager = Model()
    eager.load_state_dict(other_state())
    torch.testing.assert_close(wrapped(X)[0], eager(X)[0].detach())


def test_dtypes_are_those_given():
    model, state = Model(), {k: v for k, v in other_state().items() if torch.is_tensor(v)}
    half = {name: value.half() for name, value in state.items()}
    wrapped = poptorch.inferenceModel(model)
    wrapped.load_state_dict(half, strict=False, assign=True)
    assert model.fc.weight.dtype is torch.float16
    assert wrapped(X.half())[0].dtype is torch.float16
    with pytest.raises(poptorch.Error, match=r"fc.weight a tensor of torch.float32 on cpu, but"):
        wrapped.load_state_dict(state, strict=False, assign=True)
    assert model.fc.weight.dtype is torch.float16
    wrapped.destroy()
    wrapped.load_state_dict(state, strict=False, assign=True)
    assert wrapped(X)[0].dtype is torch.float32


def test_reports_and_refusals_are_those_of_torch():
    model, state = Model(), other_state()
    wrapped = poptorch.inferenceModel(model)
    held = model.fc.bias
    del state["fc.bias"]
    with pytest.raises(RuntimeError, match="Missing key"):
        wrapped.load_state_dict(state, assign=True)
    assert wrapped.load_state_dict(state, strict=False, assign=True).missing_keys == ["fc.bias"]
    assert model.fc.bias is held and torch.equal(model.fc.weight, state["fc.weight"])
    with pytest.raises(RuntimeError, match="size mismatch"):
        wrapped.load_state_dict({"scale": torch.ones(4)}, strict=False, assign=True)


def test_nothing_is_logged_about_replaced_weights(caplog):
    wrapped = poptorch.trainingModel(Model())
    wrapped(X)
    wrapped.load_state_dict(other_state(), assign=True)
    wrapped(X)
    assert "replaced" not in caplog.text and "changed on the host" not in caplog.text
