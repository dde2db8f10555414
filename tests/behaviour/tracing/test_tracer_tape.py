"""Gradients follow torch's tape, whatever else wrote the memory; hooks of gradients are applied."""

import poptorch
import pytest
import torch
from torch import nn
from tracer_case import compare_training, seeded


class Model(nn.Module):
    """A function of a weight and an input."""

    def __init__(self, function):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.5, -1.5, 2.0]))
        self.v = nn.Parameter(torch.tensor([1.0, 2.0, -0.5]))
        self.function = function

    def forward(self, x):
        return self.function(self.w, self.v, x)


def detached_leaf(w, v, x):
    h = (w * 2).detach().requires_grad_()
    return h * 3 + w


def detached_changed(w, v, x):
    y = w * 2
    y.detach().mul_(3)
    return y * v


def data_changed(w, v, x):
    y = w * 2
    y.data.add_(5)
    return y * y * v


def data_of_view_changed(w, v, x):
    y = (w * 2).reshape(3, 1)
    y[1:].data.fill_(4)
    return y * y * v.reshape(3, 1)


def changed_without_grad(w, v, x):
    y = w * 2
    with torch.no_grad():
        y.mul_(v)
        y[0] = 7
    return y * y


def detached_gets_history(w, v, x):
    a = (w * 2).detach()
    a.mul_(v)
    return a * 3


def two_detached(w, v, x):
    y = w * 2
    a, b = y.detach(), y.detach()
    a.mul_(v)
    return a + 2 * b + y * y


def view_of_detached(w, v, x):
    a = (w * 2).detach()
    a[1:].mul_(v[1:])
    return a * w


def view_made_without_grad(w, v, x):
    with torch.no_grad():
        y = w * 2
    y[0] *= v[0]
    return y * v


def written_through_view_then_detached(w, v, x):
    y = w * 2
    y[0] = v[0] * 3
    z = y.detach()
    z += 1
    return y * y


def data_replaced(w, v, x):
    y = w * 2
    y.data = v.data * 5
    return y * y


def parameter_of_result(w, v, x):
    return nn.Parameter(w * 2) * v


def detach_in_place(w, v, x):
    y = (w * 2).detach_()
    return y * v + w


@pytest.mark.parametrize(
    "function",
    [
        detached_leaf,
        detached_changed,
        data_changed,
        data_of_view_changed,
        changed_without_grad,
        detached_gets_history,
        two_detached,
        view_of_detached,
        view_made_without_grad,
        written_through_view_then_detached,
        data_replaced,
        parameter_of_result,
        detach_in_place,
    ],
    ids=lambda f: f.__name__,
)
def test_memory_and_history(function):
    compare_training(Model(function), torch.ones(3), steps=2)


def hook_on_activation(w, v, x):
    h = w * 2
    h.register_hook(lambda g: g * 10)
    return h * v


def hook_sees_the_sum(w, v, x):
    h = w * 2
    early = h * v
    h.register_hook(lambda g: g * g)
    return early + h.exp()


def hooks_in_order(w, v, x):
    h = w * 2
    h.register_hook(lambda g: g + 1)
    h.register_hook(lambda g: g * 3)
    return h * v


def hook_on_view(w, v, x):
    h = w * 2
    part = h[1:]
    part.register_hook(lambda g: g * 5)
    return h * h, part * v[1:]


def hook_on_base_of_view(w, v, x):
    h = w * 2
    part = h[1:]
    h.register_hook(lambda g: g * g)
    return part * v[1:], h


def hook_that_returns_nothing(w, v, x):
    h = w * 2
    h.register_hook(lambda g: None)
    return h * v


def hook_with_what_it_sees(w, v, x):
    mask = (v > 0).float()
    h = w * 2
    h.register_hook(lambda g: g * mask + x)
    return h * v


def hook_then_written(w, v, x):
    h = w * 2
    h.register_hook(lambda g: g * 7)
    h *= v
    return h * h


def hook_on_parameter(w, v, x):
    w.register_hook(lambda g: g.clamp(-0.6, 0.6))
    return w * v * v


@pytest.mark.parametrize(
    "function",
    [
        hook_on_activation,
        hook_sees_the_sum,
        hooks_in_order,
        hook_on_view,
        hook_on_base_of_view,
        hook_that_returns_nothing,
        hook_with_what_it_sees,
        hook_then_written,
        hook_on_parameter,
    ],
    ids=lambda f: f.__name__,
)
def test_hook(function):
    compare_training(Model(function), torch.ones(3))


def test_hooks_that_parameters_have():
    def made():
        model = seeded(lambda: nn.Linear(3, 2))
        model.weight.register_hook(lambda g: g * 2)
        model.weight.register_hook(lambda g: g + 1)
        model.bias.register_hook(torch.zeros_like)
        return model

    x, target = torch.randn(4, 3), torch.randn(4, 2)
    eager, model = made(), made()

    class WithLoss(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, target):
            return nn.functional.mse_loss(self.model(x), target)

    nn.functional.mse_loss(eager(x), target).backward()
    options = poptorch.Options()
    options.anchorTensor("weight", "Gradient___model.weight")
    options.anchorTensor("bias", "Gradient___model.bias")
    wrapped = poptorch.trainingModel(WithLoss(), options)
    wrapped(x, target)
    torch.testing.assert_close(wrapped.getAnchoredTensor("weight"), eager.weight.grad)
    torch.testing.assert_close(wrapped.getAnchoredTensor("bias"), eager.bias.grad)


def _refusal(function):
    wrapped = poptorch.trainingModel(
        Model(lambda w, v, x: poptorch.identity_loss(function(w, v, x), "sum"))
    )
    with pytest.raises(poptorch.Error) as raised:
        wrapped(torch.ones(3))
    return str(raised.value)


def test_hook_of_another_shape():
    def function(w, v, x):
        h = w * 2
        h.register_hook(lambda g: g.sum())
        return h

    assert "[hook] a hook of a gradient of shape [3] returned []" in _refusal(function)


def test_hook_that_is_removed():
    def function(w, v, x):
        h = w * 2
        h.register_hook(lambda g: g * 2).remove()
        return h

    text = _refusal(function)
    assert "cannot be removed inside forward" in text and "test_tracer_tape.py" in text


def test_hook_that_needs_what_comes_later():
    def function(w, v, x):
        h = w * 2
        early = h * v
        factor = early.detach() + 1
        h.register_hook(lambda g: g * factor)
        return early + h

    assert "Register the hook before that" in _refusal(function)


def test_hooks_behind_accumulation_are_refused():
    model = nn.Linear(3, 3)
    model.weight.register_post_accumulate_grad_hook(lambda p: None)
    wrapped = poptorch.trainingModel(nn.Sequential(model, nn.Identity()))
    with pytest.raises(poptorch.Error, match="parameter '0.weight' has a hook that runs when"):
        wrapped(torch.ones(3, 3))


def test_hooks_do_nothing_in_inference():
    wrapped = poptorch.inferenceModel(Model(hook_on_activation))
    torch.testing.assert_close(wrapped(torch.ones(3)), hook_free())


def hook_free():
    model = Model(None)
    return (model.w * 2 * model.v).detach()


def test_other_memory_for_a_parameter_is_refused():
    model = Model(None)
    held = model.w.data_ptr()

    def function(w, v, x):
        w.data = v.data * 2
        return poptorch.identity_loss((w * v).sum(), "none")

    model.function = function
    wrapped = poptorch.trainingModel(model)
    with pytest.raises(poptorch.Error, match="forward replaces the memory of 'w'"):
        wrapped(torch.ones(3))
    wrapped.destroy()
    assert model.w.data_ptr() == held


def test_a_loss_of_another_loss_is_the_one():
    def function(w, v, x):
        inner = nn.functional.l1_loss(w, v)
        return nn.functional.mse_loss(inner, torch.zeros_like(inner))

    model = Model(function)
    loss = function(model.w, model.v, None)
    loss.backward()
    expected = model.w.detach() - model.w.grad
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    found = poptorch.trainingModel(model, None, optimiser)(torch.ones(3))
    torch.testing.assert_close(found, loss.detach())
    torch.testing.assert_close(model.w.detach(), expected)


def test_equal_losses_are_counted_before_they_are_merged():
    def function(w, v, x):
        first, second = (nn.functional.mse_loss(w, v) for _ in range(2))
        return first + 5 * second

    wrapped = poptorch.trainingModel(Model(function))
    with pytest.raises(poptorch.Error, match="Multiple independent losses found in graph"):
        wrapped(torch.ones(3))
