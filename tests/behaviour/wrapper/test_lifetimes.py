"""Tests what remains of a compilation after destroy(), after a failure, and when detached."""

import copy
import gc
import pickle

import poptorch
import pytest
import torch
from poptorch._impl.wrapper import host_changes
from poptorch._impl.wrapper.state import wrapper_state

X = torch.randn(4, 3)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 2)

    def forward(self, x):
        return poptorch.identity_loss(self.second(self.first(x)).square(), reduction="mean")


@pytest.fixture
def log(caplog):
    return caplog


def momentum(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def test_inputs_of_a_destroyed_program_are_checked_again():
    wrapped = poptorch.inferenceModel(torch.nn.Linear(3, 2))
    wrapped(X)
    wrapped.destroy()
    wrapped(input=X[:2])
    for _ in range(2):
        with pytest.raises(poptorch.Error, match="Shape mismatch for input"):
            wrapped(X)
        wrapped.detachFromDevice()
        wrapped.attachToDevice()
    assert wrapped(X[:2]).shape == (2, 2)


def test_runs_of_a_destroyed_program_are_forgotten():
    options = poptorch.Options().logCycleCount(True)
    options.anchorTensor("x", "x")
    wrapped = poptorch.inferenceModel(Model(), options)
    wrapped(X)
    assert torch.equal(wrapped.getAnchoredTensor("x"), X)
    for compile_again in (lambda: None, lambda: wrapped.compile(X)):
        wrapped.destroy()
        compile_again()
        with pytest.raises(AssertionError, match="No tensor with name x found. Run the model"):
            wrapped.getAnchoredTensor("x")
        with pytest.raises(poptorch.Error, match="run the model at least once"):
            wrapped.cycleCount()
        assert wrapped.getPerfCounters()["input"] == [[]]


def test_a_destroyed_program_has_no_compilation_time():
    wrapped = poptorch.inferenceModel(Model())
    wrapped.compile(X)
    assert wrapped.compilationTime().total_seconds() > 0
    wrapped.destroy()
    with pytest.raises(poptorch.Error, match="Please compile the model before"):
        wrapped.compilationTime()


def test_what_an_optimiser_needed_goes_with_its_program():
    """float16 gradients must be summed as running means; others are divided at the end."""
    model = Model()
    halves = poptorch.optim.SGD(
        model.parameters(), lr=0.1, use_combined_accum=False, accum_type=torch.float16
    )
    wrapped = poptorch.trainingModel(model, optimizer=halves)
    strategy = "meanAccumulationAndReplicationReductionStrategy"
    wrapped.compile(X)
    running = poptorch.MeanReductionStrategy.Running
    assert getattr(wrapped.options.Training, strategy) == running
    wrapped.destroy()
    wrapped.setOptimizer(momentum(model))
    wrapped.compile(X)
    assert getattr(wrapped.options.Training, strategy) == poptorch.MeanReductionStrategy.Post


def test_each_program_warns_of_changed_flags(log):
    wrapped = poptorch.trainingModel(Model())
    for flag in (False, True):
        wrapped(X)
        wrapped.model.first.requires_grad_(flag)
        wrapped(X)
        wrapped.destroy()
    assert log.text.count("first.weight, first.bias should get no gradients from here on") == 1
    assert log.text.count("first.weight, first.bias should get gradients from here on") == 1


def test_a_member_may_be_replaced_once_its_wrapper_is_destroyed(log):
    model = Model()
    wrapped = poptorch.inferenceModel(model)
    wrapped(X)
    wrapped.destroy()
    model.first = torch.nn.Linear(3, 3)
    torch.testing.assert_close(poptorch.inferenceModel(model)(X), model(X).detach())
    assert "was replaced" not in log.text
    wrapped(X)  # it continues with the previous state
    assert log.text.count("first of a Model was replaced after the model was wrapped") == 1


def wrong_state(model):
    """Returns an optimiser with a momentum of another shape than the weight's."""
    optimiser = momentum(model)
    optimiser.state[model.first.weight] = {"momentum_buffer": torch.ones(7)}
    return optimiser


def test_a_failed_compilation_leaves_no_program():
    model = Model()
    optimiser = wrong_state(model)
    wrapped = poptorch.trainingModel(model, optimizer=optimiser)
    for _ in range(2):
        with pytest.raises(poptorch.Error):
            wrapped(X)
        assert not wrapped.isCompiled() and not wrapped.isAttachedToDevice()
    groups = poptorch.CommGroupType.All, 1, poptorch.VariableRetrievalMode.OnePerGroup
    wrapped.first.bias.replicaGrouping(*groups)  # a compiled model refuses it
    assert optimiser.state_dict()["state"][0]["momentum_buffer"].shape == (7,)
    optimiser.state.clear()
    loss = wrapped(X)
    assert wrapped(X) < loss
    assert optimiser.state_dict()["state"][0]["momentum_buffer"].shape == (3, 3)


def test_a_failed_compilation_leaves_the_optimiser_to_others():
    model = Model()
    optimiser = wrong_state(model)
    wrapped = poptorch.trainingModel(model, optimizer=optimiser)
    with pytest.raises(poptorch.Error):
        wrapped(X)
    wrapped.setOptimizer(momentum(model))
    wrapped(X)
    wrapped.destroy()
    assert optimiser.state[model.first.weight]["momentum_buffer"].shape == (7,)


def test_a_refused_optimiser_leaves_the_former_one_in_place():
    models = Model(), Model()
    models[1].load_state_dict(models[0].state_dict())
    optimisers = [momentum(model) for model in models]
    pairs = zip(models, optimisers, strict=True)
    wrapped = [poptorch.trainingModel(model, optimizer=optimiser) for model, optimiser in pairs]
    for one in wrapped:
        one(X)
    refused = wrong_state(models[0])
    refused.param_groups[0]["lr"] = 0.5
    refused.state[models[0].first.bias] = {"momentum_buffer": torch.full((3,), 1e3)}
    with pytest.raises(poptorch.Error):
        wrapped[0].setOptimizer(refused)
    assert torch.equal(wrapped[0](X), wrapped[1](X))
    assert torch.equal(models[0].first.bias, models[1].first.bias)
    states = [optimiser.state_dict()["state"] for optimiser in optimisers]
    for index in range(4):
        moments = [state[index]["momentum_buffer"] for state in states]
        assert torch.equal(*moments)


@pytest.mark.parametrize("connection", ["Always", "OnDemand"])
def test_attaching_brings_what_the_host_has_written_meanwhile(connection):
    options = poptorch.Options().connectionType(poptorch.ConnectionType[connection])
    model = torch.nn.Linear(3, 2)
    wrapped = poptorch.inferenceModel(model, options)
    wrapped.compile(X)
    if connection == "Always":
        wrapped.detachFromDevice()
    with torch.no_grad():
        model.weight.zero_()
    if connection == "Always":
        wrapped.attachToDevice()
    assert torch.equal(wrapped(X), model.bias.detach().expand(4, 2))


@pytest.mark.parametrize("destroyed", [False, True])
def test_copies_of_a_model_know_no_program(destroyed):
    model = Model()
    wrapped = poptorch.trainingModel(model, optimizer=momentum(model))
    wrapped(X)
    if destroyed:
        wrapped.destroy()
    for made in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
        assert type(made) is Model
        again = poptorch.inferenceModel(made)
        assert not again.isCompiled()
        torch.testing.assert_close(again(X), Model.forward(model, X).detach())
    for copied in () if destroyed else (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(poptorch.Error, match="a PoplarExecutor cannot be copied"):
            copied(wrapped)


@pytest.mark.parametrize("destroys", [True, False])
@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop"])
def test_state_without_moments_that_is_loaded_lets_them_begin_anew(kind, destroys):
    arguments = {} if kind == "Adam" else {"momentum": 0.9}
    model = Model()
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.01, **arguments)
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    wrapped = poptorch.trainingModel(model, None, optimizer)
    expected = [wrapped(X) for _ in range(3)]
    after = copy.deepcopy(optimizer.state_dict())
    if destroys:
        wrapped.destroy()
        optimizer.load_state_dict(state)
        wrapped = poptorch.trainingModel(model, None, optimizer)
    else:
        optimizer.load_state_dict(state)
    wrapped.load_state_dict(weights)
    assert all(map(torch.equal, [wrapped(X) for _ in range(3)], expected))
    torch.testing.assert_close(optimizer.state_dict(), after, rtol=0, atol=0)


def test_wrappers_that_ended_are_not_notified_of_changes():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    for _ in range(4):
        poptorch.trainingModel(model).destroy()
        gc.collect()
    kept = [poptorch.inferenceModel(model), poptorch.inferenceModel(model)]
    watchers = [watcher.watch() for watcher in host_changes._watched[model[0]]]
    assert watchers == [wrapper_state(wrapper).watch for wrapper in kept]
