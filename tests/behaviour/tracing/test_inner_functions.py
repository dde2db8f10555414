"""The backward of an autograd.Function in gradients that forward itself requests."""

import poptorch
import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, jacrev, vjp, vmap
from tracer_case import compare_training, seeded

HERE = r"test_inner_functions\.py:\d+"
X = seeded(lambda: torch.randn(3, 4))


class Rounded(torch.autograd.Function):
    """Its backward is not its derivative, which is 0."""

    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


class Scaled(torch.autograd.Function):
    """Its backward uses a saved tensor, and has a derivative."""

    @staticmethod
    def forward(x, factor):
        return x * factor, x.detach()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient, _):
        x, factor = ctx.saved_tensors
        return gradient * factor * x * 10, (gradient * x).sum(0)


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.factor = nn.Parameter(torch.linspace(0.5, 2.0, 4))
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def leaf(x):
    return x.detach().requires_grad_()


def by_grad(m, x):
    return grad(lambda t: Rounded.apply(t * m.factor).square().sum())(x)


def by_vjp(m, x):
    y, pull = vjp(lambda t: Scaled.apply(t, m.factor)[0], x)
    return y, *pull(y * 2)


def by_autograd(m, x):
    x = leaf(x)
    y = Scaled.apply(x * 2, m.factor)[0]
    return torch.autograd.grad((y * x).sum(), x)[0]


def by_jacrev(m, x):
    return jacrev(lambda t: Rounded.apply(t * m.factor))(x[0])


def of_two(m, x):
    x, factor = leaf(x), leaf(m.factor)
    y = Scaled.apply(Rounded.apply(x), factor)[0].sum()
    return torch.autograd.grad(y, [x, factor])


def by_weights(m, x):
    weights = {"factor": m.factor.detach() + 1}

    def loss(weights):
        return Rounded.apply(x * weights["factor"]).square().sum()

    return grad(loss)(weights)["factor"]


def by_a_value_of_weights(m, x):
    h = leaf(m.factor * x)
    return torch.autograd.grad(Rounded.apply(h * 2).sum(), h)[0] * h


def second(m, x):
    x = leaf(x)
    y = Scaled.apply(x, m.factor)[0].square().sum()
    (slope,) = torch.autograd.grad(y, x, create_graph=True)
    return torch.autograd.grad(slope.sum(), x)[0]


def beside(m, x):
    y = Rounded.apply(m.factor * x)  # no gradient is requested through it
    return y * grad(lambda t: t.square().sum())(x)


FUNCTIONS = [by_grad, by_vjp, by_autograd, by_jacrev, of_two, by_weights]
FUNCTIONS += [by_a_value_of_weights, second, beside]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_own_backward_is_used_in_inference(function):
    model = Model(function)
    expected = model(X)
    ours = poptorch.inferenceModel(model)(X)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", [by_grad, by_vjp, by_autograd, of_two, second])
def test_own_backward_is_used_in_training(function):
    def with_weights(m, x):
        results = function(m, x * 1)
        results = results if isinstance(results, tuple) else (results,)
        return [result * m.factor for result in results]

    compare_training(Model(with_weights), X)


def _by_parameter(m, x):
    y = (Rounded.apply(m.factor * x) * m.factor).sum()
    return torch.autograd.grad(y, m.factor)[0]


def _by_unused_parameter(m, x):
    return torch.autograd.grad(Rounded.apply(m.factor * x).sum(), m.factor, allow_unused=True)[0]


def _by_call(m, x):
    y = functional_call(Model(lambda n, x: Rounded.apply(n.factor * x)), dict(factor=m.factor), x)
    return torch.autograd.grad(y.sum(), m.factor)[0]


@pytest.mark.parametrize("function", [_by_parameter, _by_unused_parameter, _by_call])
def test_gradients_by_weights_through_it_are_refused_in_inference(function):
    text = rf"'Rounded' \(\S*{HERE}\), whose backward is not recorded in inference.*{HERE}"
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(Model(function))(X)


def _hooked(tensor):
    tensor.register_hook(lambda gradient: gradient * 5)
    return tensor


def _hook_by_parameter(m, x):
    return torch.autograd.grad(_hooked(m.factor * x).sum(), m.factor)[0]


def _hook_by_leaf(m, x):
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(_hooked(m.factor * leaf).sum(), leaf)[0]


def test_gradients_by_weights_through_a_hook_are_refused_in_inference():
    text = rf"\[hook\].*through a hook \(\S*{HERE}\), which is not recorded in inference.*{HERE}"
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(Model(_hook_by_parameter))(X)


def test_gradients_by_a_hooked_parameter_are_refused_in_inference():
    def slope(m, x):
        return torch.autograd.grad((m.factor * x).sum(), m.factor)[0]

    model = Model(slope)
    handle = model.factor.register_hook(lambda gradient: gradient * 5)
    with pytest.raises(poptorch.Error, match=rf"{HERE}.* by a parameter that has a hook"):
        poptorch.inferenceModel(model)(X)
    handle.remove()
    torch.testing.assert_close(poptorch.inferenceModel(model)(X), model(X))


def test_hooks_in_inference_change_gradients_by_leaves():
    model = Model(_hook_by_leaf)
    torch.testing.assert_close(poptorch.inferenceModel(model)(X), model(X))


def test_hooks_in_inference_without_gradients_do_not_run():
    def hooked(m, x):
        y = m.factor * x
        y.register_hook(lambda _: pytest.fail("the hook ran"))
        return y

    torch.testing.assert_close(poptorch.inferenceModel(Model(hooked))(X), Model(hooked)(X).detach())


def test_without_gradients_only_forward_runs():
    class Fails(Rounded):
        @staticmethod
        def backward(ctx, gradient):
            raise AssertionError

    model = Model(lambda m, x: Fails.apply(x * m.factor))
    torch.testing.assert_close(poptorch.inferenceModel(model)(X), model(X).detach())


def test_under_vmap_it_needs_a_rule_as_in_eager_torch():
    model = Model(lambda m, x: vmap(grad(lambda t: Rounded.apply(t).sum()))(x))
    for call in (model, poptorch.inferenceModel(model)):
        with pytest.raises(RuntimeError, match="does not have vmap support"):
            call(X)
