"""The tracer uses the user's backward of a torch.autograd.Function."""

import poptorch
import pytest
import torch
from torch import nn
from tracer_case import compare_inference, compare_training


class Scaled(torch.autograd.Function):
    """Doubles its input; its backward returns 10, which is not the derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 10 + x


class Boxed(Scaled):
    """Takes its gradients as a list if torch has that (from 2.14 on)."""

    boxed_grads_call = True

    @staticmethod
    def backward(ctx, gradients):
        if hasattr(torch.autograd.Function, "boxed_grads_call"):
            assert type(gradients) is list and len(gradients) == 1
            gradients = gradients[0]
        return gradients * 5


class SavesIntermediate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor, weight):
        y = torch.exp(x * factor)
        ctx.save_for_backward(y, weight)
        ctx.factor = factor
        return y * weight, y.detach()

    @staticmethod
    def backward(ctx, gradient, _):
        y, weight = ctx.saved_tensors
        return gradient * y * ctx.factor * weight * 3, None, (gradient * y).sum(0)


class WithSetup(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.clamp(-1, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.shape = inputs[0].shape

    @staticmethod
    def backward(ctx, gradient):
        return gradient + torch.ones(ctx.shape)


class RoundsStraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        rounded = x.round()
        mask = (x.abs() < 1).to(x.dtype)
        ctx.mark_non_differentiable(mask)
        ctx.save_for_backward(mask)
        return rounded, mask

    @staticmethod
    def backward(ctx, gradient, _):
        return gradient * ctx.saved_tensors[0]


class SeesNone(torch.autograd.Function):
    """Returns a gradient that shows whether it got the gradients of both outputs."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        number = x.abs()
        ctx.mark_non_differentiable(number)
        return x * 2, number

    @staticmethod
    def backward(ctx, gradient, of_number):
        return gradient * (2 if of_number is None else 5)


class MaySeeNone(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        return first if second is None else second


class WritesArgument(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.weight = nn.Parameter(torch.full((4,), 0.5))
        self.function = function

    def forward(self, x):
        return self.function(self, self.fc(x))


FUNCTIONS = {
    "own_backward": lambda m, h: Scaled.apply(h),
    "list_of_gradients": lambda m, h: Boxed.apply(h),
    "twice": lambda m, h: Scaled.apply(Scaled.apply(h) * m.weight),
    "intermediate": lambda m, h: SavesIntermediate.apply(h, 0.3, m.weight),
    "setup_context": lambda m, h: WithSetup.apply(h),
    "not_differentiable": lambda m, h: RoundsStraightThrough.apply(h),
    "none_for_what_has_no_gradient": lambda m, h: SeesNone.apply(h)[0],
    "constant_inside_and_outside": lambda m, h: WithSetup.apply(h) * torch.ones(4),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_own_backward_is_used(name):
    torch.manual_seed(3)
    compare_training(Model(FUNCTIONS[name]), torch.randn(3, 4), steps=2)


def test_own_backward_needs_nothing_in_inference():
    torch.manual_seed(3)
    compare_inference(Model(FUNCTIONS["own_backward"]), torch.randn(3, 4))


class Fails(Scaled):
    """Fails in forward, or in backward, after it has begun."""

    @staticmethod
    def forward(ctx, x, in_backward):
        ctx.x = x * 3
        if not in_backward:
            raise KeyError("forward")
        return ctx.x

    @staticmethod
    def backward(ctx, gradient):
        ctx.x.mul(gradient)
        raise KeyError("backward")


@pytest.mark.parametrize("in_backward", [False, True])
def test_a_model_goes_on_after_an_error_that_it_catches(in_backward):
    def falls_back(m, h):
        try:
            # On the host, backward runs outside the model.
            return Fails.apply(h, in_backward and h.device.type != "cpu") * 7
        except KeyError:
            return Scaled.apply(h) * m.weight

    torch.manual_seed(3)
    compare_training(Model(falls_back), torch.randn(3, 4), steps=2)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda h: WritesArgument.apply(h), "mark_dirty is not supported"),
        (
            lambda h: MaySeeNone.apply(h)[0],
            r"'MaySeeNone' calls set_materialize_grads\(False\) and has several outputs.*"
            r"Leave the call out.*test_tracer_functions\.py:\d+",
        ),
    ],
)
def test_what_cannot_be_recorded_is_refused(function, text):
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = Model(lambda m, h: function(h))

        def forward(self, x):
            return poptorch.identity_loss(self.model(x), "sum")

    with pytest.raises(poptorch.Error, match=text):
        poptorch.trainingModel(Loss())(torch.randn(3, 4))
