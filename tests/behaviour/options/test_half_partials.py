"""Half partials round the sums of products of float16 after every 16 terms, as numpy does here."""

import numpy
import poptorch
import pytest
import torch
from torch import nn
from torch.nn import functional

TERMS = 16


def summed(products):
    """Returns the sums over the last axis: in float32, rounded after every 16 terms."""
    total = numpy.zeros(products.shape[:-1], numpy.float32)
    for k in range(products.shape[-1]):
        total = total + products[..., k].astype(numpy.float32)
        if (k + 1) % TERMS == 0:
            total = total.astype(numpy.float16).astype(numpy.float32)
    return total.astype(numpy.float16)


def product(a, b):
    """Returns a · b of matrices of float16 in numpy: products of halves are exact in float32."""
    a, b = a.astype(numpy.float32), b.astype(numpy.float32)
    return summed(a[:, None, :] * b.T[None, :, :])


def patches(x, w, stride, padding, dilation):
    """Returns the terms of a convolution's outputs, in the order (kernel position, channel)."""
    x = numpy.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    height, width = (
        (size - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel in zip(x.shape[2:], w.shape[2:], strict=True)
    )
    parts = []
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            top, left = i * dilation, j * dilation
            rows = x[:, :, top : top + stride * height : stride]
            parts.append(rows[:, :, :, left : left + stride * width : stride])
    return numpy.concatenate(parts, 1).transpose(0, 2, 3, 1)


def convolved(x, w, stride=1, padding=0, dilation=1):
    """Returns a convolution of float16 in numpy."""
    terms = patches(x.astype(numpy.float32), w, stride, padding, dilation)
    weights = w.transpose(0, 2, 3, 1).reshape(w.shape[0], -1).astype(numpy.float32)
    return summed(terms[:, None] * weights[None, :, None, None, :])


def options(kind=torch.half):
    made = poptorch.Options()
    made.Precision.setPartialsType(kind)
    return made


def run(forward, *inputs, kind=torch.half):
    return poptorch.inferenceModel(forward, options(kind))(*inputs)


def halves(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(1, 5, 3), (7, 16, 40), (33, 100, 17), (130, 600, 70), (3, 512, 33), (5, 272, 1)],
)
def test_products(rows, inner, columns):
    a, b = halves(rows, inner), halves(inner, columns, seed=1)
    expected = product(a.numpy(), b.numpy())
    assert numpy.array_equal(run(torch.matmul, a, b).numpy(), expected)
    assert numpy.array_equal(run(lambda a, b: a @ b.t(), a, b.t().contiguous()).numpy(), expected)
    assert numpy.array_equal(run(lambda a, b: a.t() @ b, a.t().contiguous(), b).numpy(), expected)
    batch = run(torch.matmul, a.expand(2, -1, -1), b.expand(2, -1, -1))
    assert numpy.array_equal(batch.numpy(), numpy.stack([expected] * 2))


def test_the_default_and_other_types_stay_as_they_are():
    a, b = halves(20, 300), halves(300, 30, seed=1)
    whole = run(torch.matmul, a, b, kind=torch.float)
    assert torch.equal(whole, poptorch.inferenceModel(torch.matmul)(a, b))
    assert not torch.equal(whole, run(torch.matmul, a, b))
    for dtype in (torch.float32, torch.bfloat16):
        operands = a.to(dtype), b.to(dtype)
        expected = run(torch.matmul, *operands, kind=torch.float)
        assert torch.equal(run(torch.matmul, *operands), expected)


def test_a_layer_adds_its_bias_in_the_end():
    layer = nn.Linear(200, 30).half()
    x = halves(9, 200)
    weights, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    sums = product(x.numpy(), weights.T).astype(numpy.float32)
    expected = (sums + bias.astype(numpy.float32)).astype(numpy.float16)
    assert numpy.array_equal(run(layer, x).detach().numpy(), expected)
    relu = run(nn.Sequential(layer, nn.ReLU()), x).detach().numpy()
    assert numpy.array_equal(relu, numpy.maximum(expected, 0))


CONVOLUTIONS = [
    {"channels": 20, "outputs": 6, "kernel": 3, "padding": 1},
    {"channels": 16, "outputs": 24, "kernel": 3, "stride": 2, "padding": 2, "dilation": 2},
    {"channels": 3, "outputs": 8, "kernel": 7, "stride": 2, "padding": 3},
    {"channels": 40, "outputs": 5, "kernel": 1},
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case):
    kernel = case["kernel"]
    geometry = {name: case[name] for name in ("stride", "padding", "dilation") if name in case}
    x, w = halves(2, case["channels"], 11, 13), halves(case["outputs"], case["channels"], kernel,
                                                       kernel, seed=1)  # fmt: skip
    found = run(lambda x, w: functional.conv2d(x, w, **geometry), x, w)
    assert numpy.array_equal(found.numpy(), convolved(x.numpy(), w.numpy(), **geometry))


def test_groups_are_summed_alone():
    x, w = halves(1, 6, 5, 5), halves(9, 2, 3, 3, seed=1)
    found = run(lambda x, w: functional.conv2d(x, w, groups=3), x, w)
    parts = [
        convolved(x.numpy()[:, 2 * g : 2 * g + 2], w.numpy()[3 * g : 3 * g + 3]) for g in range(3)
    ]
    assert numpy.array_equal(found.numpy(), numpy.concatenate(parts, 1))


class Loss(nn.Module):
    """A layer whose result is the loss, and whose gradients the test reads."""

    def __init__(self, layer, factor):
        super().__init__()
        self.layer = layer
        self.factor = nn.Buffer(factor)

    def forward(self, x):
        x = x.detach().requires_grad_()
        y = self.layer(x)
        (dx, dw) = torch.autograd.grad(y, (x, self.layer.weight), self.factor)
        return y, dx, dw


def test_gradients_of_a_product():
    model = Loss(nn.Linear(70, 50, bias=False).half(), halves(40, 50, seed=2))
    x = halves(40, 70)
    _, dx, dw = run(model, x)
    dy, weight = model.factor.numpy(), model.layer.weight.detach().numpy()
    assert numpy.array_equal(dx.numpy(), product(dy, weight))
    assert numpy.array_equal(dw.numpy(), product(dy.T, x.numpy()))


@pytest.mark.parametrize("case", CONVOLUTIONS[:2])
def test_gradients_of_a_convolution(case):
    channels, outputs, kernel = case["channels"], case["outputs"], case["kernel"]
    geometry = {name: case[name] for name in ("stride", "padding", "dilation") if name in case}
    layer = nn.Conv2d(channels, outputs, kernel, bias=False, **geometry).half()
    x = halves(2, channels, 9, 8)
    y = layer.float()(x.float())
    model = Loss(layer.half(), halves(*y.shape, seed=2))
    _, dx, dw = run(model, x)
    dy, weight = model.factor.numpy(), layer.weight.detach().numpy()
    stride, padding = geometry.get("stride", 1), geometry.get("padding", 0)
    dilation = geometry.get("dilation", 1)
    # Gradients of single positions, as (kernel position, channel): zeros keep their place.
    terms = patches(x.numpy().astype(numpy.float32), weight, stride, padding, dilation)
    terms = terms.reshape(-1, kernel * kernel, channels)
    rows = dy.transpose(0, 2, 3, 1).reshape(-1, outputs).astype(numpy.float32)
    expected = summed(numpy.einsum("po,ptc->octp", rows, terms))
    assert numpy.array_equal(dw.numpy().reshape(outputs, channels, -1), expected)
    sums = numpy.zeros((*x.shape, kernel * kernel, outputs), numpy.float32)
    for place in numpy.ndindex(*y.shape[2:]):
        for tap in range(kernel * kernel):
            i = place[0] * stride - padding + tap // kernel * dilation
            j = place[1] * stride - padding + tap % kernel * dilation
            if 0 <= i < x.shape[2] and 0 <= j < x.shape[3]:
                of_tap = weight[:, :, tap // kernel, tap % kernel].astype(numpy.float32)
                one = dy[:, :, place[0], place[1]].astype(numpy.float32)
                sums[:, :, i, j, tap] = one[:, None, :] * of_tap.T[None]
    assert numpy.array_equal(dx.numpy(), summed(sums.reshape(*x.shape, -1)))


def test_a_transposed_convolution_is_the_gradient_of_an_input():
    x, w = halves(2, 20, 6, 5), halves(20, 7, 3, 3, seed=1)
    bias = halves(7, seed=2)
    found = run(lambda x, w, b: functional.conv_transpose2d(x, w, b, stride=2), x, w, bias)
    flipped = numpy.zeros((2, 20, 11 + 4, 9 + 4), numpy.float16)
    flipped[:, :, 2:-2:2, 2:-2:2] = x.numpy()
    # Kernel positions of the sum run backwards over the stretched input.
    terms = patches(flipped.astype(numpy.float32), w.numpy(), 1, 0, 1)
    terms = terms.reshape(*terms.shape[:3], 9, 20)[:, :, :, ::-1].reshape(*terms.shape[:3], -1)
    weights = w.numpy().transpose(1, 2, 3, 0).reshape(7, -1).astype(numpy.float32)
    sums = summed(terms[:, None] * weights[None, :, None, None, :]).astype(numpy.float32)
    expected = (sums + bias.numpy().astype(numpy.float32)[:, None, None]).astype(numpy.float16)
    assert numpy.array_equal(found.numpy(), expected)


def attended(q, k, v):
    """Returns attention in numpy: its weights are rounded before the second product."""
    scores = product(q, k.T).astype(numpy.float32) / numpy.sqrt(numpy.float32(q.shape[-1]))
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    weights = (weights / weights.sum(-1, keepdims=True)).astype(numpy.float16)
    return product(weights, v)


def test_attention():
    q, k, v = (halves(1, 2, 50, 32, seed=seed) for seed in range(3))
    found = run(functional.scaled_dot_product_attention, q, k, v)
    for head in range(2):
        expected = attended(*(x[0, head].numpy() for x in (q, k, v)))
        # The function exp of the device differs from numpy's in the last bit.
        difference = found[0, head].float() - torch.from_numpy(expected).float()
        assert difference.abs().max() <= 2**-11
    whole = run(functional.scaled_dot_product_attention, q, k, v, kind=torch.float)
    assert not torch.equal(found, whole)


class Network(nn.Module):
    """Layers of each kind, for training."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 20, 3, padding=1)
        self.up = nn.ConvTranspose2d(20, 8, 2, 2)
        self.inner, self.last = nn.Linear(128, 64), nn.Linear(64, 5)

    def forward(self, x, labels):
        x = torch.relu(self.up(torch.relu(self.conv(x)))).flatten(1)[:, :128]
        scores = self.last(torch.relu(self.inner(x)))
        loss = functional.cross_entropy(scores.float(), labels)
        return scores, poptorch.identity_loss(loss, "sum")


def trained(network, **more):
    made = options().randomSeed(1)
    made.Training.gradientAccumulation(2)
    for name, value in more.items():
        getattr(made, name)(value)
    optimizer = poptorch.optim.SGD(network.parameters(), lr=0.01)
    model = poptorch.trainingModel(network, made, optimizer)
    for step in range(3):
        model(halves(4, 3, 6, 6, seed=step), torch.tensor([0, 1, 2, 3]))
    return [parameter.detach().clone() for parameter in network.parameters()]


def test_training_does_not_depend_on_threads(monkeypatch):
    torch.manual_seed(0)
    start = Network().half()
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("POPTORCH_NUM_THREADS", threads)
        network = Network().half()
        network.load_state_dict(start.state_dict())
        found.append(trained(network))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert not torch.equal(found[0][0], start.conv.weight)
