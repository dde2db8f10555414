"""Implicit copies of weights call the wrapper's methods, which programs replace to count copies."""

import contextlib
import inspect
import operator

import poptorch
import pytest
import torch
from poptorch._impl.wrapper.state import wrapper_state

X = torch.randn(4, 3)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        return poptorch.identity_loss(self.fc(x) * self.scale, reduction="mean")


class Counted:
    """Returns a training and an inference wrapper, and counts of weight copies of each."""

    def __init__(self, name):
        torch.manual_seed(1)
        self.model = Model()
        optimizer = poptorch.optim.SGD(self.model.parameters(), lr=0.5)
        self.training = poptorch.trainingModel(self.model, optimizer=optimizer)
        self.inference = poptorch.inferenceModel(self.model)
        self.counts = {}
        for which in ("training", "inference"):
            self.count(which, name)

    def count(self, which, name):
        wrapper = getattr(self, which)
        method = getattr(wrapper, name)
        self.counts[which] = 0

        def counting():
            self.counts[which] += 1
            method()

        setattr(wrapper, name, counting)


# Everything that a program can ask of a tensor: attributes, and methods without arguments.
ATTRIBUTES = [
    name
    for name, kind in vars(torch._C.TensorBase).items()
    if inspect.isgetsetdescriptor(kind) and not name.startswith("_")
]
METHODS = "size dim numel stride data_ptr is_contiguous element_size __len__ __bool__".split()
METADATA = {name: operator.attrgetter(name) for name in ATTRIBUTES} | {
    f"{name}()": operator.methodcaller(name) for name in METHODS
}
READS = {
    "forward": lambda model: model.forward,
    "a call": lambda model: model(X),
    "_parameters": lambda model: model._parameters,
    "_buffers": lambda model: model._buffers,
    "parameters()": lambda model: list(model.parameters()),
    "state_dict()": lambda model: model.state_dict(),
    "a parameter": lambda model: model.fc.weight.data,
    "a buffer": lambda model: model.scale.item(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_weights_are_fetched_once(read):
    case = Counted("copyWeightsToHost")
    read(case.model)
    case.training(X)
    before = case.counts["training"]
    assert before == 0
    for _ in range(2):
        read(case.model)
        assert case.counts["training"] == 1
    case.training(X)
    read(case.model)
    assert case.counts == {"training": 2, "inference": 0}


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore")  # about properties that torch will remove
@pytest.mark.parametrize("read", METADATA.values(), ids=METADATA)
@pytest.mark.parametrize("tensor", ["fc.weight", "scale"])
def test_reading_what_a_tensor_is_fetches_it_once(tensor, read):
    case = Counted("copyWeightsToHost")
    held = operator.attrgetter(tensor)(case.model)
    for step in (1, 2):
        case.training(X)
        for _ in range(2):
            with contextlib.suppress(RuntimeError, TypeError):  # about attributes that it lacks
                read(held)
            assert case.counts["training"] == step


def test_steps_and_optimisers_fetch_nothing():
    case = Counted("copyWeightsToHost")
    optimizer = wrapper_state(case.training).optimizer
    for lr in (0.5, 0.25):
        optimizer.param_groups[0]["lr"] = lr
        case.training.setOptimizer(optimizer)
        case.training(X)
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.requires_grad = True
    assert case.counts == {"training": 0, "inference": 0}


def test_what_replaces_the_method_may_look_at_the_model():
    case = Counted("copyWeightsToHost")
    case.training(X)
    method = case.training.copyWeightsToHost

    def looking():
        assert case.model.fc.weight.detach().shape == (3, 3)
        method()

    case.training.copyWeightsToHost = looking
    case.model.state_dict()
    assert case.counts["training"] == 1


def test_inference_uploads_what_has_been_fetched():
    case = Counted("copyWeightsToDevice")
    first = case.inference(X)
    case.inference(X)
    assert case.counts == {"training": 0, "inference": 0}
    case.training(X)
    assert case.inference(X) < first
    assert case.counts == {"training": 0, "inference": 1}
    case.training.copyWeightsToHost()
    with torch.no_grad():
        case.model.fc.weight.zero_()
        case.model.fc.bias.fill_(2)
    assert case.inference(X) == 2
    assert case.counts == {"training": 0, "inference": 2}
    case.inference(X)
    assert case.counts == {"training": 0, "inference": 2}


def test_an_upload_discards_what_was_never_fetched():
    case = Counted("copyWeightsToHost")
    weight = case.model.fc.weight.detach().clone()
    before = case.training(X)
    case.training.copyWeightsToDevice()
    assert torch.equal(case.model.fc.weight, weight)
    assert case.counts["training"] == 0
    assert case.training(X) == before
