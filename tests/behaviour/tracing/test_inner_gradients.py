"""Tests gradients that forward itself requests: torch.autograd.grad and the transforms of
torch.func.
"""

import poptorch
import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from tracer_case import compare_training, seeded

X = seeded(lambda: torch.randn(3, 4))
Y = seeded(lambda: torch.randn(3, 1))


class Net(nn.Module):
    """Has a small smooth network, and runs a function of it and the inputs."""

    def __init__(self, function):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
        self.function = function

    def forward(self, *inputs):
        return self.function(self.net, *inputs)


def leaf(x):
    return x.detach().requires_grad_()


def energy(net, x):
    return net(x).square().sum()


def penalty(net, x):
    x = leaf(x)
    (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    return (slope.norm(dim=1) - 1).square().mean()


def forces(net, x):
    with torch.enable_grad():
        x = leaf(x)
        value = energy(net, x)
        return value, -torch.autograd.grad(value, x, create_graph=net.training)[0]


def by_set_flag(net, x):
    x = x.clone().detach()
    x.requires_grad = True
    return torch.autograd.grad(net(x), x, torch.full((3, 1), 2.0, device=x.device))[0] + net(x)


def of_what_lies_between(net, x):
    h = net[0](x)
    y = net[2](torch.tanh(h)).sum()
    return torch.autograd.grad(y, h, create_graph=True)[0] * h


def other_handles_of_the_same_memory(net, x):
    inside = leaf(x)
    y = net(inside).sum() + (x * x).sum()
    return torch.autograd.grad(y, inside, create_graph=True)[0]


def not_followed(net, x):
    x = leaf(x)
    (slope,) = torch.autograd.grad(net(x).sum(), x)
    return slope * net(x)


def unused(net, x):
    a, b = leaf(x), leaf(x)
    first, second = torch.autograd.grad(net(a).sum(), (a, b), allow_unused=True)
    assert second is None
    zeros = torch.autograd.grad(net(a).sum(), (a, b), materialize_grads=True)[1]
    return first + net(x), zeros


def written(net, x):
    x = leaf(x)
    y = (x * 2).clone()
    y[0] = net(x).sum()
    y.add_(3)
    return torch.autograd.grad(y.square().sum(), x, create_graph=True)[0]


def batched_seeds(net, x):
    x = leaf(x)
    y = net(x)
    seeds = torch.eye(3).reshape(3, 3, 1).to(x.device)
    slopes = torch.autograd.grad(y, x, seeds, create_graph=True, is_grads_batched=True)
    return slopes[0]


def inner_steps(net, x):
    """Model-agnostic meta-learning: the loss after two steps on another loss."""
    weights = dict(net.named_parameters())
    for _ in range(2):
        inner = functional_call(net, weights, (x,)).square().mean()
        slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        weights = {n: w - 0.1 * g for (n, w), g in zip(weights.items(), slopes, strict=True)}
    return functional_call(net, weights, (x + 1,)).square()


def twice(net, x):
    return grad(lambda z: grad(lambda w: energy(net, w))(z).square().sum())(x)


def pulled_back(net, x):
    y, pull = vjp(net, x)
    return y, pull(torch.ones_like(y))[0]


def of_each_sample(net, x):
    weights = dict(net.named_parameters())

    def loss(weights, row):
        return functional_call(net, weights, (row,)).square().sum()

    slopes = vmap(grad(loss), in_dims=(None, 0))(weights, x)
    return tuple(slopes.values())


def linearised(net, x):
    def function(x, z):
        return {"a": net(x) * z}

    primals = (x, x[:, :1])
    y, push = linearize(function, *primals)
    if x.device.type == "cpu":  # torch's own folds weights into constants, without gradients
        push = lambda *tangents: jvp(function, primals, tangents)[1]  # noqa: E731
    return y["a"], push(x + 1, x[:, :1])["a"], push(x * 2, x[:, 1:2])["a"]


def by_duals(net, x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x + 1)
        y, tangent = forward_ad.unpack_dual(net(dual) * dual[:, :1])
    return y, tangent


FUNCTIONS = {
    "penalty": penalty,
    "forces": forces,
    "set flag": by_set_flag,
    "between": of_what_lies_between,
    "handles": other_handles_of_the_same_memory,
    "not followed": not_followed,
    "unused": unused,
    "written": written,
    "batched seeds": batched_seeds,
    "inner steps": inner_steps,
    "grad": lambda net, x: grad(lambda z: energy(net, z))(x),
    "twice": twice,
    "vjp": pulled_back,
    "linearize": linearised,
    "duals": by_duals,
    "jvp": lambda net, x: jvp(net, (x,), (x + 1,)),
    "products with a hessian": lambda net, x: jvp(
        grad(lambda z: energy(net, z)), (x,), (x.flip(0),)
    )[1],
    "each sample": of_each_sample,
    "jacrev": lambda net, x: jacrev(net)(x),
    "jacfwd": lambda net, x: jacfwd(net)(x),
    "jacobians": lambda net, x: vmap(jacrev(net))(x),
    "hessian": lambda net, x: hessian(lambda z: energy(net, z))(x[0]),
    "hessians": lambda net, x: vmap(hessian(lambda z: energy(net, z)))(x),
    "hessian of autograd": lambda net, x: torch.autograd.functional.hessian(
        lambda z: energy(net, z), x[0], create_graph=True
    ),
    "jacobian of autograd": lambda net, x: torch.autograd.functional.jacobian(
        net, x[0], create_graph=True
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_in_training(name):
    compare_training(seeded(lambda: Net(FUNCTIONS[name])), X, steps=2)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_in_inference(name):
    model = seeded(lambda: Net(FUNCTIONS[name])).eval()

    def eager(x):
        with torch.enable_grad():
            return model(x)

    ours = poptorch.inferenceModel(model)(X)
    torch.testing.assert_close(ours, eager(X), rtol=2e-5, atol=2e-5)


def test_with_micro_batches():
    compare_training(seeded(lambda: Net(penalty)), X, steps=2, micro_batches=2)


# Each function has a kink, or a term that is not finite, at some of the numbers of `Slopes`.
KINKS = {
    "hardtanh": nn.functional.hardtanh,
    "relu6": nn.functional.relu6,
    "rrelu": nn.functional.rrelu,
    "hardsigmoid": nn.functional.hardsigmoid,
    "hardswish": nn.functional.hardswish,
    "prelu": lambda x: nn.functional.prelu(x, torch.tensor([0.3])),
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp_by_tensors": lambda x: x.clamp(torch.full((9,), -1.0), torch.ones(9)),
    "max_of_all": lambda x: x.max(),
    "hypot": lambda x: torch.hypot(x, x * 0 + 1),
    "logaddexp": lambda x: torch.logaddexp(x, x * 2),
    "norm": lambda x: (x * 0).norm(),
    "std": lambda x: x.std(),
}


class Slopes(nn.Module):
    """Returns the gradients of a function by a parameter."""

    def __init__(self, function):
        super().__init__()
        self.x = nn.Parameter(torch.tensor([-6.0, -3, -1, -0.5, 0, 0.5, 1, 3, 6]))
        self.function = function

    def forward(self, scale):
        return torch.autograd.grad(self.function(self.x).sum() * scale, self.x)[0]


@pytest.mark.parametrize("name", KINKS)
def test_gradients_by_parameters_in_inference_equal_eager_ones_at_kinks(name):
    model, scale = Slopes(KINKS[name]), torch.tensor(2.0)
    torch.testing.assert_close(poptorch.inferenceModel(model)(scale), model(scale))


def test_gradients_of_parameters_in_inference_stop_where_eager_ones_do():
    def cut(net, x):
        y = net[2](net[0](x).detach()).sum()
        found = torch.autograd.grad(y, list(net.parameters()), allow_unused=True)
        assert found[0] is None
        return found[2]

    model = seeded(lambda: Net(cut))
    torch.testing.assert_close(poptorch.inferenceModel(model)(X), model(X))


def _unused(net, x):
    return torch.autograd.grad(net(x).sum(), leaf(x))


def _not_a_scalar(net, x):
    x = leaf(x)
    return torch.autograd.grad(net(x), x)


def _backward(net, x):
    torch.autograd.backward(net(x).sum())
    return x


def _in_loop(net, x):
    def body(x):
        return [torch.autograd.grad(leaf(x).square().sum(), x)[0]]

    return poptorch.for_loop(2, body, [x])[0]


REFUSED = {
    "unused": (_unused, "appears to not have been used"),
    "not a scalar": (_not_a_scalar, "only for scalar outputs"),
    "backward": (_backward, r"backward\(\) inside forward is not supported"),
    "in a loop": (_in_loop, "inside a body of poptorch.for_loop"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, text = REFUSED[name]
    with pytest.raises((poptorch.Error, RuntimeError), match=text):
        poptorch.inferenceModel(Net(function))(X)


def test_second_derivatives_that_there_are_not_are_refused_by_name():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(1, 2, 2)

        def forward(self, x):
            x = leaf(x)
            y = torch.max_pool1d(self.conv(x).square(), 2).square().sum()
            return torch.autograd.grad(y, x, create_graph=True)[0]

    poptorch.inferenceModel(Pooled())(X.unsqueeze(1))
    with pytest.raises(poptorch.Error, match="second derivatives of max_pool are not supported"):
        compare_training(Pooled(), X.unsqueeze(1))


class Layers(nn.Module):
    """Returns a penalty on the gradient of a loss of one layer."""

    def __init__(self, layer, function):
        super().__init__()
        self.layer = layer
        self.function = function

    def forward(self, *inputs):
        weights = list(self.layer.parameters())
        value = self.function(self.layer, *inputs)
        slopes = torch.autograd.grad(value, weights, create_graph=True)
        return value, sum(slope.square().sum() for slope in slopes)


CLASSES = torch.tensor([0, 2, 4])
IMAGE = seeded(lambda: torch.randn(2, 4, 6, 5))
CLASS_WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 1.0, 0.7])
LAYERS = {
    "conv": (lambda: nn.Conv2d(4, 6, 3, 2, 1, groups=2), lambda f, x: f(x).tanh().sum()),
    "conv transpose": (
        lambda: nn.ConvTranspose2d(4, 2, 3, 2, 1, output_padding=1),
        lambda f, x: f(x).tanh().sum(),
    ),
    "average pool": (
        lambda: nn.Conv2d(4, 6, 3),
        lambda f, x: nn.functional.avg_pool2d(f(x), 2).square().sum(),
    ),
    "reflected": (
        lambda: nn.Conv2d(4, 3, 3, padding=2, padding_mode="reflect"),
        lambda f, x: f(x).square().sum(),
    ),
    "gelu": (lambda: nn.Linear(5, 5), lambda f, x: nn.functional.gelu(f(x)).sum()),
    "gelu by tanh": (
        lambda: nn.Linear(5, 5),
        lambda f, x: nn.functional.gelu(f(x), approximate="tanh").sum(),
    ),
    "softmax": (lambda: nn.Linear(5, 5), lambda f, x: (f(x).softmax(1) * x).sum()),
    "log softmax": (lambda: nn.Linear(5, 5), lambda f, x: (f(x).log_softmax(1) * x).sum()),
    "cross entropy": (
        lambda: nn.Linear(5, 5),
        lambda f, x: nn.functional.cross_entropy(
            f(x[0, 0, :3]), CLASSES.to(x.device), CLASS_WEIGHTS.to(x.device), label_smoothing=0.1
        ),
    ),
    "nll": (
        lambda: nn.Linear(5, 5),
        lambda f, x: nn.functional.nll_loss(
            f(x[0, 0, :3]).square(), CLASSES.to(x.device), reduction="sum"
        ),
    ),
    "embedding": (
        lambda: nn.Embedding(5, 3, padding_idx=2),
        lambda f, x: (f(CLASSES.to(x.device)).sin() * x[0, 0, :3, :3]).sum(),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_second_derivatives_of(name):
    layer, function = LAYERS[name]
    compare_training(seeded(lambda: Layers(layer(), function)), IMAGE, tolerance=1e-4)
