"""A copied or pickled wrapper or optimiser wraps a copy of the model again."""

import copy
import io
import pickle

import poptorch
import pytest
import torch

X = torch.randn(4, 3)


class Model(torch.nn.Module):
    """Annotated with blocks of each kind."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 3)
        self.second = poptorch.BeginBlock(torch.nn.Linear(3, 3), "second", ipu_id=0)

    @poptorch.BlockFunction("first", ipu_id=0)
    def begin(self, x):
        return torch.relu(self.first(x))

    def forward(self, x):
        y = self.second(self.begin(x))
        return (y, poptorch.identity_loss(y, reduction="mean")) if self.training else y


def saved_and_loaded(made):
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def pickled(made):
    return pickle.loads(pickle.dumps(made))


WAYS = pytest.mark.parametrize("copied", [saved_and_loaded, pickled, copy.deepcopy])


@WAYS
def test_an_inference_wrapper(copied):
    options = poptorch.Options().deviceIterations(2)
    wrapped = poptorch.inferenceModel(Model().eval(), options)
    again = copied(wrapped)
    assert type(again.model) is Model and again.model is not wrapped.model
    assert again.options.device_iterations == 2 and not again.isCompiled()
    assert torch.equal(again(X), wrapped(X))
    with pytest.raises(AttributeError, match="Can't modify frozen"):
        again.options.deviceIterations(3)


@WAYS
@pytest.mark.parametrize("library", [torch.optim, poptorch.optim])
def test_a_training_wrapper_with_its_optimiser(copied, library):
    model = Model()
    optimizer = library.SGD(model.parameters(), lr=0.5, momentum=0.5)
    wrapped = poptorch.trainingModel(model, optimizer=optimizer)
    wrapped.rng_state = [3, 0]
    again = copied(wrapped)
    assert again.rng_state == [3, 0]
    for _ in range(3):
        assert torch.equal(again(X)[1], wrapped(X)[1])
    assert torch.equal(again.model.first.weight, model.first.weight)
    assert not torch.equal(again(X)[0], Model()(X)[0])


@WAYS
def test_replica_groups_go_with_their_wrapper(copied):
    class Grouped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([[1.0], [2.0]]))

        def forward(self, x):
            return x * self.weight

    globals()["Grouped"], Grouped.__qualname__ = Grouped, "Grouped"  # where pickle finds it
    wrapped = poptorch.inferenceModel(Grouped(), poptorch.Options().replicationFactor(2))
    way = poptorch.VariableRetrievalMode.OnePerGroup
    wrapped.weight.replicaGrouping(poptorch.CommGroupType.NoGrouping, 0, way)
    assert copied(wrapped)(torch.ones(2, 1)).tolist() == [[1.0], [2.0]]


@WAYS
@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "LAMB"])
@pytest.mark.parametrize("library", [torch.optim, poptorch.optim])
def test_an_optimiser_takes_its_state_along(copied, name, library):
    if not hasattr(library, name):
        return
    model = Model()
    optimizer = getattr(library, name)(model.parameters(), lr=0.125)
    wrapped = poptorch.trainingModel(model, optimizer=optimizer)
    wrapped(X)
    model_and_optimizer = copied((model, optimizer))
    wrapped(X)
    again = poptorch.trainingModel(model_and_optimizer[0], optimizer=model_and_optimizer[1])
    again(X)
    assert torch.equal(again.model.first.weight, model.first.weight)
