"""Optimisers of torch.optim and poptorch.optim train as in eager mode, also after their attributes
change.
"""

import copy

import poptorch
import pytest
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(5, 7)
        self.second = torch.nn.Linear(7, 3)

    def forward(self, x, target):
        y = self.second(torch.tanh(self.first(x)))
        return torch.nn.functional.mse_loss(y, target)


OPTIMISERS = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd_momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "sgd_nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "sgd_dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    "sgd_decay": ("SGD", {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.01}),
    "sgd_maximize": ("SGD", {"lr": 0.01, "maximize": True}),
    "adam": ("Adam", {"lr": 0.01}),
    "adam_all": ("Adam", {"lr": 0.01, "betas": (0.8, 0.9), "eps": 1e-4, "weight_decay": 0.1}),
    "adamw": ("AdamW", {"lr": 0.01}),
    "adamw_all": ("AdamW", {"lr": 0.01, "betas": (0.8, 0.9), "eps": 1e-4, "weight_decay": 0.1}),
}


class Race:
    """Trains one model in eager torch and in PopTorch on the same data."""

    def __init__(self, make_eager, make_ours):
        torch.manual_seed(3)
        self.ours = Model()
        self.eager = copy.deepcopy(self.ours)
        self.eager_optimiser = make_eager(self.eager)
        self.optimiser = make_ours(self.ours)
        self.wrapped = poptorch.trainingModel(self.ours, optimizer=self.optimiser)

    def run(self, steps):
        for _ in range(steps):
            x, target = torch.randn(4, 5), torch.randn(4, 3)
            self.eager_optimiser.zero_grad()
            loss = self.eager(x, target)
            loss.backward()
            self.eager_optimiser.step()
            torch.testing.assert_close(self.wrapped(x, target), loss.detach())
        for name, tensor in self.eager.state_dict().items():
            torch.testing.assert_close(
                self.ours.state_dict()[name], tensor, rtol=1e-5, atol=1e-6, msg=name
            )


@pytest.mark.parametrize("namespace", [torch.optim, poptorch.optim], ids=["torch", "poptorch"])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_equals_eager(name, namespace):
    kind, arguments = OPTIMISERS[name]
    race = Race(
        lambda model: getattr(torch.optim, kind)(model.parameters(), **arguments),
        lambda model: getattr(namespace, kind)(model.parameters(), **arguments),
    )
    race.run(20)


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_groups_and_a_scheduler(kind):
    def make(model):
        groups = [
            {"params": model.first.parameters(), "lr": 0.05},
            {"params": [model.second.weight], "weight_decay": 0.1},
        ]  # second.bias is in no group and stays
        return getattr(torch.optim, kind)(groups, lr=0.02)

    race = Race(make, make)
    schedules = [
        torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.8)
        for optimiser in (race.eager_optimiser, race.optimiser)
    ]
    for _ in range(4):
        race.run(3)
        for schedule in schedules:
            schedule.step()
        race.wrapped.setOptimizer(race.optimiser)


def test_frozen_parameters_stay():
    def make(model):
        model.first.weight.requires_grad_(False)
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    race = Race(make, make)
    before = race.ours.first.weight.clone()
    race.run(3)
    assert torch.equal(race.ours.first.weight, before)


def test_the_default_is_sgd_with_0_01():
    race = Race(
        lambda model: torch.optim.SGD(model.parameters(), lr=0.01),
        lambda model: None,
    )
    race.run(3)


def test_loss_scaling_changes_no_result():
    race = Race(
        lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        lambda model: poptorch.optim.SGD(
            model.parameters(), lr=0.1, momentum=0.9, loss_scaling=128.0
        ),
    )
    race.run(5)
    race.optimiser.loss_scaling = 2.0
    race.wrapped.setOptimizer(race.optimiser)
    race.run(5)


def test_variable_attributes_of_poptorch_optimisers():
    parameters = list(Model().parameters())
    attrs = poptorch.optim.SGD(parameters, lr=0.01).variable_attrs
    assert not attrs.isConstant("lr")
    assert attrs.isConstant("momentum") and attrs.isConstant("loss_scaling")
    attrs = poptorch.optim.SGD(parameters, lr=0.01, momentum=0.0, loss_scaling=2.0).variable_attrs
    assert not attrs.isConstant("momentum") and not attrs.isConstant("loss_scaling")
    attrs.markAsConstant("loss_scaling")
    attrs.markAsVariable("dampening")
    assert attrs.isConstant("loss_scaling") and not attrs.isConstant("dampening")
    with pytest.raises(AssertionError, match="Unknown attribute"):
        attrs.markAsVariable("wibble")


def test_changing_a_constant_is_an_error():
    model = Model()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.0)
    wrapped = poptorch.trainingModel(model, optimizer=optimiser)
    wrapped(torch.randn(4, 5), torch.randn(4, 3))
    with pytest.raises(poptorch.Error, match="momentum of group 0 is compiled in as the constant"):
        wrapped.setOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    with pytest.raises(poptorch.Error, match="compiled for sgd .* but setOptimizer got adam"):
        wrapped.setOptimizer(torch.optim.Adam(model.parameters()))


def test_a_scheduler_of_constant_betas_is_told_their_name():
    model = Model()
    optimiser = poptorch.optim.Adam(model.parameters(), lr=0.1)
    wrapped = poptorch.trainingModel(model, optimizer=optimiser)
    wrapped(torch.randn(4, 5), torch.randn(4, 3))
    torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=10)
    with pytest.raises(poptorch.Error, match=r"beta1 .*compiled in.*markAsVariable\('betas'\)"):
        wrapped.setOptimizer(optimiser)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "LAMB"])
def test_classes_and_their_checks(kind):
    made = getattr(poptorch.optim, kind)
    torch_class = getattr(torch.optim, kind, torch.optim.Optimizer)
    assert made.__bases__[1] is torch_class
    optimiser = made(Model().parameters(), lr=0.5)
    assert optimiser.param_groups[0]["lr"] == 0.5
    with pytest.raises(AssertionError, match="Accumulation types must be either torch.float32 or"):
        made(Model().parameters(), lr=0.5, accum_type=torch.int32)


def test_amsgrad_is_refused():
    with pytest.raises(ValueError, match="AMSGrad"):
        poptorch.optim.Adam(Model().parameters(), amsgrad=True)


def test_lamb_on_the_host():
    torch.manual_seed(5)
    model = Model()
    optimiser = poptorch.optim.LAMB(model.parameters(), lr=0.1, weight_decay=0.0)
    x, target = torch.randn(4, 5), torch.randn(4, 3)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = model(x, target)
        loss.backward()
        before = model.first.weight.clone()
        optimiser.step()
        moved = (model.first.weight - before).norm()
        torch.testing.assert_close(moved, 0.1 * before.norm(), rtol=1e-4, atol=1e-6)
        losses.append(loss.item())
    assert losses[-1] < losses[0]


class NoBias(poptorch.optim.AdamW):
    def __init__(self, *arguments, bias_correction=False, **others):
        super().__init__(*arguments, bias_correction=bias_correction, **others)


class NoBiasLamb(poptorch.optim.LAMB):
    def __init__(self, *arguments, **others):
        super().__init__(*arguments, bias_correction=False, **others)


@pytest.mark.parametrize("more", [{}, {"maximize": True}, {"betas": (0.5, 0.75), "eps": 0.01}])
@pytest.mark.parametrize("bias_correction", [None, False, True])
@pytest.mark.parametrize("kind", [poptorch.optim.AdamW, poptorch.optim.LAMB, NoBias, NoBiasLamb])
def test_steps_on_the_host_are_those_of_the_device(kind, bias_correction, more):
    if issubclass(kind, poptorch.optim.LAMB):
        more = {n: v for n, v in more.items() if n != "maximize"}
    if bias_correction is not None and kind is not NoBiasLamb:
        more = {**more, "bias_correction": bias_correction}
    x, target = torch.randn(4, 5), torch.randn(4, 3)
    models = [Model(), Model()]
    models[1].load_state_dict(models[0].state_dict())
    ours, theirs = (kind(m.parameters(), lr=0.01, weight_decay=0.1, **more) for m in models)
    wrapped = poptorch.trainingModel(models[0], None, ours)
    calls = []
    theirs.register_step_post_hook(lambda *_: calls.append(True))

    def closure():
        theirs.zero_grad()
        loss = models[1](x, target)
        loss.backward()
        return loss

    for _ in range(4):
        loss = wrapped(x, target)
        torch.testing.assert_close(theirs.step(closure).detach(), loss, rtol=1e-4, atol=1e-5)
    for name, value in models[1].state_dict().items():
        torch.testing.assert_close(models[0].state_dict()[name], value, rtol=1e-4, atol=1e-5)
    assert len(calls) == 4


def test_hooks_of_a_host_step_run_once():
    weight = torch.nn.Parameter(torch.ones(2))
    torch.optim.AdamW([weight])  # adds hooks to torch's class
    optimiser = poptorch.optim.AdamW([weight])
    calls = []
    optimiser.register_step_post_hook(lambda *_: calls.append(True))
    weight.grad = torch.ones(2)
    optimiser.step()
    assert len(calls) == 1
