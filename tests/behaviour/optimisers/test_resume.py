"""Optimiser state moves between device and host, and training resumes bit-identically."""

import copy
import io
import pickle

import poptorch
import pytest
import torch


class Model(torch.nn.Module):
    """Has weights, batch statistics and dropout: everything that a checkpoint must hold."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        self.out = torch.nn.Linear(6, 2)

    def forward(self, x, target):
        y = torch.nn.functional.dropout(torch.relu(self.norm(self.fc(x))), 0.3)
        return torch.nn.functional.mse_loss(self.out(y), target)


def batches(count, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield torch.randn(8, 4, generator=generator), torch.randn(8, 2, generator=generator)


def make(kind="Adam", **arguments):
    model = Model()
    optimiser = getattr(poptorch.optim, kind)(model.parameters(), lr=0.01, **arguments)
    options = poptorch.Options().randomSeed(7)
    return model, optimiser, poptorch.trainingModel(model, options, optimiser)


KINDS = {
    "SGD": {"momentum": 0.9, "weight_decay": 0.1},
    "Adam": {},
    "AdamW": {},
    "RMSprop": {"momentum": 0.5},
    "LAMB": {},
}


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_resumed_training_is_bit_identical(kind):
    torch.manual_seed(1)
    model, optimiser, wrapped = make(kind, **KINDS[kind])
    for batch in batches(5, seed=1):
        wrapped(*batch)
    file = io.BytesIO()
    torch.save(
        {
            "model": model.state_dict(),
            "optimiser": optimiser.state_dict(),
            "random": wrapped.rng_state,
        },
        file,
    )
    expected = [wrapped(*batch) for batch in batches(5, seed=2)]

    file.seek(0)
    saved = torch.load(file)
    again, resumed, rewrapped = make(kind, **KINDS[kind])
    again.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimiser"])
    rewrapped.compile(*next(batches(1, seed=2)))
    rewrapped.rng_state = saved["random"]
    got = [rewrapped(*batch) for batch in batches(5, seed=2)]
    assert all(map(torch.equal, got, expected))
    for ours, theirs in zip(again.state_dict().values(), model.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    assert rewrapped.rng_state == wrapped.rng_state


def test_state_goes_to_a_running_wrapper_at_once():
    torch.manual_seed(1)
    model, optimiser, wrapped = make()
    data = list(batches(4, seed=1))
    wrapped(*data[0])
    weights = copy.deepcopy(model.state_dict())
    saved, random = optimiser.state_dict(), wrapped.rng_state
    optimiser.param_groups[0]["lr"] = 1.0
    expected = [wrapped(*batch) for batch in data[1:]]
    optimiser.load_state_dict(saved)
    assert optimiser.param_groups[0]["lr"] == 0.01
    wrapped.load_state_dict(weights)
    wrapped.rng_state = random
    assert all(map(torch.equal, [wrapped(*batch) for batch in data[1:]], expected))


def test_missing_names_keep_device_values_and_extra_ones_are_warned_about(caplog):
    model, optimiser, wrapped = make()
    wrapped(*next(batches(1, seed=1)))
    before = copy.deepcopy(optimiser.state_dict())
    weights = copy.deepcopy(model.state_dict())
    parameters = dict(before["ipu_param"])
    del parameters["weightDecay___specific___fc.weight"]
    changed = {
        **before,
        "ipu_param": parameters,
        "ipu_state": {"Accl1___fc.weight": torch.full((6, 4), 3.0), "wibble": torch.ones(1)},
    }
    optimiser.load_state_dict(changed)
    told = "writeOptimizerState: ignoring missing state"
    assert f"{told} wibble: this model has no place for it" in caplog.text
    assert f"{told} Accl2___fc.weight: the device keeps" in caplog.text
    assert "writeOptimizerState: ignoring missing parameter weightDecay___specific___fc.weight" in (
        caplog.text
    )
    assert optimiser.state_dict()["ipu_state"] == changed["ipu_state"]
    assert optimiser.state_dict()["ipu_param"] == changed["ipu_param"]
    batch = next(batches(1, seed=1))
    wrapped.rng_state = [0, 0]
    wrapped(*batch)
    after = optimiser.state_dict()
    assert after["ipu_state"].keys() == before["ipu_state"].keys()
    assert after["ipu_param"].keys() == before["ipu_param"].keys()
    assert (after["ipu_state"]["Accl1___fc.weight"] > 2).all()
    other, expected, again = make()
    other.load_state_dict(weights)
    again.compile(*batch)
    state = before["ipu_state"] | {"Accl1___fc.weight": torch.full((6, 4), 3.0)}
    expected.load_state_dict({**before, "ipu_state": state})
    again.rng_state = [0, 0]
    again(*batch)
    for name, value in expected.state_dict()["ipu_state"].items():
        assert torch.equal(value, after["ipu_state"][name]), name


def test_what_cannot_be_loaded():
    optimiser = make()[1]
    with pytest.raises(
        RuntimeError, match="Cannot load optimizer state dictionary because it is empty."
    ):
        optimiser.load_state_dict({})
    with pytest.raises(RuntimeError, match="Only IPU optimizer states can be loaded onto the IPU."):
        optimiser.load_state_dict(torch.optim.Adam(Model().parameters()).state_dict())


def test_state_survives_pickling_and_copies():
    model, optimiser, wrapped = make()
    wrapped(*next(batches(1, seed=1)))
    expected = optimiser.state_dict()
    for made in (pickle.loads(pickle.dumps(optimiser)), copy.deepcopy(optimiser)):
        got = made.state_dict()
        assert got["ipu_state"].keys() == expected["ipu_state"].keys()
        assert torch.equal(
            got["ipu_state"]["Accl2___out.weight"], expected["ipu_state"]["Accl2___out.weight"]
        )
        assert made.loss_scaling == 1.0 and not made.variable_attrs.isConstant("lr")
        assert type(made.param_groups[0]["params"][0]) is torch.nn.Parameter


def test_state_survives_destroy_and_another_optimiser():
    torch.manual_seed(3)
    model, optimiser, wrapped = make()
    data = list(batches(6, seed=3))
    wrapped(*data[0])
    held = optimiser.state_dict()["ipu_state"]
    wrapped.destroy()
    assert torch.equal(
        optimiser.state_dict()["ipu_state"]["Accl1___fc.bias"], held["Accl1___fc.bias"]
    )
    again = poptorch.trainingModel(model, None, optimiser)
    again(*data[1])
    assert optimiser.state_dict()["ipu_state"]["Step___fc.weight"] == 2

    # A new optimiser takes the device's state; an optimiser with loaded state brings its own.
    fresh = poptorch.optim.Adam(model.parameters(), lr=0.02)
    again.setOptimizer(fresh)
    assert fresh.state_dict()["ipu_state"]["Step___fc.weight"] == 2
    loaded = poptorch.optim.Adam(model.parameters(), lr=0.02)
    loaded.load_state_dict(optimiser.state_dict() | {"ipu_state": held})
    again.setOptimizer(loaded)
    assert loaded.state_dict()["ipu_state"]["Step___fc.weight"] == 1
    again(*data[2])
    assert loaded.state_dict()["ipu_state"]["Step___fc.weight"] == 2


def test_detached_wrappers_keep_everything():
    torch.manual_seed(4)
    data = list(batches(4, seed=4))
    runs = []
    for detaches in (False, True):
        torch.manual_seed(4)
        model, optimiser, wrapped = make()
        losses = [wrapped(*data[0])]
        if detaches:
            wrapped.detachFromDevice()
            assert not wrapped.isAttachedToDevice()
        losses += [wrapped(*batch) for batch in data[1:]]
        assert wrapped.isAttachedToDevice()
        runs.append(losses)
    assert all(map(torch.equal, *runs))


@pytest.mark.parametrize("namespace", [torch.optim, poptorch.optim])
def test_a_destroyed_wrapper_goes_on_with_its_state(namespace):
    data = list(batches(4, seed=5))
    runs = []
    for destroys in (False, True):
        torch.manual_seed(5)
        model = Model().eval()
        optimiser = namespace.SGD(model.parameters(), lr=0.01, momentum=0.9)
        wrapped = poptorch.trainingModel(model, None, optimiser)
        losses = [wrapped(*data[0])]
        random = wrapped.rng_state
        if destroys:
            wrapped.destroy()
            wrapped.compile(*data[1])
            wrapped.rng_state = random
        runs.append(losses + [wrapped(*batch) for batch in data[1:]])
    assert all(map(torch.equal, *runs))


TORCH_KINDS = {
    "SGD": {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    "Adam": {},
    "AdamW": {},
    "RMSprop": {"momentum": 0.5, "centered": True},
}


class Plain(torch.nn.Module):
    """Its steps are the same on host and device: it has no dropout."""

    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 2)

    def forward(self, x, target):
        return torch.nn.functional.mse_loss(self.fc(x), target)


def plain(kind):
    torch.manual_seed(6)
    model = Plain()
    return model, getattr(torch.optim, kind)(model.parameters(), lr=0.01, **TORCH_KINDS[kind])


def host_steps(model, optimiser, data):
    for batch in data:
        optimiser.zero_grad()
        model(*batch).backward()
        optimiser.step()


@pytest.mark.parametrize("kind", TORCH_KINDS)
def test_torchs_optimisers_have_the_state_of_torch(kind):
    data = list(batches(5, seed=6))
    eager, reference = plain(kind)
    host_steps(eager, reference, data)
    model, optimiser = plain(kind)
    wrapped = poptorch.trainingModel(model, None, optimiser)
    wrapped.compile(*data[0])
    assert optimiser.state_dict()["state"] == {}
    for batch in data:
        wrapped(*batch)
    ours, theirs = optimiser.state_dict(), reference.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    assert ours["state"].keys() == theirs["state"].keys()
    for index, entry in theirs["state"].items():
        assert ours["state"][index].keys() == entry.keys()
        for name, value in entry.items():
            torch.testing.assert_close(ours["state"][index][name], value, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", TORCH_KINDS)
@pytest.mark.parametrize("loads_early", [True, False])
def test_torchs_optimisers_resume_bit_identically(kind, loads_early):
    data = list(batches(10, seed=7))
    model, optimiser = plain(kind)
    wrapped = poptorch.trainingModel(model, None, optimiser)
    for batch in data[:5]:
        wrapped(*batch)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, file)
    expected = [wrapped(*batch) for batch in data[5:]]

    file.seek(0)
    saved = torch.load(file)
    again, resumed = plain(kind)
    rewrapped = poptorch.trainingModel(again, None, resumed)
    if not loads_early:
        rewrapped(*data[0])
    rewrapped.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimiser"])
    assert all(map(torch.equal, [rewrapped(*batch) for batch in data[5:]], expected))


@pytest.mark.parametrize("kind", TORCH_KINDS)
def test_training_moves_between_host_and_device(kind):
    data = list(batches(12, seed=8))
    eager, reference = plain(kind)
    host_steps(eager, reference, data)
    model, optimiser = plain(kind)
    host_steps(model, optimiser, data[:4])
    wrapped = poptorch.trainingModel(model, None, optimiser)
    for batch in data[4:8]:
        wrapped(*batch)
    wrapped.destroy()
    host_steps(model, optimiser, data[8:])
    for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def half_batches(count, seed):
    return [tuple(tensor.half() for tensor in batch) for batch in batches(count, seed)]


def half(namespace, kind):
    torch.manual_seed(9)
    model = Plain().half()
    arguments = {"lr": 0.01, **TORCH_KINDS[kind]}
    if kind != "SGD":
        arguments["eps"] = 1e-4
    return model, getattr(namespace, kind)(model.parameters(), **arguments)


@pytest.mark.parametrize("when", ["before wrapping", "before compiling", "while running"])
@pytest.mark.parametrize("namespace", [torch.optim, poptorch.optim])
@pytest.mark.parametrize("kind", TORCH_KINDS)
def test_half_weights_resume_with_all_bits_of_their_moments(namespace, kind, when):
    data = half_batches(10, seed=9)
    model, optimiser = half(namespace, kind)
    wrapped = poptorch.trainingModel(model, None, optimiser)
    for batch in data[:5]:
        wrapped(*batch)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, file)
    expected = [wrapped(*batch) for batch in data[5:]]

    file.seek(0)
    saved = torch.load(file)
    again, resumed = half(namespace, kind)
    if when == "before wrapping":
        resumed.load_state_dict(saved["optimiser"])
    rewrapped = poptorch.trainingModel(again, None, resumed)
    if when == "while running":
        rewrapped(*data[0])
    rewrapped.load_state_dict(saved["model"])
    if when != "before wrapping":
        resumed.load_state_dict(saved["optimiser"])
    got = [rewrapped(*batch) for batch in data[5:]]
    assert all(map(torch.equal, got, expected))
    ours, theirs = resumed.state_dict(), optimiser.state_dict()
    key = "state" if namespace is torch.optim else "ipu_state"
    torch.testing.assert_close(ours[key], theirs[key], rtol=0, atol=0)
    for a, b in zip(again.parameters(), model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_moments_that_torch_went_on_with_are_torchs():
    model, optimiser = half(torch.optim, "Adam")
    wrapped = poptorch.trainingModel(model, None, optimiser)
    data = half_batches(4, seed=9)
    for batch in data[:2]:
        wrapped(*batch)
    saved, weights = optimiser.state_dict(), copy.deepcopy(model.state_dict())

    runs = []
    for drops in (False, True):
        again, resumed = half(torch.optim, "Adam")
        again.load_state_dict(weights)
        given = copy.deepcopy(saved)  # torch updates the counters in the dictionary itself
        if drops:
            del given["state"]["ipu_moments"]
        resumed.load_state_dict(given)
        host_steps(again, resumed, data[2:3])
        runs.append(poptorch.trainingModel(again, None, resumed)(*data[3]))
        runs.append(resumed.state_dict()["state"][0]["exp_avg"])
    assert torch.equal(runs[0], runs[2]) and torch.equal(runs[1], runs[3])


def test_only_half_weights_have_an_entry_of_their_own():
    model, optimiser = plain("Adam")
    wrapped = poptorch.trainingModel(model, None, optimiser)
    wrapped(*next(batches(1, seed=6)))
    assert list(optimiser.state_dict()["state"]) == [0, 1]
