"""The device uses the hyper-parameters of a loaded `ipu_param`, and state_dict() returns them."""

import copy

import poptorch
import pytest
import torch

RATES = {"lr": 0.5, "weight_decay": 0.25}
KINDS = ["SGD", "Adam", "AdamW", "RMSprop", "LAMB"]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc = torch.nn.Linear(4, 2)

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(self.fc(x), target)


def batch(step):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(4, 4, generator=generator), torch.randn(4, 2, generator=generator)


def make(kind, **arguments):
    model = Model()
    optimiser = getattr(poptorch.optim, kind)(model.parameters(), **arguments)
    return model, optimiser, poptorch.trainingModel(model, None, optimiser)


def weights_after(kind, steps, **arguments):
    model, _, wrapped = make(kind, **arguments)
    for step in steps:
        wrapped(*batch(step))
    return model.fc.weight.detach().clone()


def with_values(saved, values):
    """Returns a state_dict with other values in `ipu_param`; values: by the start of a name."""
    changed = {
        key: next((torch.tensor(v) for n, v in values.items() if key.startswith(n)), value)
        for key, value in saved["ipu_param"].items()
    }
    return {**saved, "ipu_param": changed}


def as_listed(kind, lr, weight_decay, loss_scaling):
    if kind != "SGD":
        rates = {"learningRate": lr, "weightDecay": weight_decay}
    else:
        rates = {
            "scaledLearningRate0": lr / loss_scaling,
            "weightDecayScaleFactor0": 1 - lr * weight_decay,
        }
    return {**rates, "lossScaling": loss_scaling}


def check_equal(got, expected):
    assert got.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(got[key], value), key


@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_after_a_load_use_its_values(kind, runs):
    arguments = {"lr": 0.01, "weight_decay": 0.125, "loss_scaling": 2.0}
    _, source, wrapped = make(kind, **arguments)
    wrapped.compile(*batch(0))
    loaded = with_values(source.state_dict(), as_listed(kind, 0.5, 0.25, 4.0))
    model, optimiser, wrapped = make(kind, **arguments)
    if runs:
        wrapped.compile(*batch(0))
    optimiser.load_state_dict(copy.deepcopy(loaded))
    check_equal(optimiser.state_dict()["ipu_param"], loaded["ipu_param"])
    for step in range(3):
        wrapped(*batch(step))
        check_equal(optimiser.state_dict()["ipu_param"], loaded["ipu_param"])
    expected = weights_after(kind, range(3), lr=0.5, weight_decay=0.25, loss_scaling=4.0)
    torch.testing.assert_close(model.fc.weight.detach(), expected, rtol=1e-6, atol=1e-6)
    # The next setOptimizer() sends the values of param_groups.
    wrapped.setOptimizer(optimiser)
    name = "scaledLearningRate0" if kind == "SGD" else "learningRate"
    rate = optimiser.state_dict()["ipu_param"][f"{name}___specific___fc.weight"]
    assert rate == torch.tensor(0.01) / (4 if kind == "SGD" else 1)


@pytest.mark.parametrize("value", [1.0, 0.5, 1.75])
@pytest.mark.parametrize("kind", KINDS)
def test_any_values_are_returned(kind, value):
    _, optimiser, wrapped = make(kind, lr=0.05, weight_decay=0.025, loss_scaling=0.75)
    wrapped(*batch(0))
    saved = optimiser.state_dict()
    loaded = {
        **saved,
        "ipu_state": {k: torch.ones_like(v) for k, v in saved["ipu_state"].items()},
        "ipu_param": {k: torch.full_like(v, value) for k, v in saved["ipu_param"].items()},
    }
    optimiser.load_state_dict(loaded)
    for name in ("ipu_state", "ipu_param"):
        check_equal(optimiser.state_dict()[name], loaded[name])
    wrapped(*batch(1))
    after = optimiser.state_dict()
    check_equal(after["ipu_param"], loaded["ipu_param"])
    assert after["ipu_state"].keys() == loaded["ipu_state"].keys()


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values_are_absent_until_a_run_and_then_the_former_ones(kind):
    _, optimiser, wrapped = make(kind, lr=0.05, weight_decay=0.025)
    wrapped.compile(*batch(0))
    before = copy.deepcopy(optimiser.state_dict())
    optimiser.param_groups[0]["lr"] = 0.75  # not sent to the device
    kept = {k: v for k, v in before["ipu_param"].items() if "earningRate" not in k}
    loaded = {**optimiser.state_dict(), "ipu_param": kept}
    optimiser.load_state_dict(loaded)
    assert optimiser.state_dict()["ipu_param"].keys() == kept.keys()
    wrapped(*batch(0))
    check_equal(optimiser.state_dict()["ipu_param"], before["ipu_param"])


def test_a_value_that_the_program_changes_after_the_load_counts():
    _, source, wrapped = make("Adam", **RATES)
    wrapped.compile(*batch(0))
    loaded = with_values(source.state_dict(), {"learningRate": 0.125, "weightDecay": 0.0625})
    _, optimiser, wrapped = make("Adam", **RATES)
    optimiser.load_state_dict(loaded)
    optimiser.param_groups[0]["lr"] = 0.25
    wrapped(*batch(0))
    got = optimiser.state_dict()["ipu_param"]
    assert got["learningRate___specific___fc.bias"] == 0.25
    assert got["weightDecay___specific___fc.bias"] == 0.0625


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"learningRate___specific___fc.weight": 9.0}, "a group has one value"),
        ({"weightDecay": 0.5}, "weight_decay of group 0 is compiled in as the constant 0.0"),
        ({"lossScaling": 8.0}, "loss_scaling is compiled in as the constant 1.0"),
    ],
)
def test_values_that_the_device_cannot_have_are_refused(values, message):
    _, optimiser, wrapped = make("Adam", lr=0.5)
    wrapped(*batch(0))
    before = copy.deepcopy(optimiser.state_dict())
    with pytest.raises(poptorch.Error, match=message):
        optimiser.load_state_dict({**with_values(before, values), "param_groups": [
            {**before["param_groups"][0], "lr": 0.125}
        ]})  # fmt: skip
    after = optimiser.state_dict()
    check_equal(after["ipu_param"], before["ipu_param"])
    check_equal(after["ipu_state"], before["ipu_state"])
    assert after["param_groups"] == before["param_groups"]
    wrapped(*batch(1))


def test_wrappers_that_share_the_optimiser_get_the_loaded_values():
    model = Model()
    optimiser = poptorch.optim.Adam(model.parameters(), **RATES)

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x, target):
            return self.inner(x, target)

    wrappers = [poptorch.trainingModel(Outer(), None, optimiser) for _ in range(2)]
    for wrapper in wrappers:
        wrapper(*batch(0))
    optimiser.load_state_dict(with_values(optimiser.state_dict(), {"learningRate": 0.0}))
    before = model.fc.weight.detach().clone()
    for wrapper in wrappers:
        wrapper(*batch(1))
        assert torch.equal(model.fc.weight, before)


def test_loaded_values_survive_copies_of_the_optimiser():
    _, source, wrapped = make("Adam", **RATES)
    wrapped.compile(*batch(0))
    loaded = with_values(source.state_dict(), {"learningRate": 0.125})
    model, optimiser, _ = make("Adam", **RATES)
    optimiser.load_state_dict(loaded)
    model, optimiser = copy.deepcopy((model, optimiser))
    poptorch.trainingModel(model, None, optimiser)(*batch(0))
    got = optimiser.state_dict()["ipu_param"]
    assert got["learningRate___specific___fc.bias"] == 0.125
