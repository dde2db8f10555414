"""A returned parameter and its views show the value after the step; copies do not."""

import copy

import poptorch
import pytest
import torch
from torch.utils._pytree import tree_leaves


class Returns(torch.nn.Module):
    """Returns its loss, and what `function` makes of the weight."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3) + 1)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        loss = poptorch.identity_loss((self.weight * x * self.scale).sum(), "none")
        return loss, self.function(self.weight)


ALIASES = {
    "weight": lambda w: w,
    "view": lambda w: w.view(-1),
    "transpose": lambda w: w.t(),
    "row": lambda w: w[1],
    "element": lambda w: w[1, 2],
    "columns": lambda w: w[:, ::2],
    "expanded": lambda w: w[0].expand(2, 3),
    "detach": lambda w: w.detach(),
    "data": lambda w: w.data,
    "part of the data": lambda w: w.data[1:].view(-1),
    "dropout of nothing": lambda w: torch.nn.functional.dropout(w, 0.0),
    "to": lambda w: w.to(torch.float32),
    "several": lambda w: [w, {"row": w[0]}, w.detach()],
}
COPIES = {
    "clone": lambda w: w.clone(),
    "product": lambda w: w * 1,
    "clone of detach": lambda w: w.detach().clone(),
    "copy of the data": lambda w: w.data.clone()[0],
    "row of a copy": lambda w: w.clone()[1],
    "reshape of a transpose": lambda w: w.t().reshape(-1),
    "other type": lambda w: w.half(),
}


def _eager_step(model, optimizer, x):
    optimizer.zero_grad()
    loss, found = model(x)
    loss.mean().backward()
    optimizer.step()
    return found


def _same(ours, eager):
    for mine, theirs in zip(tree_leaves(ours), tree_leaves(eager), strict=True):
        torch.testing.assert_close(mine, theirs.detach())


@pytest.mark.parametrize("name", ALIASES | COPIES)
def test_as_eager(name):
    eager = Returns((ALIASES | COPIES)[name])
    model = copy.deepcopy(eager)
    optimizer = torch.optim.SGD(eager.parameters(), lr=0.25)
    ours = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.25))
    for _ in range(2):
        x = torch.ones(1, 3)
        _same(ours(x)[1], _eager_step(eager, optimizer, x))


def _trained(model, options, x):
    wrapped = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.25))
    return wrapped(x)[1]


@pytest.mark.parametrize("mode", ["All", "Final"])
def test_every_micro_batch_shows_the_value_after_the_step(mode):
    model = Returns(lambda w: w.view(-1))
    options = poptorch.Options().outputMode(poptorch.OutputMode[mode])
    options.Training.gradientAccumulation(2)
    found = _trained(model, options, torch.ones(2, 3))
    expected = model.weight.detach().view(-1)
    assert not torch.equal(expected, torch.arange(6.0) + 1)
    torch.testing.assert_close(found, expected.repeat(2 if mode == "All" else 1))


def test_a_warning_names_the_parameter_if_results_are_sums(caplog):
    model = Returns(lambda w: [w.t(), w * 1])
    options = poptorch.Options().outputMode(poptorch.OutputMode.Sum)
    options.Training.gradientAccumulation(2)
    found = _trained(model, options, torch.ones(2, 3))
    (told,) = [text for text in caplog.messages if "returns its parameter" in text]
    assert "'weight'" in told
    assert "OutputMode.Sum" in told
    assert "test_returned_weights.py:" in told
    torch.testing.assert_close(found[0], found[1].t())


def test_a_warning_names_the_parameter_if_replicas_have_different_values(caplog):
    model = Returns(lambda w: w[1:])
    model.weight = torch.nn.Parameter(torch.arange(12.0).reshape(2, 2, 3))
    options = poptorch.Options().replicationFactor(2)
    options.Training.gradientAccumulation(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    wrapped = poptorch.trainingModel(model, options, optimizer)
    wrapped.weight.replicaGrouping(
        poptorch.CommGroupType.NoGrouping, 0, poptorch.VariableRetrievalMode.OnePerGroup
    )
    wrapped(torch.ones(2, 3))
    (told,) = [text for text in caplog.messages if "returns its parameter" in text]
    assert "'weight'" in told
    assert "different values" in told


def test_a_weight_of_another_layout():
    model = Returns(lambda w: w[1:])
    model.weight = torch.nn.Parameter(torch.arange(6.0).reshape(3, 2).t())
    found = _trained(model, None, torch.ones(1, 3))
    torch.testing.assert_close(found, model.weight.detach()[1:])


def test_tied_weights():
    model = Returns(lambda w: w)
    model.other = model.weight
    found = _trained(model, None, torch.ones(1, 3))
    torch.testing.assert_close(found, model.other.detach())


def test_inference_does_not_change_it():
    model = Returns(lambda w: w.t())
    found = poptorch.inferenceModel(model)(torch.ones(1, 3))[1]
    torch.testing.assert_close(found, model.weight.detach().t())


def test_a_loaded_program_shows_it_too(tmp_path):
    model = Returns(lambda w: w[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    x = torch.ones(1, 3)
    path = str(tmp_path / "model.poptorch")
    poptorch.trainingModel(model, optimizer=optimizer).compileAndExport(path, x, export_model=False)
    model.destroy()
    loaded = poptorch.trainingModel(model, optimizer=optimizer)
    loaded.loadExecutable(path)
    found = loaded(x)[1]
    torch.testing.assert_close(found, model.weight.detach()[0])
    assert not torch.equal(found, torch.tensor([1.0, 2.0, 3.0]))
