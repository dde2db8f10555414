"""Backward hooks of modules change gradients as in eager torch."""

import copy

import poptorch
import pytest
import torch
from torch import nn


class Pair(nn.Module):
    """Has two inputs, one of which has no gradient, and two outputs."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, scale, name="none"):
        y = self.fc(x) * scale
        return y, y.relu()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.pair = Pair()
        self.relu = nn.ReLU()
        self.last = nn.Linear(4, 2)
        self.loss = nn.MSELoss()

    def forward(self, x, target):
        y, z = self.pair(self.first(x), x.detach(), "named")
        y = self.last(self.relu(y + 0.5 * z))
        return y, self.loss(y, target)


def guided(_, of_inputs, of_outputs):
    return tuple(None if g is None else g.clamp(min=0) for g in of_inputs)


def with_weight(module, of_inputs, of_outputs):
    return (of_inputs[0] + 2 * of_outputs[0].sum(1, keepdim=True) * module.weight[0],)


def of_pair(_, of_inputs, of_outputs):
    assert len(of_inputs) == 3 and of_inputs[2] is None
    return of_inputs[0] * of_outputs[1] + of_outputs[0] + of_inputs[1], None, None


def swapped(_, of_outputs):
    return of_outputs[1], of_outputs[0]


def tripled(_, of_outputs):
    return tuple(None if g is None else g * 3 for g in of_outputs)


def seen(_, of_inputs, of_outputs):
    assert of_inputs == (None,)
    assert of_outputs[0].shape == (3, 4)


def hook(model, name):
    full = nn.Module.register_full_backward_hook
    before = nn.Module.register_full_backward_pre_hook
    for register, module, function in {
        "of an activation": [(full, model.relu, guided)],
        "of the output's gradient and a weight": [(full, model.last, with_weight)],
        "several in turn": [
            (before, model.last, tripled),
            (full, model.last, with_weight),
            (full, model.last, guided),
            (before, model.last, tripled),
        ],
        "several inputs and outputs": [(full, model.pair, of_pair)],
        "outputs that change places": [(before, model.pair, swapped), (full, model.pair, of_pair)],
        "nested": [(full, model.pair, of_pair), (full, model.pair.fc, with_weight)],
        "no gradient of the input": [(full, model.first, seen), (before, model.first, tripled)],
        "of the loss": [(before, model.loss, tripled)],
        "of the loss, for its input": [
            (full, model.loss, lambda _, x, y: (x[0] * y[0], None)),
            (before, model.loss, tripled),
        ],
        "of the model": [(before, model, tripled)],
    }[name]:
        register(module, function)


NAMES = [
    "of an activation",
    "of the output's gradient and a weight",
    "several in turn",
    "several inputs and outputs",
    "outputs that change places",
    "nested",
    "no gradient of the input",
    "of the loss",
    "of the loss, for its input",
    "of the model",
]


def step_of_eager(model, x, target):
    model = copy.deepcopy(model)
    model(x, target)[1].backward()
    torch.optim.SGD(model.parameters(), lr=0.5).step()
    return model.state_dict()


def trained(model, x, target):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    poptorch.trainingModel(model, optimizer=optimizer)(x, target)
    return model.state_dict()


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("name", NAMES)
def test_hooks_change_gradients_as_in_eager_torch(name):
    model, x, target = Model(), torch.randn(3, 4), torch.randn(3, 2)
    plain = step_of_eager(model, x, target)
    hook(model, name)
    expected = step_of_eager(model, x, target)
    assert any(not torch.equal(plain[key], expected[key]) for key in plain)
    torch.testing.assert_close(trained(model, x, target), expected)


def test_hooks_of_all_modules():
    model, x, target = Model(), torch.randn(3, 4), torch.randn(3, 2)
    handle = nn.modules.module.register_module_full_backward_pre_hook(
        lambda module, of_outputs: (of_outputs[0] * 2,) if isinstance(module, nn.Linear) else None
    )
    try:
        expected = step_of_eager(model, x, target)
        torch.testing.assert_close(trained(model, x, target), expected)
    finally:
        handle.remove()


def test_values_of_forward_stay_as_they_are():
    model, x, target = Model(), torch.randn(3, 4), torch.randn(3, 2)
    expected = poptorch.inferenceModel(copy.deepcopy(model))(x, target)
    for name in NAMES:
        hook(model, name)
    found = poptorch.inferenceModel(model)(x, target)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_hook_of_the_loss_itself_counts():
    class Hooked(Model):
        def forward(self, x, target):
            y, loss = super().forward(x, target)
            loss.register_hook(lambda gradient: gradient * 3)
            return y, loss

    model, x, target = Hooked(), torch.randn(3, 4), torch.randn(3, 2)
    expected = step_of_eager(model, x, target)
    torch.testing.assert_close(trained(model, x, target), expected)


def test_a_wrong_number_of_gradients_is_told_as_by_torch():
    model, x, target = Model(), torch.randn(3, 4), torch.randn(3, 2)
    model.last.register_full_backward_hook(lambda _, x, y: (x[0], x[0]))
    text = "Backward hook returned an invalid number of grad_input, got 2, but expected 1"
    with pytest.raises(RuntimeError, match=text):
        step_of_eager(model, x, target)
    with pytest.raises(RuntimeError, match=text):
        trained(model, x, target)


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook")
def test_hooks_of_the_last_operation_are_refused():
    model = Model()
    model.last.register_backward_hook(lambda *_: None)
    refused = r"'last' \(Linear\) has a backward hook .*full_backward"
    with pytest.raises(poptorch.Error, match=refused):
        trained(model, torch.randn(3, 4), torch.randn(3, 2))
