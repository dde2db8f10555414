"""Training wrappers that share an optimiser share its moments, numbers of updates and values."""

import copy
import gc

import poptorch
import pytest
import torch

KINDS = {
    "SGD": {"momentum": 0.9, "dampening": 0.3},
    "Adam": {},
    "AdamW": {"weight_decay": 0.1},
    "RMSprop": {"momentum": 0.5, "centered": True},
}


class Phase(torch.nn.Module):
    """A base that several models have, and a head of this model."""

    def __init__(self, base, head=None):
        super().__init__()
        self.base, self.head = base, head

    def forward(self, x, target):
        y = self.base(x)
        if self.head is not None:
            y = self.head(torch.relu(y))
        return torch.nn.functional.mse_loss(y, target)


def parts(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Linear(4, 3), torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)


def batch(step, rows=4):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(rows, 4, generator=generator), torch.randn(rows, 3, generator=generator)


def optimiser_of(modules, kind="Adam", namespace=poptorch.optim, **arguments):
    weights = [weight for module in modules for weight in module.parameters()]
    return getattr(namespace, kind)(weights, **{"lr": 0.05, **arguments})


def eager_step(model, optimiser, data):
    optimiser.zero_grad(set_to_none=True)
    model(*data).backward()
    optimiser.step()


def check(ours, theirs):
    for module, expected in zip(ours, theirs, strict=True):
        for name, value in expected.state_dict().items():
            torch.testing.assert_close(module.state_dict()[name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("namespace", [poptorch.optim, torch.optim])
@pytest.mark.parametrize("kind", KINDS)
def test_wrappers_for_two_batch_sizes(kind, namespace):
    base, eager = parts()[0], parts()[0]
    optimiser = optimiser_of([base], kind, namespace, **KINDS[kind])
    expected = optimiser_of([eager], kind, torch.optim, **KINDS[kind])
    wrappers = [poptorch.trainingModel(Phase(base), None, optimiser) for _ in range(2)]
    for step, turn in enumerate((0, 0, 1, 0, 1, 1, 0)):
        data = batch(step, 4 + 4 * turn)
        wrappers[turn](*data)
        eager_step(Phase(eager), expected, data)
    check([base], [eager])


@pytest.mark.parametrize("namespace", [poptorch.optim, torch.optim])
@pytest.mark.parametrize("kind", KINDS)
def test_phases_that_train_different_heads(kind, namespace):
    ours, theirs = parts(), parts()
    optimiser = optimiser_of(ours, kind, namespace, **KINDS[kind])
    expected = optimiser_of(theirs, kind, torch.optim, **KINDS[kind])
    wrappers = [poptorch.trainingModel(Phase(ours[0], h), None, optimiser) for h in ours[1:]]
    for step, turn in enumerate((0, 0, 1, 0, 1, 1)):
        data = batch(step)
        wrappers[turn](*data)
        eager_step(Phase(theirs[0], theirs[1 + turn]), expected, data)
    check(ours, theirs)
    held = optimiser.state_dict()
    if kind.startswith("Adam"):
        counts = [int(entry["step"]) for entry in expected.state_dict()["state"].values()]
        if namespace is torch.optim:
            got = [int(entry["step"]) for entry in held["state"].values()]
        else:
            names = ["base.weight", "base.bias", "head.weight", "head.bias"]
            names += ["head.weight#2", "head.bias#2"]
            got = [int(held["ipu_state"][f"Step___{name}"]) for name in names]
            assert len(held["ipu_state"]) == 3 * len(names)
            assert all(f"learningRate___specific___{name}" in held["ipu_param"] for name in names)
        assert got == counts == [6, 6, 3, 3, 3, 3]


@pytest.mark.parametrize("namespace", [poptorch.optim, torch.optim])
def test_a_layer_that_is_trained_later_counts_from_zero(namespace):
    ours, theirs = parts()[:2], parts()[:2]
    optimiser = optimiser_of(ours, namespace=namespace)
    expected = optimiser_of(theirs, namespace=torch.optim)
    wrapped = poptorch.trainingModel(Phase(*ours), None, optimiser)
    for step in range(6):
        for base in (ours[0], theirs[0]):
            base.requires_grad_(step >= 3)
        if step == 3:
            wrapped.destroy()
        wrapped(*batch(step))
        eager_step(Phase(*theirs), expected, batch(step))
    check(ours, theirs)


@pytest.mark.parametrize("namespace", [poptorch.optim, torch.optim])
def test_a_program_with_one_count_refuses_different_ones(namespace):
    ours, theirs = parts(), parts()
    optimiser = optimiser_of(ours, namespace=namespace)
    expected = optimiser_of(theirs, namespace=torch.optim)
    first = poptorch.trainingModel(Phase(ours[0], ours[1]), None, optimiser)
    first(*batch(0))
    second = poptorch.trainingModel(Phase(ours[0], ours[2]), None, optimiser)
    second(*batch(1))
    with pytest.raises(
        poptorch.Error,
        match=r"base.weight has had 2 updates and head.weight 1.*Call destroy\(\) on the wrapper",
    ):
        first(*batch(2))
    second(*batch(2))
    first.destroy()
    first(*batch(3))
    second(*batch(4))
    for step, head in enumerate((1, 2, 2, 1, 2)):
        eager_step(Phase(theirs[0], theirs[head]), expected, batch(step))
    check(ours, theirs)


def test_a_count_that_does_not_matter_is_not_refused():
    ours, theirs = parts(), parts()
    optimiser = optimiser_of(ours, "SGD", momentum=0.9)
    expected = optimiser_of(theirs, "SGD", torch.optim, momentum=0.9)
    first = poptorch.trainingModel(Phase(ours[0], ours[1]), None, optimiser)
    first(*batch(0))
    second = poptorch.trainingModel(Phase(ours[0], ours[2]), None, optimiser)
    second(*batch(1))
    first(*batch(2))
    for step, head in enumerate((1, 2, 1)):
        eager_step(Phase(theirs[0], theirs[head]), expected, batch(step))
    check(ours, theirs)


@pytest.mark.parametrize("namespace", [poptorch.optim, torch.optim])
def test_values_sent_to_one_wrapper_reach_the_others(namespace):
    base, eager = parts()[0], parts()[0]
    optimiser = optimiser_of([base], "SGD", namespace, momentum=0.9)
    expected = optimiser_of([eager], "SGD", torch.optim, momentum=0.9)
    schedules = [torch.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (optimiser, expected)]
    wrappers = [poptorch.trainingModel(Phase(base), None, optimiser) for _ in range(2)]
    for step in range(6):
        wrappers[step % 2](*batch(step))
        eager_step(Phase(eager), expected, batch(step))
        for schedule in schedules:
            schedule.step()
        wrappers[0].setOptimizer(optimiser)
    check([base], [eager])


def test_a_wrapper_that_is_destroyed_leaves_the_values_it_got():
    base = parts()[0]
    optimiser = optimiser_of([base], "SGD")
    wrappers = [poptorch.trainingModel(Phase(base), None, optimiser) for _ in range(2)]
    for wrapper in wrappers:
        wrapper(*batch(0))
    optimiser.param_groups[0]["lr"] = 0.0
    wrappers[1].setOptimizer(optimiser)
    wrappers[1].destroy()
    before = base.weight.detach().clone()
    wrappers[0](*batch(1))
    assert torch.equal(base.weight, before)


def test_a_constant_that_differs_is_refused():
    base = parts()[0]
    optimiser = optimiser_of([base], "SGD")
    first, second = (poptorch.trainingModel(Phase(base), None, optimiser) for _ in range(2))
    first(*batch(0))
    optimiser.param_groups[0]["weight_decay"] = 0.5
    second(*batch(1))
    with pytest.raises(poptorch.Error, match="weight_decay of group 0 is compiled in"):
        first(*batch(2))
    second(*batch(2))
    first.destroy()
    first(*batch(3))
    assert optimiser.state_dict()["ipu_param"]["lossScaling_FLOAT"] == 1.0


@pytest.mark.parametrize("namespace", [poptorch.optim, torch.optim])
def test_state_outlives_the_wrapper_that_made_it(namespace):
    base, eager = parts()[0], parts()[0]
    optimiser = optimiser_of([base], namespace=namespace)
    expected = optimiser_of([eager], namespace=torch.optim)
    for step in range(4):
        wrapper = poptorch.trainingModel(Phase(base), None, optimiser)
        wrapper(*batch(step))
        base.weight.sum().item()  # fetches the weights
        del wrapper
        gc.collect()
        eager_step(Phase(eager), expected, batch(step))
    check([base], [eager])


@pytest.mark.parametrize("namespace", [poptorch.optim, torch.optim])
def test_the_state_of_all_wrappers_is_saved_and_loaded(namespace):
    def made():
        ours = parts()
        optimiser = optimiser_of(ours, namespace=namespace)
        return ours, optimiser, [
            poptorch.trainingModel(Phase(ours[0], head), None, optimiser) for head in ours[1:]
        ]  # fmt: skip

    ours, optimiser, wrappers = made()
    for step in range(5):
        wrappers[step % 2](*batch(step))
    saved = copy.deepcopy([optimiser.state_dict(), [part.state_dict() for part in ours]])
    expected = [wrappers[step % 2](*batch(step)) for step in range(5, 9)]

    again, optimiser, wrappers = made()
    for part, state in zip(again, saved[1], strict=True):
        part.load_state_dict(state)
    optimiser.load_state_dict(saved[0])
    got = [wrappers[step % 2](*batch(step)) for step in range(5, 9)]
    assert all(map(torch.equal, got, expected))


def test_loaded_state_reaches_wrappers_that_run(caplog):
    ours = parts()
    optimiser = optimiser_of(ours)
    wrappers = [poptorch.trainingModel(Phase(ours[0], head), None, optimiser) for head in ours[1:]]
    for step in range(4):
        wrappers[step % 2](*batch(step))
    saved = copy.deepcopy([optimiser.state_dict(), [part.state_dict() for part in ours]])
    expected = [wrappers[step % 2](*batch(step)) for step in range(4, 8)]
    for part, state in zip(ours, saved[1], strict=True):
        part.load_state_dict(state)
    for wrapper in wrappers:
        wrapper.copyWeightsToDevice()
    optimiser.load_state_dict(saved[0])
    assert "ignoring missing" not in caplog.text
    got = [wrappers[step % 2](*batch(step)) for step in range(4, 8)]
    assert all(map(torch.equal, got, expected))


def test_another_optimiser_of_one_wrapper_leaves_the_shared_one_to_the_others():
    base, eager = parts()[0], parts()[0]
    shared, own = optimiser_of([base]), optimiser_of([base], lr=0.0)
    expected = optimiser_of([eager], namespace=torch.optim)
    first, second = (poptorch.trainingModel(Phase(base), None, shared) for _ in range(2))
    first(*batch(0))
    second(*batch(1))
    first(*batch(2))
    first.setOptimizer(own)
    first(*batch(3))  # changes nothing: its learning rate is 0
    second(*batch(4))
    for step in (0, 1, 2, 4):
        eager_step(Phase(eager), expected, batch(step))
    check([base], [eager])
    assert shared.state_dict()["ipu_state"]["Step___base.weight"] == 4
