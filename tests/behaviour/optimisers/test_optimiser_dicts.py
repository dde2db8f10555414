"""Tests the entries `ipu_param` and `ipu_state` of an optimiser's state_dict, and when they are
fetched.
"""

import poptorch
import torch
from poptorch._impl.optimisers import device_state
from test_resume import Model, batches, make


def test_names_of_sgd_in_a_state_dict():
    _, optimiser, wrapped = make(
        "SGD", momentum=0.5, dampening=0.25, weight_decay=0.5, loss_scaling=4.0
    )
    wrapped.compile(*next(batches(1, seed=1)))
    values = optimiser.state_dict()["ipu_param"]
    assert values.pop("lossScaling_FLOAT") == 4.0
    weights = [f"{layer}.{name}" for layer in ("fc", "norm", "out") for name in ("weight", "bias")]
    for weight in weights:
        rate = values.pop(f"scaledLearningRate0___specific___{weight}")
        assert rate == torch.tensor(0.01 * 0.75) / 4
        decay = values.pop(f"weightDecayScaleFactor0___specific___{weight}")
        assert decay == torch.tensor(1 - 0.01 * 0.75 * 0.5)
    assert not values


def test_ipu_param_follows_the_optimiser():
    _, optimiser, wrapped = make()
    wrapped.compile(*next(batches(1, seed=1)))
    optimiser.param_groups[0]["lr"] = 0.5
    wrapped.setOptimizer(optimiser)
    assert optimiser.state_dict()["ipu_param"]["learningRate___specific___fc.weight"] == 0.5


def test_a_compilation_makes_no_ipu_param(monkeypatch):
    made = []

    def counted(spec):
        made.append(spec)
        return parameters_of(spec)

    parameters_of = device_state.parameters_of
    monkeypatch.setattr(device_state, "parameters_of", counted)
    for kind in ("SGD", "Adam"):
        _, optimiser, wrapped = make(kind)
        for _ in range(2):  # the second has state to upload
            wrapped.compile(*next(batches(1, seed=1)))
            wrapped.destroy()
        assert not made
        names = optimiser.state_dict()["ipu_param"]
        assert len(made) == 1 and "lossScaling_FLOAT" in names
        made.clear()


def test_ipu_param_has_the_values_of_its_time():
    _, optimiser, wrapped = make("SGD")
    wrapped.compile(*next(batches(1, seed=1)))
    wrapped.destroy()
    optimiser.param_groups[0]["lr"] = 0.25
    rate = "scaledLearningRate0___specific___fc.weight"
    assert optimiser.state_dict()["ipu_param"][rate] == torch.tensor(0.01)


def test_state_that_is_known_is_not_fetched_again(caplog):
    _, optimiser, wrapped = make()
    poptorch.setLogLevel("DEBUG")
    batch = next(batches(1, seed=1))
    try:
        for _ in range(2):
            wrapped(*batch)
            caplog.clear()
            for _ in range(3):
                optimiser.state_dict()
            assert caplog.text.count("Writing optimiser state tensors from IPU to host.") == 1
            assert caplog.text.count("Using cached optimiser state dict") == 2
    finally:
        poptorch.setLogLevel("INFO")


def test_names_in_a_state_dict():
    model, optimiser, wrapped = make(weight_decay=0.25)
    assert optimiser.state_dict()["ipu_state"] is None
    assert optimiser.state_dict()["ipu_param"] is None
    wrapped.compile(*next(batches(1, seed=1)))
    state = optimiser.state_dict()
    assert list(state) == ["ipu_state", "ipu_param", "state", "param_groups"]
    assert state["ipu_param"]["learningRate___specific___out.bias"] == torch.tensor(0.01)
    assert state["ipu_param"]["weightDecay___specific___fc.bias"] == 0.25
    assert state["ipu_param"]["lossScaling_FLOAT"] == 1.0
    assert state["ipu_state"]["Accl1___fc.weight"].shape == (6, 4)
    assert state["ipu_state"]["Step___fc.weight"] == 0
    wrapped(*next(batches(1, seed=1)))
    assert optimiser.state_dict()["ipu_state"]["Step___fc.weight"] == 1
    assert optimiser.state_dict()["ipu_state"]["Accl1___fc.weight"].abs().sum() > 0


def test_an_offline_model_has_no_state():
    model = Model()
    optimiser = poptorch.optim.Adam(model.parameters(), lr=0.01)
    wrapped = poptorch.trainingModel(model, poptorch.Options().useOfflineIpuTarget(), optimiser)
    wrapped.compile(*next(batches(1, seed=1)))
    assert not wrapped.isAttachedToDevice()
    for _ in range(2):
        state = optimiser.state_dict()
        assert state["ipu_state"] is None and state["ipu_param"] is None
        wrapped.destroy()


def test_an_upload_of_weights_fetches_the_optimisers_state_first(caplog):
    model, optimiser, wrapped = make()
    data = list(batches(2, seed=1))
    wrapped(*data[0])
    former = model.state_dict()["fc.weight"].clone()
    assert optimiser.ipu_state_is_dirty
    caplog.clear()
    wrapped.copyWeightsToDevice()
    log = caplog.text
    assert log.index("state tensors from IPU to host.") < log.index("Writing weights from host")
    assert not optimiser.ipu_state_is_dirty and torch.equal(model.fc.weight, former)
    held = optimiser.get_state_dict()["ipu_state"]
    assert held["Step___fc.weight"] == 1
    wrapped(*data[1])
    assert optimiser.state_dict()["ipu_state"]["Step___fc.weight"] == 2


def test_an_exchanged_optimiser_no_longer_reads_the_device():
    model, optimiser, wrapped = make()
    data = list(batches(3, seed=1))
    wrapped(*data[0])
    successor = poptorch.optim.Adam(model.parameters(), lr=0.02)
    wrapped.setOptimizer(successor)
    for step, batch in enumerate(data[1:], 2):
        wrapped(*batch)
        assert optimiser.state_dict()["ipu_state"]["Step___fc.weight"] == 1
        assert successor.state_dict()["ipu_state"]["Step___fc.weight"] == step


def test_the_first_state_stays_on_the_device_until_it_is_asked_for():
    _, optimiser, wrapped = make()
    wrapped.compile(*next(batches(1, seed=1)))
    assert optimiser.get_state_dict()["ipu_state"] is None
    assert optimiser.has_state() and optimiser.ipu_state_is_dirty
    moments = [v for k, v in optimiser.state_dict()["ipu_state"].items() if k.startswith("Accl")]
    assert moments and all(torch.equal(m, torch.zeros_like(m)) for m in moments)
    assert optimiser.get_state_dict()["ipu_state"] and not optimiser.ipu_state_is_dirty
